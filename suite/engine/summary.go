package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/report"
)

// width of stories and tables in characters.
const width = 120

// report is the scenario as reports tell it.
func (r *Result) report() report.Scenario {
	s := report.Scenario{
		Name: scenarioOf(r.Name), Accepted: r.Accepted,
		Run:      check.Run{Scenario: r.Name, Seed: r.Seed, Command: r.Reproduce},
		Verdicts: r.Verdicts, Evidence: r.Folder, Started: r.Started, Duration: r.Took, Trouble: r.Trouble,
	}
	if r.Evidence != nil {
		s.Run = r.Evidence.Run
	}
	if r.Stuck != nil && s.Trouble == "" {
		s.Trouble = r.Stuck.Error()
	}
	return s
}

func reports(results []*Result) (all []report.Scenario) {
	for _, r := range results {
		all = append(all, r.report())
	}
	return all
}

// Story tells what went wrong, for the person who has to find out.
func (r *Result) Story() string {
	var b strings.Builder
	s := r.report()
	if err := report.Story(&b, &s, width); err != nil {
		return err.Error()
	}
	return b.String()
}

// saveReports writes the scenario's own story beside its evidence.
func (r *Result) saveReports() error {
	if err := os.WriteFile(filepath.Join(r.Folder, "story.txt"), []byte(r.Story()), 0o644); err != nil {
		return fmt.Errorf("write the story: %w", err)
	}
	return nil
}

// Table is the verdict of each requirement over results.
func Table(results []*Result) (string, error) {
	all := report.Result{Scenarios: reports(results)}
	var table strings.Builder
	err := report.Table(&table, &all, width)
	return table.String(), err
}

// ErrLevel is that a run did not pass the level that was asked for.
var ErrLevel = errors.New("level not passed")

// WriteSummary writes the reports of a whole run into its folder and returns
// the verdict table.
//
// An error that is [ErrLevel] says that the level which was asked for is not passed,
// and that all was written.
func WriteSummary(folder string, settings *Settings, results []*Result) (string, error) {
	all := report.Result{Launcher: settings.LaunchedBy(), Scenarios: reports(results)}
	consists := members()
	if settings.Broker != nil {
		consists = certifying()
	}
	all.Levels = all.Standings(consists)
	switch l := settings.Level; {
	case l != nil:
		all.Levels = all.Levels[:*l+1]
	case settings.Broker != nil && all.Whole(consists):
		all.Levels = all.Levels[:contract.L0+1]
	case !all.Whole(consists):
		all.Levels = nil // a choice of scenarios is not out for a level
	}
	all.Notes = report.Notes(settings.Known, all.Scenarios, time.Now())
	var table strings.Builder
	err := errors.Join(report.Table(&table, &all, width),
		report.SaveJSON(filepath.Join(folder, "result.json"), &all),
		report.SaveJUnit(filepath.Join(folder, "junit.xml"), &all),
		os.WriteFile(filepath.Join(folder, "verdicts.txt"), []byte(table.String()), 0o644),
	)
	if l := settings.Level; err == nil && l != nil && !all.Levels[*l].Passed {
		err = fmt.Errorf("%w: %s: %s", ErrLevel, *l, all.Levels[*l].Why)
	}
	return table.String(), err
}
