package postmortem

import (
	"fmt"
	"slices"
)

// parting says what lies where two sides' logs part, and behind that.
func (pr *pair) parting(p *partition) {
	pr.missing()
	if pr.restamped > 0 {
		p.findings.add(Finding{
			Kind: Rewritten, Sure: Measured, Requirements: []string{"LOG-1"}, Side: pr.lanes[1].name, Folder: pr.lanes[1].folder, Offset: pr.firstEqual, Times: pr.restamped,
			What: fmt.Sprintf("%d batches differ from those of %s in their leader epoch alone", pr.restamped, pr.lanes[0].name),
			Why:  "the leader epoch is outside the checksum; a profile may allow that it is rewritten", Do: "nothing, if the product says that it does this",
		})
	}
	pr.interleaved(p)
	if pr.parted < 0 {
		return
	}
	stopped := -1
	for k := range pr.lanes {
		if b := pr.barrierFrom(k); b != nil && b.from <= pr.parted {
			b.begins(pr.parted)
			stopped = k
			pr.lost(p, 1-k, k, b)
		}
	}
	if stopped < 0 && !pr.ended {
		pr.unbarred(p)
	}
}

// begins says that below the offset lies what the source has too: ABORT markers
// there are the source's.
func (b *barrier) begins(offset int64) {
	b.from = max(b.from, offset)
	b.aborted = slices.DeleteFunc(b.aborted, func(t txn) bool { return t.last < offset })
}

// barrierFrom is the first barrier of side k at or behind where the logs part.
func (pr *pair) barrierFrom(k int) *barrier {
	i := slices.IndexFunc(pr.lanes[k].line.barriers, func(b *barrier) bool { return b.offset >= pr.parted })
	if i < 0 {
		return nil
	}
	return pr.lanes[k].line.barriers[i]
}

// missing reports what one side lacks amid what both have.
func (pr *pair) missing() {
	for k, g := range pr.gaps {
		if g == nil || g.records == 0 {
			continue
		}
		l, other := pr.lanes[k], pr.lanes[1-k]
		f := Finding{
			Kind: Missing, Sure: Possible, Requirements: []string{"LOG-1", "LOG-3"}, Side: l.name, Folder: l.folder, Offset: g.from, LastOffset: g.to - 1,
			Affected: g.records, Records: g.named,
			What: fmt.Sprintf("%d records of %s are not here, and what lies behind them is", g.records, other.name),
			Why:  "a cleaner takes records whose key came again",
			Do:   "see whether the topic is compacted; if not, copy the records from the other side",
		}
		switch {
		case g.keyless:
			f.Sure, f.Why = Certain, "among them are records without a key, which no cleaner takes"
		case len(g.wanted) > 0 && g.unseen:
			f.Why = fmt.Sprintf("the keys of %d of them do not come again in what was read behind them, and not all keys there were", len(g.wanted))
		case len(g.wanted) > 0:
			f.Sure, f.Why = Likely, fmt.Sprintf("the keys of %d of them do not come again behind them, and a cleaner leaves the last record of a key", len(g.wanted))
		}
		if g.unread > 0 {
			f.Why += fmt.Sprintf("; of %d of the missing batches not all keys were read", g.unread)
		}
		pr.out.add(f)
	}
}

// interleaved reports batches that both sides have behind where they part.
func (pr *pair) interleaved(p *partition) {
	for n, h := range pr.hits {
		guilty, why := pr.guilty(h)
		l, other := pr.lanes[guilty], pr.lanes[1-guilty]
		f := Finding{
			Kind: Interleaved, Sure: Certain, Requirements: []string{"LINK-1", "BAR-3"}, Side: l.name, Folder: l.folder,
			Offset: h.offsets[guilty], Affected: h.count, Records: h.records,
			What: fmt.Sprintf("this batch is that of %s at offset %d, and the logs part at %d", other.name, h.offsets[1-guilty], pr.parted),
			Why:  "its checksum, times, producer and sequence are the same; " + why,
			Do:   "these records were written by the other side's clients: compare them with what its readers saw, and have consumers of both know that they come twice",
		}
		switch {
		case h.control:
			f.Sure = Likely
		case h.id < 0:
			f.Sure = Likely
			f.Why += "; it has no producer id, so an application that writes the same records to both sides at the same millisecond would leave this too"
		}
		if n == len(pr.hits)-1 {
			f.Times = max(max(pr.hitCount[0], pr.hitCount[1])-int64(n), 1)
		}
		p.findings.add(f)
	}
	if n := pr.tails[0].unprinted + pr.tails[1].unprinted; n > 0 {
		p.findings.add(Finding{
			Kind: Forgotten, Sure: Measured, Offset: pr.parted, Side: pr.lanes[0].name, What: fmt.Sprintf("%d batches behind where the logs part were not looked for on the other side", n),
			Why: fmt.Sprintf("the first %d of each side are kept for that", maxPrints), Do: "nothing: what a stop lets through comes right behind its barrier",
		})
	}
}

// guilty is the side on which a batch of both does not belong.
func (pr *pair) guilty(h hit) (side int, why string) {
	for k := range pr.lanes {
		if h.below[k] && !h.below[1-k] {
			return k, "its leader epoch is below those before it here"
		}
	}
	var behind [2]bool
	for k := range pr.lanes {
		b := pr.barrierFrom(k)
		behind[k] = b != nil && b.offset < h.offsets[k]
	}
	for k := range pr.lanes {
		if behind[k] && !behind[1-k] {
			return k, "it lies behind this side's own barrier"
		}
	}
	return 1, "which of the two sides it was written to first, the logs do not say"
}

