package history

import (
	"errors"
	"fmt"
)

// Outcome is what a client knows about an operation that it asked for.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"      // the broker said that it is done
	Refused Outcome = "refused" // definite: it was not done, and will not be
	Unknown Outcome = "unknown" // it may have been done, or may yet be
)

// Result is the answer to an operation.
type Result struct {
	Outcome Outcome `json:"outcome"`
	// Code is the Kafka error code; 0 with OK, and for errors that never came
	// from a broker (then Message says what happened).
	Code int16 `json:"code"`
	// Message is the broker's error message where it sent one, else the client's words.
	Message string `json:"message,omitempty"`
}

// PhaseName names a phase of a run.
type PhaseName string

// The phases of one failover, in their order.
const (
	TrafficBefore PhaseName = "traffic-before" // writers and readers run against the source
	Mirroring     PhaseName = "mirroring"      // every partition was seen MIRRORING
	StopRequested PhaseName = "stop-requested" // written before StopMirrorTopics is sent
	Stopped       PhaseName = "stopped"        // every partition was seen STOPPED
	TrafficAfter  PhaseName = "traffic-after"  // writers run against the promoted cluster
	Settled       PhaseName = "settled"        // all writers are done and every local transaction has ended
)

// Phase says that a phase of the run began.
type Phase struct {
	Name PhaseName `json:"name"`
	// Mirror is the mirror whose stop this is about; empty where there is only one.
	Mirror string `json:"mirror,omitempty"`
}

// Mode is the kind of producer that a batch came from.
type Mode string

// The modes of a producer.
const (
	Plain         Mode = "plain"
	Idempotent    Mode = "idempotent"
	Transactional Mode = "transactional"
)

// Collision says how a forged batch meets what a mirrored producer left, or is
// empty for ordinary traffic.
type Collision string

// The collisions that the raw producer forges (contract IDEM-1, IDEM-2).
const (
	SameHeader  Collision = "same-header"  // same producer id, epoch, base sequence and count as a mirrored batch
	LowerEpoch  Collision = "lower-epoch"  // an epoch below the mirrored entry's
	HigherEpoch Collision = "higher-epoch" // an epoch above the mirrored entry's
	SequenceGap Collision = "gap"          // a sequence that would be out of order for the mirrored entry
)

// Produce is one batch (or one record of a client that hides its batches) on
// its way to a partition. The begin event says what is sent; the ack repeats it
// and adds Result and Offset.
type Produce struct {
	Writer    string `json:"writer"`
	Cluster   string `json:"cluster"` // the cluster that the writer means to write to
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Mode      Mode   `json:"mode"`
	// Tag is the first record's tag. The batch holds Count records whose tags
	// differ only in Index, which grows by one.
	Tag   Tag   `json:"tag"`
	Count int32 `json:"count"`
	// Collision is set for a forged batch.
	Collision Collision `json:"collision,omitempty"`
	// Trial is set for a write that tries local producer state on purpose.
	Trial Trial `json:"trial,omitempty"`
	// ProducerID, Epoch and BaseSequence are what was sent, where the writer
	// knows it (the raw producer does, franz-go's client does not); else nil.
	Batch *BatchID `json:"batch,omitempty"`
	// Offset is the base offset that the answer named (the record's own offset
	// for clients that report one record at a time); -1 where there is none.
	Offset int64   `json:"offset,string"`
	Result *Result `json:"result,omitempty"`
}

// BatchID is what the idempotent protocol knows a batch by.
type BatchID struct {
	ProducerID   int64 `json:"producerId,string"`
	Epoch        int16 `json:"epoch"`
	BaseSequence int32 `json:"baseSequence"`
}

func (p *Produce) validate(ack bool) error {
	if err := oneOf("mode", p.Mode, Plain, Idempotent, Transactional); err != nil {
		return err
	}
	if err := oneOf("collision", p.Collision, "", SameHeader, LowerEpoch, HigherEpoch, SequenceGap); err != nil {
		return err
	}
	if err := p.Trial.validate(); err != nil {
		return err
	}
	if p.Count < 1 {
		return fmt.Errorf("count %d", p.Count)
	}
	if p.Tag.Writer == "" {
		return errors.New("tag without writer")
	}
	return validResult(p.Result, ack)
}

