package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/lock"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// Partition is this node's replica of one partition.
type Partition struct {
	topic    string
	topicID  [16]byte
	index    int32
	node     int32
	internal bool
	profile  quorum.Profile
	name     string // "topic-index"
	log      *storage.Log
	defects  defect.Set
	logger   *slog.Logger
	now      func() time.Time
	inflate  storage.Decompress
	// lowered writes down that the log was cut, where a checkpoint says that
	// more of it is on disk.
	lowered func(*Partition) error
	// save writes the node's checkpoints down.
	save func() error
	// lag is replica.lag.time.max.ms; eligible says who may be in an ISR; joined
	// tells that somebody may.
	lag      time.Duration
	eligible eligible
	joined   func()

	// order is held over each append, truncation and change of role, so that
	// what an append was checked against still holds when it is written.
	order lock.Mutex
	// stops are those of the role in force, as the quorum told of them. Under order.
	stops []psm.Stop
	// session is the mirror session that may append, 0 for none; sessions
	// counts them. Under order.
	session, sessions uint64
	// forgotten is the defect of a broker that knows nothing of the stop after a
	// restart. Under order.
	forgotten bool
	// lost is the defect of a broker that has lost the first write after a stop.
	// Under order.
	lost bool
	// failing: the storage refused the last append. Under order.
	failing bool

	// mu guards what follows. It is never held over anything that waits.
	mu   sync.Mutex
	role role
	// progress is that of the followers, while this replica leads.
	progress progress
	pending  *proposal
	changed  chan struct{}
	// previewed is the last preview of a stop.
	previewed *previewed
	closed    bool
	// kept is the defect of a follower that has ignored a cut: up to where it has
	// seen the leader's log since, -1 for none.
	kept int64
	// refused is the defect of a broker that does not forget whom it kept out.
	refused map[int64]bool
}

// role is what the quorum says of a partition.
type role struct {
	leader, epoch  int32
	partitionEpoch int32
	replicas, isr  []int32
	minISR         int
	// readOnly: a mirror keeps others' writes out.
	readOnly bool
	// stopping: the quorum has the cut of a stop, and not its end.
	stopping bool
	// owed: a stop came before the log was aligned, and pays its markers.
	owed bool
	// cut is a truncation, of a stop or an alignment, that this leader's log has
	// yet to follow, or has followed: see uncut.
	cut *cutRecord
	// cuts are all truncations of mirroring that the log has to have followed.
	cuts []quorum.AlignRecord
	// retention is the topic's, nil for none.
	retention *storage.Retention
	// compaction is the topic's, nil for none.
	compaction *storage.Compaction
}

// cutRecord is where the quorum cut the log, and the leader epoch from then on.
type cutRecord struct {
	at    int64
	epoch int32
	// anew: nothing stays, and the log begins at at.
	anew bool
}

var _ API = (*Partition)(nil)

// Topic is the topic's name.
func (p *Partition) Topic() string { return p.topic }

// TopicID is the topic's id.
func (p *Partition) TopicID() [16]byte { return p.topicID }

// Index is the partition's number.
func (p *Partition) Index() int32 { return p.index }

// Name is "topic-index".
func (p *Partition) Name() string { return p.name }

func partitionName(topic string, index int32) string { return fmt.Sprintf("%s-%d", topic, index) }

// Leader is the leader that the quorum named and its epoch; -1 for none.
func (p *Partition) Leader() (node, epoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.role.leader, p.role.epoch
}

// CheckLeader implements [API].
func (p *Partition) CheckLeader(epoch int32) error {
	_, err := p.leading(epoch)
	return err
}

// ReadOnly reports whether a mirror keeps clients' writes out (RO-1).
func (p *Partition) ReadOnly() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keepsOut(p.role)
}

// leading returns the role if this replica leads, in epoch if that is >= 0.
func (p *Partition) leading(epoch int32) (role, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leadingLocked(epoch)
}

func (p *Partition) leadingLocked(epoch int32) (role, error) {
	r := p.role
	switch {
	case p.closed:
		return r, fmt.Errorf("%s is not served: %w", p.Name(), kerr.NotLeaderForPartition)
	case epoch >= 0 && epoch < r.epoch:
		return r, fmt.Errorf("%s: epoch %d, now %d: %w", p.Name(), epoch, r.epoch, kerr.FencedLeaderEpoch)
	case epoch > r.epoch:
		return r, fmt.Errorf("%s: epoch %d, here %d: %w", p.Name(), epoch, r.epoch, kerr.UnknownLeaderEpoch)
	case r.leader != p.node:
		return r, fmt.Errorf("%s: leader is %d, not %d: %w", p.Name(), r.leader, p.node, kerr.NotLeaderForPartition)
	}
	return r, nil
}

