package txn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Partition names a partition.
type Partition struct {
	Topic string
	Index int32
}

// String is "topic-3".
func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
}

const (
	noProducerID    int64 = -1
	noProducerEpoch int16 = -1
	// version2 is the transactions version with an epoch for each transaction.
	version2 int16 = 2
)

// exhausted reports whether a producer may not go on from epoch: the highest
// one is kept so that a producer can always be fenced (SC-2).
func exhausted(epoch int16) bool { return epoch >= math.MaxInt16-1 }

// Txn is what the coordinator knows of one transactional id. It is a value: an
// operation makes the next one, which takes effect once it is in the log. Its
// slices are never changed in place.
type Txn struct {
	ID         string
	ProducerID int64
	// Epoch is -1 before the first InitProducerId.
	Epoch int16
	// LastEpoch is the epoch before Epoch if the same producer may still prove
	// itself with it (KIP-360), else -1.
	LastEpoch int16
	// PrevProducerID is the producer id before the last rotation, or -1.
	PrevProducerID int64
	// NextProducerID is set while a transaction ends in the last epoch: the
	// producer goes on with it at epoch 0 (KIP-890).
	NextProducerID int64
	// Version is the transactions version that the client last used: 0 or 2.
	Version int16
	// TimeoutMillis is how long a transaction may stay open.
	TimeoutMillis int32
	State         State
	// Partitions of the current transaction, sorted.
	Partitions []Partition
	// StartedAt and UpdatedAt are ms since 1970; StartedAt is -1 without a
	// transaction.
	StartedAt, UpdatedAt int64
	// Debts are markers that mirroring partitions owe; they outlive the
	// transaction that they belong to.
	Debts []Debt
}

// Debt is a marker of a completed transaction that was not appended because
// the partition had begun to mirror (RO-2). It is dropped when the partition's
// log was aligned with the source's, and paid when mirroring ends before that.
type Debt struct {
	Partition  Partition
	ProducerID int64
	Epoch      int16
	Version    int16
	Commit     bool
}

// identity is a producer id and an epoch; the zero value of a request without
// one is noIdentity.
type identity struct {
	id    int64
	epoch int16
}

func noIdentity() identity { return identity{noProducerID, noProducerEpoch} }

// current reports whether have is the producer that may work now. The highest
// epoch is the coordinator's own, so whoever claims it was never given it.
func (t Txn) current(have identity) bool {
	return have == t.identity() && have.epoch != math.MaxInt16
}

func (t Txn) identity() identity { return identity{t.ProducerID, t.Epoch} }

// newTxn is a transactional id that was never seen before.
func newTxn(id string, producerID int64) Txn {
	return Txn{
		ID: id, ProducerID: producerID, Epoch: noProducerEpoch, LastEpoch: noProducerEpoch,
		PrevProducerID: noProducerID, NextProducerID: noProducerID, StartedAt: -1,
	}
}

// moved is t after e. An event that the table does not know in t's state is a
// bug of the caller, who is to ask first; it answers INVALID_TXN_STATE.
func (t Txn) moved(e Event, now int64) (Txn, error) {
	next, ok := t.State.After(e)
	if !ok {
		return t, fmt.Errorf("transactional id %q: %s in state %s: %w", t.ID, e, t.State, kerr.InvalidTxnState)
	}
	t.State = next
	t.UpdatedAt = max(now, t.UpdatedAt)
	return t, nil
}

// outcome is what an operation decided: the next Txn to be written, if any,
// and what to answer once it is.
type outcome struct {
	// write is nil when nothing changes.
	write *Txn
	// answer goes to the producer with NONE.
	answer identity
	// err is the answer otherwise; with write set, it is given after the write.
	err error
	// rotate asks for the same decision again with a fresh producer id.
	rotate bool
}

func refuse(err error) outcome { return outcome{err: err} }

