package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
)

// TestWhatALaterVersionFindsWantingIsOpen: evidence of an earlier version may lack what a
// later one looks for. That is no lie of the bundle's; from the same version it would be one,
// and what is violated is always.
func TestWhatALaterVersionFindsWantingIsOpen(t *testing.T) {
	for _, test := range []struct {
		name         string
		verbatim     bool
		now          check.Outcome
		differ, open []string
	}{
		{"a later version finds it inconclusive", false, check.Inconclusive, nil, []string{
			"not judged anew: s: LOG-5 is recorded as held, and this version finds it inconclusive", "not judged anew: s: recorded as passed",
		}},
		{"the same version does", true, check.Inconclusive, []string{
			"differs: s: LOG-5 is recorded as held, and is inconclusive", "differs: s: passed is recorded as true, and is false",
		}, nil},
		{"a later version finds it violated", false, check.Violated, []string{
			"differs: s: LOG-5 is recorded as held, and is violated", "differs: s: passed is recorded as true, and is false",
		}, nil},
		{"as it was", false, check.Held, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := comparison{verbatim: test.verbatim}
			c.verdicts(&recordedScenario{Name: "s", Verdicts: []recordedVerdict{{Requirement: "LOG-5", Outcome: check.Held}}}, []check.Verdict{{Requirement: "LOG-5", Outcome: test.now}})
			c.same("s", "passed", true, test.now == check.Held)
			require.Equal(t, test.differ, c.differ)
			require.Equal(t, test.open, c.open)
		})
	}
}
