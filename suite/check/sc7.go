package check

import (
	"cmp"
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// sc7 holds that producer state, last stable offset and aborted lists are the
// same after what befell a cluster's partitions as they were before: what was
// sampled in the quiet before it is compared with what was in the quiet after.
func (t *trial) sc7(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		var c outlived
		events := a.ev.Events
		for i := range events {
			d := events[i].Disturbance
			if d == nil || d.Over || d.Cluster != a.edge.Destination {
				continue
			}
			over := slices.IndexFunc(events[i:], func(e history.Event) bool {
				return e.Disturbance != nil && e.Disturbance.Over && e.Disturbance.What == d.What && e.Disturbance.Cluster == d.Cluster
			})
			if over < 0 || !events[i+over].Disturbance.Took {
				says := "the run ended in it"
				if over >= 0 {
					says = events[i+over].Disturbance.Says
				}
				r.need(false, "%s did not take effect: %s", d.What, says)
				continue
			}
			c.befell = append(c.befell, string(d.What))
			before, after := quietBefore(events, i), quietAfter(events, i+over)
			for _, p := range a.parts {
				a.outlives(r, p, d.What, before, after, &c)
			}
			a.tookPlace(r, d.What, events[i:i+over+1], before, after)
		}
		r.need(len(c.befell) > 0, "nothing befell the cluster")
		r.need(c.producers > 0, "no partition knew a producer, or none was described before and after")
		r.need(c.open > 0, "no transaction was open")
		r.need(c.unstable > 0, "no last stable offset below the high watermark was sampled before and after")
		r.need(c.aborted > 0, "no aborted list was fetched at one offset before and after")
		r.saw("%d producers, %d open transactions, %d last stable offsets and %d aborted lists were the same after %v", c.producers, c.open, c.unstable, c.aborted, c.befell)
	})
}

// tookPlace holds that the events between two quiets show what is said to have
// befallen the cluster, as far as they can.
func (a *alone) tookPlace(r *ruling, what history.DisturbanceName, within, before, after []history.Event) {
	switch what {
	case history.LeaderChange, history.Reassignment:
		for _, p := range a.parts {
			was, is := p.sampled(before).producers, p.sampled(after).producers
			if was != nil && is != nil && was.Node == is.Node {
				r.need(false, "node %d led %s before the %s and after it", is.Node, p.place(), what)
			}
		}
	case history.Truncation:
		cut := 0
		for i := range within {
			e := &within[i]
			if e.Kind != history.KindProduceAck || e.Produce.Cluster != a.edge.Destination {
				continue
			}
			for _, p := range a.parts {
				if o := a.trial.ledger.byOp.get(e.Op); o != nil && o.at(p.part) && a.cutAway(p, o) {
					cut++
				}
			}
		}
		r.need(cut > 0, "no batch that a leader had taken alone is gone after the truncation")
	}
}

// outlived counts what was compared.
type outlived struct {
	befell                             []string
	producers, open, unstable, aborted int
}

// writes says whether the event may have changed a log.
func writes(e *history.Event) bool {
	return e.Kind == history.KindProduceBegin || e.Kind == history.KindProduceAck || e.Kind == history.KindTxnEndBegin || e.Kind == history.KindTxnEnd ||
		e.Kind == history.KindMarker || e.Disturbance != nil
}

// quietBefore are the events before place i during which nobody wrote.
func quietBefore(events []history.Event, i int) []history.Event {
	from := i
	for from > 0 && !writes(&events[from-1]) {
		from--
	}
	return events[from:i]
}

// quietAfter are those after it.
func quietAfter(events []history.Event, i int) []history.Event {
	to := i + 1
	for to < len(events) && !writes(&events[to]) {
		to++
	}
	return events[i+1 : to]
}

// fetchKey is what a fetch asked for.
type fetchKey struct {
	isolation history.Isolation
	served    history.Served
	offset    int64
}

func (k fetchKey) compare(other fetchKey) int {
	return cmp.Or(cmp.Compare(k.offset, other.offset), cmp.Compare(k.isolation, other.isolation), cmp.Compare(k.served, other.served))
}

// quietSample is what a quiet showed of one partition.
type quietSample struct {
	producers *history.Producers
	fetches   map[fetchKey]*history.Fetch
	hw, lso   int64 // -1 for not shown
	start     int64
}

func (p *alonePart) sampled(quiet []history.Event) quietSample {
	s := quietSample{fetches: map[fetchKey]*history.Fetch{}, hw: -1, lso: -1}
	for i := range quiet {
		e := &quiet[i]
		switch {
		case e.Producers != nil && e.Producers.Code == 0 && p.about(e.Producers.Cluster, e.Producers.Topic, e.Producers.Partition):
			s.producers = e.Producers
		case e.Fetch != nil && e.Fetch.Code == 0 && p.about(e.Fetch.Cluster, e.Fetch.Topic, e.Fetch.Partition):
			f := e.Fetch
			s.fetches[fetchKey{f.Isolation, f.Served, f.FetchOffset}] = f
			s.hw, s.lso, s.start = f.HighWatermark, f.LastStableOffset, max(s.start, f.LogStartOffset)
		}
	}
	return s
}

