// Package torture proves that a replicated broker loses nothing. It writes to a
// cluster of three, plainly, idempotently and in transactions, while nodes are
// killed, held up, stopped, robbed of power and cut off from each other, and
// records each operation; one whose outcome is not known stays unknown. Then it
// judges, from the recorded history and the bytes in every replica's log:
//
//   - LINEARIZABLE: each partition is an append-only log, by porcupine. A search
//     that is not over in time fails too;
//   - LOST, DOUBLED, MOVED, REFUSED: what was acknowledged, or read, lies once and
//     where it was said to, and what was refused does not;
//   - ATOMIC, COMMITTED, ABORTED, HANGING, VISIBLE: transactions are whole, end
//     as they were told to, and a read_committed reader sees just the committed;
//   - REPLICAS: all replicas hold the same bytes up to the high watermark;
//   - PRODUCER-ID: an id is one producer's, over all brokers and restarts (SC-8);
//   - CLUSTER: all replicas come back in sync, and no node ends by itself;
//   - ALONE: a node by itself keeps what it acknowledged, and where its logs
//     begin, over rolling, retention, DeleteRecords and compaction.
//
// Nodes are goroutines in a testing/synctest bubble, over a network and disks in
// memory (virtual), or processes on loopback (processes). They are used by the
// command's flags and the Kafka protocol only, and the logs are read by
// suite/wirelog: judge and defendant share no code.
//
// A seed decides workload, faults and the choice of times. It does not decide
// how goroutines or processes are scheduled, so a failure may need some runs of
// its seed to come again; what was recorded is saved each time.
//
// That it sees what is wrong was tried by breaking the broker by hand. Of seeds
// from 1 on, these were found, in virtual time, within the first four unless it
// says otherwise:
//
//   - acks=all answers before the followers have the batch (waitReplicated): LOST,
//     COMMITTED;
//   - the high watermark is the leader's log end (progress.highWatermark): LOST;
//   - a leader tells no diverging epoch (Partition.diverging): REPLICAS, LOST;
//   - a follower keeps its suffix when told of one (Partition.Diverged): it can't
//     follow any more, CLUSTER;
//   - one broker gets the same block of producer ids again (AllocateProducerIDs):
//     PRODUCER-ID, LOST, ATOMIC;
//   - a smaller ISR is in force before the quorum has it (insyncLocked): LOST, in
//     the sixth four;
//   - a broker back from an unclean stop stays in the ISR (restarted): LOST, by a
//     loss of power;
//   - any replica that lives is elected (elect): LOST;
//   - followers keep no producer state (AppendAsFollower): DOUBLED, VISIBLE;
//   - DeleteRecords does not write the log's start down (Partition.deleteRecords):
//     ALONE.
//   - a replica joins the ISR while it lacks up to fifty records
//     (progress.joins): LOST, by TestAJoinerLeadsInVirtualTime. It lacks them for
//     as long as a fetch is under way, so that one is held up, and the others are
//     killed as soon as it has joined.
package torture
