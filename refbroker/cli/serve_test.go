package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
)

// output is what a command printed; commands may run while it is read.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// run runs the command to its end.
func run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs output
	h := RealHost()
	h.Signals, h.Stdout, h.Stderr = false, &out, &errs
	return Main(ctx, args, h), out.String(), errs.String()
}

func TestBadInputIsOneClearLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"serve --nope", 2, "unknown flag: --nope"},
		{"serve extra", 2, `unknown command "extra" for "refbroker serve"`},
		{"serve --node-id x", 2, `invalid argument "x" for "--node-id" flag`},
		{"serve --node-id -1", 2, "--node-id -1: want 0 or more"},
		{"serve --profile other", 2, `--profile "other": want one of [kip1279-v42 kip1279-latest]`},
		{"serve --log-level loud", 2, `--log-level "loud": want debug, info, warn or error`},
		{"serve --log-format xml", 2, `--log-format "xml": want text or json`},
		{"serve --transaction-version 3", 2, "--transaction-version 3: want 1 or 2"},
		{"serve --listen nowhere", 2, `--listen "nowhere": want HOST:PORT`},
		{"serve --listen h:99999", 2, `--listen "h:99999": port "99999" is not a number from 0 to 65535`},
		{"serve --listen 0.0.0.0:0", 2, "--listen 0.0.0.0:0: clients can't be told this address: give one to advertise"},
		{"serve --advertise h:0", 2, `--advertise "h:0": port "0" is not a number from 1 to 65535`},
		{"serve --listener link", 2, `--listener "link": want NAME=HOST:PORT[/ADVHOST:ADVPORT]`},
		{"serve --listener client=h:1", 2, `--listener "client=h:1": there is a listener "client" already`},
		{"serve --listener l=h:1/x", 2, `--listener "x": want HOST:PORT`},
		{"serve --voter 2=h:1", 2, "--voter: this node (1) is not among the voters"},
		{"serve --peer 2=h", 2, "--peer"},
		{"serve --peer 2=h:1", 2, "--peer 2: no --voter of that id"},
		{"serve --voter 1=h:1 --peer 1=h:1 --peer 1=h:2", 2, "given twice"},
		{"serve --session-timeout 1ms", 2, "--session-timeout 1ms: want at least 100ms"},
		{"serve --replica-lag-time-max 0s", 2, "--replica-lag-time-max 0s: want more than 0"},
		{"serve --voter one=h:1", 2, `--voter "one=h:1": want ID=HOST:PORT`},
		{"serve --voter 1=h:1 --voter 1=h:2", 2, `--voter "1=h:2": voter 1 is given twice`},
		{"serve --voter 1=h:1 --voter 2=h:2", 2, "--raft-listen 127.0.0.1:0: the other voters need a fixed port"},
		{"serve --topic-defaults x", 2, `--topic-defaults "x": want KEY=VALUE`},
		{"serve --topic-defaults x=1", 2, `--topic-defaults: unknown topic config "x"`},
		{"serve --defect no-barrier", 2, "--defect needs --test-hooks"},
		{"serve --test-hooks s --defect other", 2, `--defect: unknown defect "other" (known: `},
		{"serve --ready-fd 987", 2, "--ready-fd 987: not an open descriptor"},
		{"serve --lifeline-fd 987", 2, "--lifeline-fd 987: not an open descriptor"},
		{"serve --listen " + taken.Addr().String() + " --data-dir " + filepath.Join(t.TempDir(), "d"), 1, "address already in use"},
		{"serve --listen 127.0.0.1:0 --data-dir " + file, 1, "data folder " + file},
		{"dance", 2, `unknown command "dance" for "refbroker"`},
		{"topics create", 2, "requires at least 1 arg(s)"},
		{"topics create t --config x", 2, `--config "x": want KEY=VALUE`},
		{"topics list --timeout 1ms --bootstrap-server 127.0.0.1:1", 1, "127.0.0.1:1"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, _, stderr := run(t.Context(), strings.Fields(c.args)...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.want)
			require.True(t, strings.HasPrefix(stderr, "refbroker: "), stderr)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"serve", "--help"}, {"topics", "--help"}, {"mirrors", "--help"}, {"hooks", "--help"}, {"dump-log", "--help"}} {
		code, stdout, stderr := run(t.Context(), args...)
		require.Zero(t, code)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "Usage:")
	}
	code, stdout, _ := run(t.Context(), "version")
	require.Zero(t, code)
	require.Contains(t, stdout, "refbroker ")
}

// running is a broker that serves in this process.
type running struct {
	readiness
	stop     func()
	lifeline *os.File
	ended    chan int
	errs     *output
}

// serveHere starts a broker with a ready and a lifeline pipe, as launchers do.
func serveHere(t *testing.T, args ...string) *running {
	t.Helper()
	readyR, readyW, err := os.Pipe()
	require.NoError(t, err)
	lifeR, lifeW, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, lifeline: lifeW, ended: make(chan int, 1), errs: &output{}}
	h := RealHost()
	h.Signals, h.Stdout, h.Stderr = false, &output{}, r.errs
	// The broker owns what it inherits: a copy of each descriptor.
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-fd", copyOf(t, readyW), "--lifeline-fd", copyOf(t, lifeR)}, args...)
	go func() { r.ended <- Main(ctx, args, h) }()
	require.NoError(t, readyW.Close())
	require.NoError(t, lifeR.Close())
	require.NoError(t, readyR.SetReadDeadline(time.Now().Add(20*time.Second)))
	require.NoError(t, json.NewDecoder(readyR).Decode(&r.readiness), "stderr: %s", r.errs)
	require.NoError(t, readyR.Close())
	return r
}

