package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// In profile kip1279-latest nothing is cut, so that CH-3 has nothing to look at,
// and PSM-5 is the other text's.
func TestEveryShapeHoldsInTheLaterText(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			s := shape(inLatest()).declareSamples(name)
			require.Equal(t, ProfileLatest, s.run.Profile)
			got := judged(s.evidence(t))
			for id, v := range got {
				want := Held
				if id == "PSM-5" {
					want = NotApplicable
				}
				require.Equal(t, want, v.Outcome, "%s: %s %v", id, v.Reason, v.Findings)
			}
			require.Contains(t, got["BAR-3"].Reason, "ABORT markers before them")
			require.Contains(t, got["TXN-3"].Reason, "open at STOPPING were aborted")
		})
	}
}

// tail is a stop's end of a log: what was mirrored, its ABORT marker at L, its
// barrier.
func tail(s *saga) (mirrored []spec, abort, reset spec) {
	log := s.logs["A"]["t"]
	n := len(log)
	return slices.Clone(log[:n-2]), log[n-2], log[n-1]
}

// ends makes topic t on A end with other batches than the stop's, in a row.
func (s *saga) ends(mirrored []spec, with ...spec) {
	for _, b := range with {
		b.base = endOf(mirrored)
		mirrored = append(mirrored, b)
	}
	delete(s.own["A"]["t"], s.end("A", "t")-1)
	s.logs["A"]["t"] = mirrored
	s.own["A"]["t"][endOf(mirrored)-1] = true
}

// badLatest are runs in profile kip1279-latest that violate a requirement in the
// second episode of a failback, the stop on cluster A. offset is relative to L.
var badLatest = []struct {
	id, name string
	anomaly  Anomaly
	offset   int64
	also     []string
	stop     func(s *saga)
}{
	{id: "TXN-3", name: "an ABORT marker is left out", anomaly: OrphanTransaction, offset: -2, also: []string{"TXN-2", "TXN-4", "PSM-4", "PSM-8"}, stop: func(s *saga) {
		mirrored, _, reset := tail(s)
		s.ends(mirrored, reset)
	}},
	{id: "TXN-3", name: "what was open is committed", anomaly: TornOutcome, offset: 0, stop: func(s *saga) {
		mirrored, abort, reset := tail(s)
		s.ends(mirrored, marker(0, abort.epoch, abort.pid, abort.pepoch, wirelog.Commit), reset)
	}},
	{id: "TXN-3", name: "the barrier lies before the marker", anomaly: OrphanTransaction, offset: -2, also: []string{"BAR-3", "TXN-2", "TXN-4", "PSM-1", "PSM-3", "PSM-4", "PSM-7", "PSM-8"}, stop: func(s *saga) {
		mirrored, abort, reset := tail(s)
		s.ends(mirrored, reset, abort)
	}},
	{id: "BAR-3", name: "a marker for a producer with nothing open", anomaly: ForeignMarker, offset: 1, stop: func(s *saga) {
		mirrored, abort, reset := tail(s)
		s.ends(mirrored, abort, marker(0, abort.epoch, 202, 0, wirelog.Abort), reset)
	}},
	{id: "BAR-3", name: "two markers for one transaction", anomaly: ForeignMarker, offset: 1, stop: func(s *saga) {
		mirrored, abort, reset := tail(s)
		s.ends(mirrored, abort, abort, reset)
	}},
	{id: "BAR-3", name: "a marker in another epoch", anomaly: ForeignMarker, offset: 0, stop: func(s *saga) {
		mirrored, abort, reset := tail(s)
		abort.pepoch++
		s.ends(mirrored, abort, reset)
	}},
	{id: "BAR-3", name: "what was mirrored is cut, as in the other text", anomaly: MisplacedBarrier, offset: -2, stop: func(s *saga) {
		mirrored, _, reset := tail(s)
		s.ends(mirrored[:len(mirrored)-2], reset) // from the open transaction on
	}},
}

func TestABadStopInTheLaterTextIsSeen(t *testing.T) {
	for _, tc := range badLatest {
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			before, l := inLatest(), int64(0)
			before["stopped 2"] = func(s *saga) {
				mirrored, _, _ := tail(s)
				l = endOf(mirrored)
				tc.stop(s)
			}
			got := judged(shapes["failback"](before).declareSamples("failback").evidence(t))
			var violated []string
			for id, v := range got {
				if v.Outcome == Violated {
					violated = append(violated, id)
				}
			}
			require.ElementsMatch(t, append([]string{tc.id}, tc.also...), violated, "%s %v", got[tc.id].Reason, got[tc.id].Findings)
			f := got[tc.id].Findings[0]
			require.Equal(t, tc.anomaly, f.Anomaly, "%v", f)
			require.Equal(t, l+tc.offset, f.Offset, "%v", f)
			require.EqualValues(t, 2, f.Episode)
		})
	}
}

// Producers from before an inherited barrier are gone, where the other text keeps
// them.
func TestAnInheritedBarrierMustExpireInTheLaterText(t *testing.T) {
	for _, shape := range []string{"failback", "chain"} {
		before := inLatest()
		before["profile 0"] = func(s *saga) { s.run.Profile, s.keeps = ProfileLatest, true }
		got := judged(shapes[shape](before).declareSamples(shape).evidence(t))
		v := got["PSM-4"]
		require.Equal(t, Violated, v.Outcome, v.Reason)
		require.Equal(t, WrongState, v.Findings[0].Anomaly)
		require.Contains(t, v.Findings[0].Expected, "every barrier expires")
	}
}

// A log whose stop has come no further than its markers is judged as far as it
// goes: they are the stop's.
func TestMarkersWithoutTheirBarrierAreTheStops(t *testing.T) {
	s := shapes["fan-out"](inLatest())
	log := s.saved[2]["C"]["t"]
	at := slices.IndexFunc(log, func(b spec) bool { return b.attributes == control })
	s.saved[2]["C"]["t"] = log[:at]
	got := judged(s.evidence(t))
	require.Equal(t, Violated, got["BAR-1"].Outcome)
	require.Equal(t, Held, got["LOG-1"].Outcome, got["LOG-1"].Reason)
}

func TestNothingIsForetoldToBeCutInTheLaterText(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*history.Mirror)
		want  Outcome
		says  string
	}{
		{"the open transaction is told", func(*history.Mirror) {}, Held, "told 1 times"},
		{"a cut", func(m *history.Mirror) { m.WouldCut = history.Cut{From: 11, To: 13, Records: 2} }, Violated, "2 records in [11, 13)"},
		{"another transaction", func(m *history.Mirror) { m.Oldest.ProducerID = 9 }, Violated, "producer id 9"},
		{"no transaction", func(m *history.Mirror) { m.Oldest = noneOpen }, Violated, "producer id -1"},
		{"nothing was open", func(m *history.Mirror) { m.Oldest, m.DestinationOffset = noneOpen, 11 }, Inconclusive, "no describe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newForetold(t)
			w.run.Profile = ProfileLatest
			w.foretell(t, "MIRRORING", func(m *history.Mirror) {
				m.WouldCut = nothing
				tc.spoil(m)
			})
			v := verdicts(t, w)["OPS-4"]
			require.Equal(t, tc.want, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
}
