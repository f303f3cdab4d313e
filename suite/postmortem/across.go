package postmortem

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// across reports what only several partitions together show.
func (j *judgement) across(ctx context.Context) error {
	for _, partitions := range j.topics() {
		if err := ctx.Err(); err != nil {
			return err
		}
		for side := range j.sides {
			j.unstopped(side, partitions)
			j.otherSources(side, partitions)
		}
	}
	return j.torn(ctx)
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
func (j *judgement) unstopped(side int, partitions []*partition) {
	var with *barrier
	var where *partition
	var without []*partition
	for _, p := range partitions {
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
func (j *judgement) otherSources(side int, partitions []*partition) {
	votes := map[string][]*partition{}
	at := map[*partition]*barrier{}
	for _, p := range partitions {
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
	for _, p := range partitions {
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

// part is a transaction's part in one partition.
type part struct {
	*txn
	p    *partition
	pr   *pair
	lane int // of the pair, whose transaction it is
}

// order sorts parts so that those that may be of one transaction lie together, by
// the time of their markers.
func (a part) order(b part) int {
	return cmp.Or(slices.Compare(a.pr.sides[:], b.pr.sides[:]), cmp.Compare(a.lane, b.lane), cmp.Compare(a.id, b.id),
		cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.marker, b.marker), cmp.Compare(a.ended, b.ended))
}

// alike says whether two parts are of the same producer, epoch and marker.
func (a part) alike(b part) bool {
	return a.pr.sides == b.pr.sides && a.lane == b.lane && a.id == b.id && a.epoch == b.epoch && a.marker == b.marker
}

// torn reports transactions that were committed on one side, and of which the
// other has one partition's part and not another's.
func (j *judgement) torn(ctx context.Context) error {
	var kept, cut []part
	for _, p := range j.partitions {
		for _, pr := range p.pairs {
			for k, t := range pr.tails {
				for i := range t.before {
					kept = append(kept, part{&t.before[i], p, pr, k})
				}
				for i := range t.ended {
					cut = append(cut, part{&t.ended[i], p, pr, k})
				}
			}
		}
	}
	slices.SortStableFunc(kept, part.order)
	// A producer has many transactions in one partition, and only those of others
	// count: elsewhere leads behind those of the same one.
	elsewhere := make([]int, len(kept))
	for i := len(kept) - 1; i >= 0; i-- {
		elsewhere[i] = i + 1
		if i+1 < len(kept) && kept[i+1].p == kept[i].p {
			elsewhere[i] = elsewhere[i+1]
		}
	}
	for n, c := range cut {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		v2 := c.marker > c.epoch
		earliest := *c.txn
		earliest.ended -= together
		if v2 {
			earliest.ended = math.MinInt64
		}
		i, _ := slices.BinarySearchFunc(kept, part{&earliest, c.p, c.pr, c.lane}, part.order)
		if i < len(kept) && kept[i].p == c.p {
			i = elsewhere[i]
		}
		if i < len(kept) && kept[i].alike(c) && (v2 || kept[i].ended <= c.ended+together) {
			c.torn(kept[i], v2)
		}
	}
	return nil
}

// torn reports the part that was cut off of a transaction with another one that was not.
func (a part) torn(o part, v2 bool) {
	sure := "with transactions version 2 an epoch is of one transaction only"
	if !v2 {
		sure = "producer and epoch are the same, and the markers' times; another transaction of the same producer right after it would look like this"
	}
	lacks := "this one is not"
	if a.first < a.pr.parted {
		lacks = "this one was cut off before its marker"
	}
	here, there := a.pr.lanes[a.lane], a.pr.lanes[1-a.lane]
	a.p.findings.add(Finding{
		Kind: TornTransaction, Sure: Measured, Side: here.name, Folder: here.folder, Offset: a.first, LastOffset: a.last, Affected: a.count,
		What: fmt.Sprintf("a transaction of producer %d, epoch %d was committed (marker at %d); on %s its part in %s is there (marker at %d) and %s", a.id, a.epoch, a.last, there.name, o.p.name(), o.last, lacks),
		Why:  sure, Do: "have the application put the rest of the transaction there, or take back the part that is there",
	})
}

// order sorts findings as a report shows them: the surest first.
func order(a, b *Finding) int {
	return cmp.Or(cmp.Compare(b.Sure, a.Sure), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Side, b.Side), cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.What, b.What))
}
