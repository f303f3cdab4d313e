package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

func withoutTrialOf(writer string, trials ...history.Trial) func(*lone) {
	return func(l *lone) {
		l.drop(func(e *history.Event) bool {
			return e.Produce != nil && e.Produce.Writer == writer && slices.Contains(trials, e.Produce.Trial)
		})
	}
}

func withoutReaders(level history.Isolation) func(*lone) {
	return func(l *lone) {
		l.drop(func(e *history.Event) bool {
			return e.Reader != nil && e.Reader.Isolation == level || e.Read != nil && e.Read.Isolation == level
		})
	}
}

// without drops the events of one kind.
func without(f func(e *history.Event) bool) func(*lone) { return func(l *lone) { l.drop(f) } }

// vacuousAlone holds for each requirement runs that did not exercise it, and a word
// of the reason that its verdict has to give.
var vacuousAlone = []struct {
	id, says string
	spoil    func(l *lone)
}{
	{"SC-1", "no retry of a batch with 1 behind it", withoutTrialOf("window", history.TrialRetry)},
	{"SC-1", "no batch was sent again that had more than five", func(l *lone) {
		withoutLast(l, "window", history.TrialRetry)
	}},
	{"SC-1", "no gap was tried", withoutTrialOf("window", history.TrialGap)},
	{"SC-1", "no sequence wrapped", withoutTrialOf("wraps", history.TrialFirst, history.TrialRetry)},
	{"SC-1", "no batch in which the sequence wrapped was sent again", withoutTrialOf("wraps", history.TrialRetry)},
	{"SC-2", "no older epoch", withoutTrialOf("epochs", history.TrialZombie)},
	{"SC-2", "no newer epoch began", withoutTrialOf("epochs", history.TrialNewEpoch)},
	{"SC-2", "no newer epoch was tried from another sequence", withoutTrialOf("epochs", history.TrialGap)},
	{"SC-2", "no producer used up its epochs", without(func(e *history.Event) bool { return e.InitPID != nil && e.InitPID.ProducerID == 20 })},
	{"SC-2", "nobody wrote under an id", withoutTrialOf("rolls", history.TrialFirst)},
	{"SC-3", "at every offset", without(func(e *history.Event) bool { return e.Fetch != nil && e.Fetch.Served == history.LongPoll })},
	{"SC-3", "at every offset", without(func(e *history.Event) bool { return e.Fetch != nil && e.Fetch.FetchOffset == 3 })},
	{"SC-3", "no fetch met an open transaction", without(func(e *history.Event) bool { return e.Fetch != nil && e.Fetch.LastStableOffset < e.Fetch.HighWatermark })},
	{"SC-3", "no read_committed reader", withoutReaders(history.ReadCommitted)},
	{"SC-3", "no read_uncommitted reader", withoutReaders(history.ReadUncommitted)},
	{"SC-4", "no read_committed reader went past", withoutReaders(history.ReadCommitted)},
	{"SC-4", "alone in their log", without(func(e *history.Event) bool { return e.Read != nil && e.Read.Topic == "idle" })},
	{"SC-4", "stood where a control batch was the last", without(func(e *history.Event) bool { return e.Reader != nil && !e.Reader.Final })},
	{"SC-4", "no fetch began at a control batch", without(func(e *history.Event) bool { return e.Fetch != nil })},
	{"SC-5", "no batch was sent again after its transaction's marker", withoutTrialOf("late", history.TrialLate)},
	{"SC-5", "no marker came from an older coordinator", without(func(e *history.Event) bool { return e.Marker != nil && e.Marker.CoordinatorEpoch < 1000 })},
	{"SC-5", "met an open transaction", without(func(e *history.Event) bool { return e.Marker != nil && e.Marker.CoordinatorEpoch < 0 })},
	{"SC-5", "no marker came once more", without(func(e *history.Event) bool { return e.Marker != nil && e.Marker.CoordinatorEpoch == 1000 })},
	{"SC-6", "asked to abort", without(func(e *history.Event) bool {
		return e.Txn != nil && e.Txn.Late && e.Txn.Intent == history.IntentAbort
	})},
	{"SC-6", "asked to commit", without(func(e *history.Event) bool {
		return e.Txn != nil && e.Txn.Late && e.Txn.Intent == history.IntentCommit
	})},
	{"SC-6", "no late Produce", withoutTrialOf("late", history.TrialLate)},
	{"SC-6", "asked to abort", func(l *lone) { // of transactions version 1
		for i := range l.events {
			if e := &l.events[i]; e.Txn != nil && e.Txn.Late {
				e.Txn.Version = 1
			}
		}
	}},
	{"SC-7", "nothing befell", without(func(e *history.Event) bool { return e.Disturbance != nil })},
	{"SC-7", "did not take effect: nobody heard", func(l *lone) {
		for i := range l.events {
			if d := l.events[i].Disturbance; d != nil && d.What == history.KillRestart && d.Over {
				d.Took, d.Says = false, "nobody heard"
			}
		}
	}},
	{"SC-7", "no partition knew a producer", without(func(e *history.Event) bool { return e.Producers != nil })},
	{"SC-7", "no transaction was open", func(l *lone) {
		for i := range l.events {
			if p := l.events[i].Producers; p != nil {
				for k := range p.Active {
					p.Active[k].CurrentTxnStart = -1
				}
			}
		}
	}},
	{"SC-7", "no aborted list", without(func(e *history.Event) bool { return e.Fetch != nil && len(e.Fetch.Aborted) > 0 })},
	{"SC-7", "node 1 led t-0 before the leader-change and after it", func(l *lone) {
		for i := range l.events {
			if p := l.events[i].Producers; p != nil {
				p.Node = 1
			}
		}
	}},
	{"SC-7", "no batch that a leader had taken alone", func(l *lone) {
		for i := range l.events {
			if p := l.events[i].Produce; p != nil && p.Result != nil && p.Result.Code == 7 {
				p.Result = &history.Result{Outcome: history.Refused, Code: 19} // it was not appended
			}
		}
	}},
	{"SC-8", "nobody asked for a producer id", without(func(e *history.Event) bool { return e.InitPID != nil })},
	{"SC-8", "no broker was started again", without(func(e *history.Event) bool { return e.Node != nil })},
	{"SC-8", "nobody asked for a producer id after", without(func(e *history.Event) bool {
		return e.InitPID != nil && (e.InitPID.ProducerID >= 2000 || e.InitPID.Epoch == 2)
	})},
	{"SC-8", "2 brokers of 3 gave ids", without(func(e *history.Event) bool { return e.InitPID != nil && e.InitPID.Node == 3 })},
	{"SC-8", "by another coordinator than before", func(l *lone) {
		for i := range l.events {
			if n := l.events[i].InitPID; n != nil && n.TransactionalID == "moves" {
				n.Node = 1
			}
		}
	}},
}

