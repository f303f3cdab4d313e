package check

import (
	"fmt"
	"path/filepath"
	"slices"

	"watershed.example/suite/history"
)

// header is what the idempotent protocol knows a batch by.
type header struct {
	history.BatchID
	count int32
}

// idem1 holds that a local batch with the very header of a mirrored one is
// appended, and that no acknowledgement on the promoted cluster names an offset
// from before the barrier.
func (j *judge) idem1(r *ruling) {
	j.needStop(r)
	collided := 0
	for _, p := range j.parts() {
		if p.lead == nil {
			continue
		}
		mirrored := map[header]int{}
		for i := range p.lead.below(p.lead.cut) {
			if e := &p.lead.entries[i]; e.origin.mirrored() && !e.IsControl() && e.ProducerID >= 0 {
				mirrored[header{history.BatchID{ProducerID: e.ProducerID, Epoch: e.ProducerEpoch, BaseSequence: e.BaseSequence}, e.LastOffsetDelta + 1}] = i
			}
		}
		tried := map[header]bool{}
		for _, o := range j.local(p) {
			if o.began < p.stopped {
				continue
			}
			if o.result.Outcome == history.OK && o.offset >= 0 && o.offset < p.lead.localFrom() {
				r.findings = append(r.findings, j.told(p, StaleDedupe, o.offset,
					fmt.Sprintf("the write of %s appended at offset %d or above", who(o.sent.Tag()), p.lead.localFrom()),
					fmt.Sprintf("acknowledged with offset %d, which another cluster's batch holds: its records are lost", o.offset)))
				collided++
				continue
			}
			if o.sent.Collision != history.SameHeader || o.sent.Batch == nil {
				continue
			}
			h := header{*o.sent.Batch, o.sent.Count}
			k, met := mirrored[h]
			if !met || tried[h] || j.usedBefore(p, h.ProducerID, o) {
				continue
			}
			tried[h] = true
			if j.appended(r, p, o, p.lead.entries[k].describe(), StaleFence) {
				collided++
			}
		}
	}
	r.need(collided > 0, "no batch with the header of a mirrored one was tried after the stop")
	r.saw("%d batches with the header of a mirrored one were appended", collided)
}

// usedBefore says whether a client of the destination had used the producer id
// in the partition since the barrier, before o began: then o meets that one's
// state and not a mirrored entry's.
func (j *judge) usedBefore(p *part, id int64, o *operation) bool {
	first, found := p.lead.firstLocal(id)
	if !found {
		return false
	}
	for _, other := range j.local(p) {
		if other != o && other.began < o.began && other.sent.stem == first.stem && other.sent.index == first.index {
			return true
		}
	}
	return false
}

// firstLocal is the first local record under a producer id.
func (s *side) firstLocal(id int64) (first record, found bool) {
	for i := range s.entries {
		e := &s.entries[i]
		if e.origin == local && e.ProducerID == id && e.firstRun() != nil {
			return e.firstRun().at(0), true
		}
	}
	return first, false
}

// localFrom is the offset from which on only the destination writes: after the
// barrier, or L without one.
func (s *side) localFrom() int64 {
	if s.barrier >= 0 {
		return s.barrierOffset() + 1
	}
	return s.cut
}

// appended judges a forged batch: acknowledged, and there. It returns whether
// the attempt counts.
func (j *judge) appended(r *ruling, p *part, o *operation, met string, refusal Anomaly) bool {
	expected := fmt.Sprintf("the forged batch (pid %d epoch %d seq %d, %s) appended: what it meets, %s, lies before the barrier",
		o.sent.Batch.ProducerID, o.sent.Batch.Epoch, o.sent.Batch.BaseSequence, o.sent.Collision, met)
	switch {
	case o.result.Outcome == history.Unknown, retriable[o.result.Code]:
		return false
	case o.result.Outcome == history.Refused:
		r.findings = append(r.findings, j.told(p, refusal, -1, expected, answer(*o.result)))
		return true
	}
	for _, at := range p.lead.find(o.sent.stem, o.sent.index) {
		if at.offset == o.offset {
			return true
		}
	}
	r.findings = append(r.findings, j.told(p, PhantomAck, o.offset, expected, fmt.Sprintf("acknowledged with offset %d, where its record is not", o.offset)))
	return true
}

