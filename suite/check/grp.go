package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// grp1 holds that what consumer groups have committed on the source comes to the
// destination within the bounds of its log, that nothing above L is left after
// the stop, and that groups which resume there skip no record of a local client.
func (j *judge) grp1(r *ruling) {
	j.needStop(r)
	var g groupCount
	for _, p := range j.parts() {
		j.groupsOf(r, p, &g)
	}
	r.need(g.ahead > 0, "no mirrored group had committed more than the destination holds")
	if j.run.latest() {
		// L is the log's end there, to which all have been clamped.
		r.need(g.after > 0, "nobody asked after the stop for a group's offset")
	} else {
		r.need(g.above > 0, "no group had committed above L when the mirror was stopped")
		r.need(g.lowered > 0, "nobody asked after the stop for an offset that lay above L")
	}
	r.need(g.resumed > 0, "no group read a local record where it had committed")
	r.saw("%d mirrored offsets within the log, %d of them clamped; %d above L before the stop, none of %d after it; %d local records read by groups that resumed",
		g.mirrored, g.ahead, g.above, g.after, g.resumed)
}

type groupCount struct{ mirrored, ahead, above, after, lowered, resumed int }

// groupsOf judges the groups of one partition, in the order of the events.
func (j *judge) groupsOf(r *ruling, p *part, n *groupCount) {
	source := map[string]int64{} // what clients of the source have committed, by group
	before := map[string]int64{} // the last sample while it mirrored
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		g := e.Group
		if g == nil || g.Topic != p.topic || g.Partition != p.index {
			continue
		}
		switch {
		case e.Kind == history.KindGroupCommit && g.Cluster == p.Source && g.Result.Outcome == history.OK:
			source[g.Group] = g.Offset
		case g.Cluster != p.Destination:
		case e.Kind == history.KindGroupOffsets && g.When == history.WhenMirroring && e.Seq < p.stopRequested:
			before[g.Group] = g.Offset
			if theirs, ok := source[g.Group]; ok && g.Offset >= 0 {
				j.clamped(r, p, e, theirs, n)
			}
			if p.lead != nil && g.Offset > p.lead.cut {
				n.above++
			}
		case e.Kind == history.KindGroupOffsets && g.When == history.WhenAfterStop && e.Seq > p.stopped:
			j.lowered(r, p, e, before, n)
		case e.Kind == history.KindGroupResumes && e.Seq > p.stopped:
			j.resumed(r, p, e, n)
		}
	}
}

// clamped holds that a mirrored commit is max(log start, min(source commit, log
// end)). The sample is of a moment in which nothing was written.
func (j *judge) clamped(r *ruling, p *part, e *history.Event, theirs int64, n *groupCount) {
	g := e.Group
	want := max(g.LogStart, min(theirs, g.LogEnd))
	if g.Offset != want {
		r.findings = append(r.findings, j.told(p, UnclampedCommit, g.Offset,
			fmt.Sprintf("group %s at %d: it has committed %d on cluster %s, and the log here goes from %d to %d", g.Group, want, theirs, p.Source, g.LogStart, g.LogEnd),
			fmt.Sprintf("%d (event %d)", g.Offset, e.Seq)))
		return
	}
	n.mirrored++
	if theirs > g.LogEnd {
		n.ahead++
	}
}

// lowered holds that after the stop no commit is above L, and none was lowered
// below it.
func (j *judge) lowered(r *ruling, p *part, e *history.Event, before map[string]int64, n *groupCount) {
	g := e.Group
	was, sampled := before[g.Group]
	if p.lead == nil {
		return
	}
	l := p.lead.cut
	switch {
	case g.Offset > l:
		r.findings = append(r.findings, j.told(p, UnloweredCommit, l, fmt.Sprintf("group %s at %d at the most, L of the stop", g.Group, l),
			fmt.Sprintf("%d (event %d)", g.Offset, e.Seq)))
		return
	case sampled && g.Offset < min(was, l):
		r.findings = append(r.findings, j.told(p, UnloweredCommit, l, fmt.Sprintf("group %s, which was at %d, not below %d", g.Group, was, min(was, l)),
			fmt.Sprintf("%d (event %d)", g.Offset, e.Seq)))
		return
	}
	n.after++
	if sampled && was > l {
		n.lowered++
	}
}

// resumed holds that a reader which went on where its group had committed has
// read every record that clients of the destination were told to be there, up to
// where it came.
func (j *judge) resumed(r *ruling, p *part, e *history.Event, n *groupCount) {
	read := map[int64]bool{}
	came := int64(-1)
	for _, s := range j.streams {
		if s.Reader != e.Group.Reader || s.Topic != p.topic || s.Partition != p.index {
			continue
		}
		for i := range s.runs {
			for at := s.runs[i].offset; at < s.runs[i].end(); at++ {
				read[at] = true
			}
		}
	}
	for i := range j.ev.Events {
		if o := j.ev.Events[i].Reader; o != nil && o.Reader == e.Group.Reader && o.Topic == p.topic && o.Partition == p.index {
			came = max(came, o.Position)
		}
	}
	for _, o := range j.order {
		// What a transaction wrote is TXN-2's: it may have been aborted.
		if !o.at(p) || o.began < p.stopRequested || o.result.Outcome != history.OK || o.sent.Mode == history.Transactional ||
			o.offset < 0 || p.lead == nil || o.offset < p.lead.cut || !p.holds(o) {
			continue
		}
		for at := o.offset; at < min(came, o.offset+int64(o.sent.Count)); at++ {
			if read[at] {
				n.resumed++
				continue
			}
			r.findings = append(r.findings, j.told(p, SkippedRecord, at,
				fmt.Sprintf("the record of %s read by group %s, which resumed at %d", who(o.sent.Tag()), e.Group.Group, e.Group.Offset),
				fmt.Sprintf("not read, up to offset %d", came)))
		}
	}
}

// holds says whether the write's record is where it was acknowledged; where it is
// not, that is IDEM-1's or IDEM-4's to tell.
func (p *part) holds(o *operation) bool {
	for _, at := range p.lead.find(o.sent.stem, o.sent.index) {
		if at.offset == o.offset {
			return true
		}
	}
	return false
}
