package mirror

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
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
	refuse   error // of AppendBarrier
	unpaid   error // of SettleDebts
	behind   bool  // the mirror's start has not reached the log yet
	looked   bool  // ReadOnly was asked
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

func (p *fakePartition) Topic() string     { return "t" }
func (p *fakePartition) TopicID() [16]byte { return topicID }
func (p *fakePartition) Index() int32      { return 0 }

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
		return 0
	}
	return header(p.log[len(p.log)-1]).LastOffset + 1
}

func (p *fakePartition) Offsets() replica.Offsets {
	_, epoch := p.Leader()
	p.mu.Lock()
	defer p.mu.Unlock()
	o := replica.Offsets{LogEnd: p.endLocked(), LeaderEpoch: epoch, LogEpoch: -1}
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
	p.log = slices.DeleteFunc(p.log, func(raw []byte) bool {
		b := header(raw)
		return b.LastOffset >= offset && b.LeaderEpoch < epoch
	})
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

func (p *fakePartition) WaitCommitted(context.Context, int64) error { return nil }

func (p *fakePartition) Barriers() []replica.Barrier {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.barriersLocked()
}

func (p *fakePartition) barriersLocked() []replica.Barrier {
	var all []replica.Barrier
	for _, raw := range p.log {
		if b, err := psm.DecodeBatch(raw); err == nil && b.IsBarrier() {
			all = append(all, replica.Barrier{Offset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, SourceClusterID: b.Control.SourceClusterID})
		}
	}
	return all
}

func (p *fakePartition) bytes() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// fakeSource is a broker of the source cluster, on a real socket.
type fakeSource struct {
	t         *testing.T
	ln        net.Listener
	clusterID string
	wg        sync.WaitGroup

	mu    sync.Mutex
	epoch int32
	log   [][]byte
	conns map[net.Conn]bool
	// hold, when set, keeps fetch responses that hold records back; held is
	// told of each.
	hold chan struct{}
	held chan struct{}
}

func newFakeSource(t *testing.T, addr, clusterID string) *fakeSource {
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	s := &fakeSource{t: t, ln: ln, clusterID: clusterID, conns: map[net.Conn]bool{}, held: make(chan struct{}, 10)}
	s.wg.Go(s.accept)
	t.Cleanup(s.kill)
	return s
}

func (s *fakeSource) addr() string { return s.ln.Addr().String() }

// kill closes the listener and every connection, as a dead broker does.
func (s *fakeSource) kill() {
	_ = s.ln.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *fakeSource) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *fakeSource) put(epoch int32, batches ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = epoch
	s.log = append(s.log, batches...)
}

func (s *fakeSource) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			_ = c.Close()
		})
	}
}

func (s *fakeSource) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		raw := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(in, raw); err != nil {
			return
		}
		b := kbin.Reader{Src: raw}
		key, version, correlation := b.Int16(), b.Int16(), b.Int32()
		b.NullableString()
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if req.IsFlexible() {
			b.Uvarint()
		}
		if err := req.ReadFrom(b.Src); err != nil {
			s.t.Errorf("source: key %d: %v", key, err)
			return
		}
		resp := s.answer(req)
		resp.SetVersion(version)
		out := kbin.AppendInt32(make([]byte, 4), correlation)
		if resp.IsFlexible() && key != 18 {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if f, ok := resp.(*kmsg.FetchResponse); ok && len(f.Topics[0].Partitions[0].RecordBatches) > 0 {
			s.mu.Lock()
			hold := s.hold
			s.mu.Unlock()
			if hold != nil {
				s.held <- struct{}{}
				<-hold
			}
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (s *fakeSource) answer(req kmsg.Request) kmsg.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		for key, highest := range map[int16]int16{1: 13, 3: 12, 18: 3} {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: highest})
		}
		return resp
	case *kmsg.MetadataRequest:
		resp := kmsg.NewPtrMetadataResponse()
		resp.ClusterID = &s.clusterID
		host, port, _ := net.SplitHostPort(s.addr())
		broker := kmsg.MetadataResponseBroker{NodeID: 7, Host: host}
		_, _ = fmt.Sscan(port, &broker.Port)
		resp.Brokers = []kmsg.MetadataResponseBroker{broker}
		for _, asked := range r.Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.TopicID = asked.Topic, topicID
			if *asked.Topic != "t" {
				t.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Leader, p.LeaderEpoch = 7, s.epoch
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	case *kmsg.FetchRequest:
		return s.fetchLocked(r)
	}
	panic(fmt.Sprintf("source: %T", req))
}

func (s *fakeSource) fetchLocked(r *kmsg.FetchRequest) kmsg.Response {
	resp := kmsg.NewPtrFetchResponse()
	asked := r.Topics[0].Partitions[0]
	p := kmsg.NewFetchResponseTopicPartition()
	if r.ReplicaID != -1 || r.IsolationLevel != 0 {
		s.t.Error("a mirror must fetch as a consumer that reads uncommitted")
	}
	end := int64(0)
	fetched := int32(-1)
	for _, raw := range s.log {
		b := header(raw)
		if b.BaseOffset >= asked.FetchOffset {
			p.RecordBatches = append(p.RecordBatches, raw...)
		}
		if b.LeaderEpoch <= asked.LastFetchedEpoch {
			fetched, end = b.LeaderEpoch, b.LastOffset+1
		}
		p.HighWatermark = b.LastOffset + 1
	}
	switch {
	case asked.CurrentLeaderEpoch != s.epoch:
		p.ErrorCode, p.RecordBatches = kerr.FencedLeaderEpoch.Code, nil
		if asked.CurrentLeaderEpoch > s.epoch {
			p.ErrorCode = kerr.UnknownLeaderEpoch.Code
		}
	case asked.LastFetchedEpoch >= 0 && (fetched < asked.LastFetchedEpoch || end < asked.FetchOffset):
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset, p.RecordBatches = fetched, end, nil
	}
	if len(p.RecordBatches) == 0 && p.ErrorCode == 0 && p.DivergingEpoch.EndOffset < 0 {
		time.Sleep(time.Duration(min(r.MaxWaitMillis, 5)) * time.Millisecond) // an impatient long poll
	}
	topic := kmsg.NewFetchResponseTopic()
	topic.TopicID = r.Topics[0].TopicID
	topic.Partitions = []kmsg.FetchResponseTopicPartition{p}
	resp.Topics = []kmsg.FetchResponseTopic{topic}
	return resp
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
