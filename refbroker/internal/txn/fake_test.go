package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a partition of __transaction_state in memory.
type memLog struct {
	// epoch is the leader epoch in force; as a replica does, the log refuses an
	// append that an earlier leader is late with.
	epoch   func() int32
	mu      sync.Mutex
	raw     [][]byte
	failing int  // appends until they begin to fail, 0 for never
	keep    bool // the first failing append is stored all the same
}

var errDisk = errors.New("disk gone")

func (l *memLog) Append(_ context.Context, raw []byte, o replica.AppendOptions) (replica.AppendResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fails, keep := l.failing == 1, l.keep
	if l.failing > 1 {
		l.failing--
	}
	if o.Acks != -1 || o.Purpose != replica.ForInternal {
		return replica.AppendResult{}, errors.New("the coordinator's own writes go to all replicas")
	}
	if o.LeaderEpoch < l.epoch() {
		return replica.AppendResult{}, kerr.FencedLeaderEpoch
	}
	at := int64(len(l.raw))
	if fails {
		l.keep = false
	}
	if !fails || keep {
		b := append([]byte(nil), raw...)
		binary.BigEndian.PutUint64(b, uint64(at))
		l.raw = append(l.raw, b)
	}
	if fails {
		return replica.AppendResult{}, errDisk
	}
	return replica.AppendResult{BaseOffset: at, LastOffset: at}, nil
}

func (l *memLog) Read(o replica.ReadOptions) (replica.ReadResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r replica.ReadResult
	for _, b := range l.raw[o.Offset:min(int(o.Offset)+3, len(l.raw))] {
		r.Raw = append(r.Raw, b...)
	}
	return r, nil
}

func (l *memLog) Settle(context.Context) (replica.Offsets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return replica.Offsets{LogEnd: int64(len(l.raw))}, nil
}

func (l *memLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.raw)
}

func (l *memLog) fail(in int, keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing, l.keep = in, keep
}

// world is a node around a coordinator, without a broker.
type world struct {
	mu      sync.Mutex
	logs    []*memLog
	epochs  []int32 // -1: another node leads
	changed chan struct{}
	parts   map[Partition]PartitionState
	blocks  int64
	clock   int64
	markers map[Partition][]Marker
	refuse  map[Partition]error // answers of the partitions' leaders
	// sent is closed and replaced at every SendMarker.
	sent chan struct{}
}

func newWorld(shards int) *world {
	w := &world{
		changed: make(chan struct{}), sent: make(chan struct{}), parts: map[Partition]PartitionState{}, clock: 1_000_000,
		markers: map[Partition][]Marker{}, refuse: map[Partition]error{},
	}
	for i := range shards {
		w.logs = append(w.logs, &memLog{epoch: func() int32 { epoch, _ := w.Leads(int32(i)); return epoch }})
		w.epochs = append(w.epochs, 0)
	}
	for _, topic := range []string{"a", "b"} {
		for i := range int32(3) {
			w.parts[Partition{topic, i}] = PartitionState{Exists: true}
		}
	}
	return w
}

func (w *world) Shards() int { return len(w.logs) }

func (w *world) Leads(i int32) (int32, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epochs[i], w.epochs[i] >= 0
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Elsewhere(context.Context, int32, AddRequest) ([]error, bool) { return nil, false }

func (w *world) Open(i int32) (Log, error) { return w.logs[i], nil }

func (w *world) Partition(p Partition) PartitionState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parts[p]
}

func (w *world) AllocateProducerIDs(context.Context) (int64, int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.blocks
	w.blocks += 10
	return first, 10, nil
}

func (w *world) SendMarker(_ context.Context, m Marker, partitions []Partition) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { close(w.sent); w.sent = make(chan struct{}) }()
	errs := make([]error, len(partitions))
	for i, p := range partitions {
		if err := w.refuse[p]; err != nil && !(m.Owed && errors.Is(err, replica.ErrReadOnly)) {
			errs[i] = err
			continue
		}
		w.markers[p] = append(w.markers[p], m)
	}
	return errs
}

// set changes what the node knows, and tells.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.UnixMilli(w.clock)
}

func (w *world) markersOf(p Partition) []Marker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Marker(nil), w.markers[p]...)
}

// start runs a coordinator until the returned stop.
func (w *world) start(t require.TestingT) (c *Coordinator, stop func()) {
	c = New(Config{Cluster: w, Markers: w, Now: w.now, SweepEvery: time.Hour, Backoff: time.Millisecond, AddWait: 5 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	for i := range w.epochs {
		if w.epochs[i] >= 0 {
			awaitLoaded(t, c, int32(i))
		}
	}
	return c, func() { cancel(); <-done }
}

func awaitLoaded(t require.TestingT, c *Coordinator, i int32) *shard {
	var s *shard
	require.Eventually(t, func() bool {
		var ok bool
		if s, ok = c.shards.At(i); !ok {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.loaded
	}, 10*time.Second, 100*time.Microsecond)
	return s
}

// await waits until the state of an id satisfies ok, and returns it.
func await(t require.TestingT, c *Coordinator, id string, ok func(Txn) bool) Txn {
	deadline := time.After(10 * time.Second)
	for {
		s, err := c.shard(id)
		require.NoError(t, err)
		s.mu.Lock()
		e := s.txns[id]
		require.NotNil(t, e, "transactional id %q", id)
		txn, busy, changed := e.txn, e.busy, e.changed
		s.mu.Unlock()
		if !busy && ok(txn) {
			return txn
		}
		select {
		case <-changed:
		case <-deadline:
			require.Fail(t, "transactional id stays", "%+v", txn)
		}
	}
}

func settledDown(t Txn) bool { return !t.State.preparing() }

func initNew(t *testing.T, c *Coordinator, id string) identity {
	t.Helper()
	for {
		pid, epoch, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: -1, Epoch: -1})
		if errors.Is(err, kerr.ConcurrentTransactions) {
			await(t, c, id, settledDown)
			continue
		}
		require.NoError(t, err)
		return identity{pid, epoch}
	}
}

func addTo(c *Coordinator, id string, have identity, version int16, ps ...Partition) []error {
	return c.AddPartitions(AddRequest{TransactionalID: id, ProducerID: have.id, Epoch: have.epoch, Version: version, Partitions: ps})
}

func end(t *testing.T, c *Coordinator, id string, have identity, version int16, commit bool) (identity, error) {
	t.Helper()
	pid, epoch, err := c.EndTxn(t.Context(), EndRequest{TransactionalID: id, ProducerID: have.id, Epoch: have.epoch, Commit: commit, Version: version})
	return identity{pid, epoch}, err
}

func produceTo(ctx context.Context, c *Coordinator, id string, have identity, add bool, ps ...Partition) []error {
	var tps []env.TopicPartition
	for _, p := range ps {
		tps = append(tps, env.TopicPartition{Topic: p.Topic, Partition: p.Index})
	}
	return c.VerifyOrAdd(ctx, id, have.id, have.epoch, tps, add)
}
