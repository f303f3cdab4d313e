package psm

import (
	"fmt"
	"slices"
)

// keeps says whether state is kept under a producer id.
func (s *State) keeps(pid int64) bool {
	return pid >= 0 || pid < -1 && s.cfg.Faults.NegativeIDs
}

// overOpen says whether a leader's barrier is taken over open transactions.
func (f Faults) overOpen() bool { return f.KeepOpen || f.DropOpen || f.OverOpen }

// barriersFirst is [Faults.PutBack]: what an append gathers of producers is put
// into the table after all of its barriers have emptied it.
func barriersFirst(ops []op) {
	if !slices.ContainsFunc(ops, func(o op) bool { return o.kind == opBarrier }) {
		return
	}
	for i := range ops {
		ops[i].slot = none // those of before are gone
	}
	slices.SortStableFunc(ops, func(a, b op) int {
		switch {
		case a.kind == opBarrier && b.kind != opBarrier:
			return -1
		case a.kind != opBarrier && b.kind == opBarrier:
			return 1
		}
		return 0
	})
}

// replayWhole is the replay of [Faults.PutBack].
func (s *State) replayWhole(r Reload) error {
	s.Begin(Append{Origin: Replication})
	err := r.Replay(s.end, r.Target, func(b *Batch) error {
		if b.LastOffset >= r.Target || b.LastOffset < s.end {
			return nil
		}
		_, err := s.Add(b)
		return err
	})
	if err != nil {
		s.Discard()
		return err
	}
	return report(s.Commit(), r)
}

// faultyBarrier does what a barrier does with a fault; false leaves the rest to
// the right way.
func (s *State) faultyBarrier() (done bool) {
	old := s.table
	if s.cfg.Faults.StaleDuplicates || s.cfg.Faults.StaleEpochs {
		s.stale = &old
	}
	switch {
	case s.cfg.Faults.DropOpen:
		s.table = newTable()
	case s.cfg.Faults.KeepOpen:
		s.table = newTable()
		for i := old.first; i != none; i = old.at(i).after {
			at := s.table.insert(old.at(i).pid)
			s.table.at(at).producer = old.at(i).producer
			s.table.openTxn(at)
		}
	default:
		return false
	}
	clear(s.verifying)
	return true
}

// checkStale is [Faults.StaleDuplicates], the answer that names a batch from
// before the barrier, and [Faults.StaleEpochs].
func (s *State) checkStale(b *Batch, lastSeq int32) (Duplicate, error) {
	slot := s.stale.find(b.ProducerID)
	if slot == none {
		return Duplicate{}, nil
	}
	p := &s.stale.at(slot).producer
	if s.cfg.Faults.StaleEpochs {
		if b.ProducerEpoch < p.epoch {
			return Duplicate{}, refuse(CodeInvalidProducerEpoch, b, fmt.Sprintf("epoch %d, known was %d", b.ProducerEpoch, p.epoch))
		}
		return Duplicate{}, nil
	}
	i := p.duplicate(b.ProducerEpoch, b.BaseSequence, lastSeq)
	if i < 0 {
		return Duplicate{}, nil
	}
	return Duplicate{Found: true, BaseOffset: p.at[i].last - int64(p.delta[i]), LastOffset: p.at[i].last, Timestamp: p.at[i].ts}, nil
}

// forgetDeleted is [Faults.ForgetDeleted].
func (s *State) forgetDeleted(logStart int64) {
	s.table.each(func(i uint32, p *slot) {
		newest := int64(-1)
		for k := range int(p.n) {
			newest = max(newest, p.at[k].last)
		}
		if p.txnFirst < 0 && newest < logStart {
			s.table.remove(i)
		}
	})
}
