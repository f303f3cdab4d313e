package engine

import (
	"fmt"
	"os"
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
	// Accepted are violated requirements that somebody accepts, with the reason.
	Accepted map[string]string
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

// Unaccepted are the violated requirements that nobody accepts.
func (r *Result) Unaccepted() []string {
	return slices.DeleteFunc(r.Violated(), func(id string) bool { _, ok := r.Accepted[id]; return ok })
}

// Failed says whether anything was inconclusive, or violated without being accepted.
func (r *Result) Failed() bool {
	return len(r.Unaccepted()) > 0 || len(r.with(check.Inconclusive)) > 0 || len(r.Verdicts) == 0 || r.Stuck != nil || r.Trouble != ""
}

// Word says in one word or two how it ended.
func (r *Result) Word() string {
	switch {
	case len(r.Unaccepted()) > 0:
		return "VIOLATED " + strings.Join(r.Violated(), ", ")
	case r.Stuck != nil:
		return "STUCK"
	case r.Failed():
		return "inconclusive " + strings.Join(r.with(check.Inconclusive), ", ")
	case len(r.with(check.NotApplicable)) == len(r.Verdicts):
		return "not applicable"
	case len(r.Accepted) > 0:
		return "accepted: " + strings.Join(r.Violated(), ", ")
	}
	return "held"
}

// Seconds prints a duration as people read it.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// Forget frees the memory that the evidence takes, and unless the result failed
// or keep is set its folder too: a soak has many results.
func (r *Result) Forget(keep bool) error {
	if r.Evidence != nil {
		r.Evidence = &check.Evidence{Run: r.Evidence.Run}
	}
	if keep || r.Failed() {
		return nil
	}
	if err := os.RemoveAll(r.Folder); err != nil {
		return fmt.Errorf("remove the evidence of what was held: %w", err)
	}
	return nil
}
