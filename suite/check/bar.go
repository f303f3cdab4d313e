package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// barriers returns the indexes of a log's own barriers.
func (s *side) barriers() []int {
	var all []int
	for i := range s.entries {
		if s.entries[i].origin == ownBarrier {
			all = append(all, i)
		}
	}
	return all
}

// eachBarrier calls f for every own barrier of every replica, and notes on r
// when there is none at all.
func (j *judge) eachBarrier(r *ruling, f func(p *part, s *side, i int)) {
	j.needStop(r)
	n := 0
	for _, p := range j.parts() {
		for _, s := range p.dests {
			for _, i := range s.barriers() {
				n++
				f(p, s, i)
			}
		}
	}
	r.need(n > 0, "no log holds a barrier to look at (see BAR-1)")
	r.saw("%d barriers", n)
}

// bar1 holds that each partition has exactly one own barrier for each stop.
func (j *judge) bar1(r *ruling) {
	j.needStop(r)
	empty := 0
	for _, p := range j.parts() {
		want := 1
		if j.number == 0 {
			want = max(p.Stops, 1)
		}
		if p.stopped == never {
			continue
		}
		for _, s := range p.dests {
			got := s.barriers()
			switch {
			case len(got) < want:
				r.findings = append(r.findings, j.finding(s, MissingBarrier, -1, s.cut,
					fmt.Sprintf("%d MIRROR_PID_RESET of its own at or after offset %d", want, s.cut), fmt.Sprintf("%d", len(got))))
			case len(got) > want:
				r.findings = append(r.findings, j.at(s, ExtraBarrier, got[want],
					fmt.Sprintf("%d MIRROR_PID_RESET of its own", want), fmt.Sprintf("%d", len(got))))
			}
		}
		if slices.Contains(j.run.Topic(p.topic).Empty, p.index) && p.lead != nil && p.lead.cut == 0 {
			empty++
		}
	}
	// Later episodes may find something in every partition.
	r.need(empty > 0 || j.number > 1, "no partition was empty when it was stopped")
	r.saw("one barrier for each stop in %d partitions, %d of them empty", len(j.parts()), empty)
}

// bar2 holds that each own barrier is encoded as it has to be.
func (j *judge) bar2(r *ruling) {
	j.eachBarrier(r, func(_ *part, s *side, i int) {
		for _, flaw := range encodingFlaws(&s.entries[i]) {
			r.findings = append(r.findings, j.at(s, BadEncoding, i, flaw[0], flaw[1]))
		}
	})
}

// encodingFlaws compares a barrier with its format; each flaw is what is
// expected and what is there.
func encodingFlaws(e *entry) (flaws [][2]string) {
	flaw := func(ok bool, expected, got string, args ...any) {
		if !ok {
			flaws = append(flaws, [2]string{expected, fmt.Sprintf(got, args...)})
		}
	}
	const logAppendTime = 0x08
	flaw(e.CRCValid, "a sound checksum", "checksum %08x that does not fit the bytes", e.CRC)
	flaw(e.Attributes&^logAppendTime == 0x20, "attributes 0x20: a control batch, not transactional, not compressed", "attributes %#x", uint16(e.Attributes))
	flaw(e.ProducerID == -1 && e.ProducerEpoch == -1 && e.BaseSequence == -1, "producer id, epoch and base sequence -1",
		"producer id %d, epoch %d, base sequence %d", e.ProducerID, e.ProducerEpoch, e.BaseSequence)
	flaw(e.Count == 1 && e.LastOffsetDelta == 0, "one record", "%d records, last offset delta %d", e.Count, e.LastOffsetDelta)
	if e.bad != nil {
		flaw(false, "a MirrorPidResetRecord that can be read", "%v", e.bad)
		return flaws
	}
	c := e.control
	flaw(c.KeyVersion == 0 && c.Type == wirelog.MirrorPIDReset && c.KeyRest == 0, "a key of version 0 and type 7, 4 bytes",
		"version %d, type %d, %d bytes more", c.KeyVersion, c.Type, c.KeyRest)
	flaw(c.ValueVersion == 0, "MirrorPidResetRecord version 0", "version %d", c.ValueVersion)
	// Readers tolerate more (BAR-2); who writes a barrier adds nothing of its own.
	flaw(!c.Prefixed, "no version before the record's own", "one more")
	flaw(len(c.Tagged) == 0, "no tagged field: version 0 knows none", "%d", len(c.Tagged))
	flaw(c.ValueRest == 0, "nothing after the record", "%d bytes more", c.ValueRest)
	return flaws
}

