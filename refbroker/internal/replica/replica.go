// Package replica is one node's share of the partitions: a log, the
// leadership that the quorum gave, the read-only window of a mirror, and who
// waits for what.
package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/storage"
)

// Purpose says what an append is for; the read-only window of a mirror lets
// some of them through (RO-1, RO-2).
type Purpose uint8

// The purposes.
const (
	// ForClient is a Produce request.
	ForClient Purpose = iota
	// ForMarker is a transaction marker of this cluster's coordinator.
	ForMarker
	// ForInternal is a coordinator's own record on an internal topic.
	ForInternal
	// ForOwedMarker is a marker that was kept out while the partition mirrored
	// (RO-2), written before a stop that came before alignment makes the
	// partition writable: it passes where ForMarker does, and in STOPPING as
	// long as the log was not aligned.
	ForOwedMarker
)

// AppendOptions go with an append to a leader.
type AppendOptions struct {
	Purpose Purpose
	// Acks is 0, 1 or -1, as in Produce. With -1 Append returns once the high
	// watermark has passed the append, or with ctx.
	Acks int16
	// LeaderEpoch that the caller believes in, -1 when it doesn't say.
	LeaderEpoch int32
	// Guard is what [Partition.StartVerification] gave; 0 for none.
	Guard uint64
	// TransactionVersion is that of the markers in the append (KIP-1228): from
	// 2 on a marker must have a higher epoch than the producer's last.
	TransactionVersion int8
	// Within bounds the wait of an append beside ctx, and Late is what it then
	// fails with; 0 for no bound. It costs nothing where nothing is waited for.
	Within time.Duration
	Late   error
}

// AppendResult is where an append went.
type AppendResult struct {
	BaseOffset, LastOffset int64
	// LogAppendTime in ms, -1 for topics with CreateTime.
	LogAppendTime  int64
	LogStartOffset int64
	// Duplicate: the batch was there already; the offsets are the original's.
	Duplicate bool
}

// ReadOptions ask for a read at a partition.
type ReadOptions struct {
	Offset   int64
	MaxBytes int
	// MinOne returns at least one whole batch even above MaxBytes.
	MinOne        bool
	ReadCommitted bool
	// ReplicaID is the follower that fetches, or -1 for a consumer.
	ReplicaID int32
	// ReplicaEpoch is the follower's broker epoch (KIP-903); -1 for unknown.
	ReplicaEpoch int64
	// CurrentLeaderEpoch and LastFetchedEpoch as in Fetch; -1 for none.
	CurrentLeaderEpoch, LastFetchedEpoch int32
	// LogStart is where the follower's log begins.
	LogStart int64
	// Lend lets the answer be a section of the log's file instead of bytes.
	Lend bool
}

// ErrSessionEnded is returned for batches of a mirror session that has ended:
// a response that was in flight when the fetchers were removed (LINK-1).
var ErrSessionEnded = errors.New("mirror session has ended")

// ErrReadOnly is READ_ONLY_TOPIC: a mirror keeps clients' writes out of the
// partition until its stop is recorded (RO-1). The code is that of the mirror
// protocol, not of Apache Kafka, so ErrorMessage must go with it.
var ErrReadOnly error = mirrorrpc.ErrReadOnlyTopic

// EpochAboveError refuses mirrored batches whose leader epoch is above the
// destination's: its own followers would skip them (LOG-5).
type EpochAboveError struct {
	// Batch is the source's leader epoch, Leader the destination's.
	Batch, Leader int32
}

func (e *EpochAboveError) Error() string {
	return fmt.Sprintf("mirrored batch has leader epoch %d, above the partition's %d", e.Batch, e.Leader)
}

// AbortedTxn is one entry of a Fetch response's aborted list.
type AbortedTxn struct{ ProducerID, FirstOffset int64 }

// ReadResult is what a read found.
type ReadResult struct {
	// Raw is whole batches, the stored bytes.
	Raw []byte
	// Section has them instead of Raw when Lend was set and it is worth it. The
	// caller releases it.
	Section                                         *storage.Section
	HighWatermark, LastStableOffset, LogStartOffset int64
	// Aborted is set for read_committed reads only; empty, not nil, when none.
	Aborted []AbortedTxn
	// DivergingEpoch and DivergingEnd are set (epoch >= 0) when the fetcher's
	// last fetched epoch does not agree with this log; Raw is empty then.
	DivergingEpoch int32
	DivergingEnd   int64
}

// Offsets are the marks of one replica's log at one moment.
type Offsets struct {
	LogStart, LastStable, HighWatermark, LogEnd int64
	LeaderEpoch                                 int32
	// LogEpoch is the latest leader epoch in the log, -1 in an empty one.
	LogEpoch int32
	// LeaderSince is the log's end when this leader's epoch began. As long as
	// its high watermark is below that, it may be lower than the last leader's.
	LeaderSince int64
}