// Txn is the begin or the end of one transaction of one writer.
type Txn struct {
	Writer          string `json:"writer"`
	Cluster         string `json:"cluster"`
	TransactionalID string `json:"transactionalId"`
	// Number is the transaction's number within its writer, as in its records' tags.
	Number int64 `json:"number,string"`
	// Intent is what the writer means to do with it. In the end events it is
	// what was asked for (commit or abort).
	Intent Intent  `json:"intent"`
	Result *Result `json:"result,omitempty"`
	// Version is the version of transactions that the client speaks, where it
	// chose one: with version 2 each transaction has an epoch of its own (KIP-890).
	Version int16 `json:"version,omitempty"`
	// Late is set for an EndTxn that is delivered when the transaction after it
	// has begun.
	Late bool `json:"late,omitempty"`
}

// InitPID is the answer to InitProducerId, or the part of an EndTxn's that says
// with which id and epoch the producer goes on.
type InitPID struct {
	Writer          string `json:"writer"`
	Cluster         string `json:"cluster"`
	TransactionalID string `json:"transactionalId,omitempty"`
	ProducerID      int64  `json:"producerId,string"`
	Epoch           int16  `json:"epoch"`
	// ByEndTxn is set where EndTxn gave it (transactions version 2).
	ByEndTxn bool `json:"byEndTxn,omitempty"`
	// Node is the broker that answered, 0 where nobody noted it.
	Node   int32   `json:"node,omitempty"`
	Result *Result `json:"result"`
}

// AddPartitions is the answer to AddPartitionsToTxn for one partition.
type AddPartitions struct {
	Writer          string  `json:"writer"`
	Cluster         string  `json:"cluster"`
	TransactionalID string  `json:"transactionalId"`
	Topic           string  `json:"topic"`
	Partition       int32   `json:"partition"`
	Result          *Result `json:"result"`
}

// Isolation is a reader's isolation level.
type Isolation string

// The isolation levels.
const (
	ReadCommitted   Isolation = "read_committed"
	ReadUncommitted Isolation = "read_uncommitted"
)

// Observed is a record that reached an application, or several that came one
// after the other.
type Observed struct {
	Reader    string    `json:"reader"`
	Cluster   string    `json:"cluster"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Isolation Isolation `json:"isolation"`
	Offset    int64     `json:"offset,string"`
	// Tag is the record's tag as text, or empty when it carried none.
	Tag string `json:"tag,omitempty"`
	// Count is the number of records where there are several: each has the next
	// offset, and the tag with the next index; 0 for one.
	Count int32 `json:"count,omitempty"`
	// Key and Value are what an untagged record held, cut to 64 bytes: control
	// records that leak to an application are known by them (BAR-6).
	Key   []byte `json:"key,omitempty"`
	Value []byte `json:"value,omitempty"`
}

// Records are the number of records that the event tells of.
func (o *Observed) Records() int64 { return max(1, int64(o.Count)) }

func (o *Observed) validate() error {
	if err := oneOf("isolation", o.Isolation, ReadCommitted, ReadUncommitted); err != nil {
		return err
	}
	switch {
	case o.Count < 0:
		return fmt.Errorf("count %d", o.Count)
	case o.Count > 1:
		if tag, err := ParseTag(o.Tag); err != nil || tag.String() != o.Tag {
			return fmt.Errorf("%d records with the tag %q", o.Count, clip(o.Tag))
		}
	}
	return nil
}

// Each calls do for each of the records, as if it had been read by itself.
func (o *Observed) Each(do func(Observed)) {
	one := *o
	one.Count = 0
	do(one)
	if o.Count < 2 {
		return
	}
	tag, err := ParseTag(o.Tag)
	if err != nil {
		return // such an event is refused
	}
	for k := int64(1); k < o.Records(); k++ {
		one.Offset, one.Tag = o.Offset+k, tag.Add(k).String()
		do(one)
	}
}

// Reader says where a reader stands in one partition. Written at least once
// for each reader and partition, when the reader ends.
type Reader struct {
	Reader    string    `json:"reader"`
	Cluster   string    `json:"cluster"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Isolation Isolation `json:"isolation"`
	// Start is the offset from which the reader reads without a hole.
	Start int64 `json:"start,string"`
	// Position is the next offset that the consumer asks for.
	Position int64 `json:"position,string"`
	// Final is set in the reader's last event for the partition: what it was
	// to see of [Start, Position), it has seen.
	Final bool `json:"final"`
	// IdleFetches counts the fetches answered since Position last moved,
	// where the client tells (a busy loop on a control record shows here); else 0.
	IdleFetches int64 `json:"idleFetches,string"`
}

// Served says how a Fetch was answered.
type Served string

// The ways to be served.
const (
	AtOnce   Served = "at-once"
	LongPoll Served = "long-poll" // the request waited at the broker for data
)

// Aborted is one entry of the aborted-transaction list of a Fetch answer.
type Aborted struct {
	ProducerID  int64 `json:"producerId,string"`
	FirstOffset int64 `json:"firstOffset,string"`
}

