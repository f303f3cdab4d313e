package group

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a partition of __consumer_offsets in memory.
type memLog struct {
	// epoch is the leader epoch in force; as a replica does, the log refuses
	// what an earlier leader is late with.
	epoch func() int32

	mu      sync.Mutex
	raw     [][]byte
	base    []int64
	end, hw int64
	held    bool  // the high watermark stays
	refuse  error // of appends
	broken  error // of reads
	changed chan struct{}
	open    map[int64]bool
	guards  map[int64]uint64
}

func newMemLog(epoch func() int32) *memLog {
	return &memLog{epoch: epoch, changed: make(chan struct{}), open: map[int64]bool{}, guards: map[int64]uint64{}}
}

// notify is called with mu held.
func (l *memLog) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *memLog) Append(ctx context.Context, raw []byte, o replica.AppendOptions) (replica.AppendResult, error) {
	l.mu.Lock()
	base, err := l.appendLocked(raw, o)
	last := l.end - 1
	l.mu.Unlock()
	if err != nil {
		return replica.AppendResult{}, err
	}
	for {
		l.mu.Lock()
		changed, done := l.changed, l.hw > last
		l.mu.Unlock()
		if done {
			return replica.AppendResult{BaseOffset: base, LastOffset: last, LogAppendTime: -1}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return replica.AppendResult{}, context.Cause(ctx)
		}
	}
}

func (l *memLog) appendLocked(raw []byte, o replica.AppendOptions) (int64, error) {
	b, err := psm.DecodeHeader(raw)
	switch {
	case err != nil:
		return 0, err
	case o.Acks != -1 || o.Purpose != replica.ForInternal:
		return 0, errors.New("the coordinator's own writes go to all replicas")
	case o.LeaderEpoch < l.epoch():
		return 0, kerr.FencedLeaderEpoch
	case l.refuse != nil:
		return 0, l.refuse
	case b.Transactional() && !l.open[b.ProducerID] && (o.Guard == 0 || o.Guard != l.guards[b.ProducerID]):
		return 0, kerr.InvalidTxnState
	}
	if b.Transactional() {
		l.open[b.ProducerID] = true
		delete(l.guards, b.ProducerID)
	}
	return l.put(raw, b.LastOffset-b.BaseOffset+1), nil
}

func (l *memLog) put(raw []byte, n int64) int64 {
	at := l.end
	raw = slices.Clone(raw)
	binary.BigEndian.PutUint64(raw, uint64(at))
	l.raw, l.base = append(l.raw, raw), append(l.base, at)
	l.end += n
	if !l.held {
		l.hw = l.end
	}
	l.notify()
	return at
}

// marker is a transaction's end, as its coordinator appends it.
func (l *memLog) marker(producer int64, commit bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, producer)
	delete(l.guards, producer)
	l.put(psm.EndTxnMarker{ProducerID: producer, Commit: commit}.Append(nil), 1)
}

// hold keeps the high watermark where it is, or lets it go on.
func (l *memLog) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	if !held {
		l.hw = l.end
	}
	l.notify()
}

func (l *memLog) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.notify()
}

func (l *memLog) Read(o replica.ReadOptions) (replica.ReadResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r replica.ReadResult
	if l.broken != nil {
		return r, l.broken
	}
	n := 0
	for i, base := range l.base {
		if base >= o.Offset && base < l.hw && n < 3 { // a few at a time
			r.Raw = append(r.Raw, l.raw[i]...)
			n++
		}
	}
	return r, nil
}

func (l *memLog) Settle(context.Context) (replica.Offsets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return replica.Offsets{LogEnd: l.end}, nil
}

func (l *memLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *memLog) StartVerification(producerID int64, _ int16, _ int32, _ bool) (uint64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[producerID] {
		return 0, true, nil
	}
	l.guards[producerID] = uint64(producerID) + 1000
	return l.guards[producerID], false, nil
}

// records lists what the log holds, for tests to look at.
func (l *memLog) records(t require.TestingT) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Record
	for _, raw := range l.raw {
		_, err := shards.DecodeBatches(raw, 0, shards.Visitor{
			Record: func(_, _ int64, key, value []byte) error {
				r, _, err := decodeRecord(key, value)
				all = append(all, r)
				return err
			},
			Marker: func(int64, bool) {},
		})
		require.NoError(t, err)
	}
	return all
}

// world is a node around a coordinator, without a broker.
type world struct {
	t       *testing.T
	mu      sync.Mutex
	logs    []*memLog
	epochs  []int32 // -1: another node leads
	changed chan struct{}
	topics  map[string][16]byte
	verify  error
	owed    map[Partition]int64
	stopped map[Partition]int64 // L of the last stop, in leader epoch 5
	mirrors map[Partition]bool
	paid    []uint64
	unpaid  error  // of Pay
	asked   []bool // of the verifier: whether to add
	c       *Coordinator
	stop    func()
}

