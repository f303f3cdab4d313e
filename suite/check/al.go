package check

import "watershed.example/suite/history"

// al1 holds that alignment finds where two logs part also when both elected the
// same leader epochs on their own: below the next stop's L the old primary's log
// is the new one's, whatever the epochs say. Where the old primary's cleaner had
// gone past the parting its log holds all that the other does, from its start on:
// it was copied anew, for what was kept lacks what was compacted away.
func (t *trial) al1(r *ruling) {
	failbacks := t.failbacks()
	collisions, cleaned := 0, 0
	for _, f := range failbacks {
		f.back.needStop(r)
		for _, p := range f.back.parts() {
			q := f.out.part(p.topic, p.index)
			if q == nil || q.lead == nil || p.lead == nil || p.source == nil {
				continue
			}
			if t.sameEpoch(f, p, q.lead.cut) {
				collisions++
			}
			for _, s := range p.dests {
				f.back.oneLine(r, p, s)
			}
			if t.cleanedSince(f, p) {
				cleaned++
				for _, s := range p.dests {
					f.back.allOf(r, p, s)
				}
			}
		}
		for _, topic := range f.back.edge.Topics {
			r.need(!t.run.Topic(topic).Compacted, "topic %s is compacted all the time: whether its log was copied anew is not judged", topic)
		}
	}
	r.need(len(failbacks) > 0, "no failback: no old primary was aligned")
	r.need(collisions > 0, "no old primary was seen to hold, above the place where the logs part, records of a leader epoch that the new one uses too, at the same offsets")
	r.saw("%d partitions had parted within the same leader epoch, and are one line; %d logs had been cleaned past the parting, and are whole", collisions, cleaned)
}

// cleanedSince says whether the old primary's cleaner went over its log after the
// logs parted and before it began to mirror.
func (t *trial) cleanedSince(f failback, p *part) bool {
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		if d := e.Disturbance; d != nil && d.What == history.Compaction && d.Over && d.Took && d.Cluster == p.Destination &&
			e.Seq > f.out.edge.stopRequested && e.Seq < p.since() {
			return true
		}
	}
	return false
}

// allOf holds that below the stop's L a destination's log has every batch of its
// source's.
func (j *judge) allOf(r *ruling, p *part, s *side) {
	for i := range p.source.entries {
		if e := &p.source.entries[i]; e.NextOffset() <= s.cut && s.at(e.BaseOffset) < 0 {
			r.findings = append(r.findings, j.finding(s, MissingBatch, -1, e.BaseOffset,
				"the batch of cluster "+p.Source+", "+e.describe()+": the log was cleaned past the parting, and had to be copied anew", "no batch"))
		}
	}
}

// sameEpoch says whether the old primary, before it began to mirror, held a batch
// above the parting at offset cut under the very leader epoch under which the new
// primary's log holds another one at that offset: epochs alone would let it stay.
func (t *trial) sameEpoch(f failback, p *part, cut int64) bool {
	var used []history.EpochRange
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		if e.Epochs == nil || e.Epochs.Cluster != p.Destination || e.Epochs.Topic != p.topic || e.Epochs.Partition != p.index ||
			e.Seq < f.out.edge.stopRequested || e.Seq > p.since() {
			continue
		}
		for _, held := range e.Epochs.Ranges {
			if held.Last >= cut {
				used = append(used, history.EpochRange{Epoch: held.Epoch, First: max(held.First, cut), Last: held.Last})
			}
		}
	}
	for i := range p.source.entries {
		for _, held := range used {
			if e := &p.source.entries[i]; e.LeaderEpoch == held.Epoch && e.BaseOffset <= held.Last && e.LastOffset() >= held.First {
				return true
			}
		}
	}
	return false
}