// Fetch is one raw Fetch answer for one partition.
type Fetch struct {
	Cluster     string    `json:"cluster"`
	Node        int32     `json:"node"`
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Isolation   Isolation `json:"isolation"`
	Served      Served    `json:"served"`
	FetchOffset int64     `json:"fetchOffset,string"`
	// NextOffset is the offset after the last whole batch in the answer;
	// FetchOffset when there was none.
	NextOffset       int64 `json:"nextOffset,string"`
	HighWatermark    int64 `json:"highWatermark,string"`
	LastStableOffset int64 `json:"lastStableOffset,string"`
	LogStartOffset   int64 `json:"logStartOffset,string"`
	// AbortedNull is set when the list was null rather than empty.
	AbortedNull bool      `json:"abortedNull,omitempty"`
	Aborted     []Aborted `json:"aborted,omitempty"`
	// Code is the partition's error code; offsets and list mean nothing when it is not 0.
	Code int16 `json:"code"`
}

// Offsets is a sample of a partition's ends.
type Offsets struct {
	Cluster   string `json:"cluster"`
	Node      int32  `json:"node"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// HighWatermark and LastStableOffset are the answers of ListOffsets for
	// the latest offset in the two isolation levels. They come from two
	// requests unless Atomic: the LSO is asked for first.
	HighWatermark    int64 `json:"highWatermark,string"`
	LastStableOffset int64 `json:"lastStableOffset,string"`
	LogStartOffset   int64 `json:"logStartOffset,string"`
	// LogEndOffset is -1 where it is not known.
	LogEndOffset int64 `json:"logEndOffset,string"`
	Atomic       bool  `json:"atomic,omitempty"`
	// LeaderEpoch is the partition's current leader epoch, asked for after the
	// offsets; nil where it is not known.
	LeaderEpoch *int32 `json:"leaderEpoch,omitempty"`
	// InSync are the nodes with in-sync replicas, asked for with the leader epoch;
	// empty where they are not known.
	InSync []int32 `json:"inSync,omitempty"`
}

// When says at which time producers were described.
type When string

// The times at which producers are described.
const (
	WhenMirroring    When = "mirroring"     // asked before the stop was requested
	WhenAfterStop    When = "after-stop"    // asked after STOPPED was seen
	WhenAfterRestart When = "after-restart" // asked after that, when a broker had come back
	WhenAlone        When = "alone"         // on a cluster without any mirror
)

// Producers is the answer of DescribeProducers for one partition.
type Producers struct {
	Cluster   string `json:"cluster"`
	Node      int32  `json:"node"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	When      When   `json:"when"`
	// Code is the partition's error code; the list means nothing when it is not 0.
	Code   int16           `json:"code"`
	Active []ProducerState `json:"active"`
}

// ProducerState is one producer as DescribeProducers shows it.
type ProducerState struct {
	ProducerID       int64 `json:"producerId,string"`
	Epoch            int32 `json:"epoch"`
	LastSequence     int32 `json:"lastSequence"`
	LastTimestamp    int64 `json:"lastTimestamp,string"`
	CoordinatorEpoch int32 `json:"coordinatorEpoch"`
	// CurrentTxnStart is the first offset of the open transaction, or -1.
	CurrentTxnStart int64 `json:"currentTxnStart,string"`
}

// MirrorRPC is a request of the mirrors' control plane.
type MirrorRPC struct {
	Cluster string   `json:"cluster"` // the cluster asked, which is the destination
	API     string   `json:"api"`     // such as "StopMirrorTopics"
	Mirror  string   `json:"mirror"`
	Topics  []string `json:"topics,omitempty"`
	Result  *Result  `json:"result,omitempty"`
}