// bar3 holds that the barrier lies at L, or right behind the ABORT markers that
// begin there in profile kip1279-latest, with only the source's bytes below and
// nothing of that source above. Batches of the destination's clients between L
// and the barrier are RO-5's.
func (j *judge) bar3(r *ruling) {
	mirrored, markers := 0, 0
	j.eachBarrier(r, func(p *part, s *side, i int) {
		e := &s.entries[i]
		if i != s.barrier {
			return // a second one is BAR-1's
		}
		if j.run.latest() {
			markers += j.aborting(r, p, s)
		}
		if p.reportedL >= 0 && (p.reportedL != e.BaseOffset || j.run.latest()) && s.cut != p.reportedL {
			r.findings = append(r.findings, j.at(s, MisplacedBarrier, i,
				fmt.Sprintf("what the destination wrote itself to begin at L, which the destination reported as %d", p.reportedL), fmt.Sprintf("offset %d", e.BaseOffset)))
		}
		if p.reportedBarrier >= 0 && p.reportedBarrier != e.BaseOffset {
			r.findings = append(r.findings, j.at(s, MisplacedBarrier, i,
				fmt.Sprintf("the barrier where the destination reported it, at %d", p.reportedBarrier), fmt.Sprintf("offset %d", e.BaseOffset)))
		}
		if least, hw := j.leastL(p); s.cut < least {
			why := fmt.Sprintf("below which every transaction that began below %d has ended", least)
			if j.run.latest() {
				why = "and a stop cuts nothing"
			}
			r.findings = append(r.findings, j.at(s, MisplacedBarrier, i,
				fmt.Sprintf("L at %d or above: the destination had shown high watermark %d while it mirrored, %s", least, hw, why),
				fmt.Sprintf("L = %d: the records from there on were cut", s.cut)))
		}
		for k := range s.entries[:i] {
			b := &s.entries[k]
			if b.origin == unknownWriter || b.origin == leftover || b.origin == local && b.IsControl() {
				r.findings = append(r.findings, j.at(s, ForeignBatch, k, "only the source's bytes below the barrier", b.describe()))
			}
			mirrored++
		}
		for k := i + 1; k < len(s.entries); k++ {
			if b := &s.entries[k]; b.origin.mirrored() {
				r.findings = append(r.findings, j.at(s, LateBytes, k,
					fmt.Sprintf("nothing of cluster %s after the barrier at %d", p.Source, e.BaseOffset), b.describe()))
			}
		}
	})
	r.need(mirrored > 0, "no barrier has a mirrored batch below it")
	if j.run.latest() {
		r.need(markers > 0, "no stop had an open transaction to abort before its barrier")
		r.saw("%d ABORT markers before them", markers)
	}
}

// leastL is the offset below which a stop cuts nothing: the highest one at or
// below the last stable offset that parts no transaction, at the highest high
// watermark that the destination showed while it mirrored. An L from a stale
// high watermark lies below it. In profile kip1279-latest nothing is cut.
func (j *judge) leastL(p *part) (least, hw int64) {
	if p.source == nil {
		return 0, 0
	}
	since := j.steady(p)
	for i := range j.ev.Events {
		if e := &j.ev.Events[i]; e.Seq >= since && e.Seq < p.stopRequested {
			if at, _, ok := p.ends(e); ok && at <= end(p.source.Replica) {
				hw = max(hw, at)
			}
		}
	}
	if j.run.latest() {
		return hw, hw
	}
	return p.source.unparted(hw), hw
}

// unparted is the highest offset at or below the last stable one at a high
// watermark that parts no transaction.
func (s *side) unparted(hw int64) int64 {
	at := s.stableOffset(hw)
	for again := true; again; {
		again = false
		for _, t := range s.txns {
			if t.first < at && !t.endedBelow(at) {
				at, again = t.first, true
			}
		}
	}
	return at
}

// bar4 holds that each own barrier names the cluster that was mirrored.
func (j *judge) bar4(r *ruling) {
	j.eachBarrier(r, func(p *part, s *side, i int) {
		c := s.entries[i].control
		if c == nil || s.entries[i].bad != nil {
			return // BAR-2 says so
		}
		if c.SourceClusterID != p.src.ID {
			r.findings = append(r.findings, j.at(s, WrongSource, i,
				fmt.Sprintf("source cluster id %q, which is cluster %s", p.src.ID, p.Source), fmt.Sprintf("%q", c.SourceClusterID)))
		}
	})
}

// Bounds for a reader that asks again and again at a control record.
const (
	busyFetches   = 2000
	busyPerSecond = 1000
)

// bar6 holds that no reader sees the barrier, and that none sticks to it.
func (j *judge) bar6(r *ruling) {
	j.needStop(r)
	crossed := map[history.Isolation]int{}
	last := map[history.Isolation]int{}
	barriers := 0
	for _, p := range j.parts() {
		if p.lead == nil || p.lead.barrier < 0 {
			continue
		}
		barriers++
		j.readersAt(r, p, crossed, last)
	}
	r.need(barriers > 0, "no log holds a barrier to look at (see BAR-1)")
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		r.need(crossed[level] > 0, "no %s reader crossed a barrier", level)
		r.need(last[level] > 0, "no %s reader stood where a barrier was the last batch", level)
	}
	r.saw("barriers crossed by %d read_committed and %d read_uncommitted readers", crossed[history.ReadCommitted], crossed[history.ReadUncommitted])
}

