package report

import (
	"slices"
	"time"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

// Unplayed is the name under which a report tells what no scenario of the run could show.
const Unplayed = "not played"

// Scenario is what one scenario came to.
type Scenario struct {
	// Name is the scenario's own, without its test's.
	Name     string
	Run      check.Run
	Verdicts []check.Verdict
	// Evidence is the folder in which everything lies that was judged.
	Evidence string
	Started  time.Time
	Duration time.Duration
	// Trouble is why the scenario could not be run or judged to its end; empty
	// when it could. It fails the scenario whatever the verdicts say.
	Trouble string
	// Accepted are requirements whose violation somebody accepted, with the
	// reason: they fail no run, but every level.
	Accepted map[string]string
}

// Passed says whether the scenario ran to its end and every verdict is held or
// not applicable.
func (s *Scenario) Passed() bool {
	return s.Trouble == "" && len(s.Verdicts) > 0 && !slices.ContainsFunc(s.Verdicts, func(v check.Verdict) bool {
		_, accepted := s.Accepted[v.Requirement]
		return v.Outcome != check.Held && v.Outcome != check.NotApplicable && !(accepted && v.Outcome == check.Violated)
	})
}

// Result is what a whole run came to.
type Result struct {
	// Launcher is how brokers were started, and why so.
	Launcher  string
	Scenarios []Scenario
	// Levels are the run's standings, none where it was not to take any.
	Levels []Standing
	// Notes are lines about accepted violations, see [Notes].
	Notes []string
}

// Passed says whether there was a scenario and each one passed.
func (r *Result) Passed() bool {
	return len(r.Scenarios) > 0 && !slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return !s.Passed() })
}

// Row is one requirement over all scenarios of a run.
type Row struct {
	Requirement string
	// Outcome is the worst one: violated, inconclusive, not applicable, held.
	Outcome check.Outcome
	// Counts says how many scenarios came to each outcome.
	Counts map[check.Outcome]int
	// Scenario and Reason are those of the worst outcome's first scenario.
	Scenario string
	Reason   string
	// Accepted says that every violation of it was an accepted one.
	Accepted bool
}

// rank orders outcomes from the best to the worst.
func rank(o check.Outcome) int {
	return slices.Index([]check.Outcome{check.NotApplicable, check.Held, check.Inconclusive, check.Violated}, o)
}

// Rows sums the scenarios up, in the order of the contract.
func (r *Result) Rows() []Row {
	var rows []Row
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for _, v := range s.Verdicts {
			k := slices.IndexFunc(rows, func(row Row) bool { return row.Requirement == v.Requirement })
			if k < 0 {
				rows = append(rows, Row{Requirement: v.Requirement, Counts: map[check.Outcome]int{}})
				k = len(rows) - 1
			}
			row := &rows[k]
			row.Counts[v.Outcome]++
			if v.Outcome == check.Violated {
				_, accepted := s.Accepted[v.Requirement]
				row.Accepted = accepted && (row.Accepted || row.Counts[v.Outcome] == 1)
			}
			if row.Outcome == "" || rank(v.Outcome) > rank(row.Outcome) {
				row.Outcome, row.Scenario, row.Reason = v.Outcome, s.Run.Scenario, v.Reason
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return contract.Order(a.Requirement) - contract.Order(b.Requirement) })
	return rows
}
