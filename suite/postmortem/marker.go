package postmortem

import (
	"fmt"

	"watershed.example/suite/wirelog"
)

// marker takes the end of a transaction.
func (l *line) marker(b *wirelog.Batch, c wirelog.Control) {
	s := l.span()
	id := b.ProducerID
	p, known := s.table.get(id)
	if known && b.ProducerEpoch < p.epoch && l.lastGap <= p.lastOffset {
		l.report(Finding{
			Kind: OldMarker, Sure: Certain, Requirements: []string{"TXN-2", "SC-5"}, Offset: b.BaseOffset,
			What: fmt.Sprintf("a %s marker of producer %d, epoch %d behind its epoch %d (offset %d)", c.Type, id, b.ProducerEpoch, p.epoch, p.lastOffset),
			Why:  "a coordinator's marker has the producer's epoch, or a higher one: this is another's, or one that came late",
			Do:   "look at the transaction before it: it may have been ended by a marker that was not its own", Affected: 1, Records: records(b, 1),
		})
	}
	if known && c.CoordinatorEpoch < p.coordinator && l.lastGap <= p.lastOffset {
		l.report(Finding{
			Kind: OldCoordinator, Sure: Certain, Requirements: []string{"SC-5"}, Offset: b.BaseOffset,
			What: fmt.Sprintf("a %s marker of producer %d with coordinator epoch %d behind one of epoch %d", c.Type, id, c.CoordinatorEpoch, p.coordinator),
			Why:  "markers of an older coordinator are refused", Do: "look at the transaction before it: it may have been ended twice, or wrongly", Affected: 1, Records: records(b, 1),
		})
	}
	o, open := s.open[id]
	switch {
	case open:
		delete(s.open, id)
		if int(b.ProducerEpoch) > int(o.epoch)+2 && b.ProducerEpoch >= 0 {
			l.foreign(b, c, o, Likely, fmt.Sprintf("a %s marker of producer %d, epoch %d ends a transaction of epoch %d", c.Type, id, b.ProducerEpoch, o.epoch))
		}
		t := txn{id: id, epoch: o.epoch, marker: b.ProducerEpoch, first: o.first, last: b.BaseOffset, ended: b.MaxTimestamp, commit: c.Type == wirelog.Commit, count: o.records}
		l.end(t, s)
		if l.stopFrom >= 0 && len(l.stopped) < maxRecent {
			l.stopped = append(l.stopped, t)
		}
	case !known && s.priorOpen != nil:
		if o, ok := s.priorOpen[id]; ok {
			l.foreign(b, c, o, Likely, fmt.Sprintf("a %s marker of producer %d behind the barrier: here that producer has written nothing, and a transaction of that id was open below the barrier", c.Type, id))
		}
		fallthrough
	default:
		s.unopened++
	}
	if !known {
		p = producer{firstOffset: -1, lastSeq: -1, epoch: b.ProducerEpoch, coordinator: -1}
	}
	if b.ProducerEpoch != p.epoch {
		p.epoch, p.lastSeq = b.ProducerEpoch, -1
	}
	p.coordinator, p.lastOffset, p.lastTime = c.CoordinatorEpoch, b.BaseOffset, b.MaxTimestamp
	s.table.put(id, p)
}

func (l *line) end(t txn, s *span) {
	if t.commit {
		s.Committed++
	} else {
		s.Aborted++
		if l.index != nil {
			l.index.aborted(l, t)
		}
	}
	if len(l.recent) < maxRecent {
		l.recent = append(l.recent, t)
	} else {
		l.recent[l.at] = t
		l.at = (l.at + 1) % maxRecent
	}
	for _, f := range l.ended {
		f(t)
	}
}

func (l *line) foreign(b *wirelog.Batch, c wirelog.Control, o openTxn, sure Sureness, what string) {
	l.report(Finding{
		Kind: ForeignMarker, Sure: sure, Requirements: []string{"TXN-2", "TXN-1"}, Offset: b.BaseOffset, What: what,
		Why: "two producers share the id, and the marker of one meets the transaction of the other; a coordinator that fences a producer several times leaves nearly the same bytes",
		Do:  fmt.Sprintf("look at the transaction's records from offset %d on: whether they are to count (%s) is the application's word", o.first, c.Type), Affected: o.records, Records: o.keys,
	})
}

// old is the age in milliseconds, in the log's own time, from which on a
// transaction that is open will hardly be ended: transaction.max.timeout.ms is 15
// minutes unless set.
const old = 20 * 60_000

// close says what is left at the log's end.
func (l *line) close() {
	if l.index != nil {
		l.index.leave(l)
	}
	for id, o := range sortedOpen(l.span().open) {
		f := Finding{
			Kind: OpenAtEnd, Sure: Measured, Offset: o.first, LastOffset: o.last, Affected: o.records, Records: o.keys,
			What: fmt.Sprintf("producer %d, epoch %d has a transaction open at the log's end: readers of committed records stand before offset %d", id, o.epoch, o.first),
			Why:  "it is young: its producer or its coordinator may yet end it",
			Do:   "nothing if it has ended since; else have it aborted (kafka-transactions.sh, or the producer's InitProducerId)",
		}
		if l.lastTime-o.since > old {
			f.Sure, f.Requirements = Possible, []string{"TXN-6"}
			f.Why = "what lies behind it is more than 20 minutes younger, and coordinators end what is older than their limit"
		}
		l.report(f)
	}
	if n := l.span().table.forgotten; n > 0 {
		l.report(Finding{
			Kind: Forgotten, Sure: Measured, Offset: -1, What: fmt.Sprintf("%d producers were forgotten while many others wrote", n),
			Why: fmt.Sprintf("the last %d are kept at least", perGeneration), Do: "nothing: gaps of producers that were silent for so long are not seen",
		})
	}
}
