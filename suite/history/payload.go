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
