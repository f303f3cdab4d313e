package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// coordinatorFenced is TRANSACTION_COORDINATOR_FENCED.
const coordinatorFenced = 52

// notServed are the codes with which a broker lets no client write markers.
var notServed = []int16{29, 31, 35, 53}

// sc5 holds that markers of an older coordinator are refused, that a marker which
// comes once more is harmless, and that a retry which comes after its
// transaction's marker opens nothing.
func (t *trial) sc5(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		var c markerCount
		for _, p := range a.parts {
			if p.lead == nil {
				continue
			}
			a.coordinators(r, p, &c)
			a.lateRetries(r, p, &c)
			if p.complete {
				a.outcomesAlone(r, p)
			}
		}
		r.need(c.late > 0, "no batch was sent again after its transaction's marker")
		if c.asked > 0 && c.refusedToAll == c.asked {
			r.saw("the broker lets no client write markers")
			return
		}
		r.need(c.old > 0, "no marker came from an older coordinator")
		r.need(c.oldWhileOpen > 0, "no marker of an older coordinator met an open transaction")
		r.need(c.again > 0, "no marker came once more")
		r.saw("%d markers of older coordinators refused, %d of them while the transaction was open; %d repeated ones harmless; %d late batches refused", c.old, c.oldWhileOpen, c.again, c.late)
	})
}

// markerCount counts what was tried and came out right.
type markerCount struct{ asked, refusedToAll, old, oldWhileOpen, again, late int }

// shownProducer is what a partition's leader last said of a producer.
type shownProducer struct {
	state history.ProducerState
	seq   int64
}

// coordinators goes through the markers that clients wrote by hand.
func (a *alone) coordinators(r *ruling, p *alonePart, c *markerCount) {
	newest := map[int64]int32{} // producer id to its newest coordinator's epoch
	shown := map[int64]shownProducer{}
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		if d := e.Producers; d != nil && d.Code == 0 && p.about(d.Cluster, d.Topic, d.Partition) {
			shown = map[int64]shownProducer{}
			for _, s := range d.Active {
				shown[s.ProducerID] = shownProducer{s, e.Seq}
				if known, any := newest[s.ProducerID]; !any || s.CoordinatorEpoch > known {
					newest[s.ProducerID] = s.CoordinatorEpoch
				}
			}
		}
		m := e.Marker
		if m == nil || !p.about(m.Cluster, m.Topic, m.Partition) {
			continue
		}
		c.asked++
		known, any := newest[m.ProducerID]
		switch {
		case slices.Contains(notServed, m.Result.Code):
			c.refusedToAll++
		case m.Result.Outcome == history.Unknown, retriable[m.Result.Code]:
		case any && m.CoordinatorEpoch < known:
			a.oldCoordinator(r, p, e, known, c)
		case any && m.CoordinatorEpoch == known && int32(m.Epoch) == shown[m.ProducerID].state.Epoch:
			a.onceMore(r, p, i, shown, c)
		}
		if m.Result.Outcome == history.OK && (!any || m.CoordinatorEpoch > known) {
			newest[m.ProducerID] = m.CoordinatorEpoch
		}
	}
}

func (a *alone) oldCoordinator(r *ruling, p *alonePart, e *history.Event, known int32, c *markerCount) {
	m := e.Marker
	expected := fmt.Sprintf("the marker of producer id %d epoch %d from coordinator epoch %d refused with error %d: coordinator epoch %d has written (event %d)",
		m.ProducerID, m.Epoch, m.CoordinatorEpoch, coordinatorFenced, known, e.Seq)
	for i := range p.lead.entries {
		k := &p.lead.entries[i]
		if k.marks() && k.ProducerID == m.ProducerID && k.ProducerEpoch == m.Epoch && k.control.CoordinatorEpoch == m.CoordinatorEpoch {
			r.findings = append(r.findings, a.at(p.lead, OldCoordinator, i, expected, "it was appended"))
			return
		}
	}
	switch {
	case m.Result.Outcome == history.OK:
		r.findings = append(r.findings, a.told(p.part, OldCoordinator, -1, expected, "it was accepted"))
	case m.Result.Code != coordinatorFenced:
		r.findings = append(r.findings, a.told(p.part, UnclearRefusal, -1, expected, answer(*m.Result)))
	default:
		c.old++
		at := a.endBefore(p, e.Seq)
		for _, t := range p.lead.txns {
			if t.producerID == m.ProducerID && t.first < at && (t.end < 0 || t.end >= at) {
				c.oldWhileOpen++
				break
			}
		}
	}
}

