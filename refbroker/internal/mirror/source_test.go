package mirror

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
)

// fakeSource is a broker of the source cluster, on a real socket.
type fakeSource struct {
	t         *testing.T
	ln        net.Listener
	clusterID string
	wg        sync.WaitGroup
	// plain is a source that knows no barrier lists. Set before it is used.
	plain bool
	// history and upstream are what it tells of its log. Under mu.
	history, upstream []string

	mu    sync.Mutex
	epoch int32
	log   [][]byte
	// below are the barriers that retention took from the log.
	below []mirrorrpc.Barrier
	conns map[net.Conn]bool
	dead  bool // killed: what is accepted late is closed
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
	s.release()
	s.mu.Lock()
	s.dead = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// release lets go of the responses that are held, and of those to come.
func (s *fakeSource) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil {
		close(s.hold)
		s.hold = nil
	}
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
		if s.dead {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
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
		req := mirrorrpc.RequestForKey(key)
		if req == nil {
			req = kmsg.RequestForKey(key)
		}
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
		if !s.plain {
			resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: mirrorrpc.Feature, MinVersionLevel: 1, MaxVersionLevel: 1}}
		}
		for key, highest := range map[int16]int16{1: 13, 3: 12, 18: 3, 23: 4, 99: 0} {
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
	case *kmsg.OffsetForLeaderEpochRequest:
		return s.epochEndLocked(r)
	case *mirrorrpc.DescribeClusterMirrorsRequest:
		return s.lineageLocked(r)
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
	start := p.HighWatermark
	if len(s.log) > 0 {
		start = header(s.log[0]).BaseOffset
	}
	p.LogStartOffset = start
	switch {
	case asked.CurrentLeaderEpoch != s.epoch:
		p.ErrorCode, p.RecordBatches = kerr.FencedLeaderEpoch.Code, nil
		if asked.CurrentLeaderEpoch > s.epoch {
			p.ErrorCode = kerr.UnknownLeaderEpoch.Code
		}
	case asked.LastFetchedEpoch >= 0 && (fetched < asked.LastFetchedEpoch || end < asked.FetchOffset):
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset, p.RecordBatches = fetched, end, nil
	case asked.FetchOffset < start || asked.FetchOffset > p.HighWatermark:
		p.ErrorCode, p.RecordBatches = kerr.OffsetOutOfRange.Code, nil
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

func (s *fakeSource) epochEndLocked(r *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	asked := r.Topics[0].Partitions[0]
	p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	p.Partition, p.LeaderEpoch, p.EndOffset = asked.Partition, -1, -1
	for _, raw := range s.log {
		if b := header(raw); b.LeaderEpoch <= asked.LeaderEpoch {
			p.LeaderEpoch, p.EndOffset = b.LeaderEpoch, b.LastOffset+1
		}
	}
	t := kmsg.NewOffsetForLeaderEpochResponseTopic()
	t.Topic, t.Partitions = r.Topics[0].Topic, append(t.Partitions, p)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	resp.Topics = append(resp.Topics, t)
	return resp
}

func (s *fakeSource) lineageLocked(r *mirrorrpc.DescribeClusterMirrorsRequest) kmsg.Response {
	if r.ClusterID == nil || *r.ClusterID != ownID {
		s.t.Error("a lookup names the cluster that asks")
	}
	p := mirrorrpc.NewEpochResult()
	p.LeaderEpoch, p.LogStartOffset = s.epoch, 0
	p.LogName, p.History, p.UpstreamClusterIDs = s.clusterID+"/1", s.history, s.upstream
	if len(s.log) > 0 {
		p.LogStartOffset = header(s.log[0]).BaseOffset
	}
	p.Barriers = append(p.Barriers, s.below...)
	for _, raw := range s.log {
		if b, err := psm.DecodeBatch(raw); err == nil && b.IsBarrier() {
			p.Barriers = append(p.Barriers, mirrorrpc.Barrier{
				Offset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC,
				SourceClusterID: b.Control.SourceClusterID, WriterClusterID: s.clusterID,
			})
		}
	}
	resp := &mirrorrpc.DescribeClusterMirrorsResponse{}
	resp.LookupResults = []mirrorrpc.LookupResult{{TopicID: r.LastMirrorEpochLookups[0].TopicID, Partitions: []mirrorrpc.EpochResult{p}}}
	return resp
}
