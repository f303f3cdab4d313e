// Package psm keeps the producer state of one partition of a log in Apache
// Kafka's format: what a broker must know to recognise a producer's retries,
// to refuse gaps and zombies, to know which transactions are open, and how far
// read_committed consumers may read. It is what Kafka calls the producer state
// manager, for anyone who writes a broker, a mirror or a log tool.
//
// It is pure: no network, no goroutine, no clock of its own (times are passed
// in, in ms), and files are touched only by [Snapshots]. A [State] is not safe
// for concurrent use; the lock that covers the partition's log covers it.
//
// # Appending
//
// Assign offsets, then
//
//	s.Begin(psm.Append{Origin: psm.Client})
//	for each batch {
//		b, err := psm.DecodeBatch(bytes)
//		dup, err := s.Add(&b) // err carries Kafka's error code: psm.Code(err)
//		// dup.Found: discard, and answer with the offsets of the original
//	}
//	// write the bytes to the log; if that fails: s.Discard()
//	for _, c := range s.Commit() {
//		// c.Aborted: add c.IndexEntry() to the transaction index
//	}
//
// Until Commit the state is what it was, so a write that fails leaves no
// trace. [Origin] says who appends, and so what is checked:
//
//	               epochs   sequences, retries   offsets
//	Client         checked  checked              assigned by the leader
//	Coordinator    checked  -                    assigned by the leader
//	Replication    -        -                    as they come
//
// Of a producer the last five batches are remembered. Sequences go from
// 2147483647 to 0, also within a batch. A higher epoch begins at sequence 0; a
// producer id never seen may begin anywhere (its earlier batches may have been
// deleted). A transactional batch of a client is verified with its coordinator
// first: see [State.StartVerification].
//
// # Transactions
//
// A transaction opens with its first batch and ends with a marker, a control
// batch: [EndTxnMarker] builds one. What has ended still holds the last stable
// offset until the high watermark has passed the marker: tell it by
// [State.OnHighWatermark], ask by [State.LSO]. Consumers of the committed view
// get the aborted transactions of what they fetch from the transaction index:
// [AbortedTxn], [DecodeTxnIndex], [CollectAborted].
//
// # Starting, truncating
//
// [Snapshots] writes the state into Kafka's snapshot files, crash-safe, and
// [State.Reload] rebuilds it to any offset from the newest usable one and the
// log that follows. Take one when a segment is rolled and on a clean stop:
// without any, the whole log is read. A snapshot keeps the last of a
// producer's five batches.
//
// # The mirror barrier
//
// A cluster that mirrored a partition of another one (KIP-1279) knows
// producers that are not its own; producer ids of two clusters collide. When
// it stops mirroring and takes writes itself, it appends a MIRROR_PID_RESET
// control batch ([Barrier]): what lies before it is forgotten, on the leader,
// on replicas, and in every later reload. It is a point in the sequence: in
// one append that holds batch, barrier, batch, only the last remains. A
// barrier that another cluster wrote and that was mirrored along with the rest
// does nothing, unless [Config.AnyBarrierExpires]. The partition's own are
// told apart by its list of stops ([Stop], [State.SetStops]), which replicas
// must have before the batches; and wherever a stop's place is passed, its
// effect holds even if the barrier has been compacted or deleted. Partitions
// that are never mirrored need none of this.
//
// # Sources
//
// The rules are Kafka's (KIP-98, KIP-360, KIP-447, KIP-664, KIP-890), compared
// step by step with the classes of Apache Kafka 4.4.0: ci/psm-oracle. Where
// the two differ on purpose is listed in oracle_test.go. Ids such as BAR-3 and
// PSM-7 name requirements of this repository's contract, FA-05 public bug
// reports that are covered.
package psm
