package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// log5 holds that the destination's leader epoch is at no time below one in its
// log: below the high watermark that it showed, no batch has a higher one; and
// its own barrier has one at or above all before it.
func (j *judge) log5(r *ruling) {
	j.needStop(r)
	before, after, raised, ends := 0, 0, 0, 0
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
			for i := range o.EpochEnds {
				ends++
				if f := j.epochEnds(p, log, e, &o.EpochEnds[i]); f != nil {
					r.findings = append(r.findings, *f)
				}
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
	r.need(ends > 0, "no leader was asked where its leader epochs end")
	r.saw("%d leader epochs while mirroring and %d after the stop were at or above all in the log; %d ends of epochs were as in the log", before, after, ends)
}

// epochEnds holds that a leader epoch ends where the log says so, as far as it was
// committed at that moment: all below its end have that epoch or an earlier one, all from
// there on a later one. Where a partition mirrors and its leader's epoch entered its cache
// with the election, what is mirrored after that lies behind the end of its own epoch
// (LOG-5). The leader's epoch may be known before anything is written in it, and nothing
// is known of a later one than the last (Kafka's LeaderEpochFileCache). nil where all is
// well.
func (j *judge) epochEnds(p *part, log *side, e *history.Event, end *history.EpochEnd) *Finding {
	told := fmt.Sprintf("epoch %d, which ends at %d, for epoch %d (event %d)", end.Epoch, end.End, end.Asked, e.Seq)
	latest, highest := int32(-1), int32(-1) // in the log: at or below what was asked for, and of all
	for i := range log.entries {
		b := &log.entries[i]
		if b.BaseOffset >= e.Offsets.HighWatermark {
			break
		}
		highest = max(highest, b.LeaderEpoch)
		if b.LeaderEpoch <= end.Asked {
			latest = max(latest, b.LeaderEpoch)
		}
		below := b.BaseOffset < end.End
		if end.Epoch < 0 || below == (b.LeaderEpoch <= end.Asked) {
			continue
		}
		where := "from the end on"
		if !below {
			where = "below the end"
		}
		f := j.told(p, EpochsMisplaced, b.BaseOffset, fmt.Sprintf("%s %s of leader epoch %d", b.describe(), where, end.Asked), told)
		return &f
	}
	switch {
	case end.Epoch < 0 && end.Asked > highest:
		return nil
	case end.Epoch > end.Asked, end.Epoch < latest, end.Epoch < 0:
		f := j.told(p, EpochsMisplaced, max(0, end.End), fmt.Sprintf("the latest epoch up to %d: the log has %d", end.Asked, latest), told)
		return &f
	}
	return nil
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
