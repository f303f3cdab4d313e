package suite_test

import (
	"testing"

	"watershed.example/suite/engine"
)

// TestMatrix strikes with every fault, at every step of STOPPING, at every role that it
// can strike, in topologies on clusters of three nodes. Each cell is judged as any other
// scenario.
//
// It runs only when -run names it: a part of the cells in which all pairs occur, of
// which -shard takes a part, or with -full all of them. docs/faults.md tells how many
// those are, and how long they take.
func TestMatrix(t *testing.T) {
	if !named("TestMatrix") {
		t.Skip("runs when named: -run TestMatrix")
	}
	uncached(t)
	cells := engine.CoveringFaults()
	if settings.Full || chosen() {
		cells = engine.FaultMatrix()
	}
	scenarios := settings.Sharded(engine.ScenariosOf(cells))
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			runScenario(t, sc, len(scenarios))
		})
	}
}
