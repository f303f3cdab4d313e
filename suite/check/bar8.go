package check

import (
	"bytes"
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// bar8 holds that a barrier's effect outlives it: where DeleteRecords, retention
// or compaction took it away, a broker that recovers knows no producer from
// before it. And no cleaner makes one of two barriers, though their keys are the
// same bytes. It compares the logs at an episode's end with those at the run's.
func (t *trial) bar8(r *ruling) {
	var c barrierGone
	for _, j := range t.views {
		for _, p := range j.parts() {
			if p.lead == nil {
				continue
			}
			t.gone(r, j, p, &c)
		}
	}
	for _, last := range t.lastViews() {
		for _, p := range last.parts() {
			if p.lead != nil {
				t.keptApart(r, last, p, &c)
			}
		}
	}
	r.need(c.described > 0 && c.met > 0 || c.apart > 0, "no broker recovered after a barrier with mirrored producers before it had gone, described its producers, and was sent a batch with a mirrored one's header (%d and %d did); and no cleaner went over a log with several barriers",
		c.described, c.met)
	r.saw("%d recoveries without the barrier described no producer from before it, %d batches with a mirrored one's header were appended then; %d barriers lie apart in logs that a cleaner went over", c.described, c.met, c.apart)
}

// barrierGone counts what came out right.
type barrierGone struct{ described, met, apart int }

// lastViews are the last view of each destination.
func (t *trial) lastViews() []*judge {
	var all []*judge
	for i, j := range t.views {
		if !slices.ContainsFunc(t.views[i+1:], func(o *judge) bool { return o.edge.Destination == j.edge.Destination && o.edge.shares(j.edge) }) {
			all = append(all, j)
		}
	}
	return all
}

// gone judges what brokers knew that had ended when the partition's barrier had
// gone from the log, and came back.
func (t *trial) gone(r *ruling, j *judge, p *part, c *barrierGone) {
	barrier := p.lead.barrierOffset()
	final := t.atEnd(p.Destination, p.topic, p.index)
	if barrier < 0 || final == nil || len(p.lead.producersBelow(p.lead.boundary())) == 0 {
		return
	}
	since := p.lead.producersSince(p.lead.boundary())
	later := final.producersSince(firstBehind(final, barrier))
	gone, went, back := never, map[int32]bool{}, map[int32]bool{}
	var writes []*operation
	for _, o := range t.ledger.writes {
		if o.at(p) {
			writes = append(writes, o)
		}
	}
	for e := range withAnswers(t.ev.Events, writes) {
		if e.Seq <= p.stopped {
			continue
		}
		if p.startShown(e) > barrier {
			gone = min(gone, e.Seq)
		}
		switch {
		case gone == never:
		case e.Node != nil && e.Node.Cluster == p.Destination && (e.Node.What == history.NodeKilled || e.Node.What == history.NodeStopped):
			went[e.Node.Node] = true
		case e.Node != nil && e.Node.Cluster == p.Destination && e.Node.What == history.NodeStarted:
			back[e.Node.Node] = went[e.Node.Node]
		case e.Producers != nil && e.Producers.Code == 0 && back[e.Producers.Node] && p.of(p.Destination, e.Producers.Cluster, e.Producers.Topic, e.Producers.Partition):
			clean := true
			for _, a := range e.Producers.Active {
				state := known{a.Epoch, a.LastSequence}
				if since[a.ProducerID][state] || later[a.ProducerID][state] {
					continue
				}
				clean = false
				r.findings = append(r.findings, j.told(p, BarrierResurrect, barrier, fmt.Sprintf("no producer from before the barrier at %d, though that has gone from the log", barrier),
					fmt.Sprintf("node %d, which had come back, describes producer id %d epoch %d last sequence %d (event %d)", e.Producers.Node, a.ProducerID, a.Epoch, a.LastSequence, e.Seq)))
			}
			c.described += b2i(clean)
		case e.Kind == history.KindProduceAck && len(back) > 0 && e.Produce.Collision == history.SameHeader &&
			p.of(p.Destination, e.Produce.Cluster, e.Produce.Topic, e.Produce.Partition):
			t.metWithout(r, j, p, e, c)
		}
	}
}

// metWithout judges a batch with a mirrored one's header that was sent after its
// barrier had gone.
func (t *trial) metWithout(r *ruling, j *judge, p *part, e *history.Event, c *barrierGone) {
	sent := e.Produce
	expected := fmt.Sprintf("the batch of %s, with the header of a mirrored one, appended at the log's end, at or above %d", who(sent.Tag), end(p.lead.Replica))
	switch {
	case sent.Result.Outcome == history.OK && sent.Offset < end(p.lead.Replica):
		r.findings = append(r.findings, j.told(p, StaleDedupe, sent.Offset, expected, fmt.Sprintf("acknowledged with offset %d", sent.Offset)))
	case sent.Result.Outcome == history.OK:
		c.met++
	case sent.Result.Outcome == history.Refused && !retriable[sent.Result.Code]:
		r.findings = append(r.findings, j.told(p, StaleFence, -1, expected, answer(*sent.Result)))
	}
}

// firstBehind is the index of the first batch behind an offset.
func firstBehind(s *side, offset int64) int {
	for i := range s.entries {
		if s.entries[i].BaseOffset > offset {
			return i
		}
	}
	return len(s.entries)
}

// keptApart holds that a log over which a cleaner went has all barriers that it
// had, or none: with one key they must not be made one.
func (t *trial) keptApart(r *ruling, j *judge, p *part, c *barrierGone) {
	final := t.atEnd(p.Destination, p.topic, p.index)
	if final == nil || final.gapless() || len(final.entries) == 0 {
		return
	}
	start := final.entries[0].BaseOffset
	var had, left int
	var lost []int64
	for _, b := range barrierLine(p.lead) {
		if b.BaseOffset < start {
			continue
		}
		had++
		k := final.at(b.BaseOffset)
		if k >= 0 && bytes.Equal(final.entries[k].Raw, b.Raw) {
			left++
		} else {
			lost = append(lost, b.BaseOffset)
		}
	}
	switch {
	case had < 2:
	case left > 0 && len(lost) > 0:
		r.findings = append(r.findings, j.finding(final, MissingBarrier, final.at(lost[0]), lost[0], fmt.Sprintf("%d barriers in the log that a cleaner went over, as there were before", had),
			fmt.Sprintf("%d: those at %v were compacted away, though another is there", left, lost)))
	case left == had:
		c.apart += left
	}
}
