package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// nothing is what describe says of a cut that takes nothing, and noneOpen of no
// open transaction.
var (
	nothing  = history.Cut{From: -1, To: -1}
	noneOpen = history.Undecided{ProducerID: -1, Epoch: -1, FirstOffset: -1}
)

// ops4 holds that describe tells, of a partition that mirrors, what a stop would
// cut and the oldest open transaction: as the source's log has it up to where the
// partition is, and as the stop did then. Only an episode that declares it is
// judged: where a broker mangles what it mirrors, its log is another, and so is
// what it has to tell.
func (j *judge) ops4(r *ruling) {
	if !slices.Contains(j.episode.Exercises, "OPS-4") && !j.run.Declares("OPS-4") {
		r.need(false, "the episode does not declare it")
		return
	}
	j.needStop(r)
	told, stops := 0, 0
	for _, p := range j.parts() {
		if p.source == nil || j.run.Topic(p.topic).Compacted {
			continue
		}
		n, last := j.foretold(r, p)
		told += n
		stops += j.asForetold(r, p, last)
	}
	r.need(told > 0, "no describe of a partition that mirrored, with a transaction open, told what a stop would cut")
	r.saw("what a stop would cut told %d times, as the source's log has it, and %d stops cut just that", told, stops)
}

// foretold judges what describe said of a partition while it mirrored. It
// returns how often that was a cut and right, and the last such event before the
// stop was requested.
func (j *judge) foretold(r *ruling, p *part) (told int, last *history.Event) {
	var said []*history.Event
	for i := range j.ev.Events {
		if e := &j.ev.Events[i]; e.Mirror != nil && e.Mirror.Cluster == p.dst.Name && e.Mirror.Topic == p.topic && e.Mirror.Partition == p.index && e.Mirror.Mirror == p.Mirror {
			said = append(said, e)
		}
	}
	if p.latest {
		return j.openForetold(r, p, said), nil
	}
	for i, e := range said {
		m := e.Mirror
		if m.State != "MIRRORING" || m.WouldCut == (history.Cut{}) || j.upstreamCutsAfter(p, e.Seq) {
			continue
		}
		if e.Seq < p.stopRequested {
			last = e
		}
		if m.WouldCut == nothing {
			j.untoldCut(r, p, said[i:])
			continue
		}
		if m.WouldCut.To > end(p.source.Replica) {
			continue // of what the source lost since
		}
		want, oldest := p.source.foreseen(m.WouldCut.To)
		switch {
		case m.WouldCut != want:
			r.findings = append(r.findings, j.told(p, UntoldState, want.From, fmt.Sprintf("a stop at log end %d to be told to cut %s", m.WouldCut.To, cutText(want)),
				fmt.Sprintf("%s (event %d)", cutText(m.WouldCut), e.Seq)))
		case oldest == nil || m.Oldest.ProducerID != oldest.producerID || m.Oldest.FirstOffset != oldest.first:
			r.findings = append(r.findings, j.told(p, UntoldState, want.From, "the oldest open transaction told: "+openText(oldest),
				fmt.Sprintf("producer id %d from offset %d (event %d)", m.Oldest.ProducerID, m.Oldest.FirstOffset, e.Seq)))
		default:
			told++
		}
	}
	return told, last
}

// untoldCut judges a describe by which a stop would cut nothing, the first of
// said. It does not say where the log ended then: at or above where it says that
// it did, and at or below where the next one does.
func (j *judge) untoldCut(r *ruling, p *part, said []*history.Event) {
	m := said[0].Mirror
	from, to := m.DestinationOffset, m.DestinationOffset
	if len(said) > 1 && said[1].Mirror.State == m.State {
		to = max(to, said[1].Mirror.DestinationOffset)
	}
	if m.Oldest != noneOpen {
		r.findings = append(r.findings, j.told(p, UntoldState, m.Oldest.FirstOffset, fmt.Sprintf("what the open transaction of producer id %d has a stop cut", m.Oldest.ProducerID),
			fmt.Sprintf("nothing to be cut (event %d)", said[0].Seq)))
		return
	}
	if from < 0 || to > end(p.source.Replica) {
		return
	}
	for at := from; at <= to; at++ {
		if want, _ := p.source.foreseen(at); want == nothing {
			return
		}
	}
	want, oldest := p.source.foreseen(from)
	r.findings = append(r.findings, j.told(p, UntoldState, want.From, fmt.Sprintf("a stop at log end %d to be told to cut %s, for %s", from, cutText(want), openText(oldest)),
		fmt.Sprintf("nothing (event %d)", said[0].Seq)))
}

// asForetold compares a stop with what was told last before it, where nothing was
// mirrored in between. It returns how many could be.
func (j *judge) asForetold(r *ruling, p *part, last *history.Event) int {
	if last == nil || last.Mirror.WouldCut == nothing {
		return 0
	}
	for i := range j.ev.Events {
		e := &j.ev.Events[i]
		if e.Seq < p.stopped || e.Mirror == nil || e.Mirror.Cluster != p.dst.Name || e.Mirror.Topic != p.topic || e.Mirror.Partition != p.index || e.Mirror.State != "STOPPED" {
			continue
		}
		would, did := last.Mirror.WouldCut, e.Mirror.StopCut
		if would.To != did.To {
			return 0
		}
		if would != did {
			r.findings = append(r.findings, j.told(p, UntoldState, would.From, "the stop to cut what was told before it (event "+fmt.Sprint(last.Seq)+"): "+cutText(would),
				fmt.Sprintf("%s (event %d)", cutText(did), e.Seq)))
			return 0
		}
		return 1
	}
	return 0
}

// upstreamCutsAfter says whether the source was a destination itself, and was
// stopped after that event: what it held above its own L then, nobody has any more.
func (j *judge) upstreamCutsAfter(p *part, seq int64) bool {
	return slices.ContainsFunc(j.trial.views, func(other *judge) bool {
		return other.edge.Destination == j.edge.Source && slices.Contains(other.edge.Topics, p.topic) && other.edge.stopRequested != never && other.edge.stopped > seq
	})
}

// foreseen is what a stop would cut of the log if it ended at offset, and why.
func (s *side) foreseen(offset int64) (history.Cut, *txn) {
	at := offset
	var oldest *txn
	for _, t := range s.txns {
		if t.first < at && !t.endedBelow(offset) {
			at, oldest = t.first, t
		}
	}
	for moved := true; moved; {
		moved = false
		for _, t := range s.txns { // one that ended above would be open for good
			if t.first < at && t.endedBelow(offset) && t.end >= at {
				at, moved = t.first, true
			}
		}
	}
	if at == offset {
		return nothing, nil
	}
	c := history.Cut{From: at, To: offset}
	for i := range s.entries {
		if e := &s.entries[i]; e.BaseOffset >= at && e.LastOffset() < offset && !e.IsControl() {
			c.Records += int64(e.Count)
		}
	}
	return c, oldest
}

func cutText(c history.Cut) string {
	if c.From < 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d records in [%d, %d)", c.Records, c.From, c.To)
}

func openText(t *txn) string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("producer id %d from offset %d", t.producerID, t.first)
}
