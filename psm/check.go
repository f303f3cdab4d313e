package psm

import (
	"fmt"
	"math"
)

func refuse(code int16, b *Batch, reason string) error {
	return &Error{Code: code, ProducerID: b.ProducerID, Offset: b.BaseOffset, Reason: reason}
}

func (s *State) warnEpoch(b *Batch, known int16) {
	s.cfg.Log.Warn("replicated batch has an old producer epoch",
		"producerId", b.ProducerID, "offset", b.BaseOffset, "epoch", b.ProducerEpoch, "known", known)
}

// check is what only a leader checks of data. cur is what is known of the
// producer.
func (s *State) check(p *pending, b *Batch, cur *producer, lastSeq int32) (Duplicate, error) {
	if p.Origin == Client {
		if b.BaseSequence < 0 {
			return Duplicate{}, refuse(CodeInvalidRecord, b, fmt.Sprintf("base sequence %d", b.BaseSequence))
		}
		if cur.mayRepeat(lastSeq) {
			if i := cur.duplicate(b.ProducerEpoch, b.BaseSequence, lastSeq); i >= 0 && !(s.cfg.Faults.OneBatch && lastSeq != cur.sequence()) {
				at := cur.at[i]
				return Duplicate{Found: true, BaseOffset: at.last - int64(cur.delta[i]), LastOffset: at.last, Timestamp: at.ts}, nil
			}
		}
		if s.stale != nil && cur.epoch == -1 {
			if dup, err := s.checkStale(b, lastSeq); dup.Found || err != nil {
				return dup, err
			}
		}
	}
	if b.ProducerEpoch < cur.epoch {
		return Duplicate{}, refuse(CodeInvalidProducerEpoch, b, fmt.Sprintf("epoch %d, known is %d", b.ProducerEpoch, cur.epoch))
	}
	if b.Attributes.Transactional() && s.cfg.VerifyTransactions && (cur.txnFirst < 0 || cur.epoch != b.ProducerEpoch) {
		if g := s.verifying[b.ProducerID].guard; g == 0 || g != p.Guard {
			return Duplicate{}, refuse(CodeInvalidTxnState, b, "transaction is neither open nor verified")
		}
	}
	if p.Origin == Client {
		return Duplicate{}, s.checkSequence(b, cur)
	}
	return Duplicate{}, nil
}

// checkSequence checks a client's base sequence. The producer's epoch is not
// below the known one.
func (s *State) checkSequence(b *Batch, cur *producer) error {
	seq := b.BaseSequence
	if len(s.verifying) > 0 {
		if v, ok := s.verifying[b.ProducerID]; ok {
			if v.version >= 2 && seq != 0 && cur.n == 0 {
				return refuse(CodeOutOfOrderSequenceNumber, b, fmt.Sprintf("first sequence of the epoch is %d", seq))
			}
			if seq > v.lowest {
				return refuse(CodeOutOfOrderSequenceNumber, b, fmt.Sprintf("sequence %d, lowest seen in verification is %d", seq, v.lowest))
			}
		}
	}
	switch {
	case cur.epoch == -1: // unknown: any sequence begins it
	case b.ProducerEpoch != cur.epoch:
		if seq != 0 {
			return refuse(CodeOutOfOrderSequenceNumber, b, fmt.Sprintf("sequence %d begins epoch %d", seq, b.ProducerEpoch))
		}
	default:
		if last := cur.sequence(); !inSequence(last, seq) {
			return refuse(CodeOutOfOrderSequenceNumber, b, fmt.Sprintf("sequence %d follows %d", seq, last))
		}
	}
	return nil
}

// addMarker checks an end-transaction marker.
func (s *State) addMarker(p *pending, b *Batch) error {
	cur, slot := s.current(p, b.ProducerID)
	coordEpoch := b.Control.CoordinatorEpoch
	if p.Origin == Replication {
		if b.ProducerEpoch < cur.epoch {
			s.warnEpoch(b, cur.epoch)
		}
		if coordEpoch < cur.coordEpoch {
			s.cfg.Log.Warn("replicated marker has an old coordinator epoch", "producerId", b.ProducerID,
				"offset", b.BaseOffset, "epoch", coordEpoch, "known", cur.coordEpoch)
		}
	} else {
		if err := checkMarkerEpoch(p, b, cur); err != nil {
			return err
		}
		if coordEpoch < cur.coordEpoch && !s.cfg.Faults.OldCoordinators {
			return refuse(CodeTransactionCoordinatorFenced, b, fmt.Sprintf("coordinator epoch %d, known is %d", coordEpoch, cur.coordEpoch))
		}
	}
	if cur.txnFirst >= 0 {
		p.open--
	}
	o := p.newOp()
	o.kind, o.txn, o.abort, o.guarded = opMarker, false, b.Control.Type == ControlAbort, b.Attributes.Transactional()
	o.epoch, o.coordEpoch, o.slot, o.pid = b.ProducerEpoch, coordEpoch, slot, b.ProducerID
	o.base, o.last, o.ts = b.BaseOffset, b.BaseOffset, b.Control.Timestamp
	return nil
}

// checkMarkerEpoch fences a marker by the producer's epoch.
func checkMarkerEpoch(p *pending, b *Batch, cur *producer) error {
	if b.ProducerEpoch > cur.epoch {
		return nil
	}
	if b.ProducerEpoch == cur.epoch {
		if p.TransactionVersion < 2 || cur.txnFirst < 0 || b.ProducerEpoch == math.MaxInt16 {
			return nil
		}
		return refuse(CodeInvalidProducerEpoch, b, fmt.Sprintf("version-2 marker has the transaction's own epoch %d", cur.epoch))
	}
	return refuse(CodeInvalidProducerEpoch, b, fmt.Sprintf("marker epoch %d, known is %d", b.ProducerEpoch, cur.epoch))
}
