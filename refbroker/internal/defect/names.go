package defect

// The defects.
const (
	// PIDRewrite stores mirrored batches under producer id -(PID+2), applied to
	// ids that were rewritten before too, and keeps producer state under the
	// rewritten ids.
	// Seen: KIP-1279's first design. Over a chain 5 becomes -7, then 5 again, which
	// collides with the local producer 5 of the third cluster.
	// Violates: LOG-1, LOG-2, CH-1.
	PIDRewrite Name = "pid-rewrite"
	// PIDRewriteOnce stores mirrored batches under producer id -(PID+2), but leaves
	// negative ids alone, and keeps producer state under the rewritten ids.
	// Seen: KIP-1279's first design, second variant. The ids 5 of two clusters both
	// become -7 further down: a wrong sequence is accepted in silence, a lower epoch
	// with a warning, and the one's marker ends the other's transaction.
	// Violates: LOG-1, LOG-2, CH-1.
	PIDRewriteOnce Name = "pid-rewrite-once"

	// NoBarrier leaves the MIRROR_PID_RESET batch out of a stop, and with it its
	// effect: mirrored producers stay known, so local ones are taken for theirs.
	// Seen: brokers without KIP-1279 that copy producer ids
	// (redpanda-data/redpanda pull requests 31659 and 28295).
	// Violates: BAR-1, IDEM-1, IDEM-2, PSM-1.
	NoBarrier Name = "no-barrier"
	// LateFetchAppended appends a fetch response that was in flight when the
	// fetchers were removed, after the barrier.
	// Seen: KIP-1279 has the fetchers removed before the barrier so that this can't
	// be.
	// Violates: LINK-1, BAR-3.
	LateFetchAppended Name = "late-fetch-appended"

	// RecoveryDoesNotExpire rebuilds producer state after an unclean end without
	// looking at barriers.
	// Seen: KIP-1279 names append and log recovery: one of the two is forgotten.
	// Violates: PSM-3.
	RecoveryDoesNotExpire Name = "recovery-does-not-expire"
	// ExpiredEntriesPutBack gathers what an append or a recovery says of producers,
	// empties the map at the barrier, and then puts all of it into the map, the
	// producers from before the barrier included.
	// Seen: PSM-7 names it. Apache Kafka gathers an append's producers and merges
	// them at its end, after a barrier that empties the map at once.
	// Violates: PSM-7, PSM-3.
	ExpiredEntriesPutBack Name = "expired-entries-put-back"
	// OpenTransactionsKept stops without cutting open transactions off, and its
	// barrier passes over producers that have one: they pin the last stable offset.
	// Seen: producer expiry in Apache Kafka never touches producers with an open
	// transaction; a public demo of failover finds and aborts such a one by hand.
	// Violates: TXN-1, TXN-3, PSM-1.
	OpenTransactionsKept Name = "open-transactions-kept"
	// OpenTransactionsDroppedWithData stops without cutting open transactions off,
	// and its barrier forgets them: their records look committed.
	// Seen: KIP-1279 removes all producer entries; a build that does so without the
	// truncation before it shows what was never committed.
	// Violates: TXN-3, TXN-2.
	OpenTransactionsDroppedWithData Name = "open-transactions-dropped-with-data"
	// BarrierOverOpenTransaction stops without cutting open transactions off, and
	// writes its barrier over them all the same. What such a log says of them is read
	// as it must be: they are aborted.
	// Seen: PSM-8 names it. A barrier that is appended as any other control batch is
	// checked against nothing.
	// Violates: PSM-8, TXN-3.
	BarrierOverOpenTransaction Name = "barrier-over-open-transaction"
	// StaleEpochFences fences producers by epochs from before the barrier.
	// Seen: IDEM-2 names it. A broker that empties its producers' batches, and not
	// their epochs, takes a local producer for a zombie of the source's.
	// Violates: IDEM-2.
	StaleEpochFences Name = "stale-epoch-fences"
	// FirstWriteLost acknowledges the first plain write after a stop, and does not
	// append it.
	// Seen: redpanda-data/redpanda pull request 31659 (first writes after promotion are
	// acknowledged but absent).
	// Violates: IDEM-4.
	FirstWriteLost Name = "first-write-lost"
	// BarriersCompactedIntoOne has the cleaner keep the last one of a log's barriers:
	// their keys are the same bytes.
	// Seen: BAR-8 names it. A cleaner that takes a control record's key for any other
	// does this.
	// Violates: BAR-8.
	BarriersCompactedIntoOne Name = "barriers-compacted-into-one"
	// RefusedWithoutAWord refuses writes while it mirrors with an error code alone.
	// Seen: RO-1 names it. The code of KIP-1279's build is another error's in Apache
	// Kafka 4.4.0, so that a client which is given no message says something else.
	// Violates: RO-1.
	RefusedWithoutAWord Name = "refused-without-a-word"
	// RefusedProducersStayRefused goes on refusing the producers that it refused while
	// it mirrored.
	// Seen: RO-4 names it. A development build of KIP-1279 keeps its read-only state in
	// a cache of its own.
	// Violates: RO-4.
	RefusedProducersStayRefused Name = "refused-producers-stay-refused"
	// DescribeHidesCause leaves the cause out where a mirror does not go on.
	// Seen: OPS-2 names it. In a development build of KIP-1279 it is in the log alone.
	// Violates: OPS-2.
	DescribeHidesCause Name = "describe-hides-cause"
	// FetchedAfterHealing fetches once more from a source that was away at the stop,
	// when it can be reached again, and appends that behind the barrier.
	// Seen: LINK-3 names it. A fetcher that waits to connect again outlives its removal
	// where only the partitions of the moment are taken from it.
	// Violates: LINK-3, BAR-3.
	FetchedAfterHealing Name = "fetched-after-healing"
	// InheritedBarrierExpires lets a barrier that came from the source empty the
	// producer state of a partition that goes on mirroring.
	// Seen: the KIP's later text and its build; its earlier text rules the opposite.
	// Violates: PSM-5, PSM-4.
	InheritedBarrierExpires Name = "inherited-barrier-expires"
	// InheritedBarrierKept has only own barriers expire producers, in profile
	// kip1279-latest too, where any does.
	// Seen: KIP-1279 at version 42 rules so.
	// Violates: PSM-4.
	InheritedBarrierKept Name = "inherited-barrier-kept"
	// StaleDedupeAck recognises retries by batches from before the barrier: a local
	// batch with a mirrored one's header is acknowledged and not appended.
	// Seen: redpanda-data/redpanda pull request 31659 (first writes after promotion
	// are acknowledged but absent).
	// Violates: IDEM-1, IDEM-4.
	StaleDedupeAck Name = "stale-dedupe-ack"
	// StateLostOnRestart empties the producer state of a partition that was ever
	// stopped when the broker starts, what came after the barrier included.
	// Seen: AutoMQ issue 437; a barrier that is applied at the end of recovery
	// instead of in its place does this.
	// Violates: PSM-6, IDEM-3.
	StateLostOnRestart Name = "state-lost-on-restart"
	// AbortedIndexLostOnTruncation forgets the aborted transactions of the segment
	// in which a truncation ends.
	// Seen: apache/kafka pull request 9838 (KAFKA-12153) is of the same family:
	// truncation leaves what hangs on the log behind.
	// Violates: TXN-4, TXN-2.
	AbortedIndexLostOnTruncation Name = "aborted-index-lost-on-truncation"

	// LocalMarkersAppendedWhileMirroring appends markers of the cluster's own
	// transaction coordinator to a partition that mirrors: it takes the place of a
	// batch of the source.
	// Seen: KIP-1279 says read-only; the coordinator's appends are not a client's.
	// Violates: RO-2, LOG-1, FB-4.
	LocalMarkersAppendedWhileMirroring Name = "local-markers-appended-while-mirroring"
	// WriteBeforeBarrier takes clients' writes from the truncation of a stop on.
	// Seen: KIP-1279 names the moment that must not be.
	// Violates: RO-5, RO-1, BAR-3.
	WriteBeforeBarrier Name = "write-before-barrier"
	// DeleteRecordsWhileMirroring serves DeleteRecords on a partition that mirrors.
	// Seen: a development build of KIP-1279.
	// Violates: RO-3.
	DeleteRecordsWhileMirroring Name = "delete-records-while-mirroring"
	// ReadOnlyAfterRestart keeps clients out of stopped topics after a restart, until
	// they are mirrored and stopped anew.
	// Seen: a development build of KIP-1279 refuses writes while no state is cached.
	// Violates: OPS-5, RO-4.
	ReadOnlyAfterRestart Name = "read-only-after-restart"
	// EpochsGoBackwards stamps what clients write after a stop with a leader epoch
	// below that of the barrier.
	// Seen: LOG-3 names it. The KIP's build raises the epoch above the source's
	// before it is needed; apache/kafka pull request 18852 shows what comes of it.
	// Violates: LOG-3.
	EpochsGoBackwards Name = "epochs-go-backwards"

	// BarrierBeforeTruncation writes the barrier at the end of the log and truncates
	// after it: where anything is cut, the barrier goes with it, and the producers
	// are back.
	// Seen: KIP-1279 names the order, truncation first.
	// Violates: BAR-1, BAR-3, PSM-1, IDEM-1.
	BarrierBeforeTruncation Name = "barrier-before-truncation"
	// BarrierAfterWritable records STOPPED first, and writes the barrier behind the
	// first local write (or a second later).
	// Seen: KIP-1279 says before the partition becomes writable; a barrier that is
	// retried without limit while the state machine goes on does this.
	// Violates: BAR-3, RO-5, IDEM-1.
	BarrierAfterWritable Name = "barrier-after-writable"
	// BarrierNotWaitedFor records STOPPED without waiting until the in-sync replicas
	// hold the barrier. It takes a second replica to see it.
	// Seen: leader completeness is why KIP-1279's build appends with acks=-1.
	// Violates: BAR-5.
	BarrierNotWaitedFor Name = "barrier-not-waited-for"
	// ReplicaMissesStops keeps the list of stops from replicas that did not write the
	// barrier themselves: one that gets it from the leader, at once or later, takes
	// it for an inherited one and expires nothing. It takes a second replica to see
	// it.
	// Seen: PSM-2 names it. Apache Kafka's leader and follower append by different
	// paths; what is hung on one of them is missing on the other.
	// Violates: PSM-2.
	ReplicaMissesStops Name = "replica-misses-stops"
	// FollowerKeepsSuffix has followers ignore the cut of a stop or an alignment:
	// what they hold above it stays, and of what the leader writes there instead they
	// take only what lies above their log's end. It takes a second replica to see it.
	// Seen: LOG-4 names it. A follower that compares offsets, and no epochs, does this
	// (KIP-101).
	// Violates: LOG-4.
	FollowerKeepsSuffix Name = "follower-keeps-suffix"
	// WrongSourceID writes the cluster's own id into the barrier.
	// Seen: BAR-4 names it. KIP-1279 records the id for provenance; the destination's
	// is at hand too.
	// Violates: BAR-4.
	WrongSourceID Name = "wrong-source-id"
	// TwoBarriers writes the barrier twice.
	// Seen: a development build of KIP-1279 takes a timeout for a failure and appends
	// again.
	// Violates: BAR-1.
	TwoBarriers Name = "two-barriers"
	// NextLeaderAddsBarrier has a leader that takes over amid a stop write a barrier
	// of its own behind the one that its predecessor left in the log.
	// Seen: a stop that the next leader begins anew, as KIP-1279 has it, and that does
	// not look for what is there already.
	// Violates: BAR-1.
	NextLeaderAddsBarrier Name = "next-leader-adds-barrier"
	// NoBarrierOnEmpty leaves the barrier out where the log is empty.
	// Seen: BAR-1 names it. To look for producers to expire first saves a batch, and
	// the record of the stop with it.
	// Violates: BAR-1.
	NoBarrierOnEmpty Name = "no-barrier-on-empty"
	// NoBarrierWhenSourceDead asks the source when it is about to write the barrier,
	// and goes on without one if there is no answer.
	// Seen: Redpanda's promotion raised the allocator of producer ids as best effort
	// (redpanda-data/redpanda pull request 31659).
	// Violates: BAR-1, LINK-2, PSM-1, IDEM-1.
	NoBarrierWhenSourceDead Name = "no-barrier-when-source-dead"
	// EpochsCachedWithLeadership has a leader's epoch enter its epoch cache with its
	// election where the partition mirrors, so that earlier epochs end there, whatever
	// comes of them from the source after that.
	// Seen: LOG-5 names it. It is what Apache Kafka does when a replica becomes leader.
	// Violates: LOG-5.
	EpochsCachedWithLeadership Name = "epochs-cached-with-leadership"
	// EpochBelowLog appends mirrored batches whose leader epoch is above the
	// partition's, without raising it.
	// Seen: apache/kafka pull request 18852 (KAFKA-18723) has followers skip such
	// batches.
	// Violates: LOG-5.
	EpochBelowLog Name = "epoch-below-log"
	// DownstreamNotRealigned keeps what a source cut that is promoted itself: the
	// mirror sends no last fetched epoch and compares no barriers while it runs.
	// Seen: CH-3 names it. A consumer of the source that never asks for diverging
	// epochs (KIP-595) has no way to hear of the cut.
	// Violates: CH-3, LOG-1.
	DownstreamNotRealigned Name = "downstream-not-realigned"
	// CleanedLogTruncated cuts a log to where it and the source's part though its
	// cleaner has gone past that.
	// Seen: AL-1 names it. Kafka's truncation knows nothing of its cleaner's
	// checkpoint: what is committed is never cut there.
	// Violates: AL-1.
	CleanedLogTruncated Name = "cleaned-log-truncated"

	// AlignmentByEpochsAlone aligns two logs by leader epochs only.
	// Seen: a development build of KIP-1279. Two clusters that
	// live on elect the same epochs, each on its own.
	// Violates: AL-1, FB-1, FB-4.
	AlignmentByEpochsAlone Name = "alignment-by-epochs-alone"
	// OtherClusterAccepted mirrors from whatever cluster answers at the source's
	// address.
	// Seen: linkedin/kafka pull requests 92 and 224.
	// Violates: LINK-4.
	OtherClusterAccepted Name = "other-cluster-accepted"

	// StopRefusedWithoutSource asks the source before it accepts a stop.
	// Seen: LINK-2 names it. A failover is for a dead source; tools that ask both
	// sides fail then.
	// Violates: LINK-2, OPS-1.
	StopRefusedWithoutSource Name = "stop-refused-without-source"
	// StopNotIdempotent refuses a stop in any state but MIRRORING and PAUSED, the
	// retry of one whose answer was lost included.
	// Seen: a development build of KIP-1279.
	// Violates: OPS-1.
	StopNotIdempotent Name = "stop-not-idempotent"
	// PausedStopDoesNothing answers a stop of a paused topic with success, and
	// leaves it paused.
	// Seen: a development build of KIP-1279, whose command line looks at an error
	// that the answer does not carry for single topics.
	// Violates: OPS-1.
	PausedStopDoesNothing Name = "paused-stop-does-nothing"
	// DescribeHidesCut tells neither what a stop would cut nor which transaction
	// holds it up.
	// Seen: OPS-4 names it; nothing in KIP-1279 tells of it, so that a long-open
	// transaction is noticed when its records, and all behind them, are gone.
	// Violates: OPS-4.
	DescribeHidesCut Name = "describe-hides-cut"
	// StopTakesAHundred stops the first hundred partitions of a topic, and leaves the
	// others in STOPPING.
	// Seen: OPS-3 names it; whoever bounds the stops that are under way and never
	// comes back to the rest leaves topics half promoted.
	// Violates: OPS-3.
	StopTakesAHundred Name = "stop-takes-a-hundred"
	// MirrorStopStopsOthers stops the topics of the cluster's other mirrors too.
	// Seen: KIP-1279 rules that fan-in is independent partition by partition.
	// Violates: FI-1.
	MirrorStopStopsOthers Name = "mirror-stop-stops-others"
	// SameTopicTwoSources starts a topic that another mirror has: from the next
	// change of the source's leader on, its log is filled from the second source.
	// Seen: KIP-1279's fan-in is of different topics; its build has an error for it.
	// Violates: FI-2.
	SameTopicTwoSources Name = "same-topic-two-sources"
	// ControlRecordDelivered hands the barrier to consumers as a record.
	// Seen: KIP-1279 counts on consumers that know the control bit; without it on the
	// batch the record is the application's.
	// Violates: BAR-6.
	ControlRecordDelivered Name = "control-record-delivered"
	// LateProduceOpensTransaction appends a transactional batch though its coordinator
	// says that its transaction has ended: it opens one that nobody will end.
	// Seen: KAFKA-12671; apache/kafka pull request 13391. With transactions
	// version 2 it shows where the transaction's marker has not raised the epoch in
	// that partition.
	// Violates: TXN-6.
	LateProduceOpensTransaction Name = "late-produce-opens-transaction"

	// WindowOfOne knows only the newest batch of each producer: retries of those
	// before it are out of order.
	// Seen: redpanda-data/redpanda issues 3038 and 3039 (too few batches are
	// remembered).
	// Violates: SC-1.
	WindowOfOne Name = "window-of-one"
	// EpochGoesNegative raises the epoch of a transactional id past the last one
	// instead of giving it a new producer id.
	// Seen: SC-2 names it. An epoch has 16 bits, and each InitProducerId takes one.
	// Violates: SC-2.
	EpochGoesNegative Name = "epoch-goes-negative"
	// AbortedListMissingAfterLongPoll leaves the aborted transactions out of a fetch
	// that had to wait.
	// Seen: apache/kafka pull request 3239 (KAFKA-5376); redpanda-data/redpanda pull
	// request 18852.
	// Violates: SC-3, TXN-4.
	AbortedListMissingAfterLongPoll Name = "aborted-list-missing-after-long-poll"
	// UnstableRecordsShown takes the high watermark for the last stable offset in
	// answers to consumers, so that read_committed shows open transactions.
	// Seen: nisshi-io/nisshi pull request 689 and streamnative/kop pull request 1856.
	// Violates: SC-3, TXN-2.
	UnstableRecordsShown Name = "unstable-records-shown"
	// OldCoordinatorAccepted appends transaction markers of an older coordinator
	// epoch.
	// Seen: SC-5 names it. A coordinator that was replaced has no other way to hear of
	// that.
	// Violates: SC-5.
	OldCoordinatorAccepted Name = "old-coordinator-accepted"
	// LateEndTxnAccepted ends the open transaction by an EndTxn of an older epoch.
	// Seen: KIP-890 is about this: with transactions version 1 a late EndTxn can't be
	// told from the next transaction's.
	// Violates: SC-6.
	LateEndTxnAccepted Name = "late-end-txn-accepted"
	// ProducersForgottenWithRecords forgets producers when their records are deleted.
	// Seen: apache/kafka pull request 7388 (KAFKA-7190).
	// Violates: SC-7.
	ProducersForgottenWithRecords Name = "producers-forgotten-with-records"
	// IDsHandedOutTwice begins at producer id 0 again when the broker starts.
	// Seen: SC-8 names it. A block of ids that is kept in memory only does this.
	// Violates: SC-8.
	IDsHandedOutTwice Name = "ids-handed-out-twice"
	// IDBlocksNotReserved takes the next block of producer ids from the broker's own
	// copy of the metadata, and reserves it only where the broker is the controller:
	// two others take the same one.
	// Seen: SC-8 names it. Before KIP-730 each broker of Kafka raced for its block in
	// ZooKeeper; whoever does not look at who won has another's.
	// Violates: SC-8.
	IDBlocksNotReserved Name = "id-blocks-not-reserved"
	// FollowerKnowsNoProducers appends what a follower fetches without a look at what
	// it says of producers: who leads next knows none.
	// Seen: AutoMQ issue 437 is of the same family: retries are appended again once a
	// partition has moved.
	// Violates: SC-7.
	FollowerKnowsNoProducers Name = "follower-knows-no-producers"
	// ControlBatchesWithheld leaves control batches out of a read_committed answer
	// that holds nothing else: who reads stands before them for good.
	// Seen: SC-4 names it. A consumer gets past a control batch by receiving it; a
	// broker that filters what no application is to see keeps it from that.
	// Violates: SC-4.
	ControlBatchesWithheld Name = "control-batches-withheld"

	// BarrierValuePadded writes bytes behind the tagged fields of the barrier's value.
	// Seen: BAR-2 names it. A buffer that is as long as the longest value, and written
	// whole, does this; readers do not mind.
	// Violates: BAR-2.
	BarrierValuePadded Name = "barrier-value-padded"
	// BarrierNotNamed has the log dump tool print a barrier as a control record of
	// unknown type.
	// Seen: BAR-7 names it. Kafka's tool does so with what is newer than itself.
	// Violates: BAR-7.
	BarrierNotNamed Name = "barrier-not-named"
	// CutBarrierStillExpires keeps the producer state empty when a truncation takes a
	// barrier away that had emptied it.
	// Seen: PSM-9 names it. A state without an entry and one that was never loaded look
	// alike to whoever decides whether to load a snapshot.
	// Violates: PSM-9.
	CutBarrierStillExpires Name = "cut-barrier-still-expires"
	// HealedLinkAborts aborts what is open in a stopped partition, local transactions
	// too, when the source that was away at the stop can be reached again.
	// Seen: TXN-5 names it. The KIP's later text ends open transactions of the source by
	// markers; a build that retries them when the source is back meets local ones.
	// Violates: TXN-5.
	HealedLinkAborts Name = "healed-link-aborts"
	// ResumesAtOldEnd goes on to fetch at the place where the log ended before
	// alignment cut it: what lies between is missing.
	// Seen: FB-3 names it. A fetch position that is kept apart from the log does this.
	// Violates: FB-3, LOG-1.
	ResumesAtOldEnd Name = "resumes-at-old-end"
	// LostMirrorTakesOthersAlong refuses the fetches of a source's other mirrors for a
	// while when one of them is gone.
	// Seen: FO-2 names it. State that a source keeps of its mirrors, and keeps once for
	// all of them, does this.
	// Violates: FO-2.
	LostMirrorTakesOthersAlong Name = "lost-mirror-takes-others-along"

	// GroupOffsetsUnclamped mirrors what groups have committed on the source as it
	// is, whether the mirror has come so far or not.
	// Seen: an early development version of KIP-1279 copied the offset unchanged.
	// Violates: GRP-1.
	GroupOffsetsUnclamped Name = "group-offsets-unclamped"
	// GroupOffsetsNotLowered stops without lowering commits that lie above where the
	// log was cut: the groups skip what is written there next.
	// Seen: KIP-1279's discussion has it as the consumer that is ahead after a
	// failover.
	// Violates: GRP-1.
	GroupOffsetsNotLowered Name = "group-offsets-not-lowered"
)