// lost counts what side k had above L when side by stopped.
func (pr *pair) lost(p *partition, k, by int, b *barrier) {
	t := pr.tails[k]
	if t.batches == 0 || t.start.barrier {
		return
	}
	own := pr.barrierFrom(k)
	var before, after int64
	for _, h := range t.early {
		switch {
		case own != nil && h.offset >= own.from:
		case h.control:
		case h.time <= b.time:
			before += h.count
		default:
			after += h.count
		}
	}
	f := Finding{
		Kind: LostTail, Sure: Measured, Side: pr.lanes[k].name, Folder: pr.lanes[k].folder, Offset: pr.parted, LastOffset: t.next - 1, Affected: t.records, Records: t.named,
		What: fmt.Sprintf("%d records (%d bytes) from offset %d on are not on %s: %d from before its barrier was written, %d from after it", t.records, t.bytes, pr.parted, pr.lanes[by].name, before, t.records-before),
		Why:  "the logs part there, at the stop's barrier; times are those in the batches, so of producers' clocks",
		Do:   "these are what the failover cost: have them written again on the other side if they count, before a failback cuts them off",
	}
	if own != nil {
		f.What = fmt.Sprintf("%d batches from offset %d on are not on %s: up to its own stop at %d they are what that had not taken", t.batches, pr.parted, pr.lanes[by].name, own.from)
	}
	p.findings.add(f)
}

// unbarred reports logs that part where neither has a barrier.
func (pr *pair) unbarred(p *partition) {
	if pr.common == 0 && (pr.lanes[0].topicID != pr.lanes[1].topicID || pr.lanes[0].topicID == "") {
		p.findings.add(Finding{
			Kind: NoCommonHistory, Sure: Measured, Side: pr.lanes[1].name, Folder: pr.lanes[1].folder, Offset: pr.parted,
			What: fmt.Sprintf("the log has nothing in common with that of %s", pr.lanes[0].name),
			Why:  "they differ from the first offset on that both have, and neither has a barrier there", Do: "nothing, if these are two topics that only share a name",
		})
		return
	}
	k, sure, why := pr.newcomer()
	l, other := pr.lanes[k], pr.lanes[1-k]
	start := pr.tails[k].start
	f := Finding{
		Side: l.name, Folder: l.folder, Offset: pr.parted, LastOffset: max(pr.tails[k].next-1, pr.parted), Sure: sure, Why: why,
		Affected: pr.tails[k].records, Records: pr.tails[k].named,
	}
	late := pr.barrierFrom(k)
	switch {
	case late != nil:
		f.Kind, f.Requirements = LateBarrier, []string{"RO-5", "BAR-3"}
		f.LastOffset = late.offset - 1
		f.What = fmt.Sprintf("the logs part at offset %d, and the barrier comes at %d: what lies between is not of %s", pr.parted, late.offset, other.name)
		f.Do = "producers of before the barrier were known to the broker when this was written: ask whether these records are complete"
	case pr.common == 0 && l.first > 0:
		f.Kind, f.Requirements, f.Sure = MissingBarrier, []string{"BAR-1", "BAR-8"}, Possible
		f.What = fmt.Sprintf("the log begins at offset %d, has nothing in common with that of %s from there on, and holds no barrier", l.first, other.name)
		f.Why = "retention or DeleteRecords may have taken what lay before, the barrier too"
		f.Do = "see whether the broker tells a stop of this partition"
	default:
		f.Kind, f.Requirements = MissingBarrier, []string{"BAR-1"}
		f.What = fmt.Sprintf("the log parts from that of %s at offset %d, and no barrier lies there or behind", other.name, pr.parted)
		f.Do = "the broker may take new producers for mirrored ones of the same id: restart producers with new transactional ids, or have the partition stopped again with a build that writes barriers"
	}
	if start.control && start.transaction && !start.barrier {
		f.Kind = SourceMarkerMissing
		f.Requirements = append([]string{"RO-2"}, append(f.Requirements, "LOG-1")...)
		f.What += fmt.Sprintf("; the first batch that differs is a marker of producer %d, epoch %d", start.id, start.producer)
		f.Why += "; a cluster's own coordinator may have ended a transaction there while the partition mirrored"
	}
	p.findings.add(f)
}

// newcomer is the side that left the common line where two logs part.
func (pr *pair) newcomer() (side int, sure Sureness, why string) {
	a, b := pr.tails[0].start.epoch, pr.tails[1].start.epoch
	for k, e := range []int32{a, b} {
		other := []int32{b, a}[k]
		if other == pr.lastEpoch && e > other {
			return k, Certain, fmt.Sprintf("here leader epoch %d begins, while %s goes on in the epoch that both share, %d", e, pr.lanes[1-k].name, other)
		}
	}
	if pr.barrierFrom(0) != nil && pr.barrierFrom(1) == nil {
		return 0, Likely, "only this side has a barrier later on; a source that lost committed records in an unclean election leaves this too"
	}
	why = "a source that lost committed records in an unclean election leaves this too"
	if a > b {
		return 0, Likely, why
	}
	return 1, Likely, why
}
