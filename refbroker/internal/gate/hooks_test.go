package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"watershed.example/refbroker/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnUnarmedPointLetsEverybodyPass(t *testing.T) {
	h := NewHooks(nil, time.Now)
	require.NoError(t, h.Pass(t.Context(), "before:settled", "t-0"))
	e, err := h.Watch().Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "before:settled", e.Arrived.Point)
	require.Equal(t, "t-0", e.Arrived.Partition)
}

func TestHoldIsForOnePartitionOrForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHooks(nil, time.Now)
		require.NoError(t, h.Arm("p", "t-0", Hold))
		var wg sync.WaitGroup
		var passed atomic.Int32
		for _, part := range []string{"t-0", "t-1"} {
			wg.Go(func() {
				if h.Pass(t.Context(), "p", part) == nil {
					passed.Add(1)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 1, passed.Load())
		_, held := h.Status()
		require.Len(t, held, 1)
		require.Equal(t, "t-0", held[0].Partition)
		require.Zero(t, h.Release("p", "t-1"))
		require.Zero(t, h.Release("q", ""))
		require.Equal(t, 1, h.Release("p", ""))
		wg.Wait()
		require.EqualValues(t, 2, passed.Load())
		armed, held := h.Status()
		require.Empty(t, armed)
		require.Empty(t, held)
	})
}

func TestAHeldPassEndsWithItsContext(t *testing.T) {
	h := NewHooks(nil, time.Now)
	require.NoError(t, h.Arm("p", "", Hold))
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("node stops")
	cancel(over)
	require.ErrorIs(t, h.Pass(ctx, "p", "t-0"), over)
	_, held := h.Status()
	require.Empty(t, held)
}

func TestACrashComesAfterTheWatchersWereTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told, toldAtCrash bool
		h := NewHooks(func() { toldAtCrash = told; cancel() }, time.Now)
		require.NoError(t, h.Arm("p", "", Crash))
		w := h.Watch()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.Next(t.Context())
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond) // a slow socket
			told = true
			_, err = w.Next(ctx)
			require.ErrorIs(t, err, context.Canceled)
		})
		require.ErrorIs(t, h.Pass(ctx, "p", "t-0"), context.Canceled)
		require.True(t, toldAtCrash)
		wg.Wait()
	})
}

func TestACrashIsNotHeldUpByAWatcherThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := NewHooks(cancel, time.Now)
		h.Watch()
		require.NoError(t, h.Arm("p", "", Crash))
		start := time.Now()
		require.Error(t, h.Pass(ctx, "p", "t-0"))
		require.Equal(t, flushBefore, time.Since(start))
	})
}

func realHost() host.Host {
	return host.Host{
		Dial: new(net.Dialer).DialContext,
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, network, address)
		},
		FS: afero.NewOsFs(), Now: time.Now,
	}
}

func TestTheSocketSpeaksLinesOfJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks")
	h := NewHooks(nil, time.Now)
	ln, err := Listen(t.Context(), realHost(), path)
	require.NoError(t, err)
	_, err = Listen(t.Context(), realHost(), path)
	require.ErrorContains(t, err, "in use")

	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx, ln) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-served) })

	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer c.Close()
	in := bufio.NewScanner(c)
	ask := func(line string) Reply {
		_, err := c.Write([]byte(line + "\n"))
		require.NoError(t, err)
		require.True(t, in.Scan())
		var r Reply
		require.NoError(t, json.Unmarshal(in.Bytes(), &r))
		return r
	}
	require.NotEmpty(t, ask(`{"op":`).Error)
	require.Contains(t, ask(`{"op":"dance"}`).Error, `"dance"`)
	require.Contains(t, ask(`{"op":"arm","point":"p","action":"explode"}`).Error, `"explode"`)
	require.NotEmpty(t, ask(`{"op":"arm","action":"hold"}`).Error)
	require.Equal(t, Reply{OK: true}, ask(`{"op":"arm","point":"before:truncated","partition":"t-0","action":"hold"}`))
	require.Equal(t, Reply{OK: true, Armed: []Armed{{"before:truncated", "t-0", Hold}}}, ask(`{"op":"status"}`))

	passed := make(chan error, 1)
	go func() { passed <- h.Pass(ctx, "before:truncated", "t-0") }()
	watch, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer watch.Close()
	_, err = watch.Write([]byte(`{"op":"watch"}` + "\n"))
	require.NoError(t, err)
	events := json.NewDecoder(watch)
	var e Event
	require.NoError(t, events.Decode(&e))
	require.Equal(t, "before:truncated", e.Arrived.Point)
	require.Equal(t, Reply{OK: true, Released: 1}, ask(`{"op":"release","point":"before:truncated"}`))
	require.NoError(t, <-passed)
	e = Event{}
	require.NoError(t, events.Decode(&e))
	require.Equal(t, "t-0", e.Released.Partition)
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as kill -9 leaves it
	require.NoError(t, ln.Close())
	require.FileExists(t, path)
	again, err := Listen(t.Context(), realHost(), path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestALongSocketPathIsNamed(t *testing.T) {
	_, err := Listen(t.Context(), realHost(), filepath.Join(t.TempDir(), string(make([]byte, 200))))
	require.ErrorContains(t, err, "107")
}
