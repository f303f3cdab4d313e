package engine

import (
	"fmt"
	"slices"
	"time"
)

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
	return slices.Compact(names)
}

// defectCase is a [DefectCase] with its scenario's name.
type defectCase struct {
	name, scenario     string
	primary, secondary []string
}

// Names of scenarios that show defects.
const (
	plainFailover = "active-passive/no-fault/none"
	lateResponse  = "active-passive/hold-and-release/after-barrier-appended"
	crashed       = "active-passive/crash/after-barrier-appended"
	there         = "failback/no-fault/none"
	chained       = "chain-3/no-fault/none"
)

var defectCases = []defectCase{
	{name: "no-barrier", scenario: plainFailover},
	{name: "pid-rewrite", scenario: chained},
	{name: "pid-rewrite-once", scenario: chained},
	{name: "late-fetch-appended", scenario: lateResponse},
	{name: "recovery-does-not-expire", scenario: crashed},
	{name: "expired-entries-put-back", scenario: crashed},
	{name: "open-transactions-kept", scenario: plainFailover},
	{name: "open-transactions-dropped-with-data", scenario: plainFailover},
	{name: "inherited-barrier-expires", scenario: there},
	{name: "stale-dedupe-ack", scenario: plainFailover},
	{name: "state-lost-on-restart", scenario: crashed},
	{name: "aborted-index-lost-on-truncation", scenario: plainFailover},
	{name: "local-markers-appended-while-mirroring", scenario: there},
	{name: "write-before-barrier", scenario: plainFailover},
	{name: "delete-records-while-mirroring", scenario: plainFailover},
	{name: "read-only-after-restart", scenario: crashed},
	{name: "epochs-go-backwards", scenario: plainFailover},
}

// DefectCases lists every defect of the reference broker.
func DefectCases() []DefectCase {
	scenarios := map[string]Scenario{}
	for _, s := range matrix() {
		scenarios[s.Name] = s
	}
	var all []DefectCase
	for _, d := range defectCases {
		all = append(all, DefectCase{Name: d.name, Scenario: scenarios[d.scenario], Primary: d.primary, Secondary: d.secondary})
	}
	return all
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
	seen := map[string]bool{}
	for _, d := range DefectCases() {
		all = append(all, d.Scenario)
		if !seen[d.Scenario.Name] { // the clean control, once for each scenario
			seen[d.Scenario.Name] = true
			all = append(all, d.Scenario)
		}
	}
	return Estimate(all)
}