// API lists what the rest of the broker may ask of a Partition. Errors that
// have a Kafka code are, or wrap, *kerr.Error.
type API interface {
	Topic() string
	TopicID() [16]byte
	Index() int32

	// Append appends batches as the leader.
	Append(ctx context.Context, raw []byte, o AppendOptions) (AppendResult, error)
	// Read reads without waiting. Long polls wait on Changed and read again.
	Read(o ReadOptions) (ReadResult, error)
	// Changed returns a channel that is closed at the next change of log end,
	// high watermark, leadership or mirror state.
	Changed() <-chan struct{}
	Offsets() Offsets
	// DeleteRecords raises the log's start to offset, -1 for the high
	// watermark, and returns the start; a mirrored partition refuses it (RO-3).
	DeleteRecords(offset int64) (start int64, err error)
	// AwaitDeleted waits until every replica that lives begins at offset or later,
	// and returns the lowest start of them (the low watermark), also with an error.
	AwaitDeleted(ctx context.Context, offset int64) (low int64, err error)
	// Leader is the leader that the quorum named and its epoch; -1 for none.
	Leader() (node int32, epoch int32)
	// CheckLeader returns why this replica can't answer for the partition:
	// NOT_LEADER_OR_FOLLOWER, or with epoch >= 0 FENCED_LEADER_EPOCH and
	// UNKNOWN_LEADER_EPOCH; nil when it leads in that epoch.
	CheckLeader(epoch int32) error
	// ReadOnly reports whether a mirror keeps clients' writes out (RO-1).
	ReadOnly() bool
	// OffsetForTime answers ListOffsets for a timestamp >= 0.
	OffsetForTime(ms int64) (offset, timestamp int64, epoch int32, err error)
	// MaxTimestamp answers ListOffsets for -3.
	MaxTimestamp() (offset, timestamp int64, epoch int32, err error)
	// EndOffsetForEpoch answers OffsetForLeaderEpoch; (-1, -1) is undefined.
	EndOffsetForEpoch(epoch int32) (int32, int64)
	// EpochAt is the leader epoch of the record at offset, -1 when not known.
	EpochAt(offset int64) int32
	// Producers lists the active producers in the order of their ids.
	Producers() []psm.Producer
	// StartVerification makes or reuses the verification entry of a
	// transactional batch that its coordinator still has to confirm. ongoing
	// means that the transaction is open here already and needs none.
	StartVerification(producerID int64, epoch int16, baseSequence int32, v2 bool) (guard uint64, ongoing bool, err error)

	// BeginMirror starts a mirror session at the log's end and returns its
	// number; an earlier session's appends are refused from here on.
	BeginMirror() (session uint64, err error)
	// AppendMirrored appends a source's batches byte for byte: batches wholly
	// below the log end are skipped, none may reach over it
	// (*storage.OffsetError); gaps, as a compacted source has them, stay. It refuses a session that has ended
	// (ErrSessionEnded), and batches above this partition's leader epoch
	// (*EpochAboveError: raise the epoch first, LOG-5).
	AppendMirrored(session uint64, raw []byte) (AppendResult, error)
	// FollowLogStart raises the log's start to the source's, in a session.
	FollowLogStart(session uint64, offset int64) error
	// EndMirror ends every session: it waits for an append in progress, and
	// what arrives later is refused (LINK-1).
	EndMirror()
	// Settle waits until the high watermark has reached the log end. Its
	// LastStable is where a stop cuts (L): the last stable offset, or below it
	// where a transaction that began there ended above, which a cut between
	// would leave open for good (TXN-3). In profile kip1279-latest, which cuts
	// nothing, it is the log end.
	Settle(ctx context.Context) (Offsets, error)
	// Cut truncates this leader's log to offset in the new leader epoch that
	// the quorum record gave. Idempotent.
	Cut(offset int64, epoch int32) error
	// CutAnew empties this leader's log in the new leader epoch that the quorum
	// record gave; it begins at start from then on, and its list of barriers is
	// below. Idempotent.
	CutAnew(start int64, epoch int32, below []Barrier) error
	// CleanedUpTo is the offset below which the replica's cleaner may have removed
	// records: a log that is to be cut below it must be copied anew (AL-1).
	CleanedUpTo() int64
	// NoteForgotten notes that in the source's log, and so in this one, tombstones
	// and markers below offset may be gone.
	NoteForgotten(offset int64) error
	// CountRecords counts the records from offset on, without control records.
	CountRecords(offset int64) (int64, error)
	// Preview says what a stop now would cut, and why (OPS-4). One that took long
	// is some time old.
	Preview() (storage.StopPreview, error)
	// OpenTransactions counts the transactions without a marker.
	OpenTransactions() int64
	// AbortOpen appends an ABORT marker for every transaction that is open, in the
	// order of their producer ids, between L and the barrier of a stop (profile
	// kip1279-latest). What an earlier try has written stays. It is an
	// *OpenTransactionsError where there are not as many as the stop has.
	AbortOpen(stop psm.Stop) error
	// AppendBarrier appends this partition's own MIRROR_PID_RESET at the log
	// end and returns its offset; stop is remembered beside the log, synced,
	// before it. A barrier of this stop that is there already is found instead.
	AppendBarrier(stop psm.Stop) (offset int64, err error)
	// WaitCommitted waits until the high watermark is above offset.
	WaitCommitted(ctx context.Context, offset int64) error
	// Barriers lists the barriers that the log holds or has held, own and
	// inherited.
	Barriers() []Barrier
	// NoteBarriers learns from the source's list who wrote those that come from
	// there: to be called before their batches are appended.
	NoteBarriers(source []Barrier) error
	// Lineage is what a mirror of this log has to know of it.
	Lineage() (Lineage, error)
}

// Barrier is one MIRROR_PID_RESET batch in a log.
type Barrier struct {
	Offset          int64
	LeaderEpoch     int32
	CRC             uint32
	SourceClusterID string
	// Writer is the cluster that wrote it, "" when not known.
	Writer string
	// Markers is how many ABORT markers its stop wrote right before it (profile
	// kip1279-latest).
	Markers int64
	Own     bool
}

// Fork is where its writer's log parts from that of the cluster that it
// mirrored: the first offset that the stop wrote.
func (b Barrier) Fork() int64 { return b.Offset - b.Markers }

// Lineage is the barrier list of a leader's log, with the leader epoch in which
// it holds: what a fetch in that epoch returns belongs to it.
type Lineage struct {
	LeaderEpoch int32
	LogStart    int64
	// ForgottenUpTo is the offset below which the cleaner may have removed
	// tombstones and markers.
	ForgottenUpTo int64
	Barriers      []Barrier
}
