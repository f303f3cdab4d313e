package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/fixtures/memnet"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/peer"
	"watershed.example/refbroker/internal/quorum"
)

// sea is a network in memory whose hosts can be cut off from everybody
// (connections end, and are refused), or frozen (connections stay, and carry
// nothing until the thaw: what others see of a process that is stopped).
type sea struct {
	*memnet.Network

	mu     sync.Mutex // never held while waiting
	cut    map[string]bool
	frozen map[string]chan struct{} // closed by the thaw
	conns  map[*crossing]bool
	work   sync.WaitGroup
	said   slog.Handler // writes to text, one line at a time
	text   bytes.Buffer
}

// crossing is one connection: its two ends, and between which hosts.
type crossing struct {
	near, far net.Conn
	from, to  string
	ended     chan struct{}
	once      sync.Once
}

func (c *crossing) end() {
	c.once.Do(func() {
		close(c.ended)
		_ = c.near.Close()
		_ = c.far.Close()
	})
}

func newSea() *sea {
	return &sea{Network: memnet.New(), cut: map[string]bool{}, frozen: map[string]chan struct{}{}, conns: map[*crossing]bool{}}
}

// from is how a host dials.
func (s *sea) from(host string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		refused := s.cut[host] || s.cut[to]
		s.mu.Unlock()
		if refused {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		far, err := s.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		near, middle := memnet.Pipe()
		c := &crossing{near: middle, far: far, from: host, to: to, ended: make(chan struct{})}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.work.Go(func() { s.carry(c, c.near, c.far) })
		s.work.Go(func() { s.carry(c, c.far, c.near) })
		return near, nil
	}
}

// carry moves bytes one way, and none while one of the hosts is frozen.
func (s *sea) carry(c *crossing, from, to net.Conn) {
	defer func() {
		c.end()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for _, h := range []string{c.from, c.to} {
			s.mu.Lock()
			thaw := s.frozen[h]
			s.mu.Unlock()
			if thaw == nil {
				continue
			}
			select {
			case <-thaw:
			case <-c.ended:
				return
			}
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// sever cuts a host off, or brings it back.
func (s *sea) sever(host string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[host] = cut
	for c := range s.conns {
		if cut && (c.from == host || c.to == host) {
			c.end()
		}
	}
}

// freeze stops a host's traffic, or lets it go on.
func (s *sea) freeze(host string, frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if thaw := s.frozen[host]; thaw != nil {
		close(thaw)
		delete(s.frozen, host)
	}
	if frozen {
		s.frozen[host] = make(chan struct{})
	}
}

// log is kept in memory, and shown when the test fails.
func (s *sea) log(t *testing.T) *slog.Logger {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said == nil {
		s.said = slog.NewTextHandler(&s.text, nil)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(s.text.String())
			}
		})
	}
	return slog.New(s.said)
}

// config is the configuration of a node at a host of its own. Its disk and its
// quorum's log outlive its runs.
func (s *sea) config(t *testing.T, at, cluster string, id int32) Config {
	store := raft.NewInmemStore()
	h := host.Host{
		Dial: s.from(at), Listen: s.Listen, FS: afero.NewMemMapFs(), Now: time.Now,
		RaftStores: func(string) (host.RaftStores, error) {
			return host.RaftStores{Log: store, Stable: store, Close: io.NopCloser(nil)}, nil
		},
	}
	return Config{
		Host: h, Log: s.log(t).With("at", at), DataDir: "/data", NodeID: id, ClusterID: cluster,
		Listeners: []Listener{{Name: "client", Listen: at + ":9092"}}, RaftListen: at + ":9191",
	}
}

// asker is a client of one address, which sends each request over a connection
// of its own, in the version that it has.
type asker struct {
	sea     *sea
	address string
}

// ask sends a request in a version.
func ask[R kmsg.Response](ctx context.Context, s *sea, address string, version int16, req kmsg.Request) (R, error) {
	var none R
	req.SetVersion(version)
	resp, err := asker{s, address}.Request(ctx, req)
	if err != nil {
		return none, err
	}
	r, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("response %T", resp)
	}
	return r, nil
}

func (a asker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	c, err := a.sea.from("client")(ctx, "tcp", a.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 7)); err != nil {
		return nil, err
	}
	raw, _, err := peer.ReadResponse(c, 7)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	return resp, peer.Decode(resp, raw, req.GetVersion())
}

// rawProducer is an idempotent or transactional producer of one batch at a time.
type rawProducer struct {
	sea   *sea
	id    int64
	epoch int16
	txn   string
	next  map[topicPartition]int32
}

type topicPartition struct {
	topic string
	index int32
}

func (p topicPartition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.index) }

func newRawProducer(ctx context.Context, s *sea, address, txn string) (*rawProducer, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	if txn != "" {
		req.TransactionalID, req.TransactionTimeoutMillis = &txn, 600_000
	}
	for {
		resp, err := ask[*kmsg.InitProducerIDResponse](ctx, s, address, 4, req)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return &rawProducer{sea: s, id: resp.ProducerID, epoch: resp.ProducerEpoch, txn: txn, next: map[topicPartition]int32{}}, nil
		}
		if sleep(ctx, 20*time.Millisecond) != nil {
			return nil, fmt.Errorf("producer id: %w", err)
		}
	}
}

