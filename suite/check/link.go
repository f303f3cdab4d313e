package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"watershed.example/suite/history"
)

// late calls f for every batch of the source that lies after an own barrier,
// with whether the source's client sent it only after the fetchers were
// removed, so that it can't have been in flight by then.
func (j *judge) late(f func(p *part, s *side, i int, fresh bool)) {
	for _, p := range j.parts() {
		removed := min(j.gateSeen(p, "before:fetchers-removed"), j.gateSeen(p, "after:fetchers-removed"))
		if removed == never {
			removed = p.stopRequested
		}
		for _, s := range p.dests {
			if s.barrier < 0 {
				continue
			}
			for i := s.barrier + 1; i < len(s.entries); i++ {
				e := &s.entries[i]
				if !e.origin.mirrored() {
					continue
				}
				fresh := false
				if written := e.firstRun(); written != nil {
					fresh = slices.ContainsFunc(j.order, func(o *operation) bool {
						return o.began > removed && o.sent.stem == written.stem && o.sent.index == written.index
					})
				}
				f(p, s, i, fresh)
			}
		}
	}
}

// onMirror says whether the fault struck the path from the mirrored source.
func (j *judge) onMirror(f *history.Fault) bool {
	e := j.edge
	if strings.Contains(f.Link, e.Source+"->"+e.Destination) || e.Mirror != "" && strings.Contains(f.Link, e.Mirror) {
		return true
	}
	return strings.Contains(f.Link, "mirror") && !strings.Contains(f.Link, "->")
}

// strike is one fault with its window.
type strike struct {
	history.Fault
	start, stop int64
	stopAt      int64
}

// strikes puts the events of each fault together.
func (j *judge) strikes() []*strike {
	byID := map[string]*strike{}
	var all []*strike
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Fault == nil {
			continue
		}
		s := byID[e.Fault.ID]
		if s == nil {
			s = &strike{Fault: *e.Fault, start: e.Seq, stop: never}
			byID[e.Fault.ID] = s
			all = append(all, s)
		}
		s.HeldBefore = max(s.HeldBefore, e.Fault.HeldBefore)
		s.BytesHeld = max(s.BytesHeld, e.Fault.BytesHeld)
		s.BytesDropped = max(s.BytesDropped, e.Fault.BytesDropped)
		s.BytesReleased = max(s.BytesReleased, e.Fault.BytesReleased)
		s.BytesDelayed = max(s.BytesDelayed, e.Fault.BytesDelayed)
		s.ConnectionsRefused = max(s.ConnectionsRefused, e.Fault.ConnectionsRefused)
		s.ConnectionsReset = max(s.ConnectionsReset, e.Fault.ConnectionsReset)
		s.ProcessEvents = max(s.ProcessEvents, e.Fault.ProcessEvents)
		s.Withheld = max(s.Withheld, e.Fault.Withheld)
		s.Effects = max(s.Effects, e.Fault.Effects)
		if e.Kind == history.KindFaultStop {
			s.stop, s.stopAt = e.Seq, e.At
		}
	}
	return all
}

// link1 holds that a fetch response in flight when the fetchers were removed is
// not appended after the barrier.
func (j *judge) link1(r *ruling) {
	j.needStop(r)
	j.late(func(p *part, s *side, i int, fresh bool) {
		if !fresh {
			r.findings = append(r.findings, j.at(s, LateBytes, i, fmt.Sprintf("nothing of cluster %s after the barrier at %d: the fetchers were removed", p.Source, s.barrierOffset()), s.entries[i].describe()))
		}
	})
	inFlight := 0
	for _, f := range j.strikes() {
		if j.onMirror(&f.Fault) && f.HeldBefore > 0 && f.BytesReleased+f.BytesDropped > 0 {
			inFlight++
		}
	}
	r.need(inFlight > 0, "no fetch response was held from before the fetchers were removed, and then released or dropped")
	r.saw("%d strikes held a response in flight", inFlight)
}

// link2 holds that stopping works while the source can't be reached, in bounded time.
func (j *judge) link2(r *ruling) {
	e, cut := j.edge, 0
	if e.stopRequested == never {
		r.need(false, "no stop was requested")
		return
	}
	done, doneAt := e.allStopped(j)
	gone := j.sourceGone(e, done)
	bound := j.run.Options.StopBound()
	took := time.Duration(doneAt-e.stopAt) - j.heldAtGates(e, done)
	if gone {
		cut++
	}
	if gone && took > bound {
		got := fmt.Sprintf("STOPPED after %s", took.Round(time.Millisecond))
		if done == never {
			got = fmt.Sprintf("not STOPPED after %s", took.Round(time.Millisecond))
		}
		for _, p := range e.parts {
			if p.stopped == done || p.stopped == never {
				r.findings = append(r.findings, j.told(p, StuckStop, -1, fmt.Sprintf("STOPPED within %s while cluster %s can't be reached", bound, e.Source), got))
			}
		}
	}
	for i := range j.ev.Events {
		ev := &j.ev.Events[i]
		m := ev.MirrorRPC
		if gone && m != nil && m.API == stopAPI && m.Mirror == e.Mirror && m.Result != nil && m.Result.Outcome == history.Refused && !j.askedAgain(m, ev.Seq) && ev.Seq <= done {
			r.findings = append(r.findings, j.told(e.parts[0], RefusedStop, -1, fmt.Sprintf("the stop of mirror %q accepted while cluster %s can't be reached", e.Mirror, e.Source), answer(*m.Result)))
		}
	}
	r.need(done != never, "the stop of mirror %q did not end", e.Mirror)
	r.need(cut > 0, "the source could be reached when the mirror was stopped")
	r.saw("%d stops without a source", cut)
}