// initProducer decides InitProducerId. have is what the producer believes to
// be (KIP-360), or noIdentity; fresh is a producer id for a rotation, or -1.
func (t Txn) initProducer(have identity, timeoutMillis int32, fresh, now int64) outcome {
	recovering := have != noIdentity()
	if t.State.preparing() {
		return refuse(kerr.ConcurrentTransactions)
	}
	if t.State == Ongoing {
		// A producer that was replaced may not abort its successor's
		// transaction: only the current one, or a new one, may.
		if recovering && !t.current(have) {
			return refuse(kerr.ProducerFenced)
		}
		fenced, err := t.fence(recovering, now)
		if err != nil {
			return refuse(err)
		}
		return outcome{write: &fenced, err: kerr.ConcurrentTransactions}
	}
	next, err := t.moved(Init, now)
	if err != nil {
		return refuse(err)
	}
	next.TimeoutMillis = timeoutMillis
	next.Partitions, next.StartedAt = nil, -1
	next.NextProducerID = noProducerID

	bump := true
	switch {
	case t.Epoch == noProducerEpoch:
		// Just made: whatever the producer believes, it gets the new id.
		next.LastEpoch = noProducerEpoch
	case !recovering:
		next.LastEpoch = noProducerEpoch
	case t.current(have):
		next.LastEpoch = t.Epoch
	case have.epoch == t.LastEpoch && (have.id == t.ProducerID || have.id == t.PrevProducerID && exhausted(have.epoch)):
		// A repeated request: the epoch was raised and the answer got lost. The
		// last epoch of all is the coordinator's own, so that rotates.
		bump = t.Epoch == math.MaxInt16
	default:
		return refuse(kerr.ProducerFenced)
	}
	switch {
	case bump && exhausted(t.Epoch):
		if fresh == noProducerID {
			return outcome{rotate: true}
		}
		next.PrevProducerID, next.ProducerID, next.Epoch = t.ProducerID, fresh, 0
	case bump:
		next.Epoch++
	}
	return outcome{write: &next, answer: next.identity()}
}

// fence is t with its open transaction to be aborted in a raised epoch.
// ownerMayReturn lets the producer of the old epoch prove itself with it.
func (t Txn) fence(ownerMayReturn bool, now int64) (Txn, error) {
	next, err := t.moved(Fence, now)
	if err != nil {
		return t, err
	}
	if t.Epoch < math.MaxInt16 {
		next.Epoch = t.Epoch + 1
	}
	next.LastEpoch = noProducerEpoch
	if ownerMayReturn {
		next.LastEpoch = t.Epoch
	}
	return next.moved(Abort, now)
}

// add decides AddPartitionsToTxn and the implicit add of Produce.
func (t Txn) add(have identity, partitions []Partition, version int16, now int64) outcome {
	if err := t.owns(have); err != nil {
		return refuse(err)
	}
	// A partition that owes the marker of an earlier transaction still has that
	// one open: records of this one would join it.
	if slices.ContainsFunc(t.Debts, func(d Debt) bool { return slices.Contains(partitions, d.Partition) }) {
		return refuse(kerr.ConcurrentTransactions)
	}
	merged := slices.Concat(t.Partitions, partitions)
	slices.SortFunc(merged, comparePartitions)
	merged = slices.Compact(merged)
	if t.State == Ongoing && len(merged) == len(t.Partitions) {
		return outcome{answer: have}
	}
	next, err := t.moved(Add, now)
	if err != nil {
		return refuse(err)
	}
	if t.State != Ongoing {
		next.StartedAt = now
	}
	next.Partitions, next.Version = merged, version
	return outcome{write: &next, answer: have}
}

// verify reports for one partition whether it is in the open transaction.
func (t Txn) verify(have identity, p Partition) error {
	if err := t.owns(have); err != nil {
		return err
	}
	if _, found := slices.BinarySearchFunc(t.Partitions, p, comparePartitions); !found || t.State != Ongoing {
		return kerr.TransactionAbortable
	}
	return nil
}