// withoutLast drops the last trial of a writer.
func withoutLast(l *lone, writer string, trial history.Trial) {
	for i := len(l.events) - 1; i >= 0; i-- {
		if p := l.events[i].Produce; p != nil && p.Writer == writer && p.Trial == trial {
			op := l.events[i].Op
			l.drop(func(e *history.Event) bool { return e.Op == op && e.Produce != nil })
			return
		}
	}
}

func TestWhatAClusterAloneDidNotExerciseIsInconclusive(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range vacuousAlone {
		covered[tc.id] = true
		t.Run(tc.id+"/"+tc.says, func(t *testing.T) {
			l := newLone()
			tc.spoil(l)
			v := judged(l.evidence(t))[tc.id]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
	for _, id := range newLone().run.Exercises {
		require.True(t, covered[id], "no vacuous run for %s", id)
	}
}

// A run that mirrors tells nothing of a cluster by itself.
func TestARunThatMirrorsDoesNotJudgeAClusterAlone(t *testing.T) {
	w := newWorld(0)
	w.run.Exercises = []string{"SC-1", "SC-7"}
	for id, v := range verdicts(t, w) {
		require.Equal(t, Inconclusive, v.Outcome, id)
		require.Contains(t, v.Reason, "the run mirrors")
	}
}

// After a truncation, as after a restart, a broker knows producers by snapshots of
// one batch each (field case FA-03).
func TestAnOlderRetryMayBeOutOfOrderAfterATruncation(t *testing.T) {
	for _, what := range []history.DisturbanceName{history.Truncation, history.LeaderChange} {
		l := newLone()
		p := *l.acked(t, "window", history.TrialRetry, 1)
		p.Offset, p.Result = -1, nil
		s := spec{pid: p.Batch.ProducerID, pepoch: p.Batch.Epoch, seq: p.Batch.BaseSequence, tags: []history.Tag{p.Tag}}
		for i, e := range l.events {
			if e.Disturbance == nil || e.Disturbance.What != what || !e.Disturbance.Over {
				continue
			}
			later := slices.Clone(l.events[i+1:])
			l.events = l.events[:i+1]
			l.sample()
			for k := range l.events { // no restart came before it
				if l.events[k].Node != nil {
					l.events[k].Node.What = history.NodeStopped
				}
			}
			l.try(history.TrialRetry, s, history.Idempotent, -1, refusedBy(outOfOrder))
			l.events = append(l.events, later...)
			break
		}
		v := judged(l.evidence(t))["SC-1"]
		require.Equal(t, what == history.LeaderChange, v.Outcome == Violated, "%s: %s %v", what, v.Reason, v.Findings)
	}
}
