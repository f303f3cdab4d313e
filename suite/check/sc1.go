package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// sc1 holds what one epoch of an idempotent producer is promised: retries of its
// last five batches are answered with their offsets and appended once, gaps are
// refused, and sequences wrap, also inside a batch.
func (t *trial) sc1(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		var c windowCount
		for _, p := range a.parts {
			a.numberings(p, func(o *operation, w wanted) { a.window(r, p, o, w, &c) })
		}
		for back, n := range c.repeats {
			r.need(n > 0, "no retry of a batch with %d behind it was answered", back)
		}
		r.need(c.old > 0, "no batch was sent again that had more than five behind it")
		r.need(c.gaps > 0, "no gap was tried")
		r.need(c.wrapped > 0, "no sequence wrapped inside a batch")
		r.need(c.wrappedAgain > 0, "no batch in which the sequence wrapped was sent again")
		r.need(c.afterWrap > 0, "no batch followed one in which the sequence wrapped")
		r.saw("%d retries of the last five batches, %d of older ones, %d gaps, %d wraps", sum(c.repeats[:]), c.old, c.gaps, c.wrapped)
	})
}

func sum(all []int) (n int) {
	for _, k := range all {
		n += k
	}
	return n
}

// windowCount counts what was tried and came out right.
type windowCount struct {
	repeats                                     [kept]int
	old, gaps, wrapped, wrappedAgain, afterWrap int
}

// wraps says whether the sequence wraps inside the batch.
func wraps(o *operation) bool {
	b := o.sent.Batch
	return follows(b.BaseSequence, o.sent.Count-1) < b.BaseSequence
}

func (a *alone) window(r *ruling, p *alonePart, o *operation, w wanted, c *windowCount) {
	if o.result.Outcome == history.Unknown || retriable[o.result.Code] {
		return
	}
	switch w.rule {
	case toAppend:
		if o.result.Outcome != history.OK {
			r.findings = append(r.findings, a.told(p.part, RefusedWrite, -1, batchWords(o)+" appended: it follows the producer's last one", answer(*o.result)))
			return
		}
		if a.appendedOnce(r, p, o, o.offset) {
			c.wrapped += b2i(wraps(o))
			c.afterWrap += b2i(!wraps(o) && p.wrappedBefore(o))
		}
	case toRepeat:
		a.repeated(r, p, o, w, c)
	case tooOld:
		// A broker may know more than it has to; it must not append it.
		if o.result.Outcome == history.OK && o.offset != w.first.offset {
			r.findings = append(r.findings, a.told(p.part, PhantomAck, o.offset, fmt.Sprintf("%s refused with error 45, or its first offset %d", batchWords(o), w.first.offset), fmt.Sprintf("acknowledged with offset %d", o.offset)))
			return
		}
		if a.appendedOnce(r, p, o, w.first.offset) {
			c.old++
		}
	case toBeGap:
		if a.refusedAs(r, p, o, AcceptedGap, "its sequence leaves a gap", outOfOrder) {
			c.gaps++
		}
	}
}

func (a *alone) repeated(r *ruling, p *alonePart, o *operation, w wanted, c *windowCount) {
	expected := fmt.Sprintf("%s answered with its first offset %d and appended once: %d batches came after it", batchWords(o), w.first.offset, w.back)
	if !a.appendedOnce(r, p, o, w.first.offset) {
		return
	}
	switch {
	case o.result.Outcome == history.OK && o.offset != w.first.offset:
		r.findings = append(r.findings, a.told(p.part, PhantomAck, o.offset, expected, fmt.Sprintf("acknowledged with offset %d", o.offset)))
	case o.result.Outcome == history.OK:
		c.repeats[w.back]++
		c.wrappedAgain += b2i(wraps(o))
	case w.back > 0 && o.result.Code == outOfOrder && a.went(w.first.op.ended, o.began): // field case FA-03
	default:
		r.findings = append(r.findings, a.told(p.part, RefusedWrite, w.first.offset, expected, answer(*o.result)))
	}
}

// wrappedBefore says whether the producer's sequence had wrapped when o began.
func (p *alonePart) wrappedBefore(o *operation) bool {
	for _, f := range p.ops {
		if b := f.sent.Batch; f.ended < o.began && b != nil && b.ProducerID == o.sent.Batch.ProducerID && b.Epoch == o.sent.Batch.Epoch && wraps(f) {
			return true
		}
	}
	return false
}