// owns checks that have may work on the transaction now.
func (t Txn) owns(have identity) error {
	switch {
	case t.State.preparing() && have.id == t.NextProducerID && have.id != noProducerID:
		return kerr.ConcurrentTransactions
	case have.id != t.ProducerID:
		return kerr.InvalidProducerIDMapping
	case !t.current(have):
		return kerr.ProducerFenced
	case t.State.preparing():
		return kerr.ConcurrentTransactions
	}
	return nil
}

// end decides EndTxn of a client that uses version. fresh is a producer id for
// the end in the last epoch, or -1.
func (t Txn) end(have identity, commit bool, version int16, fresh, now int64) outcome {
	// With version 2 the epoch tells a repeated EndTxn from the next one (SC-6).
	ending := t.State.preparing() || t.State == CompleteCommit || t.State == CompleteAbort
	again := ending && t.Version == version2 && have.epoch >= 0 && have.epoch == t.LastEpoch && (have.id == t.ProducerID && t.Epoch == have.epoch+1 ||
		have.id == t.PrevProducerID && exhausted(have.epoch) && t.Epoch == 0)
	switch {
	case t.State.preparing() && have.id == t.NextProducerID && have.id != noProducerID:
		return refuse(kerr.ConcurrentTransactions)
	case have.id != t.ProducerID && !again:
		return refuse(kerr.InvalidProducerIDMapping)
	case !t.current(have) && !again:
		return refuse(kerr.ProducerFenced)
	}
	sameOutcome := commit == (t.State == PrepareCommit || t.State == CompleteCommit)
	switch {
	case t.State.preparing():
		if !sameOutcome && (again || version < version2) {
			return refuse(kerr.InvalidTxnState)
		}
		return refuse(kerr.ConcurrentTransactions)
	case t.State == Ongoing && commit:
		return t.prepare(Commit, version, fresh, now)
	case t.State == Ongoing:
		return t.prepare(Abort, version, fresh, now)
	case again, version < version2:
		if t.State == Empty || !sameOutcome {
			return refuse(kerr.InvalidTxnState)
		}
		return outcome{answer: t.identity()}
	case commit:
		return refuse(kerr.InvalidTxnState)
	default:
		return t.prepare(AbortNothing, version, fresh, now)
	}
}

// prepare is the first half of an end: the outcome is decided.
func (t Txn) prepare(e Event, version int16, fresh, now int64) outcome {
	next, err := t.moved(e, now)
	if err != nil {
		return refuse(err)
	}
	if e == AbortNothing {
		next.StartedAt = now
	}
	next.Version = version
	if version < version2 {
		return outcome{write: &next, answer: next.identity()}
	}
	answer := identity{t.ProducerID, t.Epoch + 1}
	if exhausted(t.Epoch) {
		if fresh == noProducerID {
			return outcome{rotate: true}
		}
		next.NextProducerID = fresh
		answer = identity{fresh, 0}
	}
	next.Epoch, next.LastEpoch = t.Epoch+1, t.Epoch
	return outcome{write: &next, answer: answer}
}

// complete is the second half of an end: every partition has its marker or,
// in owed, owes it.
func (t Txn) complete(owed []Debt, now int64) (Txn, error) {
	next, err := t.moved(Marked, now)
	if err != nil {
		return t, err
	}
	if t.NextProducerID != noProducerID {
		next.PrevProducerID, next.ProducerID, next.Epoch = t.ProducerID, t.NextProducerID, 0
		next.NextProducerID = noProducerID
	}
	next.Partitions = nil
	next.Debts = slices.Concat(t.Debts, owed)
	return next, nil
}

// timedOut reports whether the open transaction has been open for too long.
func (t Txn) timedOut(now int64) bool {
	return t.State == Ongoing && now-t.StartedAt >= int64(t.TimeoutMillis)
}
