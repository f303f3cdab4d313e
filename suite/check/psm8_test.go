package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// newForeignWorld is a run whose stop another leader made: one record of the open
// transaction, at 11, lies below the barrier at 12. Then the broker is killed,
// and comes back.
func newForeignWorld() *world {
	w := newWorld(1)
	w.run.Exercises = []string{"PSM-8"}
	w.run.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: LogsDir, Exercises: []string{"PSM-8"}, ForeignStop: true}}
	w.insertBefore(isPhase(history.TrafficAfter),
		history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeKilled}},
		history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeStarted}},
	)
	for i := range w.events {
		w.events[i].Episode = 1
	}
	return w
}

// foreign is the verdict on it, with what B logged.
func foreign(t *testing.T, w *world, logged ...string) Verdict {
	ev := w.evidence(t)
	ev.Errors = map[string][]string{"B": logged}
	return judged(ev)["PSM-8"]
}

const logged = `level=ERROR msg="a transaction is open at a mirror barrier" firstOffset=11 barrierOffset=12`

func TestABarrierOverAnOpenTransactionAbortsIt(t *testing.T) {
	v := foreign(t, newForeignWorld(), logged)
	require.Equal(t, Held, v.Outcome, "%s %v", v.Reason, v.Findings)

	for _, tc := range []struct {
		name    string
		anomaly Anomaly
		offset  int64
		logged  string
		spoil   func(w *world)
	}{
		{"it holds the last stable offset", WrongLSO, 11, logged, func(w *world) {
			w.edit(t, func(e *history.Event) bool {
				if e.Offsets == nil || e.Offsets.Topic != "t" {
					return false
				}
				e.Offsets.LastStableOffset = 11
				return true
			})
		}},
		{"it shows", AbortedRead, 11, logged, func(w *world) { w.read("rc", 11, tagAt(w.b, 11)).Episode = 1 }},
		{"it is not listed", MissingAbort, 11, logged, func(w *world) {
			w.edit(t, func(e *history.Event) bool {
				if e.Fetch == nil || len(e.Fetch.Aborted) == 0 {
					return false
				}
				e.Fetch.Aborted = slices.DeleteFunc(slices.Clone(e.Fetch.Aborted), func(a history.Aborted) bool { return a.FirstOffset == 11 })
				return true
			})
		}},
		{"nobody says so", Unlogged, 12, `time=2026-11-30T12:12:12Z level=ERROR msg="something else" at=13`, func(*world) {}},
		{"a leader of ours wrote it", BarrierOverOpen, 12, logged, func(w *world) { w.run.Episodes[0].ForeignStop = false }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newForeignWorld()
			tc.spoil(w)
			v := foreign(t, w, tc.logged)
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly && f.Offset == tc.offset }), "%v", v.Findings)
		})
	}
	for name, spoil := range map[string]func(w *world){
		"never STOPPED": func(w *world) {
			w.drop(func(e *history.Event) bool {
				return isPhase(history.Stopped)(e) || e.Mirror != nil && e.Mirror.State == "STOPPED"
			})
		},
		"not recovered": func(w *world) { w.drop(func(e *history.Event) bool { return e.Node != nil }) },
		"not read":      func(w *world) { w.drop(func(e *history.Event) bool { return e.Reader != nil }) },
		"not fetched":   func(w *world) { w.drop(func(e *history.Event) bool { return e.Fetch != nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newForeignWorld()
			spoil(w)
			v := foreign(t, w, logged)
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
		})
	}
	t.Run("no transaction was open", func(t *testing.T) {
		w := newWorld(0)
		w.run.Exercises = []string{"PSM-8"}
		w.run.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: LogsDir, ForeignStop: true}}
		require.Equal(t, Inconclusive, foreign(t, w, logged).Outcome)
	})
	t.Run("nothing of the brokers' output", func(t *testing.T) {
		require.Equal(t, Inconclusive, judged(newForeignWorld().evidence(t))["PSM-8"].Outcome)
	})
}

// What a client leaves out of it is not the broker's doing; that it does so under
// another id is.
func TestAForeignStopExcusesItsOwnIdsAlone(t *testing.T) {
	w := newForeignWorld()
	own := slices.IndexFunc(w.b, func(s spec) bool { return s.base > 12 && s.pid == 1 })
	other := slices.IndexFunc(w.b, func(s spec) bool { return s.base > 12 && s.pid == 3 })
	verdict := func(offset int64) Verdict {
		w := newForeignWorld()
		w.run.Episodes[0].Exercises = []string{"TXN-2"}
		w.drop(func(e *history.Event) bool {
			return e.Read != nil && e.Read.Isolation == history.ReadCommitted && e.Read.Offset == offset
		})
		return judged(w.evidence(t))["TXN-2"]
	}
	require.Equal(t, Held, verdict(w.b[own].base).Outcome)
	require.Equal(t, Violated, verdict(w.b[other].base).Outcome)
}

func TestErrorsOfBrokersAreLoadedWhereTheyMatter(t *testing.T) {
	dir := t.TempDir()
	run := newForeignWorld().run
	require.NoError(t, os.MkdirAll(filepath.Join(dir, BrokerDir), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, BrokerLog("B", 1)), []byte("level=DEBUG x=1\nlevel=ERROR barrierOffset=12\nlevel=ERROR torn"), 0o644))
	got, err := loadErrors(dir, &run)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"B": {"level=ERROR barrierOffset=12", "level=ERROR torn"}}, got)
	run.Episodes[0].ForeignStop = false
	got, err = loadErrors(dir, &run)
	require.NoError(t, err)
	require.Empty(t, got)
}
