package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"watershed.example/fixtures"
)

func TestMain(m *testing.M) {
	fixtures.MaybeBroker()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := fixtures.Finish(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// source answers a fetch with what was written since the last one, or with
// little after a while, as a broker does.
type source struct {
	ln    net.Listener
	wg    sync.WaitGroup
	ctx   context.Context
	stop  context.CancelFunc
	wrote chan []byte
}

// longPoll is how long a fetch waits at the source.
const longPoll = 50 * time.Millisecond

func newSource(t *testing.T) *source {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &source{ln: ln, wrote: make(chan []byte, 1000)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { s.stop(); _ = ln.Close(); s.wg.Wait() })
	return s
}

func (s *source) serve(c net.Conn) {
	stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	for {
		request := make([]byte, 100)
		if _, err := io.ReadFull(c, request); err != nil {
			return
		}
		answer := make([]byte, 60)
		select {
		case answer = <-s.wrote:
		case <-time.After(longPoll):
		case <-s.ctx.Done():
			return
		}
		head := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
		if _, err := c.Write(append(head, request[8:12]...)); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

func (s *source) nudge(_ context.Context, n int) error {
	s.wrote <- make([]byte, n)
	return nil
}

// fetcher fetches over a link, and connects again when it must.
type fetcher struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	fetched atomic.Int64
	resets  atomic.Int64
}

func startFetcher(t *testing.T, address string) *fetcher {
	t.Helper()
	f := &fetcher{}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.wg.Go(func() {
		for ctx.Err() == nil {
			if err := f.fetch(ctx, address); err != nil && ctx.Err() == nil {
				f.resets.Add(1)
				time.Sleep(time.Millisecond)
			}
		}
	})
	t.Cleanup(f.remove)
	return f
}

// remove ends the fetcher, as the first step of STOPPING does.
func (f *fetcher) remove() { f.cancel(); f.wg.Wait() }

func (f *fetcher) fetch(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	for n := uint32(0); ; n++ {
		request := binary.BigEndian.AppendUint32(nil, 96)
		request = binary.BigEndian.AppendUint16(request, fetch)
		request = binary.BigEndian.AppendUint16(request, 13)
		request = binary.BigEndian.AppendUint32(request, n)
		if _, err := c.Write(append(request, make([]byte, 88)...)); err != nil {
			return err
		}
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		if got := binary.BigEndian.Uint32(head[4:]); got != n {
			return fmt.Errorf("answer to %d, not to %d", got, n)
		}
		n, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:]))-4)
		f.fetched.Add(n)
		if err != nil {
			return err
		}
	}
}

// world is a source, its link, and a fetcher on it.
type world struct {
	source  *source
	link    *fixtures.Link
	fetcher *fetcher
}

func newWorld(t *testing.T) *world {
	s := newSource(t)
	fabric := fixtures.NewFabric()
	t.Cleanup(fabric.Close)
	l, err := fabric.Add("A->B", "A", 1)
	require.NoError(t, err)
	l.Connect(1, s.ln.Addr().String())
	w := &world{source: s, link: l, fetcher: startFetcher(t, l.Address(1))}
	w.flows(t)
	return w
}

// flows waits until records come through.
func (w *world) flows(t *testing.T) {
	before := w.fetcher.fetched.Load()
	require.NoError(t, w.source.nudge(t.Context(), 2000))
	require.Eventually(t, func() bool { return w.fetcher.fetched.Load() >= before+2000 }, 5*time.Second, time.Millisecond)
}

