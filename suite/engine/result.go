package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"watershed.example/suite/check"
)

// Result is what became of one scenario.
type Result struct {
	Scenario Scenario
	// Name is the test's name, or the scenario's where there is no test.
	Name     string
	Seed     uint64
	Verdicts []check.Verdict
	Evidence *check.Evidence
	// Folder holds the evidence and the reports.
	Folder string
	// Reproduce is the command that runs it again.
	Reproduce string
	// Up is the time until the first write was acknowledged, Took that of the
	// whole run.
	Up, Took time.Duration
	Started  time.Time
	// Trouble is why the scenario could not be run or judged to its end.
	Trouble string
	trouble error
	// Stuck says what did not come about in time, where the stop or the
	// promotion hung.
	Stuck error
}

func (r *Result) with(o check.Outcome) []string {
	var ids []string
	for _, v := range r.Verdicts {
		if v.Outcome == o {
			ids = append(ids, v.Requirement)
		}
	}
	return ids
}

// Violated lists the requirements that were seen violated.
func (r *Result) Violated() []string { return r.with(check.Violated) }

// Failed says whether anything was violated or inconclusive.
func (r *Result) Failed() bool {
	return len(r.Violated()) > 0 || len(r.with(check.Inconclusive)) > 0 || len(r.Verdicts) == 0 || r.Stuck != nil || r.Trouble != ""
}

// Word says in one word or two how it ended.
func (r *Result) Word() string {
	switch {
	case len(r.Violated()) > 0:
		return "VIOLATED " + strings.Join(r.Violated(), ", ")
	case r.Stuck != nil:
		return "STUCK"
	case r.Failed():
		return "inconclusive " + strings.Join(r.with(check.Inconclusive), ", ")
	}
	return "held"
}

// Seconds prints a duration as people read it.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// DefectCase is one defect and the scenario that shows it most cheaply.
type DefectCase struct {
	Name     string
	Scenario Scenario
	// Primary requirements must be seen violated; of others only the Secondary
	// ones may be: they follow from the defect.
	Primary, Secondary []string
}

// KnownDefects lists the names of the defects.
func KnownDefects() []string {
	var names []string
	for _, d := range DefectCases() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

// DefectCases lists every defect of the reference broker.
func DefectCases() []DefectCase {
	find := func(fault, phase string) Scenario {
		name := "active-passive/" + fault + "/" + phase
		i := slices.IndexFunc(matrix(), func(s Scenario) bool { return s.Name == name })
		return matrix()[i]
	}
	return []DefectCase{
		{
			Name: "no-barrier", Scenario: find("no-fault", "none"),
			Primary: []string{"BAR-1"},
			// Without a barrier there is none to look at, mirrored producer state
			// lives on, and the barrier's offset can't part the two clusters.
			Secondary: []string{
				"AP-1", "BAR-2", "BAR-3", "BAR-4", "BAR-6", "RO-5", "PSM-1", "IDEM-1", "IDEM-2", "IDEM-4", "TXN-1", "TXN-2", "TXN-4", "LINK-2",
			},
		},
		{
			Name: "pid-rewrite", Scenario: find("no-fault", "none"),
			Primary: []string{"LOG-1", "LOG-2"},
			// Negative ids are no producer ids: their transactions are never open.
			Secondary: []string{"AP-1", "BAR-3", "TXN-1", "TXN-2", "TXN-3", "TXN-4", "RO-1"},
		},
		{
			Name: "late-fetch-appended", Scenario: find("hold-and-release", "after-barrier-appended"),
			Primary: []string{"LINK-1", "BAR-3"},
			// What comes after the barrier belongs to the source, and brings its
			// producers and transactions with it.
			Secondary: []string{
				"AP-1", "LINK-3", "LOG-3", "BAR-1", "PSM-1", "IDEM-1", "IDEM-2", "IDEM-4", "TXN-1", "TXN-2", "TXN-3", "TXN-4", "RO-1", "RO-4", "RO-5",
			},
		},
	}
}

// Seen says whether the defect was found as it must be.
func (d DefectCase) Seen(r *Result) error {
	violated := r.Violated()
	for _, id := range d.Primary {
		if !slices.Contains(violated, id) {
			return fmt.Errorf("defect %s went unseen: %s is not violated (violated: %v)", d.Name, id, violated)
		}
	}
	for _, id := range violated {
		if !slices.Contains(d.Primary, id) && !slices.Contains(d.Secondary, id) {
			return fmt.Errorf("defect %s was reported under %s, which it does not explain", d.Name, id)
		}
	}
	return nil
}

// EstimateDefects says about how long TestDefects takes here.
func EstimateDefects() time.Duration {
	var all []Scenario
	for _, d := range DefectCases() {
		all = append(all, d.Scenario, d.Scenario)
	}
	return Estimate(all)
}
