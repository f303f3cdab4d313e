package check

import "watershed.example/suite/history"

// al1 holds that alignment finds where two logs part also when both elected the
// same leader epochs on their own: below the next stop's L the old primary's log
// is the new one's, whatever the epochs say. Logs that a cleaner went over are
// not judged here yet: no run compacts one.
func (t *trial) al1(r *ruling) {
	failbacks := t.failbacks()
	collisions := 0
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
		}
		for _, topic := range f.back.edge.Topics {
			r.need(!t.run.Topic(topic).Compacted, "topic %s is compacted: whether its log was copied anew is not judged", topic)
		}
	}
	r.need(len(failbacks) > 0, "no failback: no old primary was aligned")
	r.need(collisions > 0, "no old primary was seen to hold, above the place where the logs part, records of a leader epoch that the new one uses too, at the same offsets")
	r.saw("%d partitions had parted within the same leader epoch, and are one line; a cleaned log was not tried", collisions)
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
