package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// unprobed are the ids of what every failover exercises without probes.
func unprobed() []string {
	var ids []string
	for _, c := range checks {
		ids = append(ids, c.id)
	}
	return append(ids, "AP-1")
}

// overAll says whether the requirement is judged over all episodes together: what
// one stop's check finds, such a check may show too.
func overAll(id string) bool {
	return slices.ContainsFunc(spans, func(c spanCheck) bool { return c.id == id })
}

func refusedBy(code int16) history.Result {
	return history.Result{Outcome: history.Refused, Code: code, Message: "no"}
}

// trial marks the newest write as a trial.
func (w *world) trial(t history.Trial) {
	for _, e := range w.events[len(w.events)-2:] {
		e.Produce.Trial = t
	}
}

// try sends a batch that is not appended.
func (w *world) try(t history.Trial, s spec, mode history.Mode, offset int64, res history.Result) {
	w.send(s, mode, offset, "", res)
	w.trial(t)
}

func (w *world) newID(writer, txnID string, pid int64, epoch int16) {
	w.add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{
		Writer: writer, Cluster: "B", TransactionalID: txnID, ProducerID: pid, Epoch: epoch, Result: &ok,
	}})
}

func (w *world) tellTxn(kind history.Kind, writer string, number int64, intent history.Intent) {
	w.add(history.Event{Kind: kind, Txn: &history.Txn{Writer: writer, Cluster: "B", TransactionalID: writer, Number: number, Intent: intent}})
}

// probes what local guarantees are worth, at the end of the promoted traffic.
func probes(w *world, log *[]spec, leader int32, cluster string) {
	const idem, txn = history.Idempotent, history.Transactional
	none := history.IntentNone
	if cluster != "B" {
		return
	}
	last := func() spec { return (*log)[len(*log)-1] }
	w.data(log, leader, "B", "tries", idem, 70, 0, 0, 2, history.NoTxn, none, "") // 23..24
	w.trial(history.TrialFirst)
	w.try(history.TrialRetry, last(), idem, last().base, ok)
	gap := spec{pid: 70, seq: 9, tags: []history.Tag{w.tag("B", "tries", history.NoTxn, none)}}
	w.try(history.TrialGap, gap, idem, -1, refusedBy(45))
	w.data(log, leader, "B", "tries", idem, 70, 1, 0, 1, history.NoTxn, none, "") // 25
	w.trial(history.TrialNewEpoch)
	zombie := spec{pid: 70, seq: 2, tags: []history.Tag{w.tag("B", "tries", history.NoTxn, none)}}
	w.try(history.TrialZombie, zombie, idem, -1, refusedBy(47))

	w.newID("tries", "f", 71, 0)
	w.data(log, leader, "B", "fenced", txn, 71, 0, 0, 1, 0, history.IntentAbort, "") // 26
	w.trial(history.TrialFirst)
	w.endTxn(log, leader, "B", "fenced", 71, 1, 0, history.IntentAbort) // 27
	w.newID("tries", "f", 71, 1)
	fencedBatch := spec{pid: 71, seq: 1, tags: []history.Tag{w.tag("B", "fenced", 0, history.IntentAbort)}}
	w.try(history.TrialZombie, fencedBatch, txn, -1, refusedBy(47))

	w.data(log, leader, "B", "late", txn, 72, 0, 0, 1, 0, history.IntentCommit, "") // 28
	w.trial(history.TrialFirst)
	w.endTxn(log, leader, "B", "late", 72, 0, 0, history.IntentCommit) // 29
	late := spec{pid: 72, seq: 1, tags: []history.Tag{w.tag("B", "late", 0, history.IntentCommit)}}
	w.try(history.TrialLate, late, txn, -1, refusedBy(48))

	w.tellTxn(history.KindTxnBegin, "held", 0, history.IntentCommit)
	w.data(log, leader, "B", "held", txn, 73, 0, 0, 1, 0, history.IntentCommit, "") // 30
	w.add(history.Event{Kind: history.KindFaultStart, Fault: &history.Fault{ID: "f9", Link: "mirror:A->B"}})
	w.add(history.Event{Kind: history.KindFaultStop, Fault: &history.Fault{ID: "f9", Link: "mirror:A->B", BytesDropped: 9}})
	w.data(log, leader, "B", "held", txn, 73, 0, 1, 1, 0, history.IntentCommit, "") // 31
	w.tellTxn(history.KindTxnEndBegin, "held", 0, history.IntentCommit)
	w.endTxn(log, leader, "B", "held", 73, 1, 0, history.IntentCommit) // 32
}

func newProbedWorld() *world {
	w := newWorldWith(0, probes)
	w.run.Exercises = append(unprobed(), "IDEM-3", "TXN-5", "TXN-6")
	return w
}

