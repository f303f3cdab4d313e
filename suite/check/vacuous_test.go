package check

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/contract"
	"watershed.example/suite/history"
)

// vacuousRuns holds for each requirement a run that did not exercise it, and a
// word of the reason that its verdict has to give.
var vacuousRuns = []struct {
	id, says string
	spoil    func(t *testing.T, w *world)
}{
	{"LOG-1", "never seen STOPPED", notStopped},
	{"LOG-1", "no batch was mirrored", emptyMirror},
	{"LOG-2", "no batch with a producer id", emptyMirror},
	{"LOG-3", "hold no batch", func(_ *testing.T, w *world) { w.a, w.b, w.be = nil, nil, nil }},
	{"BAR-1", "no partition was empty", func(_ *testing.T, w *world) { w.run.Topics[1].Empty = nil }},
	{"BAR-1", "never seen STOPPED", notStopped},
	{"BAR-2", "holds a barrier", noBarrier},
	{"BAR-3", "mirrored batch below", emptyMirror},
	{"BAR-4", "no log holds a barrier", noBarrier},
	{"BAR-6", "no read_committed reader crossed", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool {
			return e.Reader != nil && e.Reader.Reader == "rc" && e.Reader.Topic == "t"
		})
	}},
	{"BAR-6", "no read_uncommitted reader stood where", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool {
			return e.Reader != nil && e.Reader.Reader == "ru" && e.Reader.Topic == "e"
		})
	}},
	{"RO-1", "no transactional write", withoutProbe("probe-transactional")},
	{"RO-1", "no plain write", withoutProbe("probe-plain")},
	{"RO-1", "AddPartitionsToTxn was not tried", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.AddPartitions != nil })
	}},
	{"RO-4", "accepted later", withoutProbe("probe-plain")},
	{"RO-4", "accepted later", func(_ *testing.T, w *world) {
		w.insertBefore(isPhase(history.TrafficAfter), history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeStarted}})
	}},
	{"RO-5", "while STOPPING", func(_ *testing.T, w *world) {
		stopping := false
		w.drop(func(e *history.Event) bool {
			stopping = (stopping || isPhase(history.StopRequested)(e)) && !isPhase(history.Stopped)(e)
			return stopping && e.Produce != nil && e.Produce.Cluster == "B"
		})
	}},
	{"PSM-1", "never described", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Producers != nil })
	}},
	{"PSM-1", "had a mirrored producer", emptyMirror},
	{"IDEM-1", "no batch with the header", withoutCollision(history.SameHeader)},
	{"IDEM-1", "no batch with the header", func(t *testing.T, w *world) { // it was forged, but meets nothing
		w.edit(t, func(e *history.Event) bool {
			if e.Produce == nil || e.Produce.Collision != history.SameHeader {
				return false
			}
			e.Produce.Batch.BaseSequence = 1
			return true
		})
	}},
	{"IDEM-1", "no batch with the header", func(t *testing.T, w *world) {
		w.editAck(t, history.SameHeader, -1, history.Result{Outcome: history.Unknown})
	}},
	{"IDEM-2", "lower epoch", withoutCollision(history.LowerEpoch)},
	{"IDEM-2", "out of order", withoutCollision(history.SequenceGap)},
	{"IDEM-4", "no idempotent or transactional record", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool {
			return e.Produce != nil && e.Produce.Cluster == "B" && e.Produce.Mode != history.Plain
		})
	}},
	{"TXN-1", "never sampled", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Offsets != nil || e.Fetch != nil })
	}},
	{"TXN-1", "no mirrored transaction was open", notSeenOpen},
	{"TXN-2", "no read_committed reader", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Reader != nil })
	}},
	{"TXN-3", "open at STOPPING", notSeenOpen},
	{"TXN-4", "waited at the broker", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Fetch != nil && e.Fetch.Served == history.LongPoll })
	}},
	{"TXN-4", "spanned a barrier", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Fetch != nil && e.Fetch.FetchOffset == 0 })
	}},
	{"LINK-1", "no fetch response was held", func(_ *testing.T, w *world) {
		for _, e := range w.events {
			if e.Fault != nil {
				e.Fault.HeldBefore = 0
			}
		}
	}},
	{"LINK-2", "could be reached", func(_ *testing.T, w *world) { // it healed before the stop ended
		heal := w.events[find(w, history.KindFaultStop)]
		w.drop(func(e *history.Event) bool { return e.Kind == history.KindFaultStop })
		w.insertBefore(func(e *history.Event) bool { return e.Mirror != nil && e.Mirror.State == "STOPPED" }, heal)
	}},
	{"LINK-3", "healed", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Kind == history.KindFaultStop })
	}},
	{"AP-1", "never seen STOPPED", notStopped},
	{"AP-1", "did not bite", noBite},
	{"LOG-1", "did not bite", noBite},
	{"BAR-1", "never started", func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Fault != nil })
	}},
	{"LOG-1", "the floor is 1000", func(_ *testing.T, w *world) { w.run.Floors.Before = 1000 }},
	{"LOG-1", "the floor is 1000", func(_ *testing.T, w *world) { w.run.Floors.During = 1000 }},
	{"LOG-1", "the floor is 1000", func(_ *testing.T, w *world) { w.run.Floors.After = 1000 }},
	{"LOG-1", "split writer", func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Connection == nil {
				return false
			}
			e.Connection.ClusterID = idB
			return true
		})
	}},
}

