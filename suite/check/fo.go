package check

import (
	"bytes"
	"fmt"

	"watershed.example/suite/history"
)

// fan lists the pairs of views of mirrors with one source and two destinations
// that carry a topic in common, the one that was stopped first before the other.
func (t *trial) fan() [][2]*judge {
	var all [][2]*judge
	for i, a := range t.views {
		for _, b := range t.views[i+1:] {
			if a.edge.Source != b.edge.Source || a.edge.Destination == b.edge.Destination || !a.edge.shares(b.edge) {
				continue
			}
			if b.edge.stopRequested < a.edge.stopRequested {
				a, b = b, a
			}
			all = append(all, [2]*judge{a, b})
		}
	}
	return all
}

// fo1 holds that the mirrors of a fan-out stop independently: each leaves its
// own barrier, which names the source, and none of the other's.
func (t *trial) fo1(r *ruling) {
	pairs, barriers, atOnce := t.fan(), 0, 0
	for _, pair := range pairs {
		atOnce += b2i(pair[1].edge.stopRequested < pair[0].edge.stopped)
		for n, j := range pair {
			j.needStop(r)
			other := pair[1-n]
			for _, p := range j.parts() {
				if p.stopped == never {
					continue
				}
				for _, s := range p.dests {
					barriers += j.ownBarrier(r, p, s, other)
				}
			}
		}
	}
	r.need(len(pairs) > 0, "no two mirrors of one source were stopped")
	r.need(barriers > 0, "no log holds a barrier to look at (see BAR-1)")
	r.saw("%d pairs of stops, %d at once, each with barriers of its own: %d", len(pairs), atOnce, barriers)
}

// ownBarrier holds that a log has one barrier of its own stop that names the
// source, and not the one of the other destination.
func (j *judge) ownBarrier(r *ruling, p *part, s *side, other *judge) int {
	own := s.barriers()
	if len(own) == 0 {
		r.findings = append(r.findings, j.finding(s, MissingBarrier, -1, s.cut, "a MIRROR_PID_RESET of its own", "none"))
		return 0
	}
	q := other.part(p.topic, p.index)
	for n, i := range own {
		e := &s.entries[i]
		if n > 0 {
			r.findings = append(r.findings, j.at(s, ExtraBarrier, i, "one MIRROR_PID_RESET of its own", fmt.Sprintf("%d", len(own))))
		}
		if e.control != nil && e.bad == nil && e.control.SourceClusterID != p.src.ID {
			r.findings = append(r.findings, j.at(s, WrongSource, i, fmt.Sprintf("source cluster id %q, which is cluster %s", p.src.ID, p.Source), fmt.Sprintf("%q", e.control.SourceClusterID)))
		}
	}
	if q == nil || q.lead == nil || q.lead.barrier < 0 {
		return len(own)
	}
	// Two barriers of the same source and offset may well have the same bytes but
	// for the time; a second one that is the other's came from there.
	b := q.lead.entries[q.lead.barrier].Batch
	if p.source != nil {
		if k := p.source.at(b.BaseOffset); k >= 0 && bytes.Equal(p.source.entries[k].Raw, b.Raw) {
			return len(own) // it came by way of the source, which has mirrored that cluster since
		}
	}
	for i := range s.entries {
		if e := &s.entries[i]; e.IsBarrier() && i != s.barrier && bytes.Equal(e.Raw, b.Raw) {
			r.findings = append(r.findings, j.at(s, ExtraBarrier, i, fmt.Sprintf("nothing of the stop on cluster %s", q.Destination), e.describe()))
		}
	}
	return len(own)
}

// fo2 holds that the stop, or the cut, of one mirror leaves the other's
// mirroring, lag and producer state alone.
func (t *trial) fo2(r *ruling) {
	alone, records, producers := 0, 0, 0
	for _, pair := range t.fan() {
		w, running := anotherStop(pair[0], pair[1])
		if !running || pair[1].edge.stopRequested < pair[0].edge.stopped {
			continue // at once: neither goes on
		}
		alone++
		other := pair[1]
		other.needStop(r)
		what := fmt.Sprintf("mirror %s is another one", pair[0].edge.Mirror)
		n, samples := t.goesOn(r, other, w, what)
		records += n
		r.need(samples > 0, "mirror %s was never described while mirror %s was stopped", other.edge.Mirror, pair[0].edge.Mirror)
		r.need(n > 0, "mirror %s was not seen to mirror a record that was written after the stop of mirror %s had begun", other.edge.Mirror, pair[0].edge.Mirror)
		producers += t.keepsProducers(r, other, w)
	}
	r.need(alone > 0, "no mirror ran while another one of its source was stopped")
	r.need(producers > 0, "the producers of the mirror that ran on were not described before and during the other's stop")
	r.saw("%d mirrors ran on while another was stopped, with %d new records; %d producers stayed known", alone, records, producers)
}

