package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// log1 holds that below L every batch of the destination is the source's batch
// at that offset, byte for byte. Batches of the destination's own clients that
// lie there are RO-1's and RO-5's.
func (j *judge) log1(r *ruling) {
	j.needStop(r)
	compared := 0
	for _, p := range j.parts() {
		if p.source == nil {
			continue
		}
		for _, s := range p.dests {
			compared += j.compare(r, p, s)
		}
	}
	r.need(compared > 0, "no batch was mirrored")
	r.saw("%d batches below L equal their source's", compared)
}

func (j *judge) compare(r *ruling, p *part, s *side) (equal int) {
	for i := range s.below(s.cut) {
		e := &s.entries[i]
		switch e.origin {
		case fromSource:
			equal++
		case local, ownBarrier:
		case leftover:
			r.findings = append(r.findings, j.at(s, UncutSuffix, i, "nothing of this cluster's own from before the mirror started: it parted from the source's log here", e.describe()))
		default:
			expected := "no batch: the source's log has none at this offset"
			anomaly := ForeignBatch
			if k := p.source.at(e.BaseOffset); k >= 0 {
				expected, anomaly = "the source's batch "+p.source.entries[k].describe(), AlteredBatch
			}
			r.findings = append(r.findings, j.at(s, anomaly, i, expected, e.describe()+differences(p, e)))
		}
	}
	first := int64(0)
	if len(s.entries) > 0 {
		first = s.entries[0].BaseOffset
	}
	for i := range p.source.entries {
		e := &p.source.entries[i]
		if e.BaseOffset >= first && e.NextOffset() <= s.cut && s.at(e.BaseOffset) < 0 {
			r.findings = append(r.findings, j.finding(s, MissingBatch, -1, e.BaseOffset, "the source's batch "+e.describe(), "no batch"))
		}
	}
	return equal
}

// differences names the first byte that differs from the source's batch.
func differences(p *part, e *entry) string {
	k := p.source.at(e.BaseOffset)
	if k < 0 {
		return ""
	}
	want := p.source.entries[k].Raw
	for i := range e.Raw {
		if i >= len(want) || want[i] != e.Raw[i] {
			return fmt.Sprintf("; first difference at byte %d of the batch (%s)", i, fieldAt(i))
		}
	}
	return fmt.Sprintf("; %d bytes instead of %d", len(e.Raw), len(want))
}

// fieldAt names the field of a batch's header that byte i belongs to.
func fieldAt(i int) string {
	for _, f := range []struct {
		end  int
		name string
	}{
		{8, "base offset"},
		{12, "length"},
		{16, "leader epoch"},
		{17, "magic"},
		{21, "crc"},
		{23, "attributes"},
		{27, "last offset delta"},
		{35, "base timestamp"},
		{43, "max timestamp"},
		{51, "producer id"},
		{53, "producer epoch"},
		{57, "base sequence"},
		{61, "record count"},
	} {
		if i < f.end {
			return f.name
		}
	}
	return "records"
}

// log2 holds that no producer id is below -1 in any log.
func (j *judge) log2(r *ruling) {
	ids := 0
	for _, p := range j.parts() {
		for _, s := range p.sides() {
			for i := range s.entries {
				e := &s.entries[i]
				if e.ProducerID < -1 {
					r.findings = append(r.findings, j.at(s, NegativeID, i, "a producer id of -1 or above", fmt.Sprintf("producer id %d", e.ProducerID)))
				}
				if e.ProducerID >= 0 && e.origin.mirrored() {
					ids++
				}
			}
			j.collisions(r, s)
		}
	}
	r.need(ids > 0, "no batch with a producer id was mirrored")
	r.saw("%d mirrored batches carry a producer id", ids)
}

// sides returns every log of the partition, the source's first.
func (p *part) sides() []*side {
	var all []*side
	if p.source != nil {
		all = append(all, p.source)
	}
	return append(all, p.dests...)
}

// log3 holds that offsets go up without gaps (but where a cleaner was) and
// leader epochs never go down, and that every byte of a log is a sound batch.
func (j *judge) log3(r *ruling) {
	batches := 0
	for _, p := range j.parts() {
		compacted := j.run.Topic(p.topic).Compacted
		for _, s := range p.sides() {
			for i := range s.entries {
				batches++
				j.follows(r, s, i, compacted)
			}
			for n, problem := range s.Problems {
				if problem.Torn && n == len(s.Problems)-1 && j.killed(s.Replica) {
					continue // a crash may tear the tail; recovery would have cut it
				}
				f := j.finding(s, BadBytes, -1, end(s.Replica), "whole batches up to the log's end", problem.Error())
				r.findings = append(r.findings, f)
			}
		}
	}
	r.need(batches > 0, "the logs hold no batch")
	r.saw("%d batches in order", batches)
}

func (j *judge) follows(r *ruling, s *side, i int, compacted bool) {
	e := &s.entries[i]
	if !e.CRCValid {
		r.findings = append(r.findings, j.at(s, BadBytes, i, "a sound checksum", fmt.Sprintf("checksum %08x that does not fit the bytes", e.CRC)))
	}
	if i == 0 {
		return
	}
	before := &s.entries[i-1]
	switch {
	case e.BaseOffset < before.NextOffset():
		r.findings = append(r.findings, j.at(s, BrokenOrder, i, fmt.Sprintf("an offset of %d or above", before.NextOffset()), fmt.Sprintf("offset %d", e.BaseOffset)))
	case e.BaseOffset > before.NextOffset() && !compacted:
		r.findings = append(r.findings, j.at(s, BrokenOrder, i, fmt.Sprintf("offset %d, right after the batch before", before.NextOffset()), fmt.Sprintf("offset %d: a gap that nothing explains", e.BaseOffset)))
	}
	if e.LeaderEpoch < before.LeaderEpoch {
		r.findings = append(r.findings, j.at(s, BrokenOrder, i, fmt.Sprintf("a leader epoch of %d or above", before.LeaderEpoch), fmt.Sprintf("leader epoch %d", e.LeaderEpoch)))
	}
}

// killed says whether the replica's broker was killed and not started again.
func (j *judge) killed(r *Replica) bool {
	killed := false
	for i := range j.ev.Events {
		if n := j.ev.Events[i].Node; n != nil && n.Cluster == r.Cluster && n.Node == r.Node {
			killed = n.What == history.NodeKilled
		}
	}
	return killed
}
