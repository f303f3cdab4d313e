package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// newForetold is the hand-made failover, whose describes tell what a stop would
// cut: the open transaction at 11, and a record behind it.
func newForetold(t testing.TB) *world {
	w := newWorld(0)
	w.run.Exercises = []string{"OPS-4"}
	w.edit(t, func(e *history.Event) bool {
		m := e.Mirror
		if m == nil {
			return false
		}
		m.WouldCut, m.StopCut, m.Oldest = nothing, nothing, noneOpen
		switch {
		case m.Topic != "t":
		case m.State == "MIRRORING":
			m.WouldCut = history.Cut{From: 11, To: 13, Records: 2}
			m.Oldest = history.Undecided{ProducerID: 1, Epoch: 2, FirstOffset: 11}
		default:
			m.StopCut = history.Cut{From: 11, To: 13, Records: 2}
		}
		return true
	})
	return w
}

// foretell changes what describe says of t-0 in a state.
func (w *world) foretell(t testing.TB, state string, f func(*history.Mirror)) {
	w.edit(t, func(e *history.Event) bool {
		if e.Mirror == nil || e.Mirror.Topic != "t" || e.Mirror.State != state {
			return false
		}
		f(e.Mirror)
		return true
	})
}

func TestWhatAStopWouldCut(t *testing.T) {
	mirroring := func(f func(*history.Mirror)) func(*world) {
		return func(w *world) { w.foretell(t, "MIRRORING", f) }
	}
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		want  Outcome
		says  string
	}{
		{"told", func(*world) {}, Held, "told 1 times, as the source's log has it, and 1 stops cut just that"},
		{"more was mirrored before the stop", func(w *world) {
			w.foretell(t, "STOPPED", func(m *history.Mirror) { m.StopCut = history.Cut{From: 11, To: 14, Records: 3} })
		}, Held, "and 0 stops"},
		{"hidden", mirroring(func(m *history.Mirror) { m.WouldCut, m.Oldest = nothing, noneOpen }), Violated, "2 records in [11, 13)"},
		{"hidden, and the transaction told", mirroring(func(m *history.Mirror) { m.WouldCut = nothing }), Violated, "nothing to be cut"},
		{"at the wrong place", mirroring(func(m *history.Mirror) { m.WouldCut.From = 12; m.WouldCut.Records = 1 }), Violated, "1 records in [12, 13)"},
		{"too many records", mirroring(func(m *history.Mirror) { m.WouldCut.Records = 3 }), Violated, "3 records in [11, 13)"},
		{"something where nothing is open", mirroring(func(m *history.Mirror) { m.WouldCut = history.Cut{From: 9, To: 11, Records: 1} }), Violated, "nothing"},
		{"another transaction", mirroring(func(m *history.Mirror) { m.Oldest.ProducerID = 9 }), Violated, "producer id 9"},
		{"no transaction", mirroring(func(m *history.Mirror) { m.Oldest = noneOpen }), Violated, "producer id -1"},
		{"the stop cuts something else", func(w *world) {
			w.foretell(t, "STOPPED", func(m *history.Mirror) { m.StopCut.From, m.StopCut.Records = 12, 1 })
		}, Violated, "told before it"},
		{"nobody asked", func(w *world) {
			w.edit(t, func(e *history.Event) bool {
				if e.Mirror == nil {
					return false
				}
				e.Mirror.WouldCut, e.Mirror.StopCut, e.Mirror.Oldest = history.Cut{}, history.Cut{}, history.Undecided{}
				return true
			})
		}, Inconclusive, "no describe"},
		{"nothing was open", mirroring(func(m *history.Mirror) {
			m.WouldCut, m.Oldest, m.DestinationOffset = nothing, noneOpen, 11
		}), Inconclusive, "no describe"},
		{"maybe nothing was open", mirroring(func(m *history.Mirror) { m.WouldCut, m.Oldest, m.DestinationOffset = nothing, noneOpen, 10 }), Inconclusive, "no describe"},
		{"never stopped", func(w *world) {
			w.drop(func(e *history.Event) bool {
				return e.Mirror != nil && e.Mirror.State == "STOPPED" || isPhase(history.Stopped)(e)
			})
		}, Inconclusive, "never seen STOPPED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newForetold(t)
			tc.spoil(w)
			v := verdicts(t, w)["OPS-4"]
			require.Equal(t, tc.want, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
			for _, f := range v.Findings {
				require.Equal(t, UntoldState, f.Anomaly)
			}
		})
	}
}

// A transaction that began below the last stable offset and ended above it is cut
// whole: at 2 of [0 open 0, 1 txn, 2 open 2, marker of 1] nothing less will do.
func TestForeseenCutsNoTransactionInTwo(t *testing.T) {
	s := &side{txns: []*txn{{producerID: 1, first: 1, last: 1, end: 3, committed: true}, {producerID: 2, first: 2, last: 2, end: -1}}}
	for offset, want := range map[int64]history.Cut{1: nothing, 2: {From: 1, To: 2}, 3: {From: 1, To: 3}, 4: {From: 1, To: 4}, 5: {From: 1, To: 5}} {
		got, _ := s.foreseen(offset)
		require.Equal(t, want, got, "log end %d", offset)
	}
	_, oldest := s.foreseen(5)
	require.EqualValues(t, 2, oldest.producerID)
}
