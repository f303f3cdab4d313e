package suite_test

import (
	"testing"

	"watershed.example/suite/engine"
)

// TestSelfTest proves that the links are the only way: with all of them cut
// neither a fresh client nor a connected one gets anything through, and the
// mirror stands still (FA-21). Every scenario does the same before it counts.
func TestSelfTest(t *testing.T) {
	uncached(t)
	t.Parallel()
	if err := engine.SelfTest(run.ctx, settings.Launcher, t.TempDir()); err != nil {
		t.Fatal(err)
	}
}