// notController is NOT_CONTROLLER: the quorum has no leader just now.
const notController = 41

// askedAgain says whether a stop was refused since leaders changed: by a code that a
// client asks again after; and where the quorum had none, only if it was accepted later.
func (j *judge) askedAgain(refused *history.MirrorRPC, at int64) bool {
	if refused.Result.Code != notController {
		return retriable[refused.Result.Code]
	}
	return slices.ContainsFunc(j.ev.Events, func(e history.Event) bool {
		m := e.MirrorRPC
		return m != nil && e.Seq > at && m.API == stopAPI && m.Mirror == refused.Mirror && m.Result != nil && m.Result.Outcome == history.OK
	})
}

// allStopped is when the last partition was seen STOPPED; never, and the time of
// the history's last event, when one was not.
func (e *edge) allStopped(j *judge) (seq, at int64) {
	for _, p := range e.parts {
		seq = max(seq, p.stopped)
	}
	if i, found := slices.BinarySearchFunc(j.ev.Events, seq, func(e history.Event, seq int64) int { return cmp.Compare(e.Seq, seq) }); found {
		return seq, j.ev.Events[i].At
	}
	return never, j.end.at
}

// sourceGone says whether the source was cut off, killed or paused at some
// moment before the stop ended, and still was when it ended.
func (j *judge) sourceGone(e *edge, done int64) bool {
	for _, f := range j.strikes() {
		if j.onMirror(&f.Fault) && f.start < done && f.stop > done && f.BytesHeld+f.BytesDropped+f.ConnectionsRefused+f.HeldBefore+f.Withheld > 0 {
			return true
		}
	}
	gone := map[int32]bool{}
	for i := range j.ev.Events {
		ev := &j.ev.Events[i]
		if ev.Seq > done {
			break
		}
		if n := ev.Node; n != nil && n.Cluster == e.Source {
			gone[n.Node] = isAway(n.What)
		}
	}
	for _, node := range e.src.Nodes {
		if !gone[node] {
			return false
		}
	}
	return len(e.src.Nodes) > 0
}

// heldAtGates is the time for which the suite itself held the destination at
// gates between the stop's request and its end.
func (j *judge) heldAtGates(e *edge, done int64) time.Duration {
	var held time.Duration
	waiting, since := map[string]bool{}, int64(0)
	for i := range j.ev.Events {
		ev := &j.ev.Events[i]
		if ev.Gate == nil || ev.Gate.Cluster != e.Destination || ev.Seq < e.stopRequested || ev.Seq > done {
			continue
		}
		key := fmt.Sprint(ev.Gate.Node, ev.Gate.Point)
		switch ev.Gate.What {
		case history.GateHeld:
			if len(waiting) == 0 {
				since = ev.At
			}
			waiting[key] = true
		case history.GateReleased:
			if waiting[key] {
				delete(waiting, key)
				if len(waiting) == 0 {
					held += time.Duration(ev.At - since)
				}
			}
		}
	}
	return held
}

// link3 holds that nothing more comes from the source when a partition during
// STOPPING heals.
func (j *judge) link3(r *ruling) {
	j.needStop(r)
	j.late(func(p *part, s *side, i int, fresh bool) {
		if fresh {
			r.findings = append(r.findings, j.at(s, LateBytes, i, fmt.Sprintf("nothing more of cluster %s after the link healed", p.Source), s.entries[i].describe()+": written at the source after the fetchers were removed"))
		}
	})
	healed := 0
	for _, f := range j.strikes() {
		e := j.edge
		if j.onMirror(&f.Fault) && f.Bit() && f.start < e.lastStopped() && f.stop != never && e.settled != never && f.stop < e.settled {
			healed++
		}
	}
	more := 0
	for _, p := range j.parts() {
		if p.source != nil && p.lead != nil && p.source.cut > p.lead.cut {
			more++
		}
	}
	r.need(healed > 0, "no fault of the mirror's link that bit was healed before the run settled")
	r.need(more > 0, "the source had nothing more to give")
	r.saw("%d strikes healed, %d partitions had more at the source", healed, more)
}

func (e *edge) lastStopped() int64 {
	var last int64
	for _, p := range e.parts {
		last = max(last, p.stopped)
	}
	return last
}