func (r *running) end(t *testing.T) {
	t.Helper()
	select {
	case code := <-r.ended:
		require.Zero(t, code, r.errs)
	case <-time.After(20 * time.Second):
		t.Fatal("the broker does not end")
	}
	require.NoError(t, r.lifeline.Close())
}

func TestServeFromStartToEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	link := "127.0.0.1:0/proxy.example:1234"
	first := serveHere(t, "--data-dir", dir, "--listener", "link="+link, "--topic-defaults", "segment.bytes=4096")
	require.NotEmpty(t, first.ClusterID)
	require.Equal(t, int32(1), first.NodeID)
	require.NotEqual(t, first.Listeners["client"], first.Listeners["link"])

	topics := func(r *running, args ...string) string {
		t.Helper()
		code, stdout, stderr := run(t.Context(), append([]string{"topics", "--bootstrap-server", r.Listeners["client"]}, args...)...)
		require.Zero(t, code, stderr)
		return stdout
	}
	require.Equal(t, "created a (2 partitions)\ncreated b (2 partitions)\n",
		topics(first, "create", "a", "b", "--partitions", "2", "--config", "retention.ms=1000"))
	require.Equal(t, "a\nb\n", topics(first, "list"))
	code, _, stderr := run(t.Context(), "topics", "create", "a", "--bootstrap-server", first.Listeners["client"])
	require.Equal(t, []any{1, "refbroker: create a: topic \"a\": TOPIC_ALREADY_EXISTS: Topic with this name already exists.\n"}, []any{code, stderr})

	code, _, stderr = run(t.Context(), "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "data folder "+dir+": in use by another process")
	code, _, stderr = run(t.Context(), "serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--cluster-id", "other")
	require.Equal(t, 1, code)
	require.Equal(t, fmt.Sprintf("refbroker: data folder %s belongs to cluster %s, not to other\n", dir, first.ClusterID), stderr)

	first.stop()
	first.end(t)
	require.FileExists(t, filepath.Join(dir, "logs", ".kafka_cleanshutdown"))

	second := serveHere(t, "--data-dir", dir, "--log-format", "json")
	require.Equal(t, first.ClusterID, second.ClusterID)
	require.Equal(t, "deleted b\n", topics(second, "delete", "b"))
	require.Equal(t, "a\n", topics(second, "list"))
	require.Contains(t, topics(second, "describe", "a"), "PARTITION")
	require.NoError(t, second.lifeline.Close())
	second.lifeline, _ = os.Open(os.DevNull) // end closes one
	second.end(t)
	require.FileExists(t, filepath.Join(dir, "logs", ".kafka_cleanshutdown"), "a lost lifeline is a clean stop")
}

func TestAReadOnlyDiskIsOneClearLine(t *testing.T) {
	h := RealHost()
	var errs output
	h.Signals, h.Stdout, h.Stderr = false, &output{}, &errs
	h.FS = afero.NewReadOnlyFs(afero.NewMemMapFs())
	require.Equal(t, 1, Main(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", "/data"}, h))
	require.Equal(t, "refbroker: data folder /data: operation not permitted\n", errs.String())
}

func TestHooksAndDefectsAreServed(t *testing.T) {
	dir, err := os.MkdirTemp("", "rb") // a socket's path has to be short
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "s")
	r := serveHere(t, "--data-dir", filepath.Join(dir, "d"), "--test-hooks", socket, "--defect", "no-barrier")
	h, err := DialHooks(t.Context(), socket)
	require.NoError(t, err)
	require.NoError(t, h.Arm(t.Context(), "before:settled", "", Hold))
	require.NoError(t, h.Close())
	r.stop()
	r.end(t)
	require.NoFileExists(t, socket)
}

// A launcher that puts something between the voters hears where the quorum
// listens while the node still waits for the others there.
func TestTheQuorumIsToldOfBeforeTheNodeServes(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int, 1)
	go func() {
		host := RealHost()
		host.Signals, host.Stdout, host.Stderr = false, &output{}, &output{}
		done <- Main(ctx, []string{
			"serve", "--data-dir", t.TempDir(), "--cluster-id", "c", "--listen", "127.0.0.1:0", "--raft-listen", "127.0.0.1:0",
			"--voter", "1=127.0.0.1:1", "--voter", "2=127.0.0.1:2", "--ready-fd", copyOf(t, w),
		}, host)
	}()
	require.NoError(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
	var told struct{ Quorum string }
	require.NoError(t, json.NewDecoder(r).Decode(&told))
	c, err := net.Dial("tcp", told.Quorum)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	cancel()
	require.Zero(t, <-done)
	require.NoError(t, w.Close())
}
