package check

import (
	"fmt"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// What differs in profile kip1279-latest: a stop cuts nothing. L is the log's
// end, ABORT markers for every transaction that is open there occupy [L, barrier),
// and any barrier expires producers, own or inherited.

// latest says whether the run's clusters follow that text.
func (r *Run) latest() bool { return r.Profile == ProfileLatest }

// stopMarkers finds the markers that the stop wrote: those in a row right before
// its barrier, or at the log's end where a stop has come no further, that are not
// the source's. Whether they are the right ones is BAR-3's and TXN-3's.
func (s *side) stopMarkers(p *part) {
	i := s.barrier
	if i < 0 {
		if p.stopRequested == never {
			return
		}
		i = len(s.entries)
	}
	for ; i > 0; i-- {
		e := &s.entries[i-1]
		switch e.origin {
		case local, alteredCopy, movedCopy:
		default:
			return
		}
		if !e.marks() {
			return
		}
		e.origin = stopMarker
	}
}

// openAt are the transactions of a source's log that are open at an offset.
func (s *side) openAt(offset int64) []*txn {
	var open []*txn
	for _, t := range s.txns {
		if t.first < offset && !t.endedBelow(offset) {
			open = append(open, t)
		}
	}
	return open
}

// epochAt is the epoch in which a producer wrote last below an offset.
func (s *side) epochAt(id, offset int64) (epoch int16) {
	for i := range s.below(offset) {
		if e := &s.entries[i]; e.ProducerID == id {
			epoch = e.ProducerEpoch
		}
	}
	return epoch
}

// aborting holds that what lies between L and the barrier is one ABORT marker for
// each transaction that was open at L, in its producer's epoch, and nothing else.
// That none is missing is TXN-3's. It returns how many there are.
func (j *judge) aborting(r *ruling, p *part, s *side) (markers int) {
	if p.source == nil {
		return 0
	}
	open := map[int64]*txn{}
	for _, t := range p.source.openAt(s.cut) {
		open[t.producerID] = t
	}
	for i := range s.entries {
		e := &s.entries[i]
		if e.origin != stopMarker {
			continue
		}
		t := open[e.ProducerID]
		switch {
		case t == nil:
			r.findings = append(r.findings, j.at(s, ForeignMarker, i, fmt.Sprintf("between L = %d and the barrier one ABORT marker for each transaction that was open at L", s.cut),
				"one more, for a producer without such a transaction: "+e.describe()))
			continue
		case e.control.Type != wirelog.Abort:
			continue // TXN-3's
		case e.ProducerEpoch != p.source.epochAt(e.ProducerID, s.cut):
			r.findings = append(r.findings, j.at(s, ForeignMarker, i, fmt.Sprintf("an ABORT marker for transaction %d of %s in epoch %d of its producer", t.number, t.writer, p.source.epochAt(e.ProducerID, s.cut)), e.describe()))
		}
		delete(open, e.ProducerID)
		markers++
	}
	return markers
}

// aborted holds that a transaction which was open at L is aborted by a marker of
// the stop.
func (j *judge) aborted(r *ruling, s *side, t, c *txn, name string) {
	if c == nil {
		return // LOG-1's: its first batch is not there
	}
	expected := fmt.Sprintf("%s aborted by a marker of the stop: it was open at L = %d", name, s.cut)
	switch {
	case c.end < 0 || c.byBarrier:
		r.findings = append(r.findings, j.at(s, OrphanTransaction, s.at(t.first), expected, "no marker ends it"))
	case c.committed:
		r.findings = append(r.findings, j.at(s, TornOutcome, s.at(c.end), expected, "it was committed: "+s.entries[s.at(c.end)].describe()))
	case s.entries[s.at(c.end)].origin != stopMarker:
		r.findings = append(r.findings, j.at(s, TornOutcome, s.at(c.end), expected, "it was ended by "+s.entries[s.at(c.end)].describe()))
	}
}

// openForetold judges what describe said of a partition while it mirrored: that a
// stop cuts nothing, and which open transaction is the oldest, at the log's end
// as it was, at or above where it says and at or below where the next one does.
// It returns how often it told one.
func (j *judge) openForetold(r *ruling, p *part, said []*history.Event) (told int) {
	for i, e := range said {
		m := e.Mirror
		if m.State != "MIRRORING" || m.WouldCut == (history.Cut{}) {
			continue
		}
		if m.WouldCut != nothing {
			r.findings = append(r.findings, j.told(p, UntoldState, m.WouldCut.From, "a stop to be told to cut nothing", fmt.Sprintf("%s (event %d)", cutText(m.WouldCut), e.Seq)))
			continue
		}
		from, to := m.DestinationOffset, m.DestinationOffset
		if i+1 < len(said) && said[i+1].Mirror.State == m.State {
			to = max(to, said[i+1].Mirror.DestinationOffset)
		}
		if from < 0 || to > end(p.source.Replica) {
			continue
		}
		right := false
		for at := from; at <= to && !right; at++ {
			t := p.source.oldestAt(at)
			right = t == nil && m.Oldest == noneOpen || t != nil && m.Oldest.ProducerID == t.producerID && m.Oldest.FirstOffset == t.first
		}
		switch {
		case !right:
			r.findings = append(r.findings, j.told(p, UntoldState, m.Oldest.FirstOffset, fmt.Sprintf("the oldest open transaction at log end %d told: %s", from, openText(p.source.oldestAt(from))),
				fmt.Sprintf("producer id %d from offset %d (event %d)", m.Oldest.ProducerID, m.Oldest.FirstOffset, e.Seq)))
		case m.Oldest != noneOpen:
			told++
		}
	}
	return told
}

// oldestAt is the open transaction that began first, if the log ended at offset;
// nil for none.
func (s *side) oldestAt(offset int64) *txn {
	var oldest *txn
	for _, t := range s.openAt(offset) {
		if oldest == nil || t.first < oldest.first {
			oldest = t
		}
	}
	return oldest
}
