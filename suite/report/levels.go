package report

import (
	"cmp"
	"fmt"
	"slices"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

// Member is a scenario that a level consists of, and the requirements that it
// exercises.
type Member struct {
	Scenario     string
	Level        contract.Level
	Requirements []string
}

// Standing is whether a run passed a level, and if not, why.
type Standing struct {
	Level  contract.Level
	Passed bool
	// Why is one line: how much was held, or the first thing in the way.
	Why string
}

// lowest is the lowest level at which a requirement is exercised: the
// contract's, or where that has no scenario for it (a cut link needs a fault,
// a recovery a crash), the first above that has.
// One that no member exercises stays where the contract has it, and in its way.
func lowest(r contract.Requirement, members []Member) contract.Level {
	level, found := contract.L4, false
	for _, m := range members {
		if slices.Contains(m.Requirements, r.ID) {
			level, found = min(level, m.Level), true
		}
	}
	if !found {
		return r.Level
	}
	return max(level, r.Level)
}

// Standings says of each level whether the run passed it: all of its members
// ran, every requirement up to it was exercised, and nothing up to it was
// violated, inconclusive or in trouble (contract, "Levels"). A violation that
// the person accepted counts like any other here.
func (r *Result) Standings(members []Member) []Standing {
	var all []Standing
	for _, level := range contract.Levels() {
		why, held, na := r.inTheWay(level, members)
		s := Standing{Level: level, Passed: why == "", Why: why}
		if s.Passed {
			s.Why = fmt.Sprintf("%d requirements held", held)
			if na > 0 {
				s.Why += fmt.Sprintf(", %d not applicable", na)
			}
		}
		all = append(all, s)
	}
	return all
}

// Whole says whether all members ran.
func (r *Result) Whole(members []Member) bool { return r.absent(contract.L4, members) == "" }

// absent is the first member up to a level that did not run, "" for none.
func (r *Result) absent(level contract.Level, members []Member) string {
	for _, m := range members {
		ran := slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return s.Name == m.Scenario })
		if m.Level <= level && !ran {
			return m.Scenario
		}
	}
	return ""
}

// inTheWay is what keeps the run from a level, or "", and how many requirements of
// the level are held, and how many not applicable.
func (r *Result) inTheWay(level contract.Level, members []Member) (why string, held, na int) {
	levels := map[string]contract.Level{}
	for _, m := range members {
		levels[m.Scenario] = m.Level
	}
	exercised := map[string]check.Outcome{}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		of, ok := levels[s.Name]
		if !ok || of > level {
			continue
		}
		if s.Trouble != "" {
			return s.Name + " did not run to its end", 0, 0
		}
		for _, v := range s.Verdicts {
			switch v.Outcome {
			case check.Violated, check.Inconclusive:
				return fmt.Sprintf("%s %s in %s", v.Requirement, v.Outcome, s.Name), 0, 0
			case check.Held:
				exercised[v.Requirement] = check.Held
			case check.NotApplicable:
				exercised[v.Requirement] = cmp.Or(exercised[v.Requirement], check.NotApplicable)
			}
		}
	}
	if name := r.absent(level, members); name != "" {
		return "not selected: scenario " + name, 0, 0
	}
	for _, req := range contract.All() {
		if lowest(req, members) > level {
			continue
		}
		switch exercised[req.ID] {
		case check.Held:
			held++
		case check.NotApplicable:
			na++
		default:
			return "not selected: " + req.ID, 0, 0
		}
	}
	return "", held, na
}
