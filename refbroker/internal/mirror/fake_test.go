package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// data makes a batch of n records from base on.
func data(base int64, n int, epoch int32, payload string) []byte {
	b := kmsg.RecordBatch{
		FirstOffset: base, PartitionLeaderEpoch: epoch, Magic: 2, LastOffsetDelta: int32(n - 1),
		ProducerID: 5, NumRecords: int32(n), Records: []byte(payload),
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	return b.AppendTo(nil)
}

// fakePartition is a leader's log without a disk. Its leader epoch is the
// quorum's.
type fakePartition struct {
	replica.API
	t      *testing.T
	quorum *quorum.Node

	mu       sync.Mutex
	changed  chan struct{}
	log      [][]byte
	lso      int64 // -1: the log end
	sessions uint64
	session  uint64
	late     int // appends of a session that had ended
	above    int // batches above the leader epoch, which must never be
	settle   chan struct{}
	commit   chan struct{}
	refuse   error // of AppendBarrier
	unpaid   error // of SettleDebts
	behind   bool  // the mirror's start has not reached the log yet
	start    int64 // of an empty log
	expected []replica.Barrier
	below    []replica.Barrier // barriers that were before start
	asked    func()            // by Offsets, when set
	looked   bool              // ReadOnly was asked
}

func newFakePartition(t *testing.T, q *quorum.Node) *fakePartition {
	return &fakePartition{t: t, quorum: q, changed: make(chan struct{}), lso: -1}
}

// restart loses what a process keeps in memory.
func (p *fakePartition) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = 0
}

// stable sets where the first open transaction begins.
func (p *fakePartition) stable(lso int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lso = lso
}

func header(raw []byte) psm.Batch {
	b, err := psm.DecodeHeader(raw)
	if err != nil {
		panic(err)
	}
	return b
}

func (p *fakePartition) Topic() string { return "t" }

func (p *fakePartition) TopicID() [16]byte { return topicID }

func (p *fakePartition) Index() int32 { return 0 }

func (p *fakePartition) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *fakePartition) Leader() (int32, int32) {
	_, q, err := p.quorum.Image().Partition("t", 0)
	if err != nil {
		return -1, -1
	}
	return q.Leader, q.LeaderEpoch
}

func (p *fakePartition) CheckLeader(int32) error { return nil }

func (p *fakePartition) ReadOnly() bool {
	_, q, err := p.quorum.Image().Partition("t", 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = true
	return err == nil && !q.Mirror.State.Writable() && !p.behind
}

func (p *fakePartition) endLocked() int64 {
	if len(p.log) == 0 {
		return p.start
	}
	return header(p.log[len(p.log)-1]).LastOffset + 1
}

func (p *fakePartition) Offsets() replica.Offsets {
	_, epoch := p.Leader()
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if asked != nil {
		asked()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := replica.Offsets{LogEnd: p.endLocked(), LeaderEpoch: epoch, LogEpoch: -1, LogStart: p.start}
	if len(p.log) > 0 {
		o.LogStart = header(p.log[0]).BaseOffset
	}
	o.HighWatermark, o.LastStable = o.LogEnd, o.LogEnd
	if p.lso >= 0 {
		o.LastStable = min(p.lso, o.LogEnd)
	}
	if n := len(p.log); n > 0 {
		o.LogEpoch = header(p.log[n-1]).LeaderEpoch
	}
	return o
}

func (p *fakePartition) EndOffsetForEpoch(epoch int32) (int32, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, end := int32(-1), int64(-1)
	for _, raw := range p.log {
		if b := header(raw); b.LeaderEpoch <= epoch {
			found, end = b.LeaderEpoch, b.LastOffset+1
		}
	}
	return found, end
}

func (p *fakePartition) BeginMirror() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions++
	p.session = p.sessions
	return p.session, nil
}

func (p *fakePartition) EndMirror() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = 0
}