// Changed implements [API].
func (p *Partition) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
		if p.closed {
			close(p.changed)
		}
	}
	return p.changed
}

// notify wakes all who wait on Changed.
func (p *Partition) notify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil && !p.closed {
		close(p.changed)
		p.changed = nil
	}
}

// Offsets returns the marks of the log.
func (p *Partition) Offsets() Offsets {
	m := p.log.Marks()
	p.mu.Lock()
	defer p.mu.Unlock()
	return Offsets{
		LogStart: m.LogStart, LastStable: m.LastStable, HighWatermark: m.HighWatermark, LogEnd: m.LogEnd,
		LeaderEpoch: p.role.epoch, LogEpoch: m.Epoch, LeaderSince: p.progress.since,
	}
}

// waitFor waits until cond holds, looking again at each change.
func (p *Partition) waitFor(ctx context.Context, cond func() (bool, error)) error {
	for {
		changed := p.Changed()
		if ok, err := cond(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// EpochAt is the leader epoch of the record at offset, -1 when not known.
func (p *Partition) EpochAt(offset int64) int32 { return p.log.EpochAt(offset) }

// Producers lists the active producers in the order of their ids.
func (p *Partition) Producers() []psm.Producer { return p.log.Producers() }

// StartVerification implements [API].
func (p *Partition) StartVerification(producerID int64, epoch int16, baseSequence int32, v2 bool) (uint64, bool, error) {
	if _, err := p.leading(-1); err != nil {
		return 0, false, err
	}
	v := psm.Verification{
		ProducerID: producerID, ProducerEpoch: epoch, BaseSequence: baseSequence,
		TransactionVersion: 1, NowMs: p.now().UnixMilli(),
	}
	if v2 {
		v.TransactionVersion = 2
	}
	guard, ongoing, err := p.log.StartVerification(v)
	return uint64(guard), ongoing, err
}

// OffsetForTime implements [API].
func (p *Partition) OffsetForTime(ms int64) (offset, timestamp int64, epoch int32, err error) {
	f, err := p.log.OffsetForTime(ms, p.inflate)
	return f.Offset, f.Timestamp, f.Epoch, err
}

// MaxTimestamp implements [API].
func (p *Partition) MaxTimestamp() (offset, timestamp int64, epoch int32, err error) {
	f, err := p.log.MaxTimestamp(p.inflate)
	return f.Offset, f.Timestamp, f.Epoch, err
}

// EndOffsetForEpoch implements [API]. The leader epoch itself counts as one
// that began at the log's end if no batch has it yet: on a mirrored
// partition it is in no cache before.
func (p *Partition) EndOffsetForEpoch(epoch int32) (int32, int64) {
	_, leaderEpoch := p.Leader()
	return p.endOffsetForEpoch(epoch, leaderEpoch)
}

func (p *Partition) endOffsetForEpoch(epoch, leaderEpoch int32) (int32, int64) {
	m := p.log.Marks()
	switch {
	case epoch < 0 || epoch > leaderEpoch:
		return -1, -1
	case m.Epoch < 0:
		return epoch, m.LogEnd
	case epoch == leaderEpoch:
		return epoch, m.LogEnd
	case epoch > m.Epoch:
		return m.Epoch, m.LogEnd
	}
	return p.log.EndOffsetForEpoch(epoch)
}

// close ends the partition: who waits is woken, who comes is refused.
func (p *Partition) close(clean bool) error {
	p.order.Lock()
	defer p.order.Unlock()
	p.session = 0
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		if p.changed != nil {
			close(p.changed)
		}
	}
	p.mu.Unlock()
	return p.log.Close(clean)
}

// storageError gives errors of the log the Kafka code that they have.
func storageError(err error) error {
	var coded *kerr.Error
	var outside *storage.ErrOutOfRange
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case errors.As(err, &outside):
		return fmt.Errorf("%w: %w", kerr.OffsetOutOfRange, err)
	case errors.Is(err, storage.ErrClosed):
		return fmt.Errorf("%w: %w", kerr.NotLeaderForPartition, err)
	}
	return fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
}

// Failure is why the storage of this replica takes nothing until a restart, nil
// when it does.
func (p *Partition) Failure() error { return p.log.Failure() }

// MinISR is how many replicas must be in sync for acks=all.
func (p *Partition) MinISR() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.role.minISR
}