func (w *world) strike(t *testing.T, kind Kind, point string) *Strike {
	s, err := New(Plan{Kind: kind, Link: "A->B", Point: point}, w.link, w.source.nudge)
	require.NoError(t, err)
	return s
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// requireEffect requires what each kind of fault promises.
func requireEffect(t *testing.T, p Proof) {
	require.True(t, p.Bit(), p)
	switch p.Plan.Kind {
	case Partition, PartitionToSource, PartitionFromSource, HoldAndDrop:
		require.Positive(t, p.Dropped, p)
		require.Zero(t, p.Released, p)
	case Latency, Bandwidth:
		require.Positive(t, p.Delayed, p)
		require.Zero(t, p.Dropped, p)
	case CutInFrame:
		require.EqualValues(t, 1, p.Cut, p)
		require.Positive(t, p.Dropped, p)
	case HoldOneFetch:
		require.EqualValues(t, 1, p.Messages, p)
		require.Zero(t, p.Dropped, p)
	case HoldAndRelease:
		require.Equal(t, p.InFlight, p.Released+p.Undelivered, p)
		require.Zero(t, p.Dropped, p)
	case Reset:
		require.Positive(t, p.Reset, p)
	}
}

func TestEveryFaultBitesAtEveryPoint(t *testing.T) {
	for _, kind := range append(AllKinds(), None) {
		for _, c := range []struct {
			name, point string
			removed     bool
		}{
			{"link alive", firstPoint, false},
			{"after a fetcher that hung up", "before:truncated", true},
			{"after a fetcher that stays", "after:stopped", false},
		} {
			t.Run(string(kind)+"/"+c.name, func(t *testing.T) {
				w, ctx := newWorld(t), within(t)
				s := w.strike(t, kind, c.point)
				require.False(t, s.Proof().Bit())
				require.Contains(t, s.Proof().String(), "has not struck")
				require.NoError(t, s.Prepare(ctx))
				if s.Plan().InFlight() {
					require.Positive(t, s.Proof().InFlight)
					require.False(t, s.Proof().Bit(), "what is only held has not struck yet")
				}
				before := w.fetcher.fetched.Load()
				if c.removed {
					w.fetcher.remove()
				}
				require.NoError(t, s.Hit(ctx))
				struck := s.Proof()
				requireEffect(t, struck)
				if kind == HoldAndRelease && !c.removed {
					require.Eventually(t, func() bool { return w.fetcher.fetched.Load() >= before+InFlightBytes }, 5*time.Second, time.Millisecond)
					require.Positive(t, struck.Released)
				}
				p := s.Heal()
				requireEffect(t, p)
				require.False(t, p.Ended.Before(p.Struck))
				require.Equal(t, p, s.Heal())
				require.Contains(t, p.String(), " bit: ")
				require.Equal(t, fixtures.Behaviour{}, w.link.Get(fixtures.ToServer))
				require.Equal(t, fixtures.Behaviour{}, w.link.Get(fixtures.FromServer))
				if c.removed {
					w.fetcher = startFetcher(t, w.link.Address(1))
				}
				w.flows(t)
				// The window is closed: what flows now is not the strike's.
				require.Equal(t, p, s.Proof())
			})
		}
	}
}

func TestAPartitionLastsUntilTheHeal(t *testing.T) {
	w, ctx := newWorld(t), within(t)
	s := w.strike(t, Partition, "after:barrier-appended")
	require.NoError(t, s.Prepare(ctx))
	w.fetcher.remove()
	require.NoError(t, s.Hit(ctx))
	late := startFetcher(t, w.link.Address(1))
	require.Eventually(t, func() bool { return w.link.Counts().Stalled > 0 }, 5*time.Second, time.Millisecond)
	passed := w.link.Counts().Passed()
	require.NoError(t, w.source.nudge(ctx, 2000))
	time.Sleep(3 * longPoll)
	require.Equal(t, passed, w.link.Counts().Passed())
	require.Zero(t, late.fetched.Load())
	p := s.Heal()
	require.Positive(t, p.Stalled, p)
	require.Contains(t, p.String(), "1 connections stalled")
	require.Eventually(t, func() bool { return late.fetched.Load() >= 2000 }, 5*time.Second, time.Millisecond)
	require.Positive(t, late.resets.Load(), "what stalled in a cut is reset by the heal")
}

func TestLatencyIsFeltBothWays(t *testing.T) {
	w, ctx := newWorld(t), within(t)
	s, err := New(Plan{Kind: Latency, Link: "A->B", Point: firstPoint, Delay: 60 * time.Millisecond, Seed: 3}, w.link, w.source.nudge)
	require.NoError(t, err)
	require.NoError(t, s.Hit(ctx))
	require.Equal(t, 60*time.Millisecond, w.link.Get(fixtures.ToServer).Delay)
	require.Equal(t, 60*time.Millisecond, w.link.Get(fixtures.FromServer).Delay)
	before := w.link.Counts()
	require.Eventually(t, func() bool {
		c := w.link.Counts().Since(before)
		return c.ToServer.Delayed > 0 && c.FromServer.Delayed > 0
	}, 5*time.Second, time.Millisecond)
	s.Heal()
}

// An answer without records is no response in flight.
func TestAnEmptyAnswerIsNotHeldInFlight(t *testing.T) {
	w, ctx := newWorld(t), within(t)
	calls := 0
	s, err := New(Plan{Kind: HoldAndDrop, Link: "A->B", Point: "before:settled"}, w.link, func(ctx context.Context, n int) error {
		if calls++; calls == 1 {
			return nil // too late: the fetch is answered with nothing
		}
		return w.source.nudge(ctx, n)
	})
	require.NoError(t, err)
	require.NoError(t, s.Prepare(ctx))
	require.GreaterOrEqual(t, s.Proof().InFlight, int64(InFlightBytes))
	require.GreaterOrEqual(t, calls, 2)
	require.NoError(t, s.Hit(ctx))
	s.Heal()
}

func TestAStrikeThatCantBiteSaysSo(t *testing.T) {
	w := newWorld(t)
	w.fetcher.remove() // nobody uses the link
	require.Eventually(t, func() bool { return w.link.Counts().Open == 0 }, 5*time.Second, time.Millisecond)
	for _, point := range []string{firstPoint, "before:settled"} {
		for _, kind := range AllKinds() {
			t.Run(fmt.Sprint(kind, "/", point), func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("time is up"))
				defer cancel()
				s := w.strike(t, kind, point)
				err := s.Prepare(ctx)
				if err == nil {
					err = s.Hit(ctx)
				}
				require.ErrorContains(t, err, "strike "+string(kind))
				require.ErrorContains(t, err, "time is up")
				p := s.Heal()
				require.False(t, p.Bit(), p)
				require.NotContains(t, p.String(), " bit: ")
			})
		}
	}
	s := w.strike(t, Partition, firstPoint)
	require.Equal(t, Proof{Plan: s.Plan()}, s.Heal())
}

func TestAStrikeNeedsItsLink(t *testing.T) {
	w := newWorld(t)
	plan := Plan{Kind: Reset, Link: "A->C", Point: firstPoint}
	_, err := New(plan, w.link, w.source.nudge)
	require.ErrorContains(t, err, "there is no such link")
	_, err = New(plan, nil, w.source.nudge)
	require.ErrorContains(t, err, "there is no such link")
	plan.Link = "A->B"
	_, err = New(plan, w.link, nil)
	require.ErrorContains(t, err, "nobody writes to the source")
	plan.Point = "lunch"
	_, err = New(plan, w.link, w.source.nudge)
	require.ErrorContains(t, err, "unknown point")
}
