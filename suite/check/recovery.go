package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// comeback is one description of producers by a broker that had come back.
type comeback struct {
	p     *part
	event *history.Event
	// started is when the broker was started, went when it had ended before;
	// killed says that it was not stopped cleanly.
	started, went int64
	killed        bool
	// scanned says that neither a clean close nor a recovery lies between the
	// barrier and the end, or that their snapshots were lost, so that recovery had
	// to read the log across the barrier.
	scanned bool
	from    int64 // the log reached at least so far when it was asked
}

// comebacks lists the descriptions after the stop by brokers that had started
// again since its request.
func (j *judge) comebacks() []comeback {
	var all []comeback
	for _, p := range j.parts() {
		if p.lead == nil || p.stopped == never {
			continue
		}
		from := p.lead.localFrom()
		last := map[int32]comeback{}
		clean := map[int32]bool{} // closed cleanly since the barrier
		for e := range j.withAnswers(p.Destination, p.topic, p.index) {
			if e.Seq < p.stopRequested {
				continue
			}
			if e.Seq > p.stopped {
				from = max(from, p.endShown(e, p.Destination))
			}
			if n := e.Node; n != nil && n.Cluster == p.Destination {
				c := last[n.Node]
				switch n.What {
				case history.NodeKilled, history.NodeStopped:
					c = comeback{p: p, went: e.Seq, killed: n.What == history.NodeKilled, scanned: n.What == history.NodeKilled && !clean[n.Node]}
					clean[n.Node] = clean[n.Node] || n.What == history.NodeStopped && e.Seq > p.stopped
				case history.NodeLostSnapshots:
					c.scanned, clean[n.Node] = c.went > 0, false
				case history.NodeStarted:
					c.p, c.started = p, e.Seq
					// Recovery writes a snapshot of what it has read.
					clean[n.Node] = clean[n.Node] || c.went > j.barrierThere(p)
				}
				last[n.Node] = c
			}
			d := e.Producers
			if d == nil || d.Code != 0 || e.Seq < p.stopped || d.When == history.WhenMirroring || !p.of(p.Destination, d.Cluster, d.Topic, d.Partition) {
				continue
			}
			if c := last[d.Node]; c.started > 0 {
				c.event, c.from = e, from
				all = append(all, c)
			}
		}
	}
	return all
}

// barrierThere is when the barrier was seen to be in the partition's log.
func (j *judge) barrierThere(p *part) int64 {
	return min(j.gateSeen(p, "after:barrier-appended"), j.gateSeen(p, "before:barrier-committed"), p.stopped)
}

// psm3 holds that no producer from before the barrier is known after recovery.
func (j *judge) psm3(r *ruling) {
	j.needStop(r)
	kills, stops := 0, 0
	for _, c := range j.comebacks() {
		// Recovery has to meet the barrier: the broker ended when it was there.
		if c.went > j.barrierThere(c.p) && len(c.p.lead.producersBelow(c.p.lead.boundary())) > 0 {
			if c.killed {
				kills++
			} else {
				stops++
			}
		}
		j.resurrected(r, c.p, c.event, ", which had come back")
	}
	r.need(kills+stops > 0, "no broker that ended with the barrier in its log, and came back, described producers of a partition with mirrored ones")
	r.saw("%d descriptions after a kill and %d after a clean stop", kills, stops)
}

// psm6 holds that what came after the barrier is not lost by a restart.
func (j *judge) psm6(r *ruling) {
	j.needStop(r)
	kept := 0
	for _, c := range j.comebacks() {
		own := j.trial.ownBarriers(c.p.Destination, c.p.topic, c.p.index)
		kept += len(c.p.lead.knownAt(own, c.from))
		diffs, _ := c.p.lead.nearest(own, c.from, c.event.Producers.Active)
		lost := slices.DeleteFunc(diffs, func(d difference) bool { return d.want == nil || d.want.entry < c.p.lead.boundary() })
		if len(lost) > 0 {
			r.findings = append(r.findings, j.told(c.p, LostProducer, c.p.lead.entries[lost[0].want.entry].BaseOffset,
				fmt.Sprintf("every producer from after the barrier at %d as it was: its broker was only started again (event %d)", c.p.lead.barrierOffset(), c.started),
				fmt.Sprintf("node %d (event %d): %s", c.event.Producers.Node, c.event.Seq, tell(lost))))
		}
	}
	r.need(kept > 0, "no broker that came back after the stop was to know a producer from after the barrier")
	r.saw("%d producers from after the barrier were to be known after a restart", kept)
}

// knownAt are the producers at the first state at or above a log end.
func (s *side) knownAt(own func(*entry) bool, from int64) map[int64]producer {
	var known map[int64]producer
	s.states(own, func(end int64, now map[int64]producer) bool {
		known = now
		return end < from
	})
	return known
}

// psm7 holds that a recovery which read batches from both sides of the barrier
// leaves exactly the later producers.
func (j *judge) psm7(r *ruling) {
	j.needStop(r)
	read := 0
	for _, c := range j.comebacks() {
		s := c.p.lead
		if !c.scanned || s.barrier < 0 {
			continue
		}
		own := j.trial.ownBarriers(c.p.Destination, c.p.topic, c.p.index)
		if len(s.producersBelow(s.barrier)) > 0 && len(s.knownAt(own, c.from)) > 0 && j.wroteBetween(c.p, c.p.stopped, c.went) {
			read++
		}
		diffs, at := s.nearest(own, c.from, c.event.Producers.Active)
		if len(diffs) > 0 {
			r.findings = append(r.findings, j.told(c.p, WrongState, s.barrierOffset(),
				fmt.Sprintf("exactly the producers between the barrier at %d and the log's end at %d: recovery read what lies on both sides", s.barrierOffset(), at),
				fmt.Sprintf("node %d (event %d): %s", c.event.Producers.Node, c.event.Seq, tell(diffs))))
		}
	}
	r.need(read > 0, "no recovery after a kill read producers' batches on both sides of the barrier")
	r.saw("%d recoveries read the log across the barrier", read)
}

// wroteBetween says whether a client of the destination had an idempotent or
// transactional write acknowledged in the partition between two moments.
func (j *judge) wroteBetween(p *part, after, before int64) bool {
	return slices.ContainsFunc(j.order, func(o *operation) bool {
		return o.at(p) && o.began > after && o.ended < before && o.result.Outcome == history.OK && o.sent.Mode != history.Plain
	})
}
