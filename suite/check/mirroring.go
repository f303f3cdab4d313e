package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// sampled is one description of producers while the partition mirrored.
type sampled struct {
	p     *part
	event *history.Event
	from  int64 // the log reached at least so far
	// source is set where it was the source that was asked.
	source bool
	diffs  []difference
	end    int64 // the end of the log at which they are least
}

// mirroringSamples compares what source and destination showed of producers
// while the partition mirrored with the source's log.
func (j *judge) mirroringSamples() []sampled {
	var all []sampled
	for _, p := range j.parts() {
		if p.source == nil {
			continue
		}
		since := j.steady(p)
		for _, cluster := range []string{p.Source, p.Destination} {
			own := j.trial.ownBarriers(cluster, p.topic, p.index)
			from := int64(0)
			for e := range j.withAnswers(cluster, p.topic, p.index) {
				if e.Seq < since || e.Seq > p.stopRequested {
					continue
				}
				from = max(from, p.endShown(e, cluster))
				d := e.Producers
				if d == nil || d.Code != 0 || d.When != history.WhenMirroring || !p.of(cluster, d.Cluster, d.Topic, d.Partition) || from > end(p.source.Replica) {
					continue
				}
				s := sampled{p: p, event: e, from: from, source: cluster == p.Source}
				s.diffs, s.end = p.source.nearest(own, from, d.Active)
				all = append(all, s)
			}
		}
	}
	return all
}

// expected tells what a description should have shown.
func (s *sampled) expected() string {
	if s.p.latest {
		return fmt.Sprintf("the producers that a replay of the source's log up to offset %d makes known, in which every barrier expires those before it", s.end)
	}
	return fmt.Sprintf("the producers that a replay of the source's log up to offset %d makes known, in which only barriers of cluster %s's own expire any", s.end, s.p.Destination)
}

// got tells what it showed.
func (s *sampled) got(diffs []difference) string {
	return fmt.Sprintf("node %d of cluster %s (event %d): %s", s.event.Producers.Node, s.event.Producers.Cluster, s.event.Seq, tell(diffs))
}

// where is the batch that a difference is about.
func (s *sampled) where(diffs []difference) int64 {
	for _, d := range diffs {
		if d.want != nil {
			return s.p.source.entries[d.want.entry].BaseOffset
		}
	}
	return -1
}

// psm4 holds that while the partition mirrors, last stable offset, open
// transactions and aborted lists are those of the source's log at that offset,
// and so are the producers, of which only the destination's own barriers expire
// any, or in profile kip1279-latest all.
func (j *judge) psm4(r *ruling) {
	open, described, asked := 0, 0, 0
	for _, s := range j.mirroringSamples() {
		if s.source {
			// The source shows whether the judge's replay is a broker's.
			r.need(len(s.diffs) == 0, "the source itself does not show what its log says: %s", s.got(s.diffs))
			asked++
			continue
		}
		described++
		for _, d := range s.event.Producers.Active {
			if d.CurrentTxnStart >= 0 {
				open++
			}
		}
		if len(s.diffs) > 0 {
			r.findings = append(r.findings, j.told(s.p, WrongState, s.where(s.diffs), s.expected(), s.got(s.diffs)))
		}
	}
	stable, lists := 0, 0
	for _, p := range j.parts() {
		if p.source != nil {
			n, m := j.mirroredEnds(r, p)
			stable, lists = stable+n, lists+m
		}
	}
	r.need(described > 0, "the destination's producers were never described while it mirrored")
	r.need(asked > 0, "the source's producers were never described while it was mirrored")
	r.need(open > 0, "no description of the destination showed an open transaction")
	r.need(stable > 0, "the last stable offset was never sampled on the destination while it mirrored")
	r.need(lists > 0, "no read_committed fetch asked the destination for an aborted transaction while it mirrored")
	r.saw("%d descriptions, %d last stable offsets and %d aborted lists of the destination equal the source's log", described, stable, lists)
}

// mirroredEnds holds what the destination showed of last stable offset and
// aborted lists while it mirrored to the source's log.
func (j *judge) mirroredEnds(r *ruling, p *part) (stable, lists int) {
	since, from := j.steady(p), int64(0)
	torn := tearsOf(j.ev.Events, p.source, func(e *history.Event) (hw, lso int64, ok bool) {
		hw, lso, ok = p.ends(e)
		return hw, lso, ok && e.Fetch != nil && e.Seq >= since && e.Seq <= p.stopRequested && hw <= end(p.source.Replica)
	})
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Seq < since || e.Seq > p.stopRequested {
			continue
		}
		hw, lso, ok := p.ends(e)
		if !ok || hw > end(p.source.Replica) {
			continue
		}
		atomic := e.Fetch != nil || e.Offsets != nil && e.Offsets.Atomic
		if want, right := p.source.couldBeStable(from, hw, lso, atomic); !right && !torn.excuse(i) {
			r.findings = append(r.findings, j.told(p, WrongLSO, lso, fmt.Sprintf("last stable offset %d at high watermark %d, as the source's log says", want, hw),
				fmt.Sprintf("%d (event %d)", lso, e.Seq)))
		}
		stable++
		from = max(from, hw)
		if f := e.Fetch; f != nil {
			if n := j.abortedOf(r, p, p.source, f); n > 0 {
				lists++
			}
		}
	}
	return stable, lists
}