func TestAProbedRunHoldsEverything(t *testing.T) {
	got := verdicts(t, newProbedWorld())
	for _, id := range append(unprobed(), "IDEM-3", "TXN-5", "TXN-6") {
		require.Equal(t, Held, got[id].Outcome, "%s: %s %v", id, got[id].Reason, got[id].Findings)
	}
}

// editTrial changes the answer to the last write of a trial by a writer.
func (w *world) editTrial(t testing.TB, trial history.Trial, writer string, offset int64, res history.Result) {
	for i := len(w.events) - 1; i >= 0; i-- {
		if p := w.events[i].Produce; p != nil && p.Trial == trial && p.Writer == writer && p.Result != nil {
			p.Offset, p.Result = offset, &res
			return
		}
	}
	require.Fail(t, "no such trial", "%s of %s", trial, writer)
}

// appendTrial makes the log hold the batch of a trial after all.
func (w *world) appendTrial(t testing.TB, trial history.Trial, writer string, attributes int16) {
	for _, e := range w.events {
		if p := e.Produce; p != nil && p.Trial == trial && p.Writer == writer && p.Result != nil {
			last := w.b[len(w.b)-1]
			b := spec{
				base: last.base + last.count(), epoch: 5, pid: p.Batch.ProducerID, pepoch: p.Batch.Epoch, seq: p.Batch.BaseSequence,
				payload: "payload", attributes: attributes,
			}
			for k := range p.Count {
				b.tags = append(b.tags, p.Tag.Add(int64(k)))
			}
			w.b = append(w.b, b)
			return
		}
	}
	require.Fail(t, "no such trial", "%s of %s", trial, writer)
}

func TestWhatProbesShowIsFound(t *testing.T) {
	for _, tc := range []struct {
		id, name string
		anomaly  Anomaly
		offset   int64
		spoil    func(t *testing.T, w *world)
	}{
		{"IDEM-3", "a retry was appended again", Duplicate, 33, func(t *testing.T, w *world) {
			w.editTrial(t, history.TrialRetry, "tries", 33, ok)
			w.appendTrial(t, history.TrialRetry, "tries", 0)
		}},
		{"IDEM-3", "a retry is told another offset", PhantomAck, 25, func(t *testing.T, w *world) {
			w.editTrial(t, history.TrialRetry, "tries", 25, ok)
		}},
		{"IDEM-3", "a retry is out of order without a restart", RefusedWrite, 23, func(t *testing.T, w *world) {
			w.editTrial(t, history.TrialRetry, "tries", -1, refusedBy(45))
		}},
		{"IDEM-3", "a gap is accepted", AcceptedGap, 33, func(t *testing.T, w *world) {
			w.appendTrial(t, history.TrialGap, "tries", 0)
		}},
		{"IDEM-3", "a gap is refused for another reason", UnclearRefusal, -1, func(t *testing.T, w *world) {
			w.editTrial(t, history.TrialGap, "tries", -1, refusedBy(2))
		}},
		{"IDEM-3", "an older epoch is acknowledged", ZombieAppend, 40, func(t *testing.T, w *world) {
			w.editTrial(t, history.TrialZombie, "tries", 40, ok)
		}},
		{"IDEM-3", "a fenced transactional producer is appended", ZombieAppend, 33, func(t *testing.T, w *world) {
			w.appendTrial(t, history.TrialZombie, "fenced", transactional)
		}},
		{"TXN-5", "it was aborted", TornOutcome, 32, func(_ *testing.T, w *world) {
			*at(w.b, 32) = marker(32, 5, 73, 1, wirelog.Abort)
		}},
		{"TXN-5", "a record is lost", LostWrite, 30, func(_ *testing.T, w *world) {
			at(w.b, 30).tags = []history.Tag{{Cluster: "B", Writer: "nobody", Txn: 0, Intent: history.IntentCommit, Place: "t-0"}}
		}},
		{"TXN-5", "it does not end", OrphanTransaction, 30, func(_ *testing.T, w *world) { w.b = w.b[:len(w.b)-1] }},
		{"TXN-5", "a marker of the source ends it", ForeignMarker, 32, func(_ *testing.T, w *world) {
			foreign := at(w.a, 11)
			foreign.pid = 73 // the source's open transaction, whose marker comes late
			w.a[len(w.a)-1].pid = 73
			m := w.a[len(w.a)-1]
			m.base, m.epoch = 32, 5
			own := *at(w.b, 32)
			own.base = 33
			w.b = append(w.b[:len(w.b)-1], m, own)
		}},
		{"TXN-6", "a late batch opened a transaction", ZombieAppend, 33, func(t *testing.T, w *world) {
			w.editTrial(t, history.TrialLate, "late", 33, ok)
			w.appendTrial(t, history.TrialLate, "late", transactional)
		}},
		// FA-13: a late write has opened a transaction that nobody owns.
		{"TXN-6", "a transaction is left open", OrphanTransaction, 30, func(_ *testing.T, w *world) { w.b = w.b[:len(w.b)-1] }},
	} {
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			w := newProbedWorld()
			tc.spoil(t, w)
			v := verdicts(t, w)[tc.id]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly && f.Offset == tc.offset }), "%v", v.Findings)
		})
	}
}

