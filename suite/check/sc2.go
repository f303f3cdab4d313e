package check

import (
	"fmt"
	"math"

	"watershed.example/suite/history"
)

// highest is the last epoch that a producer is given: the one above it is for
// the marker that fences it.
const highest int16 = math.MaxInt16 - 1

// sc2 holds that older epochs are fenced, that newer ones start at sequence 0,
// and that epochs that are used up go over to a new id, never below zero.
func (t *trial) sc2(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		var older, newer, tooHigh int
		for _, p := range a.parts {
			a.numberings(p, func(o *operation, w wanted) {
				switch {
				case o.result.Outcome == history.Unknown || retriable[o.result.Code]:
				case w.rule == toFence:
					older += b2i(a.refusedAs(r, p, o, ZombieAppend, "a newer epoch has written", oldEpoch))
				case w.rule == anewTooHigh:
					tooHigh += b2i(a.refusedAs(r, p, o, AcceptedGap, "a new epoch begins at sequence 0", outOfOrder))
				case w.rule == toBeginAnew && o.result.Outcome != history.OK:
					r.findings = append(r.findings, a.told(p.part, RefusedWrite, -1, batchWords(o)+" appended: it begins a newer epoch", answer(*o.result)))
				case w.rule == toBeginAnew:
					newer += b2i(a.appendedOnce(r, p, o, o.offset))
				}
			})
			a.negativeEpochs(r, p)
		}
		rolled, wrote := a.identities(r)
		r.need(older > 0, "no older epoch was tried")
		r.need(newer > 0, "no newer epoch began at sequence 0")
		r.need(tooHigh > 0, "no newer epoch was tried from another sequence")
		r.need(rolled > 0, "no producer used up its epochs")
		r.need(wrote > 0, "nobody wrote under an id that followed used up epochs")
		r.saw("%d older epochs refused, %d newer ones began, %d roll-overs to a new id", older, newer, rolled)
	})
}

// negativeEpochs finds batches of producers below epoch 0.
func (a *alone) negativeEpochs(r *ruling, p *alonePart) {
	if p.lead == nil {
		return
	}
	for i := range p.lead.entries {
		if e := &p.lead.entries[i]; e.ProducerID >= 0 && e.ProducerEpoch < 0 {
			r.findings = append(r.findings, a.at(p.lead, NegativeEpoch, i, "an epoch of 0 or more", fmt.Sprintf("%d", e.ProducerEpoch)))
		}
	}
}

// identities holds each transactional id's producer ids and epochs, in the order
// in which they were given, to the rules. It returns how often one went over to
// a new id because its epochs were used up, and how many of those wrote.
func (a *alone) identities(r *ruling) (rolled, wrote int) {
	type identity struct {
		id    int64
		epoch int16
	}
	last := map[string]identity{}
	for i := range a.ev.Events {
		e := &a.ev.Events[i]
		n := e.InitPID
		if n == nil || n.Cluster != a.edge.Destination || n.Result.Outcome != history.OK {
			continue
		}
		bad := func(expected string) {
			r.findings = append(r.findings, a.said(NegativeEpoch, expected, fmt.Sprintf("%q has producer id %d epoch %d (event %d)", n.TransactionalID, n.ProducerID, n.Epoch, e.Seq)))
		}
		if n.ProducerID < 0 || n.Epoch < 0 {
			bad("a producer id and an epoch of 0 or more")
			continue
		}
		before, any := last[n.TransactionalID]
		now := identity{n.ProducerID, n.Epoch}
		switch {
		case n.TransactionalID == "":
			continue
		case !any:
		case now.id == before.id && now.epoch <= before.epoch:
			bad(fmt.Sprintf("an epoch above %d: it fences who had that", before.epoch))
		case now.id == before.id && now.epoch > highest:
			bad(fmt.Sprintf("a new id: epochs end at %d", highest))
		case now.id != before.id && now.epoch > newest(n, before.epoch):
			bad(fmt.Sprintf("a new id at epoch %d at the most", newest(n, before.epoch)))
		case now.id != before.id && before.epoch >= highest-1:
			rolled++
			for _, o := range a.order {
				if b := o.sent.Batch; o.began > e.Seq && b != nil && b.ProducerID == now.id && o.result.Outcome == history.OK {
					wrote++
					break
				}
			}
		}
		last[n.TransactionalID] = now
	}
	return rolled, wrote
}

// newest is the highest epoch at which somebody is given a new id. With
// transactions version 2 an InitProducerId that has to abort a transaction at the
// last epoch spends epoch 0 of the new id on that (Kafka's TransactionCoordinator,
// endTransaction: the id rolls over where the epoch would), and answers 1.
func newest(n *history.InitPID, before int16) int16 {
	if n.ByEndTxn || before < highest-1 {
		return 0
	}
	return 1
}

// said is a finding about an answer that is about no partition.
func (a *alone) said(anomaly Anomaly, expected, got string) Finding {
	return Finding{Anomaly: anomaly, Cluster: a.edge.Destination, Offset: -1, Expected: expected, Got: got, Evidence: a.ev.where(HistoryFile)}
}