// keepsProducers holds that a partition that mirrors goes on to know the
// producers that it knew before w. It returns how many.
func (t *trial) keepsProducers(r *ruling, other *judge, w window) (kept int) {
	before := map[string]map[int64]bool{}
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		d := e.Producers
		if d == nil || d.Code != 0 || d.Cluster != other.edge.Destination || e.Seq >= w.to || e.Seq <= other.edge.started {
			continue
		}
		p := other.part(d.Topic, d.Partition)
		if p == nil {
			continue
		}
		now := map[int64]bool{}
		for _, a := range d.Active {
			now[a.ProducerID] = true
		}
		if e.Seq < w.from {
			before[p.place()] = now
			continue
		}
		for id := range inOrder(before[p.place()]) {
			if now[id] {
				kept++
				continue
			}
			r.findings = append(r.findings, other.told(p, DisturbedMirror, -1, fmt.Sprintf("producer id %d still known: mirror %s runs on", id, other.edge.Mirror),
				fmt.Sprintf("node %d describes %d producers without it (event %d)", d.Node, len(d.Active), e.Seq)))
		}
	}
	return kept
}

// fi1 holds that the mirrors of a fan-in are independent: the stop of one leaves
// the other's state, read-only window and lag alone.
func (t *trial) fi1(r *ruling) {
	alone, records, refused, accepted := 0, 0, 0, 0
	for i, a := range t.views {
		for _, b := range t.views[i+1:] {
			if a.edge.Destination != b.edge.Destination || a.edge.Source == b.edge.Source || a.edge.shares(b.edge) {
				continue
			}
			first, other := a, b
			if b.edge.stopRequested < a.edge.stopRequested {
				first, other = b, a
			}
			w, running := anotherStop(first, other)
			if !running {
				continue
			}
			alone++
			other.needStop(r)
			n, samples := t.goesOn(r, other, w, fmt.Sprintf("mirror %s is another one", first.edge.Mirror))
			records += n
			r.need(samples > 0, "mirror %s was never described while mirror %s was stopped", other.edge.Mirror, first.edge.Mirror)
			r.need(n > 0, "mirror %s was not seen to mirror a record that was written after the stop of mirror %s had begun", other.edge.Mirror, first.edge.Mirror)
			refused += t.staysReadOnly(r, other, w)
			accepted += writesWithin(first, w)
		}
	}
	r.need(alone > 0, "no mirror ran while another one into its cluster was stopped")
	r.need(refused > 0, "no write to a topic that still mirrors was tried while the other mirror was stopped")
	r.need(accepted > 0, "no write to a stopped topic was accepted while the other mirror ran")
	r.saw("%d mirrors ran on while another was stopped, with %d new records; %d writes refused there, %d accepted at the stopped one", alone, records, refused, accepted)
}

// staysReadOnly holds that the partitions of a mirror that runs accept no write
// within w, and returns how many were refused.
func (t *trial) staysReadOnly(r *ruling, other *judge, w window) (refused int) {
	for _, p := range other.parts() {
		for _, o := range other.local(p) {
			if !w.holds(o.began) || o.ended >= w.to {
				continue
			}
			switch {
			case o.result.Outcome == history.OK:
				r.findings = append(r.findings, other.told(p, WriteInWindow, o.offset, fmt.Sprintf("the write of %s refused: mirror %s runs", who(o.sent.Tag()), other.edge.Mirror), fmt.Sprintf("acknowledged at offset %d", o.offset)))
			case o.result.Outcome == history.Refused && !retriable[o.result.Code]:
				refused++
			}
		}
	}
	return refused
}

// writesWithin counts the writes that a view's partitions accepted within w,
// after they were STOPPED.
func writesWithin(j *judge, w window) (accepted int) {
	for _, p := range j.parts() {
		for _, o := range j.local(p) {
			if o.began > p.stopped && w.holds(o.ended) && o.result.Outcome == history.OK {
				accepted++
			}
		}
	}
	return accepted
}