func (p *fakePartition) AppendMirrored(session uint64, raw []byte) (replica.AppendResult, error) {
	_, epoch := p.Leader()
	p.mu.Lock()
	defer p.mu.Unlock()
	if session != p.session {
		p.late++
		return replica.AppendResult{}, replica.ErrSessionEnded
	}
	for len(raw) > 0 {
		b := header(raw)
		if b.BaseOffset != p.endLocked() {
			return replica.AppendResult{}, fmt.Errorf("batch at %d, log end %d", b.BaseOffset, p.endLocked())
		}
		if b.LeaderEpoch > epoch {
			p.above++
			return replica.AppendResult{}, fmt.Errorf("t-0: %w", &replica.EpochAboveError{Batch: b.LeaderEpoch, Leader: epoch})
		}
		p.log = append(p.log, slices.Clone(raw[:b.Size]))
		raw = raw[b.Size:]
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return replica.AppendResult{}, nil
}

func (p *fakePartition) Settle(ctx context.Context) (replica.Offsets, error) {
	if p.settle != nil {
		select {
		case <-p.settle:
		case <-ctx.Done():
			return replica.Offsets{}, context.Cause(ctx)
		}
	}
	return p.Offsets(), nil
}

func (p *fakePartition) Cut(offset int64, epoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.log) > 0 {
		p.start = header(p.log[0]).BaseOffset // it stays when everything goes
	}
	p.log = slices.DeleteFunc(p.log, func(raw []byte) bool {
		b := header(raw)
		return b.LastOffset >= offset && b.LeaderEpoch < epoch
	})
	return nil
}

func (p *fakePartition) FollowLogStart(uint64, int64) error { return nil }

func (p *fakePartition) CutAnew(start int64, _ int32, below []replica.Barrier) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.start, p.below = nil, start, below
	return nil
}

func (p *fakePartition) CountRecords(offset int64) (n int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, raw := range p.log {
		if b := header(raw); b.LastOffset >= offset && !b.IsControl() {
			n += int64(b.Count)
		}
	}
	return n, nil
}

func (p *fakePartition) CleanedUpTo() int64 { return 0 }

func (p *fakePartition) NoteForgotten(int64) error { return nil }

func (p *fakePartition) NoteBarriers(source []replica.Barrier) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = slices.Concat(p.expected, source)
	return nil
}

func (p *fakePartition) AppendBarrier(stop psm.Stop) (int64, error) {
	_, epoch := p.Leader()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return 0, p.refuse
	}
	for _, b := range p.barriersLocked() {
		if b.Offset == stop.BarrierOffset && b.LeaderEpoch >= stop.Epoch {
			return b.Offset, nil
		}
	}
	if p.endLocked() != stop.BarrierOffset {
		return 0, fmt.Errorf("barrier at %d, log end %d", stop.BarrierOffset, p.endLocked())
	}
	raw := psm.Barrier{SourceClusterID: stop.SourceClusterID}.Append(nil)
	psm.SetOffsets(raw, stop.BarrierOffset, epoch)
	p.log = append(p.log, raw)
	return stop.BarrierOffset, nil
}

func (p *fakePartition) WaitCommitted(ctx context.Context, _ int64) error {
	if p.commit != nil {
		select {
		case <-p.commit:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *fakePartition) Barriers() []replica.Barrier {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.barriersLocked()
}

func (p *fakePartition) barriersLocked() []replica.Barrier {
	all := slices.Clone(p.below)
	for _, raw := range p.log {
		if b, err := psm.DecodeBatch(raw); err == nil && b.IsBarrier() {
			e := replica.Barrier{Offset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.Control.SourceClusterID, Writer: ownID}
			for _, x := range p.expected {
				if sameBatch(x, e) {
					e.Writer = x.Writer
				}
			}
			all = append(all, e)
		}
	}
	return all
}

func (p *fakePartition) bytes() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// stoppingGate crashes the node, by ending its context, when a point is passed.
type stoppingGate struct {
	mu     sync.Mutex
	point  string
	crash  context.CancelCauseFunc
	passed []string
}

var errCrash = errors.New("crash")

func (g *stoppingGate) Pass(ctx context.Context, point, partition string) error {
	g.mu.Lock()
	g.passed = append(g.passed, point)
	crash := g.crash
	if point != g.point {
		crash = nil
	}
	g.mu.Unlock()
	if partition != "t-0" {
		return fmt.Errorf("partition %s", partition)
	}
	if crash != nil {
		crash(errCrash)
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

func (p *fakePartition) tooHigh() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.above
}