// idem2 holds that a mirrored entry neither fences a local producer nor puts it
// out of order.
func (j *judge) idem2(r *ruling) {
	j.needStop(r)
	met := map[history.Collision]int{}
	for _, p := range j.parts() {
		if p.lead == nil {
			continue
		}
		type state struct {
			entry int
			epoch int16
			last  int32
		}
		mirrored := map[int64]state{}
		for i := range p.lead.below(p.lead.cut) {
			if e := &p.lead.entries[i]; e.origin.mirrored() && e.ProducerID >= 0 && !e.IsControl() {
				mirrored[e.ProducerID] = state{i, e.ProducerEpoch, e.LastSequence()}
			}
		}
		used := map[int64]bool{}
		for _, o := range j.local(p) {
			if o.began < p.stopped || o.sent.Batch == nil || o.sent.Batch.ProducerID < 0 {
				continue
			}
			b := o.sent.Batch
			m, known := mirrored[b.ProducerID]
			fits := known && !used[b.ProducerID] && !j.usedBefore(p, b.ProducerID, o)
			switch o.sent.Collision {
			case history.LowerEpoch:
				fits = fits && b.Epoch < m.epoch
			case history.HigherEpoch:
				fits = fits && b.Epoch > m.epoch
			case history.SequenceGap:
				fits = fits && b.Epoch == m.epoch && b.BaseSequence > m.last+1
			default:
				fits = false
			}
			used[b.ProducerID] = used[b.ProducerID] || o.result.Outcome != history.Refused
			if fits && j.appended(r, p, o, p.lead.entries[m.entry].describe(), StaleFence) {
				met[o.sent.Collision]++
			}
		}
	}
	r.need(met[history.LowerEpoch] > 0, "no local batch had a lower epoch than the mirrored entry of its id")
	r.need(met[history.SequenceGap] > 0, "no local batch had a sequence out of order for the mirrored entry of its id")
	r.saw("%d lower epochs, %d higher epochs, %d gaps met mirrored entries", met[history.LowerEpoch], met[history.HigherEpoch], met[history.SequenceGap])
}

// idem4 holds that what was acknowledged is there exactly once and in its
// producer's order, and what was not at most once. Copies that a client made
// under another identity (FA-16), and those of plain producers, are measured.
func (j *judge) idem4(r *ruling) {
	j.needStop(r)
	c := &counts{}
	for _, p := range j.parts() {
		for _, s := range p.sides() {
			j.present(r, p, s, c)
			j.inOrder(r, s)
		}
	}
	r.need(c.local > 0, "no idempotent or transactional record was acknowledged on the promoted cluster")
	r.saw("%d records acknowledged on the source and %d on the destination are there once; measured: %d copies made by clients", c.source, c.local, c.copies)
}

// beyond says whether another episode's write was answered after this one's
// logs were captured, which they can't show: its offset lies beyond the log, and
// the episode had settled.
func (j *judge) beyond(s *side, o *operation) bool {
	return filepath.Clean(j.episode.Logs) != LogsDir && o.episode != j.number && o.ended > j.edge.settled && o.offset >= end(s.Replica)
}

// behind says whether a replica may lack what the longest one has to show: the run broke
// off before it settled, so that nobody waited for it, and it was not in sync when that was
// asked for last, or its node has ended or stood still since, whether it is back or not.
func (j *judge) behind(p *part, s *side) bool {
	if s.Cluster != p.Destination || s == p.lead || j.edge.settled != never {
		return false
	}
	inSync, asked := j.lastInSync(p)
	return len(inSync) > 0 && !slices.Contains(inSync, s.Node) || slices.ContainsFunc(j.ev.Events, func(e history.Event) bool {
		n := e.Node
		return n != nil && e.Seq > asked && n.Cluster == p.Destination && n.Node == s.Node && isAway(n.What)
	})
}

type counts struct{ source, local, copies int }

