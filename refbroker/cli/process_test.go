//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

// childVariable makes this test binary the command.
const childVariable = "REFBROKER_CLI_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "1" {
		os.Exit(Main(context.Background(), os.Args[1:], RealHost()))
	}
	goleak.VerifyTestMain(m)
}

// process is a broker in a process of its own.
type process struct {
	readiness
	cmd *exec.Cmd
	// waited gives the end of the process.
	waited chan error
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	readyR, readyW, err := os.Pipe()
	require.NoError(t, err)
	p := &process{cmd: exec.Command(self, append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-fd", "3"}, args...)...), waited: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), childVariable+"=1")
	p.cmd.ExtraFiles = []*os.File{readyW}
	errs := &output{}
	p.cmd.Stderr = errs
	require.NoError(t, p.cmd.Start())
	require.NoError(t, readyW.Close())
	go func() { p.waited <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	require.NoError(t, readyR.SetReadDeadline(time.Now().Add(30*time.Second)))
	require.NoError(t, json.NewDecoder(readyR).Decode(&p.readiness), "stderr: %s", errs)
	require.NoError(t, readyR.Close())
	return p
}

// end waits for the process's end and says how it ended.
func (p *process) end(t *testing.T) syscall.WaitStatus {
	t.Helper()
	select {
	case <-p.waited:
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not end")
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	return status
}

func TestSignalsAndCrashes(t *testing.T) {
	dir, err := os.MkdirTemp("", "rb") // a socket's path has to be short
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	data, socket := filepath.Join(dir, "d"), filepath.Join(dir, "s")
	clean := filepath.Join(data, "logs", ".kafka_cleanshutdown")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var want []string
	for _, c := range []struct {
		name  string
		end   func(p *process) error
		clean bool
	}{
		{"terminated", func(p *process) error { return p.cmd.Process.Signal(syscall.SIGTERM) }, true},
		{"killed", func(p *process) error { return p.cmd.Process.Kill() }, false},
		{"interrupted", func(p *process) error { return p.cmd.Process.Signal(os.Interrupt) }, true},
		{"crashed by a hook", func(*process) error {
			h, err := DialHooks(ctx, socket)
			if err != nil {
				return err
			}
			return errors.Join(h.Crash(ctx), h.Close())
		}, false},
	} {
		p := startProcess(t, "--data-dir", data, "--test-hooks", socket)
		cl, err := kgo.NewClient(kgo.SeedBrokers(p.Listeners["client"]), kgo.DisableClientMetrics(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
		require.NoError(t, err)
		if len(want) == 0 {
			code, _, stderr := run(ctx, "topics", "create", "t", "--bootstrap-server", p.Listeners["client"])
			require.Zero(t, code, stderr)
		}
		require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(c.name)}).FirstErr())
		want = append(want, c.name)
		var got []string
		for len(got) < len(want) {
			fs := cl.PollFetches(ctx)
			require.NoError(t, fs.Err())
			fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		require.Equal(t, want, got)
		cl.Close()

		require.NoError(t, c.end(p))
		status := p.end(t)
		if c.clean {
			require.True(t, status.Exited())
			require.Zero(t, status.ExitStatus(), c.name)
			require.FileExists(t, clean)
			continue
		}
		require.Equal(t, syscall.SIGKILL, status.Signal(), c.name)
		require.NoFileExists(t, clean)
	}
}
