package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sourceID, ownID = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"

var topicID = [16]byte{1, 2, 3}

// destination is a node with a real quorum and one mirrored partition.
type destination struct {
	t      *testing.T
	host   host.Host
	quorum *quorum.Node
	part   *fakePartition
	gate   gate.Gate
	faults defect.Set

	// dialled counts the connections to the source that are open.
	dialled atomic.Int32

	m       *Manager
	started int
	settled []quorum.MirrorState // under part.mu
	end     context.CancelCauseFunc
	done    chan error
}

type countedConn struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// SettleDebts notes in which mirror state the partition's debts are settled.
func (d *destination) SettleDebts(_ context.Context, p txn.Partition) error {
	require.Equal(d.t, txn.Partition{Topic: "t"}, p)
	state := d.mirror().State
	d.part.mu.Lock()
	defer d.part.mu.Unlock()
	d.settled = append(d.settled, state)
	return d.part.unpaid
}

func (d *destination) Partition(string, int32) (replica.API, error) { return d.part, nil }

func newDestination(t *testing.T) *destination {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	h := host.Host{
		Dial:   (&net.Dialer{}).DialContext,
		Listen: (&net.ListenConfig{}).Listen,
		FS:     afero.NewMemMapFs(),
		Now:    time.Now,
		RaftStores: func(string) (host.RaftStores, error) {
			s := raft.NewInmemStore()
			return host.RaftStores{Log: s, Stable: s, Close: io.NopCloser(nil)}, nil
		},
	}
	q, err := quorum.Open(t.Context(), quorum.Config{Host: h, Log: log, Dir: "/quorum", ClusterID: ownID, NodeID: 1, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	require.NoError(t, q.WaitReady(t.Context()))
	d := &destination{t: t, host: h, quorum: q, part: newFakePartition(t, q), gate: gate.Open{}, done: make(chan error, 1)}
	d.host.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := h.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		d.dialled.Add(1)
		return &countedConn{Conn: c, open: &d.dialled}, nil
	}
	d.start()
	d.apply(quorum.CreateTopic{Name: "t", ID: topicID, Assignment: [][]int32{{1}}})
	t.Cleanup(func() { d.crash() })
	return d
}

func (d *destination) apply(c quorum.Command) {
	d.t.Helper()
	_, err := d.quorum.Apply(d.t.Context(), c)
	require.NoError(d.t, err)
}

// start starts the node's process.
func (d *destination) start() {
	d.started++
	d.apply(quorum.RegisterBroker{ID: 1, Incarnation: fmt.Sprint(d.started), Clean: false})
	d.m = newManager(&env.Env{
		NodeID: 1, ClusterID: ownID, Host: d.host, Log: slog.New(slog.DiscardHandler),
		Replicas: d, Gate: d.gate, Defects: d.faults,
	}, d.quorum, d)
	ctx, cancel := context.WithCancelCause(context.Background())
	d.end = cancel
	go func(m *Manager) { d.done <- m.Run(ctx) }(d.m)
}

// crash ends the process; what it kept in memory is gone.
func (d *destination) crash() {
	if d.end == nil {
		return
	}
	d.end(errCrash)
	require.NoError(d.t, <-d.done)
	d.end = nil
	d.part.restart()
}

// crashAt restarts the process with a gate at which it will crash.
func (d *destination) crashAt(point string) {
	d.crash()
	g := &stoppingGate{point: point}
	d.gate = g
	d.start()
	g.mu.Lock()
	g.crash = d.end
	g.mu.Unlock()
}

// restartAfterCrash waits for the crash at the gate and starts anew.
func (d *destination) restartAfterCrash() {
	d.t.Helper()
	require.NoError(d.t, <-d.done, "the crash")
	d.end = nil
	d.part.restart()
	d.gate = gate.Open{}
	d.start()
}

func (d *destination) mirror() quorum.MirrorPartition {
	_, p, err := d.quorum.Image().Partition("t", 0)
	require.NoError(d.t, err)
	return p.Mirror
}

func (d *destination) await(what string, ok func() bool) {
	d.t.Helper()
	require.Eventually(d.t, ok, 10*time.Second, time.Millisecond, what)
}

func (d *destination) awaitState(s quorum.MirrorState) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Second)
	defer cancel()
	_, err := d.quorum.Wait(ctx, func(img *quorum.Image) bool { return img.Topics["t"].Partitions[0].Mirror.State == s })
	require.NoError(d.t, err, "state %s, want %s", d.mirror().State, s)
}