func (a *alone) outlives(r *ruling, p *alonePart, what history.DisturbanceName, quietBefore, quietAfter []history.Event, c *outlived) {
	before, after := p.sampled(quietBefore), p.sampled(quietAfter)
	if before.producers != nil && after.producers != nil {
		a.sameProducers(r, p, what, before.producers, after.producers, c)
	}
	if before.hw >= 0 && after.hw >= 0 {
		if after.hw < before.hw {
			r.findings = append(r.findings, a.told(p.part, LostState, after.hw, fmt.Sprintf("the high watermark %d, as it was before the %s", before.hw, what), fmt.Sprintf("%d", after.hw)))
		}
		if what == history.Truncation && after.hw > before.hw {
			r.findings = append(r.findings, a.told(p.part, UncutSuffix, before.hw, fmt.Sprintf("the log to end at %d, as it did before the %s", before.hw, what), fmt.Sprintf("it ends at %d", after.hw)))
		}
		// A log that starts above the transaction has nothing unstable below that.
		if want := max(before.lso, after.start); after.lso != want {
			r.findings = append(r.findings, a.told(p.part, WrongLSO, after.lso, fmt.Sprintf("the last stable offset %d, as it was before the %s", want, what), fmt.Sprintf("%d", after.lso)))
		} else if before.lso < before.hw {
			c.unstable++
		}
	}
	for key, was := range inOrderOf(before.fetches, fetchKey.compare) {
		if is := after.fetches[key]; is != nil && key.isolation == history.ReadCommitted {
			a.sameAborted(r, p, what, was, is, c)
		}
	}
}

// lasting is what a broker has to know of a producer.
func lasting(s history.ProducerState) string {
	return fmt.Sprintf("epoch %d last sequence %d coordinator epoch %d transaction from %d", s.Epoch, s.LastSequence, s.CoordinatorEpoch, s.CurrentTxnStart)
}

func (a *alone) sameProducers(r *ruling, p *alonePart, what history.DisturbanceName, before, after *history.Producers, c *outlived) {
	was, is := map[int64]history.ProducerState{}, map[int64]history.ProducerState{}
	for _, s := range before.Active {
		was[s.ProducerID] = s
	}
	for _, s := range after.Active {
		is[s.ProducerID] = s
		if _, known := was[s.ProducerID]; !known {
			r.findings = append(r.findings, a.told(p.part, LostState, -1, fmt.Sprintf("the producers that were known before the %s", what), fmt.Sprintf("producer id %d too: %s", s.ProducerID, lasting(s))))
		}
	}
	for id, then := range inOrder(was) {
		now, known := is[id]
		expected := fmt.Sprintf("producer id %d (%s) to be known after the %s", id, lasting(then), what)
		switch {
		case !known:
			r.findings = append(r.findings, a.told(p.part, LostState, -1, expected, "it is not"))
		case lasting(now) != lasting(then):
			r.findings = append(r.findings, a.told(p.part, LostState, -1, expected, lasting(now)))
		default:
			c.producers++
			c.open += b2i(now.CurrentTxnStart >= 0)
		}
	}
}

// sameAborted compares the lists of two fetches that asked for the same. A list
// need not name what has no record left in the range.
func (a *alone) sameAborted(r *ruling, p *alonePart, what history.DisturbanceName, was, is *history.Fetch, c *outlived) {
	how := fmt.Sprintf("in the fetch from %d, %s, after the %s", is.FetchOffset, is.Served, what)
	for _, t := range is.Aborted {
		if !slices.Contains(was.Aborted, t) && t.FirstOffset < was.NextOffset {
			r.findings = append(r.findings, a.told(p.part, StaleAbort, t.FirstOffset, fmt.Sprintf("only aborted transactions %s that were listed before", how), fmt.Sprintf("producer id %d, first offset %d", t.ProducerID, t.FirstOffset)))
		}
	}
	for _, t := range was.Aborted {
		switch {
		case slices.Contains(is.Aborted, t):
			c.aborted++
		case p.hasRecordOf(t, is.FetchOffset, is.NextOffset):
			r.findings = append(r.findings, a.told(p.part, MissingAbort, t.FirstOffset, fmt.Sprintf("producer id %d, first offset %d in the aborted list %s", t.ProducerID, t.FirstOffset, how), "it is not there any more"))
		}
	}
}

// hasRecordOf says whether the log has a record of an aborted transaction within
// [from, to).
func (p *alonePart) hasRecordOf(t history.Aborted, from, to int64) bool {
	if p.lead == nil {
		return true
	}
	for i := range p.lead.entries {
		e := &p.lead.entries[i]
		switch {
		case e.ProducerID != t.ProducerID || e.LastOffset() < t.FirstOffset:
		case e.IsControl():
			return false // its marker: what follows is another transaction's
		case e.Count > 0 && e.LastOffset() >= from && e.BaseOffset < to:
			return true
		}
	}
	return false
}