// Mirror is what the destination says about one partition of a mirror.
type Mirror struct {
	Cluster   string `json:"cluster"`
	Mirror    string `json:"mirror"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// State is the name of the state, such as MIRRORING, STOPPING, STOPPED.
	State string `json:"state"`
	// Step is the last finished step of STOPPING, where the broker tells.
	Step              string `json:"step,omitempty"`
	SourceOffset      int64  `json:"sourceOffset,string"`      // -1 unknown
	DestinationOffset int64  `json:"destinationOffset,string"` // log end on the destination; -1 unknown
	Lag               int64  `json:"lag,string"`               // -1 unknown
	// LastMirrored is L of the last stop: the first offset that the
	// destination itself writes; -1 before that is known.
	LastMirrored  int64  `json:"lastMirrored,string"`
	BarrierOffset int64  `json:"barrierOffset,string"` // of the last stop; -1 unknown
	Error         string `json:"error,omitempty"`
	// WouldCut is what a stop now would cut, as the broker says, StopCut what the
	// last stop has, and Oldest the open transaction that began first. The zero
	// value of each means that nobody was asked; -1 in it that there is none.
	WouldCut Cut       `json:"wouldCut,omitzero"`
	StopCut  Cut       `json:"stopCut,omitzero"`
	Oldest   Undecided `json:"oldest,omitzero"`
}

// Cut is what is, or would be, cut off a log: the offsets from From on and below
// To, -1 for nothing, and how many records that is, control records left out.
type Cut struct {
	From    int64 `json:"from,string"`
	To      int64 `json:"to,string"`
	Records int64 `json:"records,string"`
}

// Undecided is an open transaction; -1 for none.
type Undecided struct {
	ProducerID  int64 `json:"producerId,string"`
	Epoch       int16 `json:"epoch"`
	FirstOffset int64 `json:"firstOffset,string"`
}

// GateEvent says what happened at a gate.
type GateEvent string

// What happens at gates.
const (
	GateArrived  GateEvent = "arrived"  // a node passed or reached the point
	GateHeld     GateEvent = "held"     // it waits there
	GateReleased GateEvent = "released" // it was let go
	GateCrashed  GateEvent = "crashed"  // it was killed there
)

// Gate is an event at a step of STOPPING.
type Gate struct {
	Cluster   string    `json:"cluster"`
	Node      int32     `json:"node"`
	Point     string    `json:"point"`               // such as "before:truncated"
	Partition string    `json:"partition,omitempty"` // such as "t-0"; empty for all
	What      GateEvent `json:"what"`
}

// Fault is a fault that starts, is at work or stops. The counters say what it
// did inside the strike window, that is since it started: they are its proof.
type Fault struct {
	ID   string `json:"id"`   // one for each fault of a run
	Name string `json:"name"` // such as "partition-both", "hold-and-release"
	// Link is the named link or node that it strikes, such as "mirror:A->B" or
	// "node:B/2".
	Link string `json:"link"`
	// Role is what the node was to its cluster when it was struck, such as "leader
	// of orders-0 on B".
	Role  string `json:"role,omitempty"`
	Phase string `json:"phase"` // when it was to strike, such as "before:truncated"
	// HeldBefore is the number of bytes that were already held when the
	// fetchers were removed: a response in flight (LINK-1).
	HeldBefore         int64 `json:"heldBefore,string"`
	BytesHeld          int64 `json:"bytesHeld,string"`
	BytesDropped       int64 `json:"bytesDropped,string"`
	BytesReleased      int64 `json:"bytesReleased,string"`
	BytesDelayed       int64 `json:"bytesDelayed,string"`
	ConnectionsRefused int64 `json:"connectionsRefused,string"`
	ConnectionsReset   int64 `json:"connectionsReset,string"`
	// ProcessEvents counts kills, pauses and the like.
	ProcessEvents int64 `json:"processEvents,string"`
	// Effects counts what else the fault did: messages held or cut, ends of connections
	// that came late, roles that moved, replicas that fell behind, writes that the disk
	// refused, syncs that took longer, wrong times that were read.
	Effects int64 `json:"effects,omitempty,string"`
}

// Bit says whether the fault did anything at all inside its window.
func (f *Fault) Bit() bool {
	return f.HeldBefore > 0 || f.BytesHeld > 0 || f.BytesDropped > 0 || f.BytesDelayed > 0 ||
		f.ConnectionsRefused > 0 || f.ConnectionsReset > 0 || f.ProcessEvents > 0 || f.Effects > 0
}

// Connection says which cluster a client found behind an address (FA-17).
type Connection struct {
	Client    string `json:"client"`
	Address   string `json:"address"`
	Cluster   string `json:"cluster"`   // the cluster that the client means to talk to
	ClusterID string `json:"clusterId"` // the id that Metadata answered
}

// NodeEvent says what happened to a broker.
type NodeEvent string

// What happens to brokers.
const (
	NodeStarted NodeEvent = "started"
	NodeStopped NodeEvent = "stopped"
	NodeKilled  NodeEvent = "killed"
	NodePaused  NodeEvent = "paused"
	NodeResumed NodeEvent = "resumed"
	// NodeLostSnapshots is a broker that is down, and whose producer snapshots
	// were taken away: its recovery has to read its logs from their start.
	NodeLostSnapshots NodeEvent = "lost-snapshots"
)

// Node is an event in a broker's life.
type Node struct {
	Cluster string    `json:"cluster"`
	Node    int32     `json:"node"`
	What    NodeEvent `json:"what"`
}