func (d *destination) create(addr string) {
	d.apply(quorum.CreateMirror{Name: "m", SourceClusterID: sourceID, Bootstrap: []string{addr}})
}

func (d *destination) desire(s quorum.MirrorState) {
	d.t.Helper()
	d.apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: s})
}

// mirrorAll mirrors all of the source.
func (d *destination) mirrorAll(s *fakeSource) {
	d.t.Helper()
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	d.awaitBytes(s.log)
}

func (d *destination) awaitBytes(want [][]byte) {
	d.t.Helper()
	d.await("the source's bytes", func() bool { return len(d.part.bytes()) >= len(want) })
	require.Equal(d.t, want, d.part.bytes())
}

// requireStopped checks what a stop leaves: the source's bytes below L, one own
// barrier at L above every epoch, and nothing else.
func (d *destination) requireStopped(below [][]byte, l int64) {
	d.t.Helper()
	d.awaitState(quorum.Stopped)
	got := d.part.bytes()
	require.Len(d.t, got, len(below)+1)
	require.Equal(d.t, below, got[:len(below)])
	b, err := psm.DecodeBatch(got[len(below)])
	require.NoError(d.t, err)
	require.True(d.t, b.IsBarrier())
	require.Equal(d.t, l, b.BaseOffset)
	require.Equal(d.t, sourceID, b.Control.SourceClusterID)
	m := d.mirror()
	require.Nil(d.t, m.Current)
	require.Equal(d.t, l-1, m.LastMirroredOffset)
	last := m.Stops[len(m.Stops)-1]
	require.Equal(d.t, l, last.BarrierOffset)
	require.GreaterOrEqual(d.t, b.LeaderEpoch, last.Epoch)
	for _, raw := range below {
		require.Less(d.t, header(raw).LeaderEpoch, last.Epoch)
	}
}

func someBatches() [][]byte {
	return [][]byte{data(0, 3, 2, "a"), data(3, 1, 2, "b"), data(4, 5, 4, "c"), data(9, 2, 4, "open transaction")}
}

func TestTheSourcesBytesAreCopiedAsTheyAre(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.put(4, data(11, 1, 4, "later"))
	d.awaitBytes(s.log)
	require.Equal(t, quorum.Mirroring, d.mirror().State)
	require.True(t, d.mirror().Aligned)
	require.Zero(t, d.part.tooHigh(), "an append above the leader epoch was tried")
	st, ok := d.m.Status("t", topicID, 0)
	require.True(t, ok)
	d.await("the source's high watermark", func() bool {
		st, _ = d.m.Status("t", topicID, 0)
		return st.SourceHighWatermark == 12
	})
	require.Empty(t, st.Error)
}

func TestAStopCutsToTheLSOAndWritesOneBarrier(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	d.crash()
	d.gate = g
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches()[:3], 9)
	require.EqualValues(t, 4, d.mirror().LastMirroredEpoch)
	d.desire(quorum.Stopped) // again
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
	var want []string
	for _, step := range Steps() {
		want = append(want, "before:"+step)
		if step == StepTruncated {
			want = append(want, PointRecorded)
		}
		want = append(want, "after:"+step)
	}
	require.Equal(t, want, g.passed)
	require.Equal(t, []string{
		"fetchers-removed", "settled", "truncated", "last-mirrored-offset-persisted", "barrier-appended", "barrier-committed", "stopped",
	}, Steps())
	d.await("the end of every connection to the source", func() bool { return s.open() == 0 })
}

func TestAStopGoesOnAfterACrashAtEveryPoint(t *testing.T) {
	points := []string{PointRecorded}
	for _, step := range Steps() {
		points = append(points, "before:"+step, "after:"+step)
	}
	for _, sourceDead := range []bool{false, true} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s source dead %v", point, sourceDead), func(t *testing.T) {
				d := newDestination(t)
				s := newFakeSource(t, "127.0.0.1:0", sourceID)
				s.put(4, someBatches()...)
				d.mirrorAll(s)
				d.part.stable(9)
				d.crashAt(point)
				if sourceDead {
					s.kill()
				}
				d.desire(quorum.Stopped)
				d.restartAfterCrash()
				if !sourceDead {
					s.put(4, data(11, 1, 4, "later"))
				}
				d.requireStopped(someBatches()[:3], 9)
			})
		}
	}
}