// couldBeStable says whether lso is the last stable offset at a high watermark,
// or was at one between from and it, where the two were not asked for at once.
func (s *side) couldBeStable(from, hw, lso int64, atomic bool) (want int64, right bool) {
	want = s.stableOffset(hw)
	if want == lso {
		return want, true
	}
	for i := range s.entries {
		if next := s.entries[i].NextOffset(); !atomic && next >= from && next <= hw && s.stableOffset(next) == lso {
			return want, true
		}
	}
	return want, false
}

// psm5 holds that a barrier which came in with the source's records expires
// nothing while the partition mirrors.
func (j *judge) psm5(r *ruling) {
	if j.run.Profile != ProfileV42 {
		r.na = fmt.Sprintf("profile %s lets an inherited barrier expire", j.run.Profile)
		return
	}
	kept := 0
	for _, s := range j.mirroringSamples() {
		own := j.trial.ownBarriers(s.event.Producers.Cluster, s.p.topic, s.p.index)
		last := -1 // the last inherited barrier in the log as it was
		for i := range s.p.source.entries {
			if e := &s.p.source.entries[i]; e.IsBarrier() && e.BaseOffset < s.from && !own(e) {
				last = i
			}
		}
		if s.source || last < 0 {
			continue
		}
		var gone []difference
		for _, d := range s.diffs {
			if d.want != nil && d.shown == nil && d.want.entry < last {
				gone = append(gone, d)
			}
		}
		if len(gone) > 0 {
			e := &s.p.source.entries[last]
			r.findings = append(r.findings, j.told(s.p, InheritedExpiry, e.BaseOffset,
				fmt.Sprintf("the producers from before %s still shown: that barrier came in with the source's records, and the partition mirrors", e.describe()), s.got(gone)))
		}
		s.p.source.states(own, func(end int64, now map[int64]producer) bool {
			for _, known := range now {
				if end == s.end && known.entry < last {
					kept++
				}
			}
			return end < s.end
		})
	}
	r.need(kept > 0, "no description while mirroring was to show a producer from before an inherited barrier")
	r.saw("%d producers from before an inherited barrier were to be shown", kept)
}

// psm9 holds that state follows the log when a restarted mirror cuts the
// destination's own barrier away: what was before it is back.
func (j *judge) psm9(r *ruling) {
	back, emptied := 0, 0
	for _, s := range j.mirroringSamples() {
		at, was := j.cutBarrier(s.p)
		if s.source || at < 0 {
			continue
		}
		n := 0
		s.p.source.states(j.trial.ownBarriers(s.p.Destination, s.p.topic, s.p.index), func(end int64, now map[int64]producer) bool {
			for _, known := range now {
				if end == s.end && s.p.source.entries[known.entry].BaseOffset < at {
					n++
				}
			}
			return end < s.end
		})
		back += n
		if n > 0 && len(was.producersSince(was.boundary())) == 0 {
			emptied++
		}
		var gone []difference
		for _, d := range s.diffs {
			if d.want != nil && d.shown == nil && s.p.source.entries[d.want.entry].BaseOffset < at || d.want == nil {
				gone = append(gone, d)
			}
		}
		if len(gone) > 0 {
			r.findings = append(r.findings, j.told(s.p, WrongState, s.where(gone),
				fmt.Sprintf("the producers from before offset %d shown again, and none that came after it: the barrier of the stop before, which lay there, was cut away", at), s.got(gone)))
		}
	}
	r.need(back > 0, "no description while mirroring was to show a producer from before a barrier that was cut away")
	r.need(emptied > 0, "no partition's state was empty because of the barrier that was cut away")
	r.saw("%d producers from before a barrier that was cut away were to be shown; the barrier had emptied the state in %d partitions", back, emptied)
}

// cutBarrier is the offset of the destination's barrier of an earlier stop that
// this mirror's start cut away, with the log that held it; -1 where there is none.
func (j *judge) cutBarrier(p *part) (at int64, was *side) {
	at = -1
	for _, other := range j.trial.views {
		if other == j {
			break
		}
		q := other.part(p.topic, p.index)
		if q == nil || q.lead == nil || q.lead.barrier < 0 || other.edge.Destination != j.edge.Destination {
			continue
		}
		b := &q.lead.entries[q.lead.barrier]
		if k := p.source.at(b.BaseOffset); k < 0 || !sameBatch(p.source.entries[k].Batch, b.Batch, false) {
			at, was = b.BaseOffset, q.lead
		}
	}
	return at, was
}
