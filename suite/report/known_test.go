package report_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
	"watershed.example/suite/report"
)

func known(t *testing.T, text string) ([]report.Known, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return report.LoadKnown(file)
}

const accepted = `
- requirement: TXN-3
  scenario: "active-passive/*/*"
  reason: ticket 42, mended in 9.1
  until: 2027-01-31
- requirement: BAR-1
  reason: old build
  until: 2026-01-31
`

func TestAcceptedViolations(t *testing.T) {
	all, err := known(t, accepted)
	require.NoError(t, err)
	violated := []check.Verdict{
		{Requirement: "TXN-3", Outcome: check.Violated}, {Requirement: "BAR-1", Outcome: check.Violated}, {Requirement: "LOG-1", Outcome: check.Held},
	}
	day := func(s string) time.Time {
		d, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return d
	}
	both := map[string]string{"TXN-3": "ticket 42, mended in 9.1", "BAR-1": "old build"}
	require.Equal(t, both, report.Accepts(all, "active-passive/no-fault/none", violated, day("2026-01-31T23:59:59Z")))
	one := map[string]string{"TXN-3": "ticket 42, mended in 9.1"}
	require.Equal(t, one, report.Accepts(all, "active-passive/no-fault/none", violated, day("2026-02-01T00:00:00Z")), "expired at midnight")
	require.Empty(t, report.Accepts(all, "chain-3/no-fault/none", violated, day("2026-02-01T00:00:00Z")), "another scenario")
	violated[0].Outcome = check.Inconclusive
	require.Empty(t, report.Accepts(all, "active-passive/no-fault/none", violated, day("2026-02-01T00:00:00Z")), "inconclusive is not accepted")

	s := report.Scenario{Name: "chain-3/no-fault/none", Verdicts: violated}
	require.Equal(t, []string{
		"accepted, but not seen any more: TXN-3 in active-passive/*/* (until 2027-01-31: ticket 42, mended in 9.1)",
		"accepted once, expired: BAR-1 (until 2026-01-31: old build)",
	}, report.Notes(all, []report.Scenario{s}, day("2026-02-01T00:00:00Z")))
}

func TestAnAcceptedViolationFailsNoScenario(t *testing.T) {
	s := report.Scenario{Verdicts: []check.Verdict{{Requirement: "BAR-1", Outcome: check.Violated}}}
	require.False(t, s.Passed())
	s.Accepted = map[string]string{"BAR-1": "old build"}
	require.True(t, s.Passed())
	s.Verdicts = append(s.Verdicts, check.Verdict{Requirement: "BAR-3", Outcome: check.Violated})
	require.False(t, s.Passed(), "another requirement is violated too")
	s.Verdicts = []check.Verdict{{Requirement: "BAR-1", Outcome: check.Inconclusive}}
	require.False(t, s.Passed(), "inconclusive is not accepted")
}

func TestAcceptedViolationsThatAreWrong(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown requirement", "- {requirement: BAR-99, reason: r, until: 2027-01-31}", `entry 1: requirement "BAR-99": there is none with this id`},
		{"no reason", "- {requirement: BAR-1, until: 2027-01-31}", "entry 1: BAR-1 has no reason"},
		{"no day", "- {requirement: BAR-1, reason: r}", `entry 1: until "": want a day such as 2027-01-31`},
		{"bad day", "- {requirement: BAR-1, reason: r, until: soon}", `entry 1: until "soon": want a day such as 2027-01-31`},
		{"bad pattern", "- {requirement: BAR-1, reason: r, until: 2027-01-31, scenario: '[x'}", `entry 1: scenario "[x": syntax error in pattern`},
		{"unknown field", "- {requirement: BAR-1, why: r}", "line 1: field why not found"},
		{"no list", "requirement: BAR-1", "want a list of requirement, scenario, reason, until"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := known(t, test.text)
			require.ErrorContains(t, err, test.want)
		})
	}
	empty, err := known(t, "# nothing yet\n")
	require.NoError(t, err)
	require.Empty(t, empty)
	_, err = report.LoadKnown(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorContains(t, err, "none.yaml")
}
