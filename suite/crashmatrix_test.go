package suite_test

import (
	"testing"

	"golang.org/x/sync/semaphore"

	"watershed.example/suite/engine"
)

// crashes limits how many cells of the crash and the fault matrix run at the same
// time: three for each processor, and nine at the most, since they mostly wait, for elections.
var crashes = semaphore.NewWeighted(max(engine.Capacity()*3/8, 1))

// TestCrashMatrix strikes the leader, a follower and the controller of the
// destination, and a leader of the source, each by kill -9, by a pause and by a
// cut from all others, before and after each step of STOPPING, on clusters of
// three nodes. Each cell is judged as any other scenario.
//
// It runs only when -run names it: a part of the cells in which all pairs occur,
// or with -full all of them, and of either one part by -shard. docs/matrix.md tells how many those are, and how long
// they take.
func TestCrashMatrix(t *testing.T) {
	if !named("TestCrashMatrix") {
		t.Skip("runs when named: -run TestCrashMatrix")
	}
	uncached(t)
	cells := engine.CoveringCrashes()
	if settings.Full {
		cells = engine.CrashMatrix()
	}
	if settings.Shards > 0 {
		cells = engine.ShardOfCrashes(cells, settings.Shard, settings.Shards)
	}
	for _, sc := range cells {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			runScenario(t, sc, len(cells))
		})
	}
}
