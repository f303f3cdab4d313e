package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// newGoneWorld is a run whose barrier in t-0 is deleted when its only episode has
// settled. Then B's broker is killed, comes back, and meets a mirrored header.
func newGoneWorld() *world {
	w := newWorld(0)
	w.run.Exercises = []string{"BAR-8"}
	w.run.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: EpisodeDir(1)}}
	for i := range w.events {
		w.events[i].Episode = 1
	}
	w.start(w.l + 1)
	w.node(1, history.NodeKilled)
	w.node(1, history.NodeStarted)
	w.describe("t", history.ProducerState{ProducerID: 2, LastSequence: 2, CurrentTxnStart: -1})
	w.data(&w.b, 5, "B", "raw", history.Idempotent, 9, 3, 0, 2, history.NoTxn, history.IntentNone, history.SameHeader) // 23..24
	return w
}

// start samples a log start of t-0.
func (w *world) start(at int64) {
	w.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{
		Cluster: "B", Node: 1, Topic: "t", HighWatermark: 23, LastStableOffset: 23, LogStartOffset: at, LogEndOffset: -1,
	}})
}

// atTheEnd is the evidence whose episode was captured before keep took batches
// away from t-0 on B.
func atTheEnd(t *testing.T, w *world, captured int64, keep func(wirelog.Batch) bool) *Evidence {
	ev := w.evidence(t)
	ev.Captured = map[int32][]*Replica{}
	for _, r := range ev.Replicas {
		before := *r
		before.Batches = slices.DeleteFunc(slices.Clone(r.Batches), func(b wirelog.Batch) bool { return b.BaseOffset >= captured })
		ev.Captured[1] = append(ev.Captured[1], &before)
		if r.Cluster == "B" && r.Topic == "t" {
			r.Batches = slices.DeleteFunc(slices.Clone(r.Batches), func(b wirelog.Batch) bool { return !keep(b) })
		}
	}
	return ev
}

func behind(offset int64) func(wirelog.Batch) bool {
	return func(b wirelog.Batch) bool { return b.BaseOffset > offset }
}

func TestABarriersEffectOutlivesIt(t *testing.T) {
	w := newGoneWorld()
	v := judged(atTheEnd(t, w, 23, behind(w.l)))["BAR-8"]
	require.Equal(t, Held, v.Outcome, "%s %v", v.Reason, v.Findings)
	for _, tc := range []struct {
		name    string
		anomaly Anomaly
		offset  int64
		spoil   func(w *world)
	}{
		{"a mirrored producer is back", BarrierResurrect, 11, func(w *world) {
			w.lastDescribed().Active[0].LastSequence = 3
		}},
		{"one with another id", BarrierResurrect, 11, func(w *world) {
			w.lastDescribed().Active = append(w.lastDescribed().Active, history.ProducerState{ProducerID: 7, CurrentTxnStart: -1})
		}},
		{"a local batch is taken for a retry", StaleDedupe, 8, func(w *world) { w.editLater(8, ok) }},
		{"a local batch is fenced", StaleFence, -1, func(w *world) { w.editLater(-1, refusedBy(47)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newGoneWorld()
			tc.spoil(w)
			v := judged(atTheEnd(t, w, 23, behind(w.l)))["BAR-8"]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly && f.Offset == tc.offset }), "%v", v.Findings)
		})
	}
	for name, spoil := range map[string]func(w *world){
		"not gone":          func(w *world) { w.drop(func(e *history.Event) bool { return e.Offsets != nil && e.Episode == 0 }) },
		"not restarted":     func(w *world) { w.drop(func(e *history.Event) bool { return e.Node != nil }) },
		"not described":     func(w *world) { w.drop(func(e *history.Event) bool { return e.Producers != nil && e.Episode == 0 }) },
		"not met":           func(w *world) { w.drop(func(e *history.Event) bool { return e.Produce != nil && e.Episode == 0 }) },
		"no mirrored id":    emptyOfProducers,
		"restarted earlier": func(w *world) { w.events = append(w.events, w.events[len(w.events)-6]); w.moveStart() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newGoneWorld()
			spoil(w)
			v := judged(atTheEnd(t, w, 23, behind(w.l)))["BAR-8"]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
		})
	}
}

func (w *world) lastDescribed() *history.Producers {
	for i := len(w.events) - 1; ; i-- {
		if w.events[i].Producers != nil {
			return w.events[i].Producers
		}
	}
}

func emptyOfProducers(w *world) {
	for i := range w.b {
		if w.b[i].base < w.l {
			w.b[i].pid, w.b[i].attributes = -1, 0
		}
	}
}

// moveStart puts the sample of the log's start behind all else.
func (w *world) moveStart() {
	i := slices.IndexFunc(w.events, func(e history.Event) bool { return e.Offsets != nil && e.Offsets.LogStartOffset > 0 })
	w.events = slices.Delete(w.events, i, i+1)
}

func TestTwoBarriersAreNotCompactedIntoOne(t *testing.T) {
	two := func() *world {
		w := newWorld(0)
		w.run.Exercises = []string{"BAR-8"}
		w.run.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: EpisodeDir(1)}}
		for i := range w.events {
			w.events[i].Episode = 1
		}
		// A was stopped once itself: its barrier came with the records.
		*at(w.a, 7) = barrier(7, 3, idB)
		*at(w.b, 7) = barrier(7, 3, idB)
		return w
	}
	cleaned := func(b wirelog.Batch) bool { return b.BaseOffset != 4 }
	v := judged(atTheEnd(t, two(), 100, cleaned))["BAR-8"]
	require.Equal(t, Held, v.Outcome, "%s %v", v.Reason, v.Findings)

	v = judged(atTheEnd(t, two(), 100, func(b wirelog.Batch) bool { return cleaned(b) && b.BaseOffset != 7 }))["BAR-8"]
	require.Equal(t, Violated, v.Outcome, v.Reason)
	require.Equal(t, MissingBarrier, v.Findings[0].Anomaly)
	require.Equal(t, int64(7), v.Findings[0].Offset)

	v = judged(atTheEnd(t, two(), 100, func(wirelog.Batch) bool { return true }))["BAR-8"]
	require.Equal(t, Inconclusive, v.Outcome, v.Reason)
}
