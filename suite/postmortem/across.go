package postmortem

import (
	"cmp"
	"fmt"
	"slices"
)

// across reports what only several partitions together show.
func (j *judgement) across() {
	for side := range j.sides {
		for topic := range j.topics() {
			j.unstopped(side, topic)
			j.otherSources(side, topic)
		}
	}
	j.torn()
}

// topics are the partitions by topic.
func (j *judgement) topics() map[string][]*partition {
	all := map[string][]*partition{}
	for _, p := range j.partitions {
		all[p.topic] = append(all[p.topic], p)
	}
	return all
}

// unstopped reports partitions without a barrier of the side's own where others of
// the topic have one.
func (j *judgement) unstopped(side int, topic string) {
	var with *barrier
	var where *partition
	var without []*partition
	for _, p := range j.topics()[topic] {
		if p.lines[side] == nil || j.alone(p, side) {
			continue
		}
		if own := p.own(side); len(own) > 0 {
			if with == nil || own[len(own)-1].time > with.time {
				with, where = own[len(own)-1], p
			}
		} else {
			without = append(without, p)
		}
	}
	if with == nil {
		return
	}
	for _, p := range without {
		l := p.lines[side]
		if slices.ContainsFunc(p.findings.all, func(f *Finding) bool {
			return f.Kind == MissingBarrier && f.Side == l.side
		}) {
			continue
		}
		if l.first > 0 && l.batches == 0 {
			continue
		}
		p.findings.add(Finding{
			Kind: MissingBarrier, Sure: Likely, Requirements: []string{"BAR-1"}, Side: l.side, Folder: l.folder, Offset: max(l.next, 0), Affected: 0,
			What: fmt.Sprintf("no barrier of this side's own, while %s has one at offset %d", where.name(), with.offset),
			Why:  "a stop is of a topic, and writes one to each partition, empty or not; a partition whose stop has not ended when it was copied has none yet",
			Do:   "ask the broker for the partition's mirror state; if it says stopped, producers of the source may still be known there: have it stopped again",
		})
	}
}

// alone says whether no other side has the partition.
func (j *judgement) alone(p *partition, side int) bool {
	return !slices.ContainsFunc(p.pairs, func(pr *pair) bool { return pr.sides[0] == side || pr.sides[1] == side })
}

// otherSources reports own barriers of one topic that name different sources for
// the same stop.
func (j *judgement) otherSources(side int, topic string) {
	votes := map[string][]*partition{}
	at := map[*partition]*barrier{}
	for _, p := range j.topics()[topic] {
		if p.lines[side] == nil {
			continue
		}
		for _, b := range p.own(side) { // the last one stays
			at[p] = b
		}
		if b := at[p]; b != nil {
			votes[b.source] = append(votes[b.source], p)
		}
	}
	// Two sides only: what a stop mirrored is the other one.
	for _, p := range j.topics()[topic] {
		b := at[p]
		if b == nil {
			continue
		}
		other := 1 - side
		if len(j.sides) == 2 && p.lines[other] != nil && j.ids[other].sure && j.ids[other].id != b.source && !(j.ids[side].sure && j.ids[side].id == b.source) {
			p.findings.add(Finding{
				Kind: WrongSource, Sure: Likely, Requirements: []string{"BAR-4"}, Side: p.lines[side].side, Folder: p.lines[side].folder, Offset: b.offset, Affected: 1,
				What: fmt.Sprintf("the barrier names %s, and the other side is %s", j.cluster(b.source), j.ids[other].id),
				Why:  "the other side's id is known: " + j.ids[other].how + "; a third cluster that was mirrored meanwhile would leave this too", Do: "do not trust the barrier's id to tell where records came from",
			})
		}
	}
	if len(votes) < 2 {
		return
	}
	var most string
	for id, ps := range votes {
		if len(ps) > len(votes[most]) || len(ps) == len(votes[most]) && id < most {
			most = id
		}
	}
	for id, ps := range votes {
		if id == most {
			continue
		}
		for _, p := range ps {
			p.findings.add(Finding{
				Kind: WrongSource, Sure: Possible, Requirements: []string{"BAR-4"}, Side: p.lines[side].side, Folder: p.lines[side].folder, Offset: at[p].offset, Affected: 1,
				What: fmt.Sprintf("the last barrier of this side names %s, those of %d other partitions %s", j.cluster(id), len(votes[most]), j.cluster(most)),
				Why:  "one mirror has one source; partitions that were stopped at different times may have had several", Do: "do not trust the barrier's id to tell where records came from",
			})
		}
	}
}

// together is how far apart the markers of one transaction are at the most, in milliseconds.
const together = 10_000

// torn reports transactions that were committed on one side, and of which the
// other has one partition's part and not another's.
func (j *judgement) torn() {
	type part struct {
		txn
		p    *partition
		pr   *pair
		lane int // of the pair, whose transaction it is
	}
	kept := map[[2]int64][]part{} // by side and id
	var cut []part
	for _, p := range j.partitions {
		for _, pr := range p.pairs {
			for k := range pr.lanes {
				stop := pr.barrierFrom(1 - k)
				if pr.parted < 0 || stop == nil || stop.from > pr.parted {
					continue
				}
				side := int64(pr.sides[k])
				for _, t := range pr.tails[k].before {
					if t.commit {
						key := [2]int64{side, t.id}
						kept[key] = append(kept[key], part{t, p, pr, k})
					}
				}
				own := pr.barrierFrom(k)
				for _, t := range pr.tails[k].ended {
					if t.commit && (own == nil || t.last < own.from) {
						cut = append(cut, part{t, p, pr, k})
					}
				}
			}
		}
	}
	for _, c := range cut {
		k := c.lane
		side := int64(c.pr.sides[k])
		for _, o := range kept[[2]int64{side, c.id}] {
			v2 := o.marker > o.epoch && c.marker > c.epoch
			if o.p == c.p || o.marker != c.marker || o.epoch != c.epoch || !v2 && abs(o.ended-c.ended) > together || o.pr.sides != c.pr.sides {
				continue
			}
			sure := "with transactions version 2 an epoch is of one transaction only"
			if !v2 {
				sure = "producer and epoch are the same, and the markers' times; another transaction of the same producer right after it would look like this"
			}
			c.p.findings.add(Finding{
				Kind: TornTransaction, Sure: Measured, Side: c.pr.lanes[k].name, Folder: c.pr.lanes[k].folder, Offset: c.first, LastOffset: c.last, Affected: c.count,
				What: fmt.Sprintf("a transaction of producer %d, epoch %d was committed (marker at %d); on %s its part in %s is there (marker at %d) and this one is not", c.id, c.epoch, c.last, c.pr.lanes[1-k].name, o.p.name(), o.last),
				Why:  sure, Do: "have the application put the rest of the transaction there, or take back the part that is there",
			})
			break
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

// order sorts findings as a report shows them: the surest first.
func order(a, b *Finding) int {
	return cmp.Or(cmp.Compare(b.Sure, a.Sure), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Side, b.Side), cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.What, b.What))
}