func TestAStepThatFailsIsTriedAgainAndSaysWhy(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	d.crash()
	d.gate = g
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.mu.Lock()
	d.part.refuse = errors.New("disk is full")
	d.part.mu.Unlock()
	d.desire(quorum.Stopped)
	d.await("the cause", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Phase == StepBarrierAppended && st.Attempts > 1 && st.Error == "step barrier-appended: disk is full"
	})
	d.part.mu.Lock()
	d.part.refuse = nil
	d.part.mu.Unlock()
	d.requireStopped(someBatches(), 11)
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
	require.Len(t, g.passed, 15, "a gate was passed twice: %v", g.passed)
}

func TestAStopNeedsNoSourceAlsoAfterARestart(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.kill()
	d.crash()
	d.start()
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
}

func TestAStopBeforeAlignmentWritesNothing(t *testing.T) {
	d := newDestination(t)
	d.part.log = [][]byte{data(0, 2, 0, "own")}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	addr := s.addr()
	s.kill()
	d.create(addr)
	d.desire(quorum.Mirroring)
	d.await("an error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error != "" })
	d.part.mu.Lock()
	d.part.unpaid = errors.New("a coordinator is being loaded")
	d.part.mu.Unlock()
	d.desire(quorum.Stopped)
	d.await("what is in the way", func() bool {
		st, _ := d.m.Status("t", topicID, 0)
		return st.Phase == StepStopped && strings.Contains(st.Error, "owes: a coordinator is being loaded")
	})
	require.Equal(t, quorum.Stopping, d.mirror().State)
	d.part.mu.Lock()
	d.part.unpaid = nil
	d.part.mu.Unlock()
	d.awaitState(quorum.Stopped)
	require.Equal(t, [][]byte{data(0, 2, 0, "own")}, d.part.bytes())
	require.Empty(t, d.mirror().Stops)
	d.part.mu.Lock()
	defer d.part.mu.Unlock()
	require.NotContains(t, d.settled, quorum.Stopped)
}

func TestAnotherClusterIsRefused(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", "CCCCCCCCCCCCCCCCCCCCCC")
	s.put(4, someBatches()...)
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "CCCCCCCCCCCCCCCCCCCCCC")
	require.Contains(t, d.mirror().Error, sourceID)
	require.EqualValues(t, -1, d.mirror().Attempts)
	require.Empty(t, d.part.bytes())
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	require.Empty(t, d.part.bytes())
}

func TestASourceThatBecomesAnotherClusterIsRefused(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	addr := s.addr()
	s.kill()
	other := newFakeSource(t, addr, "CCCCCCCCCCCCCCCCCCCCCC")
	other.put(4, append(someBatches(), data(11, 1, 4, "foreign"))...)
	d.awaitState(quorum.Failed)
	require.Equal(t, someBatches(), d.part.bytes())
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
}

func TestALogWithoutCommonHistoryIsRefused(t *testing.T) {
	d := newDestination(t)
	d.part.log = [][]byte{data(0, 2, 0, "own")}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "t-0 ends at offset 2")
	require.Equal(t, [][]byte{data(0, 2, 0, "own")}, d.part.bytes())
}

// A write that came before the log was read-only is not cut by an alignment
// that did not see it.
func TestTheAlignmentWaitsUntilTheLogIsReadOnly(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.create(s.addr())
	d.part.mu.Lock()
	d.part.behind = true
	d.part.mu.Unlock()
	d.desire(quorum.Mirroring)
	d.await("the driver waits", func() bool { d.part.mu.Lock(); defer d.part.mu.Unlock(); return d.part.looked })
	own := data(0, 2, 0, "own")
	d.part.mu.Lock()
	d.part.log = [][]byte{own}
	d.part.behind = false
	close(d.part.changed)
	d.part.changed = make(chan struct{})
	d.part.mu.Unlock()
	d.awaitState(quorum.Failed)
	require.Contains(t, d.mirror().Error, "t-0 ends at offset 2")
	require.Equal(t, [][]byte{own}, d.part.bytes())
}

func TestTheLeaderEpochRisesBeforeTheSourcesDo(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	for i, epoch := range []int32{5, 40, 41, 90} {
		s.put(epoch, data(int64(11+i), 1, epoch, "after an election"))
		d.awaitBytes(s.log)
		_, own := d.part.Leader()
		require.GreaterOrEqual(t, own, epoch)
	}
	require.Zero(t, d.part.tooHigh())
	d.awaitState(quorum.Mirroring)
}

func TestASourceThatWasCutIsFollowed(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.mu.Lock()
	s.epoch = 6
	s.log = append(s.log[:3:3], data(9, 1, 6, "instead"), data(10, 4, 6, "more"))
	s.mu.Unlock()
	d.await("the source's new bytes", func() bool { return fmt.Sprint(d.part.bytes()) == fmt.Sprint(s.log) })
	require.Zero(t, d.mirror().AlignedAt)
}

