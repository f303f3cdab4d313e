package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/history"
)

// sc8 holds that no producer id has two owners: ids that were asked for without
// a transactional id are given once, and one with a transactional id stays with
// that.
func (t *trial) sc8(r *ruling) {
	t.aloneIn(r, func(a *alone) {
		type owner struct {
			name string
			seq  int64
		}
		type given struct {
			id    int64
			epoch int16
		}
		owners, identities := map[int64]owner{}, map[given]int64{}
		ids, restarts, afterRestart, moved := 0, 0, 0, 0
		issuers, coordinators := map[int32]bool{}, map[string]int32{}
		for i := range a.ev.Events {
			e := &a.ev.Events[i]
			if e.Node != nil && e.Node.Cluster == a.edge.Destination && e.Node.What == history.NodeStarted && ids > 0 {
				restarts++
			}
			n := e.InitPID
			if n == nil || n.Cluster != a.edge.Destination || n.Result.Outcome != history.OK || n.ProducerID < 0 {
				continue
			}
			ids++
			afterRestart += b2i(restarts > 0)
			if n.Node > 0 {
				issuers[n.Node] = true
				if before := coordinators[n.TransactionalID]; n.TransactionalID != "" && before > 0 && before != n.Node {
					moved++
				}
				coordinators[n.TransactionalID] = n.Node
			}
			name := fmt.Sprintf("transactional id %q", n.TransactionalID)
			if n.TransactionalID == "" {
				name = fmt.Sprintf("whoever asked in event %d", e.Seq)
			}
			before, any := owners[n.ProducerID]
			twice, again := identities[given{n.ProducerID, n.Epoch}]
			switch {
			case any && before.name != name:
				r.findings = append(r.findings, a.said(TwiceGiven, fmt.Sprintf("producer id %d to belong to %s alone", n.ProducerID, before.name), fmt.Sprintf("it was given to %s too (events %d and %d)", name, before.seq, e.Seq)))
			case again:
				r.findings = append(r.findings, a.said(TwiceGiven, fmt.Sprintf("producer id %d epoch %d to be given once", n.ProducerID, n.Epoch), fmt.Sprintf("it was given in events %d and %d", twice, e.Seq)))
			}
			owners[n.ProducerID], identities[given{n.ProducerID, n.Epoch}] = owner{name, e.Seq}, e.Seq
		}
		r.need(ids > 0, "nobody asked for a producer id")
		r.need(restarts > 0, "no broker was started again after it had given ids")
		r.need(afterRestart > 0, "nobody asked for a producer id after a broker had been started again")
		if c := a.edge.dst; len(c.Nodes) > 1 {
			r.need(len(issuers) == len(c.Nodes), "%d brokers of %d gave ids", len(issuers), len(c.Nodes))
			moves := slices.ContainsFunc(a.ev.Events, func(e history.Event) bool {
				return e.Disturbance != nil && e.Disturbance.What == history.CoordinatorMove && e.Disturbance.Cluster == a.edge.Destination
			})
			r.need(!moves || moved > 0, "no transactional id was given its id by another coordinator than before")
		}
		r.saw("%d ids and epochs were given by %d brokers, %d of them after a restart, %d by another coordinator than before", ids, max(len(issuers), 1), afterRestart, moved)
	})
}
