package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// known is a state in which a producer has been since the barrier.
type known struct {
	epoch    int32
	sequence int32
}

// psm1 holds that after the own barrier the broker knows no producer from
// before it. A producer id that local producers use too must show a state in
// which they have put it.
func (j *judge) psm1(r *ruling) {
	j.needStop(r)
	samples, mirrored := 0, 0
	for _, p := range j.parts() {
		if p.lead == nil || p.stopped == never {
			continue
		}
		sampled := false
		for i := range j.ev.Events {
			d := j.ev.Events[i].Producers
			if d == nil || d.When != history.WhenAfterStop || d.Code != 0 || !p.of(p.Destination, d.Cluster, d.Topic, d.Partition) {
				continue
			}
			samples++
			sampled = true
			j.resurrected(r, p, &j.ev.Events[i], "")
		}
		if sampled && len(p.lead.producersBelow(p.lead.boundary())) > 0 {
			mirrored++
		}
	}
	r.need(samples > 0, "producers were never described after the stop")
	r.need(mirrored > 0, "no partition whose producers were described had a mirrored producer")
	r.saw("%d descriptions after the stop, %d partitions had mirrored producers", samples, mirrored)
}

// resurrected finds the producers in a description that are in no state in which
// the destination's own clients have put them since the barrier.
func (j *judge) resurrected(r *ruling, p *part, e *history.Event, how string) {
	d := e.Producers
	before := p.lead.producersBelow(p.lead.boundary())
	since := p.lead.producersSince(p.lead.boundary())
	for _, a := range d.Active {
		if since[a.ProducerID][known{a.Epoch, a.LastSequence}] {
			continue
		}
		says := "none of the destination's producers was ever in that state"
		if len(since[a.ProducerID]) == 0 {
			says = "no producer of the destination has that id"
		}
		where := int64(-1)
		if k, ok := before[a.ProducerID]; ok {
			where = p.lead.entries[k].BaseOffset
		}
		r.findings = append(r.findings, j.told(p, BarrierResurrect, where,
			fmt.Sprintf("no producer from below %d, where the destination's own log begins", p.lead.localFrom()),
			fmt.Sprintf("node %d%s, describes producer id %d epoch %d last sequence %d: %s (event %d)", d.Node, how, a.ProducerID, a.Epoch, a.LastSequence, says, e.Seq)))
	}
}

// producersBelow maps each producer id among the first entries to its last batch.
func (s *side) producersBelow(boundary int) map[int64]int {
	ids := map[int64]int{}
	for i := range s.entries[:boundary] {
		if e := &s.entries[i]; e.ProducerID >= 0 {
			ids[e.ProducerID] = i
		}
	}
	return ids
}

// producersSince returns for each producer id the states that the batches and
// markers from an entry on put it in.
func (s *side) producersSince(boundary int) map[int64]map[known]bool {
	ids := map[int64]map[known]bool{}
	now := map[int64]known{}
	for i := boundary; i < len(s.entries); i++ {
		e := &s.entries[i]
		if e.ProducerID < 0 {
			continue
		}
		k, seen := now[e.ProducerID]
		epoch := int32(e.ProducerEpoch)
		switch {
		case !e.IsControl():
			k = known{epoch, e.LastSequence()}
		case !seen || k.epoch != epoch:
			k = known{epoch, -1} // a marker of a new epoch forgets the sequences
		}
		now[e.ProducerID] = k
		if ids[e.ProducerID] == nil {
			ids[e.ProducerID] = map[known]bool{}
		}
		ids[e.ProducerID][k] = true
	}
	return ids
}