func find(w *world, kind history.Kind) int {
	for i := range w.events {
		if w.events[i].Kind == kind {
			return i
		}
	}
	return -1
}

func notStopped(_ *testing.T, w *world) {
	w.drop(func(e *history.Event) bool {
		return isPhase(history.Stopped)(e) || e.Mirror != nil && e.Mirror.State == "STOPPED"
	})
}

func emptyMirror(_ *testing.T, w *world) {
	w.a, w.b = nil, []spec{barrier(0, 5, idA)}
	w.drop(func(e *history.Event) bool {
		return e.Read != nil || e.Produce != nil || e.Txn != nil || e.Fetch != nil ||
			e.Mirror != nil && e.Mirror.Topic == "t" || e.Producers != nil && len(e.Producers.Active) > 0
	})
}

func noBarrier(_ *testing.T, w *world) {
	w.be = nil
	w.b = w.b[:8]
}

func noBite(_ *testing.T, w *world) {
	for _, e := range w.events {
		if e.Fault != nil {
			*e.Fault = history.Fault{ID: e.Fault.ID, Link: e.Fault.Link}
		}
	}
}

func notSeenOpen(_ *testing.T, w *world) {
	for _, e := range w.events {
		if e.Mirror != nil && e.Mirror.State == "MIRRORING" {
			e.Mirror.DestinationOffset = -1
		}
	}
}

func withoutProbe(writer string) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool {
			return e.Produce != nil && e.Produce.Writer == writer && e.Produce.Result != nil && e.Produce.Result.Outcome == history.Refused
		})
	}
}

func withoutCollision(c history.Collision) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Produce != nil && e.Produce.Collision == c })
	}
}

func TestWhatARunDidNotExerciseIsInconclusive(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range vacuousRuns {
		covered[tc.id] = true
		t.Run(tc.id+"/"+tc.says, func(t *testing.T) {
			w := newWorld(0)
			tc.spoil(t, w)
			v := verdicts(t, w)[tc.id]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
	for _, id := range unprobed() {
		require.True(t, covered[id], "no vacuous run for %s", id)
	}
}

func TestDeclaredButUnknownIsInconclusive(t *testing.T) {
	w := newWorld(0)
	w.run.Exercises = []string{"BAR-1", "PSM-8", "XX-9"}
	got := verdicts(t, w)
	require.Equal(t, Inconclusive, got["PSM-8"].Outcome)
	require.Equal(t, Inconclusive, got["XX-9"].Outcome)
	require.Equal(t, Held, got["BAR-1"].Outcome)
}

func TestNoEvidenceAtAllIsInconclusive(t *testing.T) {
	for _, v := range All(&Evidence{Run: Run{Exercises: unprobed()}}) {
		if v.Requirement == "AP-1" {
			continue // not applicable without a mirror
		}
		require.Equal(t, Inconclusive, v.Outcome, v.Requirement)
	}
}

// The judge must not share the code of the broker that it judges.
func TestTheJudgeImportsNothingOfTheBroker(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "watershed.example/suite/check", "watershed.example/suite/wirelog", "watershed.example/suite/report").Output()
	require.NoError(t, err)
	allowed := map[string]bool{"check": true, "wirelog": true, "history": true, "contract": true, "report": true}
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		if ours, found := strings.CutPrefix(pkg, "watershed.example/"); found {
			name, inSuite := strings.CutPrefix(ours, "suite/")
			require.True(t, inSuite && allowed[name], "the judge imports %s", pkg)
		}
	}
}

// unjudged are the requirements of the contract that no check judges yet, each
// with what it waits for.
var unjudged = map[string]string{}

func TestEveryRequirementHasACheckOrAReason(t *testing.T) {
	judged := Checked()
	for _, req := range contract.All() {
		if unjudged[req.ID] != "" {
			require.NotContains(t, judged, req.ID)
			continue
		}
		require.Contains(t, judged, req.ID, "nobody judges it")
	}
	for i, id := range judged {
		_, known := contract.Get(id)
		require.True(t, known, "%s is judged, the contract does not hold it", id)
		require.NotContains(t, judged[:i], id, "judged twice")
	}
}
