package main

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

// TestAFullDiskHidesNoViolation that was found before.
func TestAFullDiskHidesNoViolation(t *testing.T) {
	verdicts := []check.Verdict{{Requirement: "BAR-1", Outcome: check.Violated, Reason: "two barriers"}}
	full := errors.Join(errors.New("stop: no answer"), syscall.ENOSPC)
	cert := &engine.Certificate{
		Results: []*engine.Result{{Name: "a/story", Verdicts: verdicts}, {Name: "another", Trouble: full.Error()}},
		Report:  report.Result{Scenarios: []report.Scenario{{Name: "a/story", Verdicts: verdicts}}}, Trouble: full,
	}
	conclude := func() (string, error) {
		var out bytes.Buffer
		cmd := new(cobra.Command)
		cmd.SetOut(&out)
		err := concludeCertificate(cmd, cert, full)
		return out.String(), err
	}
	out, err := conclude()
	var verdict verdictError
	require.ErrorAs(t, err, &verdict)
	require.Equal(t, exitViolated, verdict.code)
	require.Contains(t, verdict.text, "stop: no answer")
	require.Contains(t, verdict.text, "no space left")
	require.Contains(t, out, "BAR-1 VIOLATED", "its story")
	require.Contains(t, out, "two barriers")

	cert.Results = cert.Results[1:]
	out, err = conclude()
	require.Equal(t, full, err)
	require.Empty(t, out)
}
