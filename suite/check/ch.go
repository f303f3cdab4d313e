package check

import (
	"bytes"
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// ch1 holds that a chain's bytes and ids are the same on every hop: what a
// client wrote on one cluster lies in each log further down as it does there.
func (t *trial) ch1(r *ruling) {
	origin := map[string]*side{} // by cluster and partition
	sideOf := func(cluster string, p *part) *side {
		key := cluster + "/" + p.place()
		if _, known := origin[key]; !known {
			origin[key] = t.final(cluster, p.topic, p.index)
		}
		return origin[key]
	}
	far := 0
	for _, j := range t.views {
		if !t.inChain(j) {
			continue
		}
		for _, p := range j.parts() {
			if p.source == nil {
				continue
			}
			for _, s := range p.dests {
				for i := range s.below(s.cut) {
					e := &s.entries[i]
					written := e.firstRun()
					if written == nil {
						continue
					}
					from := written.stem.Cluster
					if from == p.Destination {
						continue
					}
					first := sideOf(from, p)
					if first == nil {
						continue
					}
					if !j.asWritten(r, s, i, first, from) || from == p.Source || e.ProducerID < 0 {
						continue
					}
					far++
					if k := p.source.at(e.BaseOffset); k >= 0 && p.source.entries[k].ProducerID == -(e.ProducerID+2) {
						r.findings = append(r.findings, j.at(s, RestoredID, i, fmt.Sprintf("producer id %d on every hop", e.ProducerID),
							fmt.Sprintf("it is %d on cluster %s and %d again here", p.source.entries[k].ProducerID, p.Source, e.ProducerID)))
					}
				}
			}
		}
	}
	r.need(far > 0, "no batch with a producer id came over two hops")
	r.saw("%d batches that came over two hops or more are as they were written", far)
}

// inChain says whether the view's mirror has another one before or behind it that
// goes on in the same direction.
func (t *trial) inChain(j *judge) bool {
	return slices.ContainsFunc(t.views, func(o *judge) bool {
		before := o.edge.Destination == j.edge.Source && o.edge.Source != j.edge.Destination
		behind := o.edge.Source == j.edge.Destination && o.edge.Destination != j.edge.Source
		return (before || behind) && o.edge.shares(j.edge)
	})
}

// asWritten compares a batch with the one that the cluster where it was written
// holds. A batch that lies there under another producer id was changed on the
// way, whatever else is equal.
func (j *judge) asWritten(r *ruling, s *side, i int, first *side, from string) bool {
	e := &s.entries[i]
	written := e.firstRun()
	k := first.at(e.BaseOffset)
	if k < 0 {
		if at := first.find(written.stem, written.index); len(at) > 0 {
			k = at[0].entry
		}
	}
	if k < 0 {
		return false // it was cut there since
	}
	w := &first.entries[k]
	if there := w.firstRun(); there == nil || there.stem != written.stem || there.index != written.index {
		return false
	}
	if bytes.Equal(e.Raw, w.Raw) || j.run.Options.AllowLeaderEpochRewrite && sameBatch(e.Batch, w.Batch, true) {
		return true
	}
	anomaly := AlteredBatch
	if e.ProducerID < -1 {
		anomaly = NegativeID
	}
	r.findings = append(r.findings, j.at(s, anomaly, i, fmt.Sprintf("the batch as it was written on cluster %s: %s", from, w.describe()), e.describe()))
	return false
}

// ch2 holds that a cluster within a chain which is promoted writes its barrier,
// and that its downstream goes on mirroring it.
func (t *trial) ch2(r *ruling) {
	hops, inherited, records := t.hops(), 0, 0
	for _, h := range hops {
		h.up.needStop(r)
		for _, p := range h.up.parts() {
			q := h.down.part(p.topic, p.index)
			if p.lead == nil || q == nil || q.lead == nil || p.stopped == never {
				continue
			}
			if p.lead.barrier < 0 {
				r.findings = append(r.findings, h.up.finding(p.lead, MissingBarrier, -1, p.lead.cut, fmt.Sprintf("a barrier of cluster %s, which was promoted within the chain", p.Destination), "none"))
				continue
			}
			b := p.lead.entries[p.lead.barrier].Batch
			for _, s := range q.dests {
				k := s.at(b.BaseOffset)
				if k >= 0 && bytes.Equal(s.entries[k].Raw, b.Raw) {
					inherited++
					continue
				}
				r.findings = append(r.findings, h.down.finding(s, MissingBarrier, k, b.BaseOffset, fmt.Sprintf("the barrier of cluster %s, byte for byte, which its downstream mirrors", p.Destination), "something else, or nothing"))
			}
			records += h.passedOn(p, q)
		}
		h.runsOn(t, r)
	}
	r.need(len(hops) > 0, "no cluster was promoted that another one mirrored")
	r.need(records > 0, "no record that a promoted cluster took came down the chain")
	r.saw("%d promotions within a chain: %d barriers and %d new records came down", len(hops), inherited, records)
}

// passedOn counts the records that clients wrote to the promoted cluster and
// that its downstream holds where they were acknowledged.
func (h hop) passedOn(p, q *part) (records int) {
	for _, o := range h.down.local(p) {
		if o.began > p.stopped && o.result.Outcome == history.OK && o.offset >= 0 {
			for _, at := range q.lead.find(o.sent.stem, o.sent.index) {
				if at.offset == o.offset && q.lead.entries[at.entry].origin == fromSource {
					records++
				}
			}
		}
	}
	return records
}

// runsOn holds that when the downstream's own stop is requested each of its
// partitions mirrors, whatever it did when its upstream was promoted.
func (h hop) runsOn(t *trial, r *ruling) {
	last := map[string]*history.Event{}
	t.during(window{h.up.edge.stopRequested, h.down.edge.stopRequested}, func(e *history.Event) {
		if m := e.Mirror; m != nil && m.Mirror == h.down.edge.Mirror && m.Cluster == h.down.edge.Destination {
			last[history.Place(m.Topic, m.Partition)] = e
		}
	})
	for _, q := range h.down.parts() {
		e := last[q.place()]
		if e == nil || e.Mirror.State == "MIRRORING" {
			continue
		}
		r.findings = append(r.findings, h.down.told(q, DisturbedMirror, -1, fmt.Sprintf("mirror %s of %s to go on after cluster %s was promoted", h.down.edge.Mirror, q.place(), h.up.edge.Destination),
			fmt.Sprintf("%s%s (event %d)", e.Mirror.State, because(e.Mirror.Error), e.Seq)))
	}
	r.need(len(last) > 0, "mirror %s was never described after cluster %s was promoted", h.down.edge.Mirror, h.up.edge.Destination)
}

// ch3 holds that a downstream which already held records that its upstream cut
// realigns, on all its replicas.
func (t *trial) ch3(r *ruling) {
	if t.run.latest() {
		r.na = fmt.Sprintf("a stop in profile %s cuts nothing, so no downstream holds what its upstream has cut", t.run.Profile)
		return
	}
	hops, held := t.hops(), 0
	for _, h := range hops {
		for _, p := range h.up.parts() {
			q := h.down.part(p.topic, p.index)
			if p.lead == nil || q == nil || p.stopped == never {
				continue
			}
			if t.heldAbove(h.down, q, p) {
				held++
			}
			for _, s := range q.dests {
				h.realigned(r, p, q, s)
			}
		}
	}
	r.need(len(hops) > 0, "no cluster was promoted that another one mirrored")
	r.need(held > 0, "no downstream held a record that its upstream cut")
	r.saw("%d partitions of downstreams held records that their upstream cut, and gave them up", held)
}

// heldAbove says whether the downstream held something at or above L when its
// upstream stopped there: its log end was seen above L before the stop was
// requested. Later the barrier, which lies at L, takes it there too.
func (t *trial) heldAbove(down *judge, q, p *part) bool {
	held := false
	t.during(window{down.edge.started, p.stopRequested}, func(e *history.Event) {
		if m := e.Mirror; m != nil && m.Mirror == down.edge.Mirror && m.Cluster == q.Destination && m.Topic == q.topic && m.Partition == q.index {
			held = held || m.DestinationOffset > p.lead.cut
		}
	})
	return held
}

// realigned holds that a replica of the downstream has nothing above L but what
// its upstream holds there.
func (h hop) realigned(r *ruling, p, q *part, s *side) {
	if q.source == nil {
		return
	}
	for i := range s.entries {
		e := &s.entries[i]
		written := e.firstRun()
		if e.BaseOffset < p.lead.cut || written == nil {
			continue
		}
		if e.origin != fromSource && written.stem.Cluster != s.Cluster && len(q.source.find(written.stem, written.index)) == 0 {
			r.findings = append(r.findings, h.down.at(s, UncutSuffix, i,
				fmt.Sprintf("nothing that cluster %s cut at %d", p.Destination, p.lead.cut), e.describe()))
		}
	}
}

// ch4 holds that longer chains, and two failovers in one, follow the same
// rules, and that a loop is refused or harmless.
func (t *trial) ch4(r *ruling) {
	clusters, barriers := map[string]bool{}, 0
	for _, h := range t.hops() {
		for _, name := range []string{h.up.edge.Source, h.up.edge.Destination, h.down.edge.Destination} {
			clusters[name] = true
		}
		for _, q := range h.down.parts() {
			if q.lead == nil || q.stopped == never {
				continue
			}
			for _, s := range q.dests {
				barriers += h.down.holdsLine(r, s, t.expectedBarriers(h.down, q), fmt.Sprintf("at the end of episode %d", h.down.number))
			}
		}
	}
	r.need(len(clusters) > 3, "the longest chain has %d clusters", len(clusters))
	r.need(len(t.hops()) > 1, "%d clusters within a chain were promoted", len(t.hops()))
	loops := t.loops(r)
	r.need(loops > 0, "no mirror was to close a loop")
	r.saw("a chain of %d clusters, %d barriers in line; %d loops refused or harmless", len(clusters), barriers, loops)
}

// loops judges the mirrors that were to close a loop.
func (t *trial) loops(r *ruling) (judged int) {
	for _, e := range t.probes(history.ProbeLoop) {
		p := e.Probe
		switch {
		case p.Result.Outcome == history.Unknown:
			continue
		case p.Result.Outcome == history.Refused, p.After == "FAILED":
			if !t.turnedDown(r, e, fmt.Sprintf("mirror %s, which closes a loop, refused", p.Mirror), "loop") {
				continue
			}
		}
		judged += t.harmless(r, e)
	}
	return judged
}

// harmless judges what became of the loop's topic: no acknowledged record is
// lost, none is there twice, and the logs do not grow by themselves. It returns
// 1 where that was looked at.
func (t *trial) harmless(r *ruling, loop *history.Event) int {
	type log struct {
		seen map[record]int // by tag
		end  int64
	}
	logs := map[string]*log{}
	of := func(cluster string) *log {
		if logs[cluster] == nil {
			logs[cluster] = &log{seen: map[record]int{}, end: -1}
		}
		return logs[cluster]
	}
	var sent []*operation
	for _, o := range t.ledger.writes {
		if o.ended != never && o.sent.Topic == loop.Probe.Topic && o.result.Outcome == history.OK {
			sent = append(sent, o)
		}
	}
	for _, s := range t.ledger.streams {
		for i := range s.runs {
			if seen := &s.runs[i]; s.Topic == loop.Probe.Topic && seen.first > loop.Seq {
				l := of(s.Cluster)
				for k := range int64(seen.n) {
					l.seen[record{index: seen.index + k, stem: seen.stem}]++
				}
			}
		}
	}
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		if e.Offsets != nil && e.Offsets.Topic == loop.Probe.Topic && e.Seq > loop.Seq {
			l := of(e.Offsets.Cluster)
			if l.end >= 0 && e.Offsets.HighWatermark > l.end {
				r.findings = append(r.findings, t.about(loop, Duplicate, fmt.Sprintf("the log on cluster %s to stay as it is: nobody writes", e.Offsets.Cluster),
					fmt.Sprintf("it grew from %d to %d", l.end, e.Offsets.HighWatermark)))
			}
			l.end = max(l.end, e.Offsets.HighWatermark)
		}
	}
	for cluster, l := range inOrder(logs) {
		for _, o := range sent {
			for k := range int64(o.sent.Count) {
				tag := o.sent.Tag().Add(k)
				if n := l.seen[record{index: tag.Index, stem: o.sent.stem}]; n == 0 {
					r.findings = append(r.findings, t.about(loop, LostWrite, fmt.Sprintf("the record of %s on cluster %s", who(tag), cluster), "it is gone"))
				} else if n > 1 {
					r.findings = append(r.findings, t.about(loop, Duplicate, fmt.Sprintf("the record of %s once on cluster %s", who(tag), cluster), fmt.Sprintf("%d times", n)))
				}
			}
		}
	}
	return b2i(len(sent) > 0 && len(logs) > 0)
}
