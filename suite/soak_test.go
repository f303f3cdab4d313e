package suite_test

import (
	"fmt"
	"testing"
	"time"

	"watershed.example/suite/engine"
)

// TestSoak repeats the scenarios with one fresh seed a round until -duration is
// over: the run's seed, the next one, and so on. A round that began in time is
// played to its end. Of what was held the evidence is removed.
func TestSoak(t *testing.T) {
	if settings.Duration == 0 {
		t.Skip("runs with -duration")
	}
	uncached(t)
	until := time.Now().Add(settings.Duration)
	scenarios := chosenScenarios()
	for round := 0; round == 0 || time.Now().Before(until) && run.ctx.Err() == nil; round++ {
		seed := settings.Seed + uint64(round)
		say("round %d, seed %d", round+1, seed)
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			for _, sc := range scenarios {
				t.Run(sc.Name, func(t *testing.T) {
					t.Parallel()
					name := "TestScenarios/" + sc.Name
					res, err := playSeed(t, run.ctx, sc, engine.Options{
						Seed: seed, Defects: settings.Defects,
						Name: fmt.Sprintf("seed-%d/%s", seed, name), Reproduce: reproduce(name, seed),
					})
					told(t, res, err, len(scenarios)*(round+1))
					if err := res.Forget(settings.Keep); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}
