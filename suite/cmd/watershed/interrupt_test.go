package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mainVariable tells this binary that it is the program.
const mainVariable = "WATERSHED_TEST_MAIN"

// quitLimit bounds how long the program may take to end once it was interrupted.
const quitLimit = 10 * time.Second

// interrupted runs the program on a fake cluster and interrupts it when it creates its
// first topic; whatever else it asks for goes by amid, too.
func interrupted(t *testing.T, amid func(program *os.Process, req kmsg.Request) (handled bool)) (code int, out, errs string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	file := filepath.Join(t.TempDir(), "target.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\nproduct: p\nprefix: p-\nclusters: {a: {bootstrap: '"+c.ListenAddrs()[0]+"'}}\n"), 0o600))
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "certify", "--target", file, "--out", t.TempDir(), "--seed", "36")
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	var program atomic.Pointer[os.Process]
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		p := program.Load()
		if p == nil {
			return nil, errors.New("ask again"), true // it has started a moment ago
		}
		if req.Key() == int16(kmsg.CreateTopics) {
			_ = p.Signal(syscall.SIGINT)
		}
		if amid(p, req) {
			return nil, errors.New("no answer"), true
		}
		return nil, nil, false
	})
	require.NoError(t, cmd.Start())
	program.Store(cmd.Process)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(2 * quitLimit):
		_ = cmd.Process.Kill()
		require.Fail(t, "it goes on", "%s %s", &o, &e)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

const noticeOfRemoval = "watershed: interrupted: what was made on the clusters is being removed (names that begin with p-10-); a second Ctrl-C quits at once and leaves it\n"

func TestAnInterruptRemovesAndSaysSo(t *testing.T) {
	code, out, errs := interrupted(t, func(*os.Process, kmsg.Request) bool { return false })
	require.Equal(t, exitCould, code)
	require.Empty(t, out)
	_, after, found := strings.Cut(errs, noticeOfRemoval)
	require.True(t, found, errs)
	require.Equal(t, "watershed: stopped before the first scenario: interrupted\nwatershed: all that was made on the clusters is removed\n", after)
}

// TestASecondInterruptQuits whatever is removed just then.
func TestASecondInterruptQuits(t *testing.T) {
	code, _, errs := interrupted(t, func(p *os.Process, req kmsg.Request) bool {
		if req.Key() != int16(kmsg.DeleteTopics) {
			return false
		}
		_ = p.Signal(syscall.SIGINT)
		return true
	})
	require.Equal(t, exitCould, code)
	require.True(t, strings.HasSuffix(errs, noticeOfRemoval), errs)
}
