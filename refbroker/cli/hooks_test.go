package cli

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/ailing"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/host"
)

// hooksServer serves hooks at a socket; end stops it.
func hooksServer(t *testing.T, crash func(), machine ...*ailing.Machine) (hooks *gate.Hooks, path string, end func()) {
	path = filepath.Join(t.TempDir(), "hooks")
	hooks = gate.NewHooks(crash, time.Now)
	if len(machine) > 0 {
		hooks.On(machine[0])
	}
	ln, err := gate.Listen(t.Context(), host.Host{
		Dial: new(net.Dialer).DialContext,
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, network, address)
		},
		FS: afero.NewOsFs(), Now: time.Now,
	}, path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- hooks.Serve(ctx, ln) }()
	ended := false
	end = func() {
		if !ended {
			ended = true
			cancel()
			require.NoError(t, <-served)
		}
	}
	t.Cleanup(end)
	return hooks, path, end
}

func TestAwaitHearsOfArrivalsBeforeItWasCalled(t *testing.T) {
	hooks, path, _ := hooksServer(t, nil)
	require.NoError(t, hooks.Pass(t.Context(), "before:settled", "t-0"))
	c, err := DialHooks(t.Context(), path)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, hooks.Pass(t.Context(), "before:settled", "t-1"))
	for _, part := range []string{"t-1", ""} { // any: the one not yet taken
		a, err := c.Await(t.Context(), "before:settled", part)
		require.NoError(t, err)
		if part == "" {
			part = "t-0"
		}
		require.Equal(t, part, a.Partition)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = c.Await(ctx, "before:settled", "t-0")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, c.Events(), 2)
}

func TestArmHoldsUntilRelease(t *testing.T) {
	hooks, path, _ := hooksServer(t, nil)
	c, err := DialHooks(t.Context(), path)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Arm(t.Context(), "p", "t-0", Hold))
	passed := make(chan error, 1)
	go func() { passed <- hooks.Pass(t.Context(), "p", "t-0") }()
	_, err = c.Await(t.Context(), "p", "t-0")
	require.NoError(t, err)
	status, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.Held, 1)
	require.Len(t, status.Armed, 1)
	n, err := c.Release(t.Context(), "p", "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, <-passed)
	require.ErrorContains(t, c.Arm(t.Context(), "p", "", "explode"), `"explode"`)
}

func TestABrokerThatIsGoneEndsEveryWait(t *testing.T) {
	hooks, path, end := hooksServer(t, nil)
	c, err := DialHooks(t.Context(), path)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, hooks.Pass(t.Context(), "p", "t-0"))
	_, err = c.Await(t.Context(), "p", "")
	require.NoError(t, err)
	end()
	_, err = c.Await(t.Context(), "p", "")
	require.ErrorIs(t, err, ErrHooksGone)
	<-c.Gone()
	require.ErrorIs(t, c.Arm(t.Context(), "p", "", Hold), ErrHooksGone)
	require.NoError(t, c.Crash(t.Context()))
	_, err = DialHooks(t.Context(), path)
	require.Error(t, err)
}

func TestCrashIsCarriedOut(t *testing.T) {
	crashed := make(chan struct{}, 2)
	hooks, path, _ := hooksServer(t, func() { crashed <- struct{}{} })
	c, err := DialHooks(t.Context(), path)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Arm(t.Context(), "p", "", Crash))
	ctx, cancel := context.WithCancel(t.Context())
	passed := make(chan error, 1)
	go func() { passed <- hooks.Pass(ctx, "p", "t-0") }()
	<-crashed
	_, err = c.Await(t.Context(), "p", "t-0")
	require.NoError(t, err)
	cancel()
	require.Error(t, <-passed)
	require.NoError(t, c.Crash(t.Context()))
	<-crashed
}

func TestRelayCarriesTheHooksElsewhere(t *testing.T) {
	hooks, path, end := hooksServer(t, nil)
	relayed := make(chan error, 1)
	near, far := net.Pipe()
	watch, events := net.Pipe()
	go func() {
		relayed <- relayHooks(t.Context(), path, far, far, events)
		_, _ = far.Close(), events.Close()
	}()
	c := NewHooks(near, watch)
	require.NoError(t, c.Arm(t.Context(), "p", "", Hold))
	passed := make(chan error, 1)
	go func() { passed <- hooks.Pass(t.Context(), "p", "t-0") }()
	a, err := c.Await(t.Context(), "p", "")
	require.NoError(t, err)
	require.Equal(t, "t-0", a.Partition)
	_, err = c.Release(t.Context(), "p", "")
	require.NoError(t, err)
	require.NoError(t, <-passed)
	end()
	<-c.Gone()
	require.NoError(t, c.Close())
	require.NoError(t, <-relayed)
	require.ErrorContains(t, relayHooks(t.Context(), path, nil, nil, nil), "connect to test hooks")
}

// What a relay complains of is told, and who waits hears that the hooks are gone.
func TestARelaysComplaintIsTold(t *testing.T) {
	near, far := net.Pipe()
	watch, events := net.Pipe()
	defer far.Close()
	c := NewHooks(near, watch)
	_, err := events.Write([]byte("refbroker: connect to test hooks: no such file\n"))
	require.NoError(t, err)
	_, err = c.Await(t.Context(), "p", "")
	require.ErrorIs(t, err, ErrHooksGone)
	require.ErrorContains(t, err, "no such file")
	_, err = c.Status(t.Context())
	require.ErrorIs(t, err, ErrHooksGone)
	require.NoError(t, c.Close())
}

func TestAilmentsAreNamedOnTheCommandLine(t *testing.T) {
	got, err := parseAilments([]string{"disk-full", "slow-sync=200ms", "clock=-1h", ""})
	require.NoError(t, err)
	require.Equal(t, Ailments{DiskFull: true, SlowSync: 200 * time.Millisecond, ClockOffset: -time.Hour}, got)
	for arg, want := range map[string]string{"flu": `unknown ailment "flu"`, "clock=late": "invalid duration", "slow-sync": "invalid duration"} {
		_, err := parseAilments([]string{arg})
		require.ErrorContains(t, err, want)
	}
}

// A client of the hooks makes the machine ail, and hears what the broker met.
func TestAMachineSuffersByTheHooks(t *testing.T) {
	_, path, _ := hooksServer(t, nil)
	well, err := DialHooks(t.Context(), path)
	require.NoError(t, err)
	defer well.Close()
	_, err = well.Suffer(t.Context(), Ailments{})
	require.ErrorContains(t, err, "can't ail")
	machine := ailing.New()
	_, path, _ = hooksServer(t, nil, machine)
	c, err := DialHooks(t.Context(), path)
	require.NoError(t, err)
	defer c.Close()
	h := machine.Host(host.Host{Now: time.Now, FS: afero.NewMemMapFs()})
	s, err := c.Suffer(t.Context(), Ailments{ClockOffset: time.Hour, DiskFull: true})
	require.NoError(t, err)
	require.Zero(t, s)
	require.True(t, h.Now().After(time.Now().Add(time.Minute)))
	require.Error(t, h.FS.Mkdir("/x", 0o755))
	s, err = c.Suffered(t.Context())
	require.NoError(t, err)
	require.Equal(t, Suffered{WritesRefused: 1, WrongTimes: 1}, s)
	_, err = c.Suffer(t.Context(), Ailments{})
	require.NoError(t, err)
	require.NoError(t, h.FS.Mkdir("/x", 0o755))
}
