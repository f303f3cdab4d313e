package suite_test

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"watershed.example/suite/engine"
)

// TestExplore plays cases that differ from one another, towards what none of them has
// shown, for as long as -explore says:
//
//	go test ./suite -run '^TestExplore$' -launcher=process -explore=10m -seed=7 -corpus=DIR
//
// It fails when a requirement is violated, a stop came to a standstill, or most plays told
// nothing; docs/faults.md tells the rest.
func TestExplore(t *testing.T) {
	if settings.Explore == 0 {
		t.Skip("runs with -explore")
	}
	if settings.Broker != nil || settings.Nodes != 0 {
		t.Fatal("-explore chooses topologies and numbers of nodes itself, of the reference broker: leave -broker and -nodes out")
	}
	uncached(t)
	folder := filepath.Join(run.folder, "corpus")
	if settings.CorpusFolder != "" {
		folder = inModule(settings.CorpusFolder)
	}
	corpus, err := engine.LoadCorpus(folder)
	if err != nil {
		t.Fatal(err)
	}
	shrunk := map[string]bool{} // requirements
	explored, err := engine.Explore(run.ctx, engine.Exploring{
		Seed: settings.Seed, Profile: settings.Profile, Defects: settings.Defects, Limit: settings.Explore, Corpus: corpus,
		Keep: settings.Keep, Features: engine.FeaturesOf, Say: func(format string, args ...any) { say("explore: "+format, args...) },
		Play: func(ctx context.Context, number int, c engine.Case) (*engine.Result, error) {
			sc, err := c.Scenario()
			if err != nil {
				return &engine.Result{Scenario: sc, Trouble: err.Error()}, err
			}
			return engine.Run(ctx, sc, engine.Options{
				Seed: c.Seed, Profile: c.Profile, Defects: c.Defects, Name: fmt.Sprintf("TestExplore/%04d", number),
				Reproduce: engine.PlanCommand(c, settings.Launcher),
				Launcher:  settings.Launcher, Folder: run.folder, Keep: settings.Keep, Known: settings.Known,
			})
		},
		Violated: func(_ engine.Case, res *engine.Result) {
			run.mu.Lock()
			run.results = append(run.results, res)
			run.mu.Unlock()
			t.Errorf("%s", res.Story())
			if id := cmp.Or(res.Unaccepted()...); id != "" && !shrunk[id] {
				// One of each is enough: the search is to go on.
				shrunk[id] = true
				shrinkViolated(t, res)
			}
		},
	})
	fmt.Print(explored)
	if err != nil {
		t.Error(err)
	}
}
