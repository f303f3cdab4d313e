package check

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// realSegments is what a public build of KIP-1279 wrote when topics that had
// failed over from A to B were mirrored back to A and stopped there.
func realSegments(t testing.TB) *Evidence {
	ev := &Evidence{Run: Run{
		Version: RunVersion, Profile: ProfileLatest,
		Clusters:  []Cluster{{Name: "A", ID: "o5jt3v-4S1Sc3Mw97_PqJw", Nodes: []int32{1}}, {Name: "B", ID: "SmpaR6K6T_OYIRZqTy85PA", Nodes: []int32{1}}},
		Edges:     []Edge{{Mirror: "back", Source: "B", Destination: "A", Topics: []string{"t1", "t2"}, Stops: 1}},
		Topics:    []Topic{{Name: "t1", Partitions: 1}, {Name: "t2", Partitions: 1}},
		Exercises: []string{"LOG-1", "LOG-2", "LOG-3", "BAR-2", "BAR-4"},
	}}
	for _, name := range []string{"A", "B"} {
		for _, topic := range []string{"t1", "t2"} {
			r := &Replica{Cluster: name, Node: 1, Topic: topic, Dir: filepath.Join("../wirelog/testdata/kip1279-segments", name, topic+"-0")}
			log, err := wirelog.Open(r.Dir)
			require.NoError(t, err)
			for b, err := range log.Batches() {
				require.NoError(t, err)
				r.Batches = append(r.Batches, b)
			}
			ev.Replicas = append(ev.Replicas, r)
		}
	}
	for i, e := range []history.Event{
		{Kind: history.KindPhase, Phase: &history.Phase{Name: history.StopRequested}},
		{Kind: history.KindPhase, Phase: &history.Phase{Name: history.Stopped}},
	} {
		e.Seq = int64(i + 1)
		ev.Events = append(ev.Events, e)
	}
	return ev
}

func TestRealSegmentsOfAFailbackHold(t *testing.T) {
	ev := realSegments(t)
	got := All(ev)
	require.Len(t, got, len(ev.Run.Exercises))
	for _, v := range got {
		require.Equal(t, Held, v.Outcome, "%s: %s", v.Requirement, v.Reason)
	}
	j := newTrial(ev).views[0]
	for i, barrierAt := range []int64{11, 22} {
		s := j.parts()[i].lead
		require.Equal(t, barrierAt, s.barrierOffset(), "the own barrier, not the inherited one")
		require.Equal(t, barrierAt, s.cut)
	}
}

// The same segments, read as if A had never mirrored B.
func TestRealSegmentsUnderAWrongSourceAreViolations(t *testing.T) {
	ev := realSegments(t)
	ev.Run.Clusters[1].ID = "another"
	for _, v := range All(ev) {
		if v.Requirement == "BAR-4" {
			require.Equal(t, Violated, v.Outcome)
			require.Equal(t, WrongSource, v.Findings[0].Anomaly)
			return
		}
	}
	t.Fatal("BAR-4 was not judged")
}
