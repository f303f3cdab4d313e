package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// sc3 holds that readers of both isolation levels see what they are to see, and
// that last stable offset and aborted lists are right at every offset, whether a
// fetch was answered at once or had to wait (field cases FA-14 and FA-15).
func (t *trial) sc3(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		whole, committed, aborted, samples, unstable := 0, 0, 0, 0, 0
		views := map[history.Isolation]int{}
		for _, p := range a.parts {
			if p.lead == nil || !p.complete {
				continue
			}
			for _, s := range p.lead.txns {
				if s.end >= 0 {
					committed += b2i(s.committed)
					aborted += b2i(!s.committed)
				}
			}
			torn := tearsOf(a.ev.Events, p.lead, p.fetched)
			at := map[history.Served]map[int64]bool{history.AtOnce: {}, history.LongPoll: {}}
			for i := range a.ev.Events {
				e := &a.ev.Events[i]
				if _, _, ok := p.fetched(e); !ok {
					continue
				}
				f := e.Fetch
				samples++
				if a.stable(r, p, torn, i) < f.HighWatermark {
					unstable++
				}
				needed := a.abortedOf(r, p.part, p.lead, f)
				if f.Isolation == history.ReadCommitted && (needed > 0 || f.NextOffset > f.FetchOffset) {
					at[f.Served][f.FetchOffset] = true
				}
			}
			// Every offset that a fetch can have an answer from.
			last := p.lead.stableOffset(end(p.lead.Replica))
			everywhere := last > 0 && hasAborted(p.lead)
			for offset := range last {
				everywhere = everywhere && at[history.AtOnce][offset] && at[history.LongPoll][offset]
			}
			whole += b2i(everywhere)
			a.seen(r, p, views)
		}
		r.need(whole > 0, "no log with an aborted transaction was fetched at every offset, at once and after a wait")
		r.need(committed > 0 && aborted > 0, "%d transactions committed and %d aborted", committed, aborted)
		r.need(unstable > 0, "no fetch met an open transaction")
		for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
			r.need(views[level] > 0, "no %s reader read a log to its end", level)
		}
		r.saw("%d fetches of logs with %d committed and %d aborted transactions, %d of them while one was open; %d logs at every offset; %d readers", samples, committed, aborted, unstable, whole,
			views[history.ReadCommitted]+views[history.ReadUncommitted])
	})
}

func hasAborted(s *side) bool {
	for _, t := range s.txns {
		if t.end >= 0 && !t.committed {
			return true
		}
	}
	return false
}

// fetched is what an event shows of the partition's ends, where that is a fetch of
// what the log still has.
func (p *alonePart) fetched(e *history.Event) (hw, lso int64, ok bool) {
	f := e.Fetch
	if f == nil || f.Code != 0 || !p.about(f.Cluster, f.Topic, f.Partition) || f.HighWatermark > end(p.lead.Replica) {
		return 0, 0, false
	}
	return f.HighWatermark, f.LastStableOffset, true
}

// stable holds the last stable offset of the fetch in one event to the log, and
// returns what it is to be.
func (a *alone) stable(r *ruling, p *alonePart, torn *tears, event int) int64 {
	e := &a.ev.Events[event]
	f := e.Fetch
	want := p.lead.stableOffset(f.HighWatermark)
	limit := want // of a read_committed fetch
	switch {
	case f.LastStableOffset == want:
	case torn.excuse(event):
		limit = max(want, f.LastStableOffset)
	default:
		r.findings = append(r.findings, a.told(p.part, WrongLSO, f.LastStableOffset, fmt.Sprintf("last stable offset %d at high watermark %d", want, f.HighWatermark),
			fmt.Sprintf("%d in the %s fetch from %d, %s (event %d)", f.LastStableOffset, f.Isolation, f.FetchOffset, f.Served, e.Seq)))
	}
	if f.Isolation == history.ReadCommitted && f.NextOffset > max(limit, f.FetchOffset) && !torn.excuseBatches(event, f.NextOffset) {
		r.findings = append(r.findings, a.told(p.part, AbortedRead, f.NextOffset, fmt.Sprintf("nothing at or above the last stable offset %d in a read_committed fetch", limit),
			fmt.Sprintf("batches up to %d in the one from %d, %s (event %d)", f.NextOffset, f.FetchOffset, f.Served, e.Seq)))
	}
	return want
}

// seen compares what each reader saw of a partition with the log, record by
// record, and counts those that were done. Where a run broke off nobody waited for
// its readers: what they had not come to yet is not hidden from them.
func (a *alone) seen(r *ruling, p *alonePart, views map[history.Isolation]int) {
	type view struct {
		seen  map[int64]string
		final *history.Reader
		start int64 // of the log, when the reader was first heard of
	}
	all := map[string]*view{}
	start := int64(0)
	of := func(name string) *view {
		if all[name] == nil {
			all[name] = &view{seen: map[int64]string{}, start: start}
		}
		return all[name]
	}
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		if f := e.Fetch; f != nil && f.Code == 0 && p.about(f.Cluster, f.Topic, f.Partition) {
			start = max(start, f.LogStartOffset)
		}
		if o := e.Read; o != nil && p.about(o.Cluster, o.Topic, o.Partition) {
			v := of(o.Reader)
			if tag, twice := v.seen[o.Offset]; twice && tag == o.Tag {
				r.findings = append(r.findings, a.told(p.part, Duplicate, o.Offset, "each record once to reader "+o.Reader, "it came twice"))
			}
			v.seen[o.Offset] = o.Tag
		}
		if f := e.Reader; f != nil && f.Final && p.about(f.Cluster, f.Topic, f.Partition) {
			of(f.Reader).final = f
		}
	}
	stable := p.lead.stableOffset(end(p.lead.Replica))
	for name, v := range inOrder(all) {
		if v.final == nil {
			continue
		}
		committed := v.final.Isolation == history.ReadCommitted
		for i := range p.lead.entries {
			for rec := range p.lead.entries[i].records() {
				tag, saw := v.seen[rec.offset]
				shown := !committed || p.lead.entries[i].visible() && rec.offset < stable
				switch {
				case saw && !shown:
					r.findings = append(r.findings, a.finding(p.lead, AbortedRead, i, rec.offset, "only committed records to reader "+name, "it was shown"))
				case !saw && shown && rec.offset >= max(v.final.Start, v.start) && (rec.offset < v.final.Position || a.saw(a.edge.settled)):
					r.findings = append(r.findings, a.finding(p.lead, HiddenRead, i, rec.offset, fmt.Sprintf("reader %s (%s) to see it", name, v.final.Isolation), fmt.Sprintf("it was not shown; the reader stands at %d", v.final.Position)))
				case saw && rec.tagged() && tag != rec.tag().String():
					r.findings = append(r.findings, a.finding(p.lead, PhantomAck, i, rec.offset, "reader "+name+" to see what the log holds", fmt.Sprintf("it saw %q", tag)))
				}
			}
		}
		views[v.final.Isolation] += b2i(len(v.seen) > 0 && hasAborted(p.lead))
	}
}
