package suite_test

import (
	"strings"
	"testing"

	"watershed.example/suite/engine"
)

// TestDefects proves that the suite sees: against a broker that is wrong in one
// way on purpose, the cheapest scenario that can show it must find the
// requirement violated which that defect violates, and nothing that the defect
// does not explain. The same scenario is clean without it.
//
// It runs only when -run names it, or with -full. With -short it tries the ten
// most telling defects.
func TestDefects(t *testing.T) {
	if !settings.Full && !named("TestDefects") {
		t.Skip("runs when named (-run TestDefects) or with -full")
	}
	uncached(t)
	controls := map[string]engine.Scenario{}
	for _, d := range engine.DefectCases() {
		if testing.Short() && !d.Short {
			continue
		}
		controls[d.Control()] = d.Scenario
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			res, err := play(t, run.ctx, d.Scenario, d.Names(), t.Name())
			if err != nil {
				t.Fatalf("could not run: %v\nevidence: %s", err, res.Folder)
			}
			say("defect %s: %s", d.Name, strings.Join(res.Violated(), ", "))
			if err := d.Seen(res); err != nil {
				t.Errorf("%v\n%s", err, res.Story())
			}
		})
	}
	for name, sc := range controls {
		t.Run("healthy/"+name, func(t *testing.T) {
			t.Parallel()
			res, err := play(t, run.ctx, sc, nil, t.Name())
			if err != nil {
				t.Fatalf("could not run: %v\nevidence: %s", err, res.Folder)
			}
			if res.Failed() {
				t.Errorf("the clean control failed\n%s", res.Story())
			}
		})
	}
}
