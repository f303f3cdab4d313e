package suite_test

import (
	"fmt"
	"strings"
	"testing"

	"watershed.example/fixtures/target"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

// TestTarget certifies the clusters of -target, as watershed certify does: one test
// for each scenario that they can play. With -level that level has to be passed.
func TestTarget(t *testing.T) {
	if settings.TargetFile == "" {
		t.Skip("runs with -target=target.yaml")
	}
	uncached(t)
	file, err := target.Load(inModule(settings.TargetFile))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := engine.Certify(run.ctx, engine.Certification{
		Target: file, Level: settings.Level, Seed: settings.Seed, Folder: run.folder, Known: settings.Known, Progress: say,
		Reproduce: func(scenario string) string {
			return fmt.Sprintf("go run ./suite/cmd/watershed certify --target %s --seed %d '%s'", settings.TargetFile, settings.Seed, scenario)
		},
		Played: func(r *engine.Result, err error) {
			t.Run(r.Name, func(t *testing.T) {
				switch {
				case err != nil:
					t.Errorf("could not run: %v", err)
				case r.Failed():
					t.Error(r.Story())
				}
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := report.Table(&table, &cert.Report, 120); err != nil {
		t.Fatal(err)
	}
	fmt.Print(table.String())
	if cert.Trouble != nil {
		t.Error(cert.Trouble)
	}
	if cert.Short != "" {
		t.Error(cert.Short)
	}
}
