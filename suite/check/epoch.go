package check

import (
	"cmp"
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// log5 holds that the destination's leader epoch is at no time below one in its
// log: below the high watermark that it showed, no batch has a higher one; and
// its own barrier has one at or above all before it.
func (j *judge) log5(r *ruling) {
	j.needStop(r)
	before, after, raised, ends, mirrored := 0, 0, 0, 0, 0
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
			// A destination that writes epochs of its own has other ones than the source.
			if log != p.source || !j.run.Options.AllowLeaderEpochRewrite {
				for i := range o.EpochEnds {
					told, f := j.epochEnds(p, log, e, &o.EpochEnds[i])
					ends += b2i(told)
					mirrored += b2i(told && log == p.source)
					if f != nil {
						r.findings = append(r.findings, *f)
					}
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
	r.need(mirrored > 0 || j.run.Options.AllowLeaderEpochRewrite, "no leader told where an epoch of its log ends while it mirrored")
	r.need(ends > mirrored, "no leader told where an epoch of its log ends after the stop")
	r.saw("%d leader epochs while mirroring and %d after the stop were at or above all in the log; %d ends of epochs were as in the log", before, after, ends)
}

// epochEnds holds that a leader epoch ends where the log says so, as far as it was
// committed at that moment: all below its end have that epoch or an earlier one, all from
// there on a later one. Where a partition mirrors and its leader's epoch entered its cache
// with the election, what is mirrored after that lies behind the end of its own epoch
// (LOG-5). The leader's epoch may be known before anything is written in it, and nothing
// is known of a later one than the last (Kafka's LeaderEpochFileCache).
//
// What lies below the log's start is not looked at: with its records their epochs go, and
// one that is earlier than all that are left ends where they begin. The start may rise until
// the answer comes.
//
// asked says whether the answer is about an epoch up to the log's last one; the finding is nil
// where all is well.
func (j *judge) epochEnds(p *part, log *side, e *history.Event, end *history.EpochEnd) (asked bool, f *Finding) {
	told := fmt.Sprintf("epoch %d, which ends at %d, for epoch %d (event %d)", end.Epoch, end.End, end.Asked, e.Seq)
	latest, highest := int32(-1), int32(-1) // in the log: at or below what was asked for, and of all
	from, _ := slices.BinarySearchFunc(log.entries, e.Offsets.LogStartOffset, func(b entry, start int64) int { return cmp.Compare(b.BaseOffset, start) })
	to, _ := slices.BinarySearchFunc(log.entries, e.Offsets.HighWatermark, func(b entry, hw int64) int { return cmp.Compare(b.BaseOffset, hw) })
	there := log.entries[from:max(from, to)]
	gone := end.Epoch == end.Asked && !slices.ContainsFunc(there, func(b entry) bool { return b.LeaderEpoch <= end.Asked })
	for i := range there {
		b := &there[i]
		highest = max(highest, b.LeaderEpoch)
		if b.LeaderEpoch <= end.Asked {
			latest = max(latest, b.LeaderEpoch)
		}
		below := b.BaseOffset < end.End
		if end.Epoch < 0 || below == (b.LeaderEpoch <= end.Asked) || below && gone {
			continue
		}
		where := "from the end on"
		if !below {
			where = "below the end"
		}
		f := j.told(p, EpochsMisplaced, b.BaseOffset, fmt.Sprintf("%s %s of leader epoch %d", b.describe(), where, end.Asked), told)
		return true, &f
	}
	asked = end.Asked <= highest
	switch {
	case end.Epoch < 0 && !asked:
		return false, nil
	case end.Epoch > end.Asked, end.Epoch < latest, end.Epoch < 0:
		f := j.told(p, EpochsMisplaced, max(0, end.End), fmt.Sprintf("the latest epoch up to %d: the log has %d", end.Asked, latest), told)
		return true, &f
	}
	return asked, nil
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
