package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

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

// TestDoctorSaysWhatAnEarlierRunLeft and which programs are not there.
func TestDoctorSaysWhatAnEarlierRunLeft(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "p-1-orders", "p-1-idle", "q-orders"))
	require.NoError(t, err)
	defer c.Close()
	file := filepath.Join(t.TempDir(), "target.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\nproduct: p\nprefix: p-\nclusters: {a: {bootstrap: '"+c.ListenAddrs()[0]+"', nodes: {start: [/nowhere/tool]}}}\n"), 0o600))
	_, out, errs := called(t, "doctor", "--target", file)
	require.Contains(t, out, "left on a              topics p-1-idle, p-1-orders\n", errs)
	require.Contains(t, out, `docs/certify.md, "What an earlier run left"`)
	require.Contains(t, out, `WARNING: clusters.a.nodes.start: program "/nowhere/tool": no such file or directory`)
	require.NotContains(t, out, "q-orders")
}
