package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// lostLeader is a leader that was killed after a write of the promoted cluster
// had been acknowledged.
type lostLeader struct {
	node int32
	at   int64 // the event of its end
	// inSync were the in-sync replicas when it was last asked.
	inSync []int32
}

// lostLeaders lists those of a partition: nodes that were its leader when they
// were last asked, and were killed with another replica in sync; and those that
// were killed when they had made it writable.
func (j *judge) lostLeaders(p *part) []lostLeader {
	var all []lostLeader
	first := j.firstAccepted(p)
	var now *history.Offsets
	writable := map[int32]bool{}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if o := e.Offsets; o != nil && p.of(p.Destination, o.Cluster, o.Topic, o.Partition) && e.Seq > first {
			now = o
		}
		if g := e.Gate; g != nil && g.Cluster == p.Destination && g.Partition == p.place() && g.Point == "after:stopped" && e.Seq > p.stopRequested {
			writable = map[int32]bool{g.Node: true}
		}
		n := e.Node
		if n == nil || n.Cluster != p.Destination || n.What != history.NodeKilled {
			continue
		}
		switch {
		case now != nil && now.Node == n.Node && len(now.InSync) > 1:
			all = append(all, lostLeader{n.Node, e.Seq, now.InSync})
			now = nil
		case writable[n.Node] && now == nil:
			all = append(all, lostLeader{node: n.Node, at: e.Seq})
		}
		delete(writable, n.Node)
	}
	return all
}

// firstAccepted is when the first write of a client of the destination was
// acknowledged after the stop's request; never without one.
func (j *judge) firstAccepted(p *part) int64 {
	for _, o := range j.local(p) {
		if o.ended > p.stopRequested && o.result.Outcome == history.OK {
			return o.ended
		}
	}
	return never
}

// bar5 holds that the barrier was on every in-sync replica when the first local
// write was accepted: killing the leader loses neither it nor a record that was
// acknowledged.
func (j *judge) bar5(r *ruling) {
	j.needStop(r)
	killed, kept, records := 0, 0, 0
	for _, p := range j.parts() {
		lost := j.lostLeaders(p)
		if len(p.dests) < 2 || len(lost) == 0 || p.lead == nil {
			continue
		}
		killed += len(lost)
		at := p.lead.barrierOffset()
		for _, s := range j.inSyncAtEnd(p) {
			switch {
			case at < 0 || s.barrierOffset() != at:
				r.findings = append(r.findings, j.finding(s, MissingBarrier, s.at(max(at, 0)), max(at, 0),
					fmt.Sprintf("the barrier of this stop at one offset on every in-sync replica, though its leader, node %d, was killed after the first local write", lost[0].node), fmt.Sprintf("on this one at %d, on the longest at %d", s.barrierOffset(), at)))
				continue
			default:
				kept++
			}
			for _, o := range j.local(p) {
				if o.result.Outcome != history.OK || o.began < p.stopRequested || o.ended > lost[len(lost)-1].at {
					continue
				}
				if o.offset <= at {
					continue // IDEM-1 and RO-5 tell
				}
				places := s.find(o.sent.stem, o.sent.index)
				if !slices.ContainsFunc(places, func(k place) bool { return k.offset == o.offset }) {
					r.findings = append(r.findings, j.finding(s, LostWrite, s.at(o.offset), o.offset,
						fmt.Sprintf("%s, which was acknowledged before the leader, node %d, was killed", who(o.sent.Tag()), lost[0].node), "it is not there"))
					continue
				}
				records++
			}
		}
	}
	r.need(killed > 0, "no leader was killed, with another replica in sync, after a local write had been accepted")
	r.need(killed == 0 || records > 0, "no acknowledged record was to outlive a leader")
	r.saw("%d leaders were killed after the first local write; %d replicas have the barrier, and %d acknowledged records", killed, kept, records)
}

// lastInSync are the nodes in sync when the partition was last asked for, and when that
// was; none and -1 where it was not told.
func (j *judge) lastInSync(p *part) (nodes []int32, asked int64) {
	asked = -1
	for i := range j.ev.Events {
		if o := j.ev.Events[i].Offsets; o != nil && p.of(p.Destination, o.Cluster, o.Topic, o.Partition) && len(o.InSync) > 0 {
			nodes, asked = o.InSync, j.ev.Events[i].Seq
		}
	}
	return nodes, asked
}

// inSyncAtEnd are the destination's replicas that were in sync when the
// partition was last asked for; all of them where that was not told.
func (j *judge) inSyncAtEnd(p *part) []*side {
	inSync, _ := j.lastInSync(p)
	var all []*side
	for _, s := range p.dests {
		if len(inSync) == 0 || slices.Contains(inSync, s.Node) {
			all = append(all, s)
		}
	}
	return all
}

// psm2 holds that no replica knows a producer from before the barrier, whichever
// leads: as it describes them, and by what it does with a batch that has the
// header of a mirrored one.
func (j *judge) psm2(r *ruling) {
	j.needStop(r)
	leaders, met := 0, 0
	for _, p := range j.parts() {
		if p.lead == nil || p.stopped == never {
			continue
		}
		mirrored := len(p.lead.producersBelow(p.lead.boundary())) > 0
		nodes := map[int32]bool{}
		first := int32(-1)
		second := never // when another node than the first was seen to lead
		for i := range j.ev.Events {
			e := &j.ev.Events[i]
			d := e.Producers
			if d == nil || d.Code != 0 || e.Seq < p.stopped || d.When == history.WhenMirroring || !p.of(p.Destination, d.Cluster, d.Topic, d.Partition) {
				continue
			}
			if !nodes[d.Node] {
				nodes[d.Node] = true
				if len(nodes) == 2 {
					second = e.Seq
				}
			}
			// What the first leader knows is for PSM-1 and PSM-3.
			if first < 0 {
				first = d.Node
			}
			if d.Node != first {
				j.resurrected(r, p, e, ", which leads now,")
			}
		}
		if mirrored && len(nodes) > 1 {
			leaders += len(nodes)
		}
		met += j.metUnderAnother(r, p, second)
	}
	r.need(leaders > 0, "no partition with mirrored producers was described by several leaders after the stop")
	r.need(met > 0, "no batch with the header of a mirrored one was sent to a leader that had been a follower")
	r.saw("%d leaders described producers, %d batches with the header of a mirrored one were appended by later leaders", leaders, met)
}

// metUnderAnother judges the batches with a mirrored one's header that were sent
// to a later leader than the stop's, and counts those that were appended.
func (j *judge) metUnderAnother(r *ruling, p *part, since int64) (met int) {
	for _, o := range j.local(p) {
		if o.began < since || o.sent.Collision != history.SameHeader {
			continue
		}
		expected := batchWords(o) + " appended behind the barrier by the leader that had been a follower"
		switch {
		case o.result.Outcome == history.OK && o.offset <= p.lead.barrierOffset():
			r.findings = append(r.findings, j.told(p, StaleDedupe, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
		case o.result.Outcome == history.Refused && !retriable[o.result.Code]:
			r.findings = append(r.findings, j.told(p, StaleFence, -1, expected, answer(*o.result)))
		case o.result.Outcome == history.OK:
			met++
		}
	}
	return met
}
