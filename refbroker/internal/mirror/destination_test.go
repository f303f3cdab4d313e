package mirror

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
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
	// through is what the manager has the quorum through, nil for nothing.
	through Quorum
	part    *fakePartition
	gate    gate.Gate
	faults  defect.Set
	// profile is the cluster's, chosen when it was made.
	profile quorum.Profile

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

func newDestination(t *testing.T) *destination { return newDestinationIn(t, quorum.V42) }

func newDestinationIn(t *testing.T, p quorum.Profile) *destination {
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
	d := &destination{t: t, profile: p, host: h, quorum: q, part: newFakePartition(t, q), gate: gate.Open{}, done: make(chan error, 1)}
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
	d.apply(quorum.RegisterBroker{ID: 1, Incarnation: fmt.Sprint(d.started), Clean: false, Profile: d.profile})
	d.m = newManager(&env.Env{
		NodeID: 1, ClusterID: ownID, Host: d.host, Log: slog.New(slog.DiscardHandler),
		Replicas: d, Gate: d.gate, Defects: d.faults,
	}, cmp.Or[Quorum](d.through, d.quorum), d)
	d.m.lookEvery = 50 * time.Millisecond
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
