package check

import "fmt"

// log5 holds that the destination's leader epoch is at no time below one in its
// log: below the high watermark that it showed, no batch has a higher one; and
// its own barrier has one at or above all before it.
func (j *judge) log5(r *ruling) {
	j.needStop(r)
	before, after, raised := 0, 0, 0
	for _, p := range j.parts() {
		if p.source == nil || p.lead == nil {
			continue
		}
		since := j.steady(p)
		for i := range j.ev.Events {
			e := &j.ev.Events[i]
			o := e.Offsets
			if o == nil || o.LeaderEpoch == nil || !p.of(p.Destination, o.Cluster, o.Topic, o.Partition) {
				continue
			}
			log := p.lead
			switch {
			case e.Seq >= since && e.Seq < p.stopRequested:
				log = p.source // the destination's log as it was: it may have been cut since
				before++
			case e.Seq > p.stopped:
				after++
			default:
				continue
			}
			k, highest := log.highestEpoch(o.HighWatermark)
			if k < 0 {
				continue
			}
			if highest > 0 && log == p.source { // a barrier alone raises it above 0
				raised++
			}
			if *o.LeaderEpoch < highest {
				f := j.told(p, EpochBehind, log.entries[k].BaseOffset, fmt.Sprintf("leader epoch %d or above at high watermark %d: so high is that of %s", highest, o.HighWatermark, log.entries[k].describe()),
					fmt.Sprintf("leader epoch %d (event %d)", *o.LeaderEpoch, e.Seq))
				r.findings = append(r.findings, f)
			}
		}
		for _, s := range p.dests {
			for _, i := range s.barriers() {
				b := &s.entries[i]
				if k, highest := s.highestEpoch(b.BaseOffset); k >= 0 && b.LeaderEpoch < highest {
					r.findings = append(r.findings, j.at(s, EpochBehind, i, fmt.Sprintf("a leader epoch of %d or above, as in %s", highest, s.entries[k].describe()), fmt.Sprintf("leader epoch %d", b.LeaderEpoch)))
				}
			}
		}
	}
	r.need(before > 0, "the destination's leader epoch was never sampled while it mirrored")
	r.need(after > 0, "the destination's leader epoch was never sampled after the stop")
	r.need(raised > 0, "no log that was sampled while it mirrored held a leader epoch above 0")
	r.saw("%d leader epochs while mirroring and %d after the stop were at or above all in the log", before, after)
}

// highestEpoch is the batch below an offset with the highest leader epoch; the
// index is -1 when there is none.
func (s *side) highestEpoch(below int64) (index int, epoch int32) {
	index = -1
	for i := range s.entries {
		e := &s.entries[i]
		if e.BaseOffset >= below {
			break
		}
		if index < 0 || e.LeaderEpoch > epoch {
			index, epoch = i, e.LeaderEpoch
		}
	}
	return index, epoch
}