// stoodWithin says whether a node of a cluster stood still (SIGSTOP) at some time between
// two. franz-go asks a leader again at once that has called its leader epoch an old one,
// until it has new metadata; and it may have asked for those where nobody answers. That is
// the client's doing (FA-16).
func (j *judge) stoodWithin(cluster string, from, to int64) bool {
	standing := map[int32]bool{}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Node == nil || e.Node.Cluster != cluster {
			continue
		}
		if e.At > from && len(standing) > 0 { // until this event
			return true
		}
		if delete(standing, e.Node.Node); e.Node.What == history.NodePaused && e.At < to {
			standing[e.Node.Node] = true
		}
	}
	return len(standing) > 0
}

func (j *judge) readersAt(r *ruling, p *part, crossed, last map[history.Isolation]int) {
	barrier := p.lead.barrierOffset()
	firstLocal := j.firstLocalWrite(p)
	lastRead := map[string]int64{} // reader → time of its last record
	past := map[string]bool{}      // reader has seen a record after the barrier
	final := map[string]*history.Reader{}
	streams := j.seenIn(p)
	look := func(until int64) { // at what was read before an event
		for _, s := range streams {
			for len(s.runs) > 0 && s.runs[0].first < until {
				seen := &s.runs[0]
				s.runs = s.runs[1:]
				lastRead[s.Reader] = seen.when
				past[s.Reader] = past[s.Reader] || p.lead.ownBehind(barrier, seen)
				if k := p.lead.at(seen.offset); seen.odd != nil && seen.odd.Tag == "" && k >= 0 && p.lead.entries[k].IsControl() {
					// What carries a tag is no control record: it lay there before a truncation.
					r.findings = append(r.findings, j.told(p, VisibleBarrier, seen.offset, "no control record to reach an application",
						fmt.Sprintf("reader %s (%s) got one: key %x value %x", s.Reader, s.Isolation, seen.odd.Key, seen.odd.Value)))
				}
			}
		}
	}
	for n := range j.ev.Events {
		e := &j.ev.Events[n]
		if e.Reader == nil || !p.of(p.Destination, e.Reader.Cluster, e.Reader.Topic, e.Reader.Partition) || e.Seq <= p.stopped {
			continue
		}
		look(e.Seq)
		if e.Seq < firstLocal && e.Reader.Start <= barrier {
			last[e.Reader.Isolation]++
		}
		if since, ok := lastRead[e.Reader.Reader]; ok && e.Reader.IdleFetches > busyFetches &&
			float64(e.Reader.IdleFetches) > busyPerSecond*float64(e.At-since)/1e9 && !j.stoodWithin(p.Destination, since, e.At) {
			r.findings = append(r.findings, j.told(p, StuckReader, e.Reader.Position, "a quiet wait for the next record",
				fmt.Sprintf("reader %s asked %d times within %d ms", e.Reader.Reader, e.Reader.IdleFetches, (e.At-since)/1e6)))
		}
		if e.Reader.Final {
			final[e.Reader.Reader] = e.Reader
		}
	}
	look(never)
	for name, f := range inOrder(final) {
		if past[name] && f.Start <= barrier {
			crossed[f.Isolation]++
		}
		if next := p.lead.nextVisible(barrier+1, f.Isolation); p.settled != never && f.Start <= barrier && f.Position <= barrier+1 && next >= 0 && !past[name] {
			r.findings = append(r.findings, j.told(p, StuckReader, f.Position, fmt.Sprintf("reader %s to go on to the record at %d", name, next),
				fmt.Sprintf("it stands at %d", f.Position)))
		}
	}
}

// firstLocalWrite is when the first write of a client of the destination began
// after the partition was STOPPED.
func (j *judge) firstLocalWrite(p *part) int64 {
	for _, o := range j.local(p) {
		if o.began > p.since() && (o.began > p.stopped || o.result.Outcome == history.OK) {
			return o.began
		}
	}
	return never
}

// ownBehind says whether one of the records that a reader saw lies behind the
// barrier, and is of this cluster's own.
func (s *side) ownBehind(barrier int64, seen *seenRun) bool {
	for k := range int64(seen.n) {
		one := seen.one(k)
		if one.offset <= barrier || one.odd != nil {
			continue
		}
		if i := s.at(one.offset); i >= 0 && s.entries[i].origin == local && s.holds(one) {
			return true
		}
	}
	return false
}

// holds says whether the log holds what a reader saw, at that offset.
func (s *side) holds(read seen) bool {
	return slices.ContainsFunc(s.find(read.stem, read.index), func(at place) bool { return at.offset == read.offset })
}

// nextVisible is the offset of the first record at or above offset that a
// reader is to see, -1 when there is none.
func (s *side) nextVisible(offset int64, level history.Isolation) int64 {
	stable := s.stableOffset(end(s.Replica))
	for i := range s.entries {
		e := &s.entries[i]
		if level == history.ReadCommitted && !e.visible() {
			continue
		}
		for _, run := range e.runs {
			if at := max(run.offset, offset); at < run.end() && (level == history.ReadUncommitted || at < stable) {
				return at
			}
		}
	}
	return -1
}