// inWorld runs f in virtual time, with a coordinator of one shard.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, changed: make(chan struct{}), topics: map[string][16]byte{"t": {1}, "u": {2}}, epochs: []int32{0}}
		w.logs = []*memLog{newMemLog(func() int32 { epoch, _ := w.Leads(0); return epoch })}
		w.start()
		defer func() { w.stop() }()
		f(t, w)
	})
}

func (w *world) start() {
	w.c = New(Config{Cluster: w, Verifier: w, TransactionVersion: 2, Now: time.Now})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.c.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
	synctest.Wait()
}

// restart is another coordinator over the same log.
func (w *world) restart() {
	w.stop()
	w.set(func() { w.epochs[0]++ })
	w.start()
}

func (w *world) log() *memLog { return w.logs[0] }

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

func (w *world) Open(i int32) (Log, error) { return w.logs[i], nil }

func (w *world) TopicID(topic string) (id [16]byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok = w.topics[topic]
	return id, ok
}

func (w *world) VerifyOrAdd(_ context.Context, _ string, _ int64, _ int16, partitions []env.TopicPartition, add bool) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.t, []env.TopicPartition{{Topic: TopicName, Partition: 0}}, partitions)
	w.asked = append(w.asked, add)
	return []error{w.verify}
}

func (w *world) Owed(_ int32, p Partition) (int64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to, owed := w.owed[p]
	return to, owed
}

func (w *world) Debts(int32) (map[Partition]int64, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.owed) == 0 {
		return nil, 0
	}
	return maps.Clone(w.owed), 7
}

func (w *world) Pay(_ context.Context, _, epoch int32, number uint64) error {
	if now, leads := w.Leads(0); !leads || now != epoch {
		return kerr.FencedLeaderEpoch
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unpaid != nil {
		return w.unpaid
	}
	w.owed = nil
	w.paid = append(w.paid, number)
	return nil
}

func (w *world) Reached(p Partition, offset int64, epoch int32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l, ok := w.stopped[p]; ok && epoch >= 0 && epoch < 5 {
		return min(offset, l)
	}
	return offset
}

func (w *world) Mirrors(p Partition, id [16]byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mirrors[p] && w.topics[p.Topic] == id
}

// set changes what the node knows, and tells.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

var (
	t0 = Partition{"t", 0}
	t1 = Partition{"t", 1}
	u0 = Partition{"u", 0}
)

func (w *world) offset(p Partition, at int64) Offset {
	return Offset{Partition: p, Offset: at, LeaderEpoch: -1, TopicID: w.topics[p.Topic]}
}

func nobody() Committer { return Committer{Generation: -1} }

func (w *world) commit(by Committer, p Partition, at int64) error {
	return w.c.Commit(w.t.Context(), "g", by, -1, []Offset{w.offset(p, at)})
}

func (w *world) commitIn(producer int64, by Committer, p Partition, at int64) error {
	return w.c.CommitInTransaction(w.t.Context(), "g", by, Transaction{ID: "x", Producer: Producer{ID: producer, Epoch: 0}, Version: 2}, []Offset{w.offset(p, at)})
}

// fetch returns offsets; UNSTABLE_OFFSET_COMMIT is -2.
func (w *world) fetch(stable bool, partitions ...Partition) []int64 {
	w.t.Helper()
	got, err := w.c.Fetch(w.t.Context(), "g", partitions, stable)
	require.NoError(w.t, err)
	var offsets []int64
	for _, o := range got {
		if o.Err != nil {
			require.Equal(w.t, kerr.UnstableOffsetCommit, o.Err)
			o.Offset = -2
		}
		offsets = append(offsets, o.Offset)
	}
	return offsets
}

func (w *world) joinRequest(id string, change ...func(*JoinRequest)) JoinRequest {
	r := JoinRequest{
		MemberID: id, SessionTimeout: session, RebalanceTimeout: rebalance, ProtocolType: "consumer", NewID: "m-" + time.Now().String(),
		Protocols: []Protocol{{"range", subscription("t")}},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// member joins and syncs as the only one.
func (w *world) member(change ...func(*JoinRequest)) Committer {
	w.t.Helper()
	a := w.c.Join(w.t.Context(), "g", w.joinRequest("", change...))
	require.NoError(w.t, a.Err)
	s := w.c.Sync(w.t.Context(), "g", SyncRequest{
		MemberID: a.MemberID, Generation: a.Generation, Assignments: map[string][]byte{a.MemberID: []byte("all")},
	})
	require.NoError(w.t, s.Err)
	require.Equal(w.t, []byte("all"), s.Assignment)
	return Committer{MemberID: a.MemberID, Generation: a.Generation}
}

func (w *world) beat(m Committer) error {
	return w.c.Heartbeat(w.t.Context(), "g", m.MemberID, m.InstanceID, m.Generation)
}