func (j *judge) present(r *ruling, p *part, s *side, c *counts) {
	isSource, behind := s.Cluster == p.Source, j.behind(p, s)
	for _, o := range j.sentTo(s.Cluster, p.topic, p.index) {
		if o.sent.Collision != "" {
			continue
		}
		// What was accepted in the read-only window is RO-1's and RO-5's, an
		// acknowledgement that names a mirrored batch IDEM-1's.
		if !isSource && o.began < p.stopped && o.result.Outcome == history.OK {
			continue
		}
		ok := o.result.Outcome == history.OK
		if isSource && o.began < p.writable || !isSource && o.began < p.since() {
			continue // of an earlier writable period
		}
		if behind && o.offset >= end(s.Replica) || j.beyond(s, o) {
			continue
		}
		if !isSource && ok && o.offset >= 0 && o.offset < s.localFrom() {
			continue
		}
		if ok && isSource {
			c.source += int(o.sent.Count)
		} else if ok && o.sent.Mode != history.Plain {
			c.local += int(o.sent.Count)
		}
		if at, there := s.findAll(o.sent.stem, o.sent.index, o.sent.Count); there && (!ok || o.offset < 0 || at.offset == o.offset) {
			continue // all of them, once, where they are to be
		}
		for k := range int64(o.sent.Count) {
			at := s.find(o.sent.stem, o.sent.index+k)
			if ok {
				j.acknowledged(r, s, o, k, at)
			}
			c.copies += j.once(r, s, o, o.sent.Tag().Add(k), at)
		}
	}
}

func (j *judge) acknowledged(r *ruling, s *side, o *operation, k int64, at []place) {
	if len(at) > 0 && (o.offset < 0 || slices.ContainsFunc(at, func(a place) bool { return a.offset == o.offset+k })) {
		return
	}
	expected := fmt.Sprintf("the record of %s, acknowledged at offset %d", who(o.sent.Tag().Add(k)), o.offset+k)
	if len(at) == 0 {
		r.findings = append(r.findings, j.finding(s, LostWrite, s.at(o.offset+k), o.offset+k, expected, "it is nowhere in the log"))
		return
	}
	r.findings = append(r.findings, j.finding(s, PhantomAck, s.at(o.offset+k), o.offset+k, expected, fmt.Sprintf("it lies at %d", at[0].offset)))
}

// once reports copies of a record under one identity and counts the others.
func (j *judge) once(r *ruling, s *side, o *operation, tag history.Tag, at []place) (copies int) {
	if len(at) < 2 {
		return 0
	}
	first := map[history.BatchID]place{}
	for _, a := range at {
		e := &s.entries[a.entry]
		id := history.BatchID{ProducerID: e.ProducerID, Epoch: e.ProducerEpoch, BaseSequence: e.BaseSequence + int32(a.offset-e.BaseOffset)}
		if before, twice := first[id]; twice && o.sent.Mode != history.Plain && e.ProducerID >= 0 && !e.origin.mirroredAgain() {
			r.findings = append(r.findings, j.finding(s, Duplicate, a.entry, a.offset, fmt.Sprintf("the record of %s once, at %d", who(tag), before.offset), "again under the same producer id, epoch and sequence"))
			continue
		}
		first[id] = a
	}
	return len(at) - 1
}

// mirroredAgain says whether a batch of the source lies out of place, which is LINK-1's.
func (o origin) mirroredAgain() bool { return o == movedCopy }

// inOrder holds a producer's records to the order in which it sent them.
func (j *judge) inOrder(r *ruling, s *side) {
	type producer struct {
		writer string
		id     int64
		epoch  int16
	}
	last := map[producer]int64{}
	for i := range s.entries {
		e := &s.entries[i]
		if e.ProducerID < 0 || e.origin == movedCopy {
			continue
		}
		for _, run := range e.runs {
			if run.stem == nil {
				continue
			}
			p := producer{run.stem.writer, e.ProducerID, e.ProducerEpoch}
			before, seen := last[p]
			for k := int64(0); seen && k < int64(run.n) && run.index+k < before; k++ {
				r.findings = append(r.findings, j.finding(s, Reordered, i, run.offset+k, fmt.Sprintf("a record of %s after its record %d", p.writer, before), fmt.Sprintf("its record %d", run.index+k)))
			}
			last[p] = max(before, run.index+int64(run.n)-1)
		}
	}
}