// TXN-6: a transaction is nobody's fault whose end its writer asked for without an
// answer, since it may be open until its own time is up.
func TestATransactionOfDoubtfulEndIsNoOrphan(t *testing.T) {
	w := newProbedWorld()
	w.b = w.b[:len(w.b)-1]
	require.Equal(t, Violated, verdicts(t, w)["TXN-6"].Outcome)
	open := w.b[len(w.b)-1].tags[0]
	w.edit(t, func(e *history.Event) bool {
		mine := e.Kind == history.KindTxnEnd && e.Txn.Writer == open.Writer && e.Txn.Number == open.Txn
		if mine {
			e.Txn.Result = &history.Result{Outcome: history.Unknown, Message: "connection closed"}
		}
		return mine
	})
	v := verdicts(t, w)["TXN-6"]
	require.NotEqual(t, Violated, v.Outcome, v.Findings)
}

// After a restart a snapshot keeps one batch: an older one may be out of order.
func TestARetryMayBeOutOfOrderAfterARestart(t *testing.T) {
	w := newProbedWorld()
	w.editTrial(t, history.TrialRetry, "tries", -1, refusedBy(45))
	w.insertBefore(func(e *history.Event) bool { return e.Produce != nil && e.Produce.Trial == history.TrialRetry },
		history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeStarted}})
	v := verdicts(t, w)["IDEM-3"]
	require.Equal(t, Inconclusive, v.Outcome, v.Findings) // it is no violation, and no proof
	require.Contains(t, v.Reason, "no local batch was sent again")
}

func withoutTrial(trial history.Trial, writer string) func(w *world) {
	return func(w *world) {
		w.drop(func(e *history.Event) bool {
			return e.Produce != nil && e.Produce.Trial == trial && e.Produce.Writer == writer
		})
	}
}

func TestWhatNoProbeTriedIsInconclusive(t *testing.T) {
	for _, tc := range []struct {
		id, says string
		spoil    func(w *world)
	}{
		{"IDEM-3", "no local batch was sent again", withoutTrial(history.TrialRetry, "tries")},
		{"IDEM-3", "no local gap", withoutTrial(history.TrialGap, "tries")},
		{"IDEM-3", "no idempotent producer", withoutTrial(history.TrialZombie, "tries")},
		{"IDEM-3", "no idempotent producer", func(w *world) { // no newer epoch wrote: it is no zombie
			for _, e := range w.events {
				if e.Produce != nil && e.Produce.Trial == history.TrialNewEpoch {
					e.Produce.Batch.ProducerID = 99
				}
			}
		}},
		{"IDEM-3", "no transactional producer", withoutTrial(history.TrialZombie, "fenced")},
		{"IDEM-3", "no transactional producer", func(w *world) {
			w.drop(func(e *history.Event) bool { return e.InitPID != nil && e.InitPID.Epoch == 1 })
		}},
		{"TXN-5", "no local transaction", func(w *world) {
			w.drop(func(e *history.Event) bool { return e.Fault != nil && e.Fault.ID == "f9" })
		}},
		{"TXN-5", "no local transaction", func(w *world) { // it began when all was healed
			begin := slices.IndexFunc(w.events, func(e history.Event) bool { return e.Kind == history.KindTxnBegin })
			e := w.events[begin]
			w.events = slices.Delete(w.events, begin, begin+1)
			w.insertBefore(func(e *history.Event) bool { return e.Kind == history.KindTxnEndBegin }, e)
		}},
		{"TXN-5", "nothing more to give", func(w *world) { w.a = w.a[:slices.IndexFunc(w.a, func(s spec) bool { return s.base >= w.l })] }},
		{"TXN-6", "no batch was delivered", withoutTrial(history.TrialLate, "late")},
		{"TXN-6", "no batch was delivered", func(w *world) { // it was, before the marker
			m := at(w.b, 29)
			late := spec{base: 29, epoch: 5, pid: 72, seq: 1, attributes: transactional, payload: "payload"}
			for _, e := range w.events {
				if e.Produce != nil && e.Produce.Trial == history.TrialLate {
					late.tags = []history.Tag{e.Produce.Tag}
				}
				if e.Produce != nil && e.Produce.Trial == history.TrialLate && e.Produce.Result != nil {
					e.Produce.Result, e.Produce.Offset = &ok, 29
				}
			}
			marker := *m
			*m = late
			marker.base = 33
			w.b = append(w.b, marker)
		}},
		{"TXN-6", "did not settle", func(w *world) { w.drop(isPhase(history.Settled)) }},
	} {
		t.Run(tc.id+"/"+tc.says, func(t *testing.T) {
			w := newProbedWorld()
			tc.spoil(w)
			v := verdicts(t, w)[tc.id]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
}