func TestAMirrorThatStartsAgainDropsWhatThisClusterWrote(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches()[:3], 9)
	_, epoch := d.part.Leader()
	d.part.mu.Lock()
	d.part.lso = -1
	d.part.log = append(d.part.log, data(10, 3, epoch, "own"))
	d.part.mu.Unlock()
	// The source elects the same leader epoch on its own, and writes more: the
	// epochs alone don't tell the two logs apart.
	s.put(epoch, data(11, 9, epoch, "the source's, in the same epoch"))
	d.desire(quorum.Mirroring)
	d.await("the source's bytes", func() bool { return fmt.Sprint(d.part.bytes()) == fmt.Sprint(s.log) })
	require.EqualValues(t, 9, d.mirror().AlignedAt)
	d.desire(quorum.Stopped)
	d.requireStopped(s.log, 20)
	require.Len(t, d.mirror().Stops, 1)
}

func TestABarrierOfTheSourceIsNotTakenForTheStopsOwn(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	inherited := psm.Barrier{SourceClusterID: sourceID}.Append(nil)
	psm.SetOffsets(inherited, 9, 4)
	s.put(4, append(someBatches()[:3], inherited)...)
	d.mirrorAll(s)
	d.part.stable(9)
	d.crashAt(PointRecorded)
	d.desire(quorum.Stopped)
	d.restartAfterCrash()
	d.requireStopped(someBatches()[:3], 9)
}

// heldResponse mirrors, and then leaves a response with records in flight.
func heldResponse(t *testing.T, faults ...string) (*destination, *fakeSource) {
	d := newDestination(t)
	if len(faults) > 0 {
		set, err := defect.Parse(faults)
		require.NoError(t, err)
		d.crash()
		d.faults = set
		d.start()
	}
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	s.mu.Lock()
	s.hold = make(chan struct{})
	s.mu.Unlock()
	s.put(4, data(11, 1, 4, "in flight"))
	<-s.held
	d.desire(quorum.Stopped)
	d.requireStopped(someBatches(), 11)
	return d, s
}

func TestAResponseInFlightIsNotAppended(t *testing.T) {
	d, s := heldResponse(t)
	require.Zero(t, d.dialled.Load(), "a connection to the source is open after the stop")
	close(s.hold)
	d.await("the connection's end", func() bool { return s.open() == 0 })
	d.requireStopped(someBatches(), 11)
	require.Zero(t, d.part.late, "the connection should have been closed before it came to that")
}

func TestTheDefectHandsALateResponseOn(t *testing.T) {
	d, s := heldResponse(t, string(defect.LateFetchAppended))
	close(s.hold)
	d.await("the late append", func() bool { d.part.mu.Lock(); defer d.part.mu.Unlock(); return d.part.late == 1 })
}

func TestTheDefectLeavesTheBarrierOut(t *testing.T) {
	g := &stoppingGate{}
	d := newDestination(t)
	set, err := defect.Parse([]string{string(defect.NoBarrier)})
	require.NoError(t, err)
	d.crash()
	d.faults, d.gate = set, g
	d.start()
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	require.Equal(t, someBatches(), d.part.bytes())
	d.await("the last gate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.passed) >= 15 })
}

func TestPauseAndResume(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	d.desire(quorum.Paused)
	d.awaitState(quorum.Paused)
	d.await("the connection's end", func() bool { return s.open() == 0 })
	s.put(4, data(11, 1, 4, "while paused"))
	d.desire(quorum.Mirroring)
	d.awaitBytes(s.log)
	d.desire(quorum.Paused)
	d.awaitState(quorum.Paused)
	d.desire(quorum.Stopped)
	d.requireStopped(s.log, 12)
}

func TestTheSourceMayBeGoneForAWhile(t *testing.T) {
	d := newDestination(t)
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(4, someBatches()...)
	d.mirrorAll(s)
	addr := s.addr()
	s.kill()
	d.await("an error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error != "" })
	back := newFakeSource(t, addr, sourceID)
	back.put(5, append(someBatches(), data(11, 1, 5, "back"))...)
	d.awaitBytes(back.log)
	d.await("no error", func() bool { st, _ := d.m.Status("t", topicID, 0); return st.Error == "" && st.Attempts == 0 })
	require.Equal(t, quorum.Mirroring, d.mirror().State)
}