// try sends the next batch once and returns its offset. After an error the same
// batch is the next one still.
func (p *rawProducer) try(ctx context.Context, address string, to topicPartition, value string) (int64, error) {
	raw := batchOf(value, func(b *kmsg.RecordBatch) {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = p.id, p.epoch, p.next[to]
		b.FirstTimestamp = time.Now().UnixMilli() // a producer of long ago would be expired
		b.MaxTimestamp = b.FirstTimestamp
		if p.txn != "" {
			b.Attributes |= 1 << 4
		}
	})
	req := produceOf(-1, to.topic, to.index, raw)
	req.TimeoutMillis = 3000
	if p.txn != "" {
		req.TransactionID = &p.txn
	}
	resp, err := ask[*kmsg.ProduceResponse](ctx, p.sea, address, 12, req)
	if err != nil {
		return -1, err
	}
	r := resp.Topics[0].Partitions[0]
	if r.ErrorCode != 0 {
		message := ""
		if r.ErrorMessage != nil {
			message = *r.ErrorMessage
		}
		return -1, fmt.Errorf("code %d %s: %w", r.ErrorCode, message, kerr.ErrorForCode(r.ErrorCode))
	}
	p.next[to]++
	return r.BaseOffset, nil
}

func (p *rawProducer) end(ctx context.Context, address string, commit bool) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.txn, p.id, p.epoch, commit
	for {
		resp, err := ask[*kmsg.EndTxnResponse](ctx, p.sea, address, 5, req)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil { // transactions version 2: a new epoch for the next
			p.id, p.epoch, p.next = resp.ProducerID, resp.ProducerEpoch, map[topicPartition]int32{}
			return nil
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) && !errors.Is(err, kerr.CoordinatorNotAvailable) {
			return err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bubbleCluster is three nodes of one cluster in a bubble.
type bubbleCluster struct {
	t     *testing.T
	sea   *sea
	confs []Config

	mu    sync.Mutex // never held while waiting
	nodes []*Node    // nil while one is down
}

func hostOf(id int32) string { return fmt.Sprintf("127.0.2.%d", id+1) }

func (c *bubbleCluster) address(id int32) string { return c.confs[id].Listeners[0].Listen }

func newBubbleCluster(t *testing.T, s *sea, change func(*Config)) *bubbleCluster {
	c := &bubbleCluster{t: t, sea: s, nodes: make([]*Node, 3)}
	voters := map[int32]string{}
	for id := range int32(3) {
		voters[id] = hostOf(id) + ":9191"
	}
	for id := range int32(3) {
		conf := s.config(t, hostOf(id), "BBBBBBBBBBBBBBBBBBBBBA", id)
		conf.Voters = voters
		change(&conf)
		c.confs = append(c.confs, conf)
	}
	c.startAll()
	return c
}

func (c *bubbleCluster) node(id int32) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

// startAll starts the nodes that are down.
func (c *bubbleCluster) startAll() {
	c.t.Helper()
	c.start(0, 1, 2)
}

func (c *bubbleCluster) start(ids ...int32) {
	c.t.Helper()
	var starting sync.WaitGroup
	for _, id := range ids {
		if c.node(id) != nil {
			continue
		}
		conf := c.confs[id]
		starting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			n, err := Start(ctx, conf)
			if err != nil {
				c.t.Errorf("start of node %d: %v", id, err)
				return
			}
			c.mu.Lock()
			c.nodes[id] = n
			c.mu.Unlock()
		})
	}
	starting.Wait()
	require.False(c.t, c.t.Failed(), "every node starts")
}

func (c *bubbleCluster) kill(id int32) {
	c.mu.Lock()
	n := c.nodes[id]
	c.nodes[id] = nil
	c.mu.Unlock()
	require.NoError(c.t, n.Kill())
}

func (c *bubbleCluster) closeAll() {
	for id := range c.confs {
		if n := c.node(int32(id)); n != nil {
			_ = n.Kill()
		}
	}
}

// image is the newest metadata that a running node has.
func (c *bubbleCluster) image() *quorum.Image {
	var newest *quorum.Image
	for id := range c.confs {
		if n := c.node(int32(id)); n != nil {
			if img := n.Env().Quorum.Image(); newest == nil || img.Index > newest.Index {
				newest = img
			}
		}
	}
	return newest
}

func (c *bubbleCluster) partition(p topicPartition) *quorum.Partition {
	if _, q, err := c.image().Partition(p.topic, p.index); err == nil {
		return q
	}
	return &quorum.Partition{Leader: -1}
}

// controller is who leads the quorum, as most nodes say; -1 for nobody.
func (c *bubbleCluster) controller() int32 {
	votes := map[int32]int{}
	for id := range c.confs {
		if n := c.node(int32(id)); n != nil {
			votes[n.Env().Quorum.Leader()]++
		}
	}
	for id, n := range votes {
		if id >= 0 && n >= 2 {
			return id
		}
	}
	return -1
}

// until waits for a condition, for two virtual minutes.
func (c *bubbleCluster) until(what string, ok func() bool) {
	c.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		require.Less(c.t, time.Since(began), 2*time.Minute, "no end of waiting for: %s", what)
	}
}

// settled says whether all replicas of a partition are in sync and hold the same
// offsets, all committed.
func (c *bubbleCluster) settled(p topicPartition) bool {
	q := c.partition(p)
	if q.Leader < 0 || len(q.ISR) < len(q.Replicas) {
		return false
	}
	var ends []int64
	for id := range c.confs {
		n := c.node(int32(id))
		if n == nil {
			return false
		}
		part, err := n.Env().Replicas.Partition(p.topic, p.index)
		if err != nil {
			return false
		}
		o := part.Offsets()
		ends = append(ends, o.HighWatermark, o.LogEnd)
	}
	return len(slices.Compact(ends)) == 1
}
