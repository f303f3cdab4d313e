package check

import (
	"fmt"

	"watershed.example/suite/history"
)

// sc6 holds that with transactions version 2 an EndTxn or a Produce which is
// delivered late never touches the producer's next transaction. With version 1
// an EndTxn does: that is measured.
func (t *trial) sc6(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		var late [2]int // by what the EndTxn asked for: abort, commit
		var old, oldTouched, produced int
		for i := range a.ev.Events {
			e := &a.ev.Events[i]
			if e.Kind != history.KindTxnEnd || !e.Txn.Late || e.Txn.Cluster != a.edge.Destination {
				continue
			}
			next, open := a.nextOf(e)
			if !open {
				continue
			}
			if next.Result == nil && e.Txn.Version == 2 {
				a.endedByLate(r, next, e)
				continue
			}
			if e.Txn.Version != 2 {
				old++
				oldTouched += b2i(a.endedOtherwise(next))
				continue
			}
			judged := false
			for _, p := range a.parts {
				if p.lead != nil && p.complete {
					judged = a.ended(r, p, next, ForeignMarker) || judged
				}
			}
			if judged {
				late[b2i(e.Txn.Intent == history.IntentCommit)]++
			}
			produced += a.lateBatches(r, e)
		}
		r.need(late[0] > 0, "no late EndTxn of transactions version 2 asked to abort while the next transaction was open")
		r.need(late[1] > 0, "no late EndTxn of transactions version 2 asked to commit while the next transaction was open")
		r.need(produced > 0, "no late Produce of transactions version 2 came while the next transaction was open")
		r.saw("%d late EndTxns and %d late batches left the next transaction alone; with transactions version 1, %d of %d late EndTxns ended it", late[0]+late[1], produced, oldTouched, old)
	})
}

// nextOf finds the transaction after the one of a late EndTxn, as its writer was
// told of it, and says whether it was open at that moment.
func (a *alone) nextOf(late *history.Event) (*history.Txn, bool) {
	var began *history.Txn
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		n := e.Txn
		if n == nil || n.Writer != late.Txn.Writer || n.Cluster != late.Txn.Cluster || n.Number != late.Txn.Number+1 || n.Late {
			continue
		}
		switch {
		case e.Kind == history.KindTxnBegin && e.Seq < late.Seq:
			began = n
		case e.Kind == history.KindTxnEndBegin && e.Seq < late.Seq:
			return nil, false
		case e.Kind == history.KindTxnEnd && n.Result.Outcome == history.OK:
			return n, began != nil
		}
	}
	// Its writer got no further: the late EndTxn may be why.
	return began, began != nil
}

// endedByLate finds a transaction whose writer could not end it, and which ended
// as a late EndTxn asked that was acknowledged.
func (a *alone) endedByLate(r *ruling, begun *history.Txn, late *history.Event) {
	if late.Txn.Result.Outcome != history.OK || late.Txn.Intent == begun.Intent {
		return
	}
	for _, p := range a.parts {
		if p.lead == nil {
			continue
		}
		for _, t := range p.lead.txns {
			if t.writer == begun.Cluster+"/"+begun.Writer && t.number == begun.Number && t.end >= 0 && t.committed == (late.Txn.Intent == history.IntentCommit) {
				r.findings = append(r.findings, a.at(p.lead, ForeignMarker, p.lead.at(t.end),
					fmt.Sprintf("transaction %d of %s to be left alone by the late EndTxn (%s) of transaction %d (event %d)", t.number, t.writer, late.Txn.Intent, late.Txn.Number, late.Seq),
					p.lead.entries[p.lead.at(t.end)].describe()))
			}
		}
	}
}

// endedOtherwise says whether a transaction ended otherwise than its writer
// meant.
func (a *alone) endedOtherwise(told *history.Txn) bool {
	for _, p := range a.parts {
		if p.lead == nil {
			continue
		}
		for _, t := range p.lead.txns {
			if t.writer == told.Cluster+"/"+told.Writer && t.number == told.Number && t.end >= 0 && t.committed != (told.Intent == history.IntentCommit) {
				return true
			}
		}
	}
	return false
}

// lateBatches judges the batches that were delivered late by the writer of a
// late EndTxn, and counts those that were refused.
func (a *alone) lateBatches(r *ruling, late *history.Event) (refused int) {
	for _, p := range a.parts {
		for _, o := range p.ops {
			if o.sent.Trial != history.TrialLate || o.sent.Writer != late.Txn.Writer || o.sent.Tag().Txn != late.Txn.Number {
				continue
			}
			expected := fmt.Sprintf("%s refused with error %d: it belongs to transaction %d, which has ended", batchWords(o), oldEpoch, o.sent.Tag().Txn)
			refused += b2i(a.refusedLate(r, p, o, expected, "it was appended to the next transaction"))
		}
	}
	return refused
}
