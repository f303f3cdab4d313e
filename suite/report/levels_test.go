package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/report"
)

// ids lists the contract's requirements with one of the levels.
func ids(levels ...contract.Level) (out []string) {
	for _, r := range contract.All() {
		for _, l := range levels {
			if r.Level == l {
				out = append(out, r.ID)
			}
		}
	}
	return out
}

// ladder is a run that passes every level: a scenario for each.
func ladder() ([]report.Member, *report.Result) {
	members := []report.Member{
		{Scenario: "alone", Level: contract.L0, Requirements: ids(contract.L0)},
		{Scenario: "quiet", Level: contract.L1, Requirements: ids(contract.L1)},
		{Scenario: "crash", Level: contract.L2, Requirements: []string{"BAR-1"}},
		{Scenario: "cut", Level: contract.L3, Requirements: []string{"BAR-1", "LINK-3"}},
		{Scenario: "chain", Level: contract.L4, Requirements: ids(contract.L4)},
	}
	var r report.Result
	for _, m := range members {
		s := report.Scenario{Name: m.Scenario}
		for _, id := range m.Requirements {
			s.Verdicts = append(s.Verdicts, check.Verdict{Requirement: id, Outcome: check.Held})
		}
		r.Scenarios = append(r.Scenarios, s)
	}
	return members, &r
}

func TestALevelIsPassedOnlyWhole(t *testing.T) {
	verdict := func(r *report.Result, scenario int, id string) *check.Verdict {
		for i := range r.Scenarios[scenario].Verdicts {
			if v := &r.Scenarios[scenario].Verdicts[i]; v.Requirement == id {
				return v
			}
		}
		t.Fatalf("no verdict on %s", id)
		return nil
	}
	tests := []struct {
		name  string
		spoil func([]report.Member, *report.Result)
		// first is the lowest level that is not passed, and why; 5 for none.
		first contract.Level
		why   string
	}{
		{"whole", func([]report.Member, *report.Result) {}, 5, ""},
		{"a violation", func(_ []report.Member, r *report.Result) { verdict(r, 2, "BAR-1").Outcome = check.Violated }, contract.L2, "BAR-1 violated in crash"},
		{"an accepted violation", func(_ []report.Member, r *report.Result) {
			verdict(r, 2, "BAR-1").Outcome = check.Violated
			r.Scenarios[2].Accepted = map[string]string{"BAR-1": "known"}
		}, contract.L2, "BAR-1 violated in crash"},
		{"inconclusive", func(_ []report.Member, r *report.Result) { verdict(r, 0, "SC-1").Outcome = check.Inconclusive }, contract.L0, "SC-1 inconclusive in alone"},
		{"trouble", func(_ []report.Member, r *report.Result) { r.Scenarios[3].Trouble = "no clusters" }, contract.L3, "cut did not run to its end"},
		{"a scenario left out", func(_ []report.Member, r *report.Result) { r.Scenarios = r.Scenarios[:4] }, contract.L4, "not selected: scenario chain"},
		{"a requirement that nothing exercises", func(m []report.Member, r *report.Result) {
			m[1].Requirements = m[1].Requirements[1:]
			r.Scenarios[1].Verdicts = r.Scenarios[1].Verdicts[1:]
		}, contract.L1, "not selected: LOG-1"},
		{"a requirement that no verdict was given on", func(_ []report.Member, r *report.Result) {
			r.Scenarios[0].Verdicts = r.Scenarios[0].Verdicts[1:]
		}, contract.L0, "not selected: SC-1"},
		{"a scenario that is no member", func(_ []report.Member, r *report.Result) {
			r.Scenarios = append(r.Scenarios, report.Scenario{Name: "other", Verdicts: []check.Verdict{{Requirement: "BAR-1", Outcome: check.Violated}}})
		}, 5, ""},
		{"a requirement that needs a fault", func(m []report.Member, r *report.Result) {
			// LINK-3 is of L1, and no scenario without a fault can exercise it.
			for i, id := range m[1].Requirements {
				if id == "LINK-3" {
					m[1].Requirements = append(m[1].Requirements[:i:i], m[1].Requirements[i+1:]...)
					r.Scenarios[1].Verdicts = append(r.Scenarios[1].Verdicts[:i:i], r.Scenarios[1].Verdicts[i+1:]...)
				}
			}
			verdict(r, 3, "LINK-3").Outcome = check.Violated
		}, contract.L3, "LINK-3 violated in cut"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			members, r := ladder()
			test.spoil(members, r)
			standings := r.Standings(members)
			require.Len(t, standings, 5)
			for level, s := range standings {
				require.Equal(t, contract.Level(level), s.Level)
				require.Equal(t, contract.Level(level) < test.first, s.Passed, "%s: %s", s.Level, s.Why)
			}
			if test.first <= contract.L4 {
				require.Equal(t, test.why, standings[test.first].Why)
			}
		})
	}
}
