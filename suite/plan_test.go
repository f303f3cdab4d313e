package suite_test

import (
	"testing"

	"watershed.example/suite/engine"
)

// TestPlan plays the faults of -plan on the topology of -topology:
//
//	go test ./suite -run '^TestPlan$' -plan='reset link=A->B at=before:settled + kill controller cluster=B at=after:settled' -seed=7
func TestPlan(t *testing.T) {
	if !settings.PlanGiven {
		t.Skip("runs with -plan")
	}
	uncached(t)
	c := settings.Case()
	sc, err := c.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	res, err := playCase(t, sc, c, "TestPlan", engine.PlanCommand(c, settings.Launcher))
	told(t, res, err, 1)
}

// TestReplay plays the file of -replay. It fails as the run that the file is of did: the
// requirement that was violated is so again, or something else is.
func TestReplay(t *testing.T) {
	if settings.ReplayFile == "" {
		t.Skip("runs with -replay")
	}
	uncached(t)
	r, err := engine.LoadReplay(inModule(settings.ReplayFile))
	if err != nil {
		t.Fatal(err)
	}
	r = settings.Over(r)
	sc, err := r.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	res, err := playCase(t, sc, r.Case, "TestReplay", engine.ReplayCommand(inModule(settings.ReplayFile), settings.Launcher))
	say("%s", r.Told(res))
	told(t, res, err, 1)
}

// playCase plays a case as it is, whatever else was chosen.
func playCase(t *testing.T, sc engine.Scenario, c engine.Case, test, again string) (*engine.Result, error) {
	t.Helper()
	return engine.Run(run.ctx, sc, engine.Options{
		Seed: c.Seed, Profile: c.Profile, Defects: c.Defects, Name: test + "/" + sc.Name, Reproduce: again,
		Launcher: settings.Launcher, Folder: run.folder, Keep: settings.Keep, Known: settings.Known,
		Progress: func(format string, args ...any) { t.Logf(format, args...) },
	})
}
