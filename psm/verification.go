package psm

import (
	"fmt"
	"math/rand/v2"
)

// Guard stands for one verification of a transaction: the append that the
// verification was for brings it along. 0 is none.
type Guard uint64

// verification says that a producer's transaction is being verified.
type verification struct {
	ts      int64
	guard   Guard
	lowest  int32
	epoch   int16
	version int8
}

// Verification is what a produce request brings to be verified.
type Verification struct {
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	// TransactionVersion 2 raises the epoch with each transaction, so that
	// the first batch must have sequence 0.
	TransactionVersion int8
	NowMs              int64
}

// StartVerification begins the verification of a transactional batch before
// it is appended. Guard 0 means that none is needed: the transaction is
// already open here, or verification is off. A producer epoch below the known
// one is refused with [CodeInvalidProducerEpoch].
func (s *State) StartVerification(v Verification) (Guard, error) {
	if i := s.table.find(v.ProducerID); i != none {
		p := &s.table.at(i).producer
		if v.ProducerEpoch < p.epoch {
			return 0, &Error{
				Code: CodeInvalidProducerEpoch, ProducerID: v.ProducerID, Offset: -1,
				Reason: fmt.Sprintf("epoch %d to verify, known is %d", v.ProducerEpoch, p.epoch),
			}
		}
		if p.txnFirst >= 0 && p.epoch == v.ProducerEpoch {
			return 0, nil
		}
	}
	if !s.cfg.VerifyTransactions || v.ProducerID < 0 {
		return 0, nil
	}
	e, ok := s.verifying[v.ProducerID]
	switch {
	case !ok:
		e = verification{
			ts: v.NowMs, guard: s.newGuard(), lowest: v.BaseSequence,
			epoch: v.ProducerEpoch, version: v.TransactionVersion,
		}
	case v.ProducerEpoch > e.epoch:
		e.epoch, e.lowest = v.ProducerEpoch, v.BaseSequence
	case v.ProducerEpoch == e.epoch && v.BaseSequence < e.lowest:
		e.lowest = v.BaseSequence
	}
	if s.verifying == nil {
		s.verifying = make(map[int64]verification)
	}
	s.verifying[v.ProducerID] = e
	return e.guard, nil
}

// VerificationGuard gives the guard of a verification in progress, 0 for none.
func (s *State) VerificationGuard(producerID int64) Guard { return s.verifying[producerID].guard }

// newGuard is unique in the life of this State and, being counted from a
// random start, as good as unique beyond it.
func (s *State) newGuard() Guard {
	for s.lastGuard == 0 {
		s.lastGuard = Guard(rand.Uint64())
	}
	s.lastGuard++
	if s.lastGuard == 0 {
		s.lastGuard = 1
	}
	return s.lastGuard
}

// verified ends the verification that a transactional batch was for.
func (s *State) verified(o *op) {
	if len(s.verifying) == 0 {
		return
	}
	e, ok := s.verifying[o.pid]
	if !ok {
		return
	}
	// A version-2 marker with the entry's own epoch belongs to the
	// transaction before the one that is being verified.
	if o.kind == opMarker && e.version >= 2 && e.epoch == o.epoch {
		return
	}
	delete(s.verifying, o.pid)
}
