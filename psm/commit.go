package psm

// current gives what is known of pid at this point of the append, and pid's
// slot if the state knows it and no barrier came. The result is not to be
// written to, and good until the next call.
func (s *State) current(p *pending, pid int64) (*producer, uint32) {
	slot := none
	if !p.reset {
		slot = s.table.find(pid)
	}
	if len(p.ops) > 0 {
		for p.viewed < len(p.ops) {
			s.toView(p, &p.ops[p.viewed])
			p.viewed++
		}
		if i := s.viewOf(p, pid, slot); i >= 0 {
			return &p.views[i].producer, slot
		}
	}
	if slot != none {
		return &s.table.at(slot).producer, slot
	}
	p.scratch = unknown(pid)
	return &p.scratch, none
}

// viewOf gives the index of pid's view, -1 for none.
func (s *State) viewOf(p *pending, pid int64, slot uint32) int {
	if slot == none {
		if i, ok := p.fresh[pid]; ok {
			return i
		}
		return -1
	}
	if m := s.table.at(slot).mark; int(m) < len(p.views) && p.views[m].slot == slot {
		return int(m)
	}
	return -1
}

// toView applies o to its producer's view.
func (s *State) toView(p *pending, o *op) {
	i := s.viewOf(p, o.pid, o.slot)
	if i < 0 {
		i = len(p.views)
		if o.slot == none {
			if p.fresh == nil {
				p.fresh = make(map[int64]int)
			}
			p.fresh[o.pid] = i
			p.views = append(p.views, view{producer: unknown(o.pid), slot: none})
		} else {
			at := s.table.at(o.slot)
			at.mark = uint32(i)
			p.views = append(p.views, view{producer: at.producer, slot: o.slot})
		}
	}
	v := &p.views[i].producer
	if o.kind == opMarker {
		v.marker(o.epoch, o.coordEpoch, o.ts)
		return
	}
	v.push(o.epoch, o.lastSeq, int32(o.last-o.base), o.last, o.ts)
	if o.txn && v.txnFirst < 0 {
		v.txnFirst = o.base
	}
}

// Commit applies the append, once the log holds it, and gives the
// transactions that it ended, in order. The result is good until the next
// Begin. After an Add that failed or found a duplicate, Commit discards.
func (s *State) Commit() []Completed {
	p := &s.app
	s.completed = s.completed[:0]
	if !p.active || p.failed {
		s.Discard()
		return nil
	}
	if s.cfg.Faults.PutBack {
		barriersFirst(p.ops)
	}
	for i := range p.ops {
		o := &p.ops[i]
		switch o.kind {
		case opData:
			s.commitData(o)
		case opMarker:
			s.commitMarker(o)
		case opBarrier:
			s.commitBarrier(o)
		}
		if o.guarded {
			s.verified(o)
		}
	}
	s.end, s.nextStop = p.end, p.nextStop
	s.Discard()
	return s.completed
}

// slotOf is the slot of o's producer, made if need be.
func (s *State) slotOf(o *op) uint32 {
	if o.slot != none {
		return o.slot
	}
	if i := s.table.find(o.pid); i != none {
		return i
	}
	return s.table.insert(o.pid)
}

func (s *State) commitData(o *op) {
	i := s.slotOf(o)
	at := s.table.at(i)
	at.push(o.epoch, o.lastSeq, int32(o.last-o.base), o.last, o.ts)
	if o.txn && at.txnFirst < 0 {
		at.txnFirst = o.base
		s.table.openTxn(i)
	}
}

func (s *State) commitMarker(o *op) {
	i := s.slotOf(o)
	at := s.table.at(i)
	first := at.txnFirst
	at.marker(o.epoch, o.coordEpoch, o.ts)
	if first < 0 {
		return
	}
	s.table.closeTxn(i)
	s.complete(Completed{ProducerID: o.pid, FirstOffset: first, LastOffset: o.last, Aborted: o.abort})
}

// complete records the end of c's transaction, which is no longer chained.
func (s *State) complete(c Completed) {
	c.LSO = c.LastOffset + 1
	if f, ok := s.table.firstOpen(); ok {
		c.LSO = f
	}
	s.unreplicated.push(span{first: c.FirstOffset, last: c.LastOffset})
	s.completed = append(s.completed, c)
}

// commitBarrier forgets every producer, and what was being verified. A transaction that is still open
// (someone else wrote such a log) ends as aborted, so that it neither holds
// the last stable offset nor becomes visible (PSM-8).
func (s *State) commitBarrier(o *op) {
	if s.cfg.Faults != (Faults{}) && s.faultyBarrier() {
		return
	}
	for s.table.first != none {
		i := s.table.first
		at := s.table.at(i)
		c := Completed{ProducerID: at.pid, FirstOffset: at.txnFirst, LastOffset: o.last, Aborted: true, ByBarrier: true}
		s.cfg.Log.Error("a transaction is open at a mirror barrier: completed as aborted",
			"producerId", c.ProducerID, "firstOffset", c.FirstOffset, "barrierOffset", o.last)
		s.table.closeTxn(i)
		s.complete(c)
	}
	s.table = newTable()
	clear(s.verifying)
}
