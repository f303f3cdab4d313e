package suite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/engine"
)

// TestShrinking makes a case smaller on real brokers: of two faults at the two stops
// of a failback only one matters to the defect, in any topology. What is left is written as a file that shows it again, and shows nothing without the defect.
//
// It runs only when -run names it, for a minute or two.
func TestShrinking(t *testing.T) {
	if !named("TestShrinking") {
		t.Skip("runs when named: -run TestShrinking")
	}
	uncached(t)
	faults, err := chaos.ParseSeveral("latency link=B->A at=after:truncated delay=20ms until=stopped" +
		" + partition link=A->B at=before:fetchers-removed until=stopped")
	require.NoError(t, err)
	c := engine.Case{
		Seed: settings.Seed, Topology: "failback", Nodes: 1, Profile: check.ProfileV42,
		Defects: []string{"fetched-after-healing"}, Faults: faults,
	}
	shrunk, err := engine.Shrink(run.ctx, c, "LINK-3", run.folder, 5*time.Minute, engine.Options{
		Launcher: settings.Launcher, Keep: settings.Keep, Progress: func(format string, args ...any) { say(format, args...) },
	})
	require.NoError(t, err)
	say("shrunk: %s", shrunk)
	require.True(t, shrunk.Whole, "time was up")
	require.Equal(t, "active-passive", shrunk.Topology)
	require.Len(t, shrunk.Faults.Links, 1)
	require.Empty(t, shrunk.Faults.Nodes)
	require.Contains(t, []chaos.Kind{chaos.Partition, chaos.PartitionToSource}, shrunk.Faults.Links[0].Kind)
	require.True(t, shrunk.Faults.Links[0].UntilStopped, "a link that heals before has nothing left to bring after the stop")

	again, err := engine.LoadReplay(shrunk.File)
	require.NoError(t, err)
	sc, err := again.Scenario()
	require.NoError(t, err)
	res, err := playCase(t, sc, again.Case, "TestShrinking/again", engine.ReplayCommand(shrunk.File, settings.Launcher))
	require.NoError(t, err)
	require.Contains(t, res.Violated(), "LINK-3", "the file shows it again")
	again.Defects = nil
	res, err = playCase(t, sc, again.Case, "TestShrinking/healthy", engine.ReplayCommand(shrunk.File, settings.Launcher))
	require.NoError(t, err)
	require.Empty(t, res.Violated(), "without the defect")
}
