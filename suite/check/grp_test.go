package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

func groupEvent(kind history.Kind, cluster, group string, offset int64, change ...func(*history.Group)) history.Event {
	g := history.Group{Cluster: cluster, Group: group, Topic: "t", Offset: offset, LogStart: -1, LogEnd: -1}
	switch kind {
	case history.KindGroupCommit:
		g.Result = &ok
	case history.KindGroupOffsets:
		g.When, g.LogStart, g.LogEnd = history.WhenMirroring, 0, 13
	}
	for _, f := range change {
		f(&g)
	}
	return history.Event{Kind: kind, Group: &g}
}

// newGroupWorld is a failover with groups: one that is ahead of the log, one at
// its end, one within, and one that has committed on the destination itself. L is
// 11, the log ends at 13 before the stop.
func newGroupWorld() *world {
	w := newWorld(0)
	w.run.Exercises = append(w.run.Exercises, "GRP-1")
	const commit, sample, resumes = history.KindGroupCommit, history.KindGroupOffsets, history.KindGroupResumes
	w.insertBefore(isPhase(history.StopRequested),
		groupEvent(commit, "A", "within", 2), groupEvent(commit, "A", "ahead", 1000), groupEvent(commit, "A", "end", 13),
		groupEvent(commit, "A", "within", 6), groupEvent(commit, "B", "own", 13),
		groupEvent(sample, "B", "ahead", 13), groupEvent(sample, "B", "end", 13), groupEvent(sample, "B", "within", 6), groupEvent(sample, "B", "own", 13))
	after := func(g *history.Group) { g.When, g.LogEnd = history.WhenAfterStop, 12 }
	w.insertBefore(isPhase(history.TrafficAfter),
		groupEvent(sample, "B", "ahead", 11, after), groupEvent(sample, "B", "end", 11, after),
		groupEvent(sample, "B", "within", 6, after), groupEvent(sample, "B", "own", 11, after))
	w.add(groupEvent(resumes, "B", "end", 11, func(g *history.Group) { g.Reader = "ru-end" }))
	for _, s := range w.b {
		for i, tag := range s.tags {
			if s.base >= 11 {
				e := w.read("ru-end", s.base+int64(i), tag.String())
				e.Read.Isolation = history.ReadUncommitted
			}
		}
	}
	last := w.b[len(w.b)-1]
	w.position("ru-end", "t", last.base+last.count(), true)
	w.events[len(w.events)-1].Reader.Start = 11
	return w
}

func isGroup(kind history.Kind, when history.When, group string) func(*history.Event) bool {
	return func(e *history.Event) bool {
		return e.Kind == kind && e.Group.When == when && e.Group.Group == group
	}
}

// regroup changes the offset of events of a group.
func regroup(kind history.Kind, when history.When, group string, offset int64) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if !isGroup(kind, when, group)(e) {
				return false
			}
			g := *e.Group
			g.Offset, e.Group = offset, &g
			return true
		})
	}
}

func TestGroupsHold(t *testing.T) {
	got := verdicts(t, newGroupWorld())
	for _, id := range append(unprobed(), "GRP-1") {
		require.Equal(t, Held, got[id].Outcome, "%s: %s %v", id, got[id].Reason, got[id].Findings)
	}
	require.Contains(t, got["GRP-1"].Reason, "3 mirrored offsets within the log, 1 of them clamped; 3 above L")
}

func TestBadGroups(t *testing.T) {
	const sample, mirroring, stopped = history.KindGroupOffsets, history.WhenMirroring, history.WhenAfterStop
	for name, c := range map[string]struct {
		anomaly Anomaly
		offset  int64
		spoil   func(*testing.T, *world)
	}{
		// FA-09: a commit that is ahead of the mirrored log, and one below its start.
		"copied as it was":          {UnclampedCommit, 1000, regroup(sample, mirroring, "ahead", 1000)},
		"below the log's start":     {UnclampedCommit, 6, func(t *testing.T, w *world) { moveLogStart(t, w, "within", 8) }},
		"another than was asked":    {UnclampedCommit, 5, regroup(sample, mirroring, "within", 5)},
		"mirrored, not lowered":     {UnloweredCommit, 11, regroup(sample, stopped, "end", 13)},
		"of its own, not lowered":   {UnloweredCommit, 11, regroup(sample, stopped, "own", 12)},
		"lowered though it was not": {UnloweredCommit, 11, regroup(sample, stopped, "within", 3)},
		"lost":                      {UnloweredCommit, 11, regroup(sample, stopped, "own", -1)},
		"a record is skipped": {SkippedRecord, 13, func(_ *testing.T, w *world) {
			w.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Reader == "ru-end" && e.Read.Offset == 13 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld()
			c.spoil(t, w)
			got := verdicts(t, w)
			require.Equal(t, Violated, got["GRP-1"].Outcome, "%s", got["GRP-1"].Reason)
			require.Equal(t, c.anomaly, got["GRP-1"].Findings[0].Anomaly)
			require.Equal(t, c.offset, got["GRP-1"].Findings[0].Offset)
			for id, v := range got {
				if id != "GRP-1" && id != "AP-1" && c.anomaly != SkippedRecord { // what is hidden from one reader, TXN-2 tells too
					require.Equal(t, Held, v.Outcome, "%s: %s", id, v.Reason)
				}
			}
		})
	}
}

// moveLogStart has the destination's log begin at an offset in a group's sample.
func moveLogStart(t *testing.T, w *world, group string, start int64) {
	w.edit(t, func(e *history.Event) bool {
		if !isGroup(history.KindGroupOffsets, history.WhenMirroring, group)(e) {
			return false
		}
		g := *e.Group
		g.LogStart, e.Group = start, &g
		return true
	})
}

func TestVacuousGroups(t *testing.T) {
	const sample, mirroring, stopped = history.KindGroupOffsets, history.WhenMirroring, history.WhenAfterStop
	for says, spoil := range map[string]func(*testing.T, *world){
		"more than the destination holds": func(_ *testing.T, w *world) { w.drop(isGroup(history.KindGroupCommit, "", "ahead")) },
		"above L when": func(_ *testing.T, w *world) {
			w.drop(func(e *history.Event) bool { return e.Group != nil && e.Group.When == mirroring })
		},
		"nobody asked after the stop": func(_ *testing.T, w *world) {
			w.drop(func(e *history.Event) bool { return e.Group != nil && e.Group.When == stopped })
		},
		"no group read a local record": func(_ *testing.T, w *world) {
			w.drop(func(e *history.Event) bool { return e.Kind == history.KindGroupResumes })
		},
		"never seen STOPPED": notStopped,
	} {
		w := newGroupWorld()
		spoil(t, w)
		v := verdicts(t, w)["GRP-1"]
		require.Equal(t, Inconclusive, v.Outcome, "%s: %s", says, v.Reason)
		require.Contains(t, v.Reason, says)
	}
	// A mirror that has not come to it yet has told nothing wrong.
	w := newGroupWorld()
	for _, group := range []string{"ahead", "end", "within"} {
		regroup(sample, mirroring, group, -1)(t, w)
	}
	require.Equal(t, Inconclusive, verdicts(t, w)["GRP-1"].Outcome)
}
