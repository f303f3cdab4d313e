package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// sc4 holds that control batches reach no application, and that a consumer gets
// past them, alone in a log or last, without asking again and again.
func (t *trial) sc4(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		var crossed, first, last [2]int
		fetched := 0
		for _, p := range a.parts {
			if p.lead == nil {
				continue
			}
			a.controlsShown(r, p)
			fetched += a.pastControls(r, p)
			for level, isolation := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
				c, f := p.crossings(a, isolation)
				crossed[level] += c
				first[level] += f
				last[level] += p.stoodAtControl(a, isolation)
			}
		}
		a.busy(r)
		for level, name := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
			r.need(crossed[level] > 0, "no %s reader went past a control batch", name)
			r.need(first[level] > 0, "no %s reader went past control batches that were alone in their log", name)
			r.need(last[level] > 0, "no %s reader stood where a control batch was the last", name)
		}
		r.need(fetched > 0, "no fetch began at a control batch")
		r.saw("%d readers went past control batches, %d fetches began at one", crossed[0]+crossed[1], fetched)
	})
}

// controlsShown finds what reached an application and is no record of a client.
func (a *alone) controlsShown(r *ruling, p *alonePart) {
	for i := range a.ev.Events {
		o := a.ev.Events[i].Read
		if o == nil || !p.about(o.Cluster, o.Topic, o.Partition) || o.Tag != "" {
			continue
		}
		r.findings = append(r.findings, a.told(p.part, VisibleControl, o.Offset, "no control record to reach an application",
			fmt.Sprintf("reader %s (%s) got one: key %x value %x", o.Reader, o.Isolation, o.Key, o.Value)))
	}
}

// pastControls holds that a fetch which begins at a control batch goes on behind
// it, and counts those.
func (a *alone) pastControls(r *ruling, p *alonePart) (n int) {
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		f := e.Fetch
		if f == nil || f.Code != 0 || !p.about(f.Cluster, f.Topic, f.Partition) {
			continue
		}
		limit := f.HighWatermark
		if f.Isolation == history.ReadCommitted {
			limit = f.LastStableOffset
		}
		k := p.lead.at(f.FetchOffset)
		if k < 0 || !p.lead.entries[k].IsControl() || f.FetchOffset >= limit {
			continue
		}
		n++
		if f.NextOffset <= f.FetchOffset {
			r.findings = append(r.findings, a.told(p.part, StuckReader, f.FetchOffset, fmt.Sprintf("the control batch in the %s fetch that begins at it: a consumer has to get past", f.Isolation),
				fmt.Sprintf("no batch (event %d)", e.Seq)))
		}
	}
	return n
}

// crossings counts the readers that saw a record behind a control batch and one
// before it, and those that saw one behind control batches with which the log
// begins.
func (p *alonePart) crossings(a *alone, level history.Isolation) (crossed, first int) {
	head := int64(0) // behind the control batches with which the log begins
	control := int64(-1)
	for i := range p.lead.entries {
		e := &p.lead.entries[i]
		if !e.IsControl() {
			continue
		}
		if e.BaseOffset == head {
			head = e.NextOffset()
		}
		control = e.BaseOffset
	}
	least, most := map[string]int64{}, map[string]int64{}
	for i := range a.ev.Events {
		if o := a.ev.Events[i].Read; o != nil && o.Isolation == level && p.about(o.Cluster, o.Topic, o.Partition) {
			if at, any := least[o.Reader]; !any || o.Offset < at {
				least[o.Reader] = o.Offset
			}
			most[o.Reader] = max(most[o.Reader], o.Offset)
		}
	}
	for name, from := range least {
		if control >= 0 && from < control && most[name] > control {
			crossed++
		}
		if head > 0 && from >= head {
			first++
		}
	}
	return crossed, first
}

// stoodAtControl counts the readers whose place was told while a control batch
// was the last one in the log.
func (p *alonePart) stoodAtControl(a *alone, level history.Isolation) (n int) {
	at := int64(0)
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		if shown := p.endShown(e, a.edge.Destination); shown > at {
			at = shown
		}
		if e.Reader == nil || e.Reader.Isolation != level || !p.about(e.Reader.Cluster, e.Reader.Topic, e.Reader.Partition) || at == 0 {
			continue
		}
		if k := p.lead.at(at - 1); k >= 0 && p.lead.entries[k].IsControl() {
			n++
		}
	}
	return n
}

// Bounds for a reader that asks again and again while nobody writes: its fetches
// wait at the broker for a quarter of a second.
const (
	idleFetches   = 200
	idlePerSecond = 150
)

// busy finds readers that had nothing to read between two moments, and asked all
// the time.
func (a *alone) busy(r *ruling) {
	type moment struct {
		at      int64
		fetches int64
	}
	last := map[string]moment{} // by reader and partition
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		switch {
		case e.Kind == history.KindProduceBegin, e.Kind == history.KindTxnEndBegin, e.Node != nil, e.Kind == history.KindMarker, e.Disturbance != nil:
			clear(last) // there may be something to read
		case e.Reader != nil && e.Reader.Cluster == a.edge.Destination:
			key := e.Reader.Reader + " " + history.Place(e.Reader.Topic, e.Reader.Partition)
			before, any := last[key]
			last[key] = moment{e.At, e.Reader.IdleFetches}
			asked, seconds := e.Reader.IdleFetches-before.fetches, float64(e.At-before.at)/1e9
			if any && asked > idleFetches && float64(asked) > idlePerSecond*seconds {
				f := a.said(StuckReader, "a quiet wait for the next record", fmt.Sprintf("reader %s asked %d times within %.1f s (event %d)", key, asked, seconds, e.Seq))
				f.Topic, f.Partition, f.Offset = e.Reader.Topic, e.Reader.Partition, e.Reader.Position
				r.findings = append(r.findings, f)
			}
		}
	}
}