// All lists every defect in the order of their names.
func All() []Name {
	return []Name{
		AbortedIndexLostOnTruncation,
		AbortedListMissingAfterLongPoll,
		AlignmentByEpochsAlone,
		BarrierAfterWritable,
		BarrierBeforeTruncation,
		BarrierNotNamed,
		BarrierNotWaitedFor,
		BarrierOverOpenTransaction,
		BarrierValuePadded,
		BarriersCompactedIntoOne,
		CleanedLogTruncated,
		ControlBatchesWithheld,
		ControlRecordDelivered,
		CutBarrierStillExpires,
		DeleteRecordsWhileMirroring,
		DescribeHidesCause,
		DescribeHidesCut,
		DownstreamNotRealigned,
		EpochBelowLog,
		EpochGoesNegative,
		EpochsCachedWithLeadership,
		EpochsGoBackwards,
		ExpiredEntriesPutBack,
		FetchedAfterHealing,
		FirstWriteLost,
		FollowerKeepsSuffix,
		FollowerKnowsNoProducers,
		GroupOffsetsNotLowered,
		GroupOffsetsUnclamped,
		HealedLinkAborts,
		IDBlocksNotReserved,
		IDsHandedOutTwice,
		InheritedBarrierExpires,
		InheritedBarrierKept,
		LateEndTxnAccepted,
		LateFetchAppended,
		LateProduceOpensTransaction,
		LocalMarkersAppendedWhileMirroring,
		LostMirrorTakesOthersAlong,
		MirrorStopStopsOthers,
		NextLeaderAddsBarrier,
		NoBarrier,
		NoBarrierOnEmpty,
		NoBarrierWhenSourceDead,
		OldCoordinatorAccepted,
		OpenTransactionsDroppedWithData,
		OpenTransactionsKept,
		OtherClusterAccepted,
		PausedStopDoesNothing,
		PIDRewrite,
		PIDRewriteOnce,
		ProducersForgottenWithRecords,
		ReadOnlyAfterRestart,
		RecoveryDoesNotExpire,
		RefusedProducersStayRefused,
		RefusedWithoutAWord,
		ReplicaMissesStops,
		ResumesAtOldEnd,
		SameTopicTwoSources,
		StaleDedupeAck,
		StaleEpochFences,
		StateLostOnRestart,
		StopNotIdempotent,
		StopRefusedWithoutSource,
		StopTakesAHundred,
		TwoBarriers,
		UnstableRecordsShown,
		WindowOfOne,
		WriteBeforeBarrier,
		WrongSourceID,
	}
}