// endBefore is the log's end as it was shown before an event.
func (a *alone) endBefore(p *alonePart, seq int64) (at int64) {
	for i := range a.ev.Events {
		if e := &a.ev.Events[i]; e.Seq < seq {
			at = max(at, p.endShown(e, a.edge.Destination))
		}
	}
	return at
}

// onceMore holds that nothing but the log's length has changed between what was
// sampled before a marker that came once more, and what was after.
func (a *alone) onceMore(r *ruling, p *alonePart, i int, before map[int64]shownProducer, c *markerCount) {
	m := a.ev.Events[i].Marker
	expected := fmt.Sprintf("the marker of producer id %d epoch %d, which comes once more (event %d), to change nothing", m.ProducerID, m.Epoch, a.ev.Events[i].Seq)
	for k := i + 1; k < len(a.ev.Events); k++ {
		e := &a.ev.Events[k]
		if e.Kind == history.KindProduceBegin || e.Marker != nil {
			return // nobody looked
		}
		d := e.Producers
		if d == nil || d.Code != 0 || !p.about(d.Cluster, d.Topic, d.Partition) {
			continue
		}
		for _, s := range d.Active {
			was := before[s.ProducerID].state
			if s.ProducerID == m.ProducerID && (s.Epoch != was.Epoch || s.LastSequence != was.LastSequence || s.CurrentTxnStart != was.CurrentTxnStart) {
				r.findings = append(r.findings, a.told(p.part, WrongState, -1, expected, fmt.Sprintf("epoch %d last sequence %d transaction from %d instead of %d, %d and %d",
					s.Epoch, s.LastSequence, s.CurrentTxnStart, was.Epoch, was.LastSequence, was.CurrentTxnStart)))
				return
			}
		}
		c.again++
		return
	}
}

// refusedLate says whether a batch that was delivered late was refused for good;
// one that was appended or acknowledged is a finding.
func (a *alone) refusedLate(r *ruling, p *alonePart, o *operation, expected, appended string) bool {
	switch at := p.places(o); {
	case len(at) > 0:
		r.findings = append(r.findings, a.finding(p.lead, ZombieAppend, at[0].entry, at[0].offset, expected, appended))
	case o.result.Outcome == history.OK:
		r.findings = append(r.findings, a.told(p.part, ZombieAppend, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
	default:
		return o.result.Code > 0 && !retriable[o.result.Code]
	}
	return false
}

// lateRetries holds that batches which came after their transaction's end were
// refused, and that no transaction is left open by them.
func (a *alone) lateRetries(r *ruling, p *alonePart, c *markerCount) {
	for _, o := range p.ops {
		if o.sent.Trial != history.TrialLate || o.sent.Mode != history.Transactional {
			continue
		}
		expected := batchWords(o) + " refused: its transaction has ended"
		c.late += b2i(a.refusedLate(r, p, o, expected, "it was appended"))
	}
	if a.edge.settled == never {
		return
	}
	for _, t := range p.lead.txns {
		if t.end < 0 {
			r.findings = append(r.findings, a.at(p.lead, OrphanTransaction, t.entry, "no open transaction once every client is done",
				fmt.Sprintf("transaction %d of %s, which nobody will finish", t.number, t.writer)))
		}
	}
}

// outcomesAlone compares what producers were told of their transactions with the
// log, but for those of transactions version 1 that a late EndTxn may have ended.
func (a *alone) outcomesAlone(r *ruling, p *alonePart) {
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		if e.Kind != history.KindTxnEnd || e.Txn.Late || e.Txn.Version == 1 || e.Txn.Cluster != a.edge.Destination || e.Txn.Result.Outcome != history.OK {
			continue
		}
		a.ended(r, p, e.Txn, TornOutcome)
	}
}

// ended holds one transaction to what its writer was told, and says whether the
// partition has it.
func (a *alone) ended(r *ruling, p *alonePart, told *history.Txn, anomaly Anomaly) bool {
	commit, found := told.Intent == history.IntentCommit, 0
	expected := fmt.Sprintf("transaction %d of %s to %s in one piece, as was acknowledged", told.Number, told.Writer, told.Intent)
	for _, t := range p.lead.txns {
		if t.writer != told.Cluster+"/"+told.Writer || t.number != told.Number {
			continue
		}
		found++
		switch {
		case t.end < 0:
			r.findings = append(r.findings, a.at(p.lead, OrphanTransaction, t.entry, expected, "no marker ends it"))
		case t.committed != commit:
			r.findings = append(r.findings, a.at(p.lead, anomaly, p.lead.at(t.end), expected, p.lead.entries[p.lead.at(t.end)].describe()))
		case found > 1:
			r.findings = append(r.findings, a.at(p.lead, anomaly, t.entry, expected, "it had ended before"))
		}
	}
	return found > 0
}
