package broker

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// link is the way from one node to another, which can be cut.
type link struct {
	listener net.Listener
	to       string
	work     sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newLink(t *testing.T, to string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &link{listener: l, to: to, conns: map[net.Conn]bool{}}
	k.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.work.Go(func() { k.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		k.set(true)
		k.work.Wait()
	})
	return k
}

func (k *link) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	if !k.track(near) {
		return
	}
	far, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !k.track(far) {
		return
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
		_ = near.Close()
		close(done)
	}()
	_, _ = io.Copy(near, far)
	_ = near.Close()
	_ = far.Close()
	<-done
}

func (k *link) track(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[c] = true
	return !k.cut
}

// set cuts the link or heals it.
func (k *link) set(cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = cut
	if cut {
		for c := range k.conns {
			_ = c.Close()
		}
		clear(k.conns)
	}
}

// linked is a cluster whose nodes reach each other over links of their own, for
// each direction.
type linked struct {
	*testCluster
	quorum, data map[[2]int32]*link
}

func startLinked(t *testing.T, change ...func(*Config)) *linked {
	l := &linked{quorum: map[[2]int32]*link{}, data: map[[2]int32]*link{}}
	addrs, voters := map[int32]string{}, map[int32]string{}
	for id := range int32(3) {
		addrs[id], voters[id] = freeAddress(t), freeAddress(t)
	}
	l.testCluster = startCluster(t, 3, append(change, func(cfg *Config) {
		from := cfg.NodeID
		cfg.RaftListen = voters[from]
		cfg.Listeners = append(cfg.Listeners, Listener{Name: "replication", Listen: addrs[from]})
		cfg.Voters, cfg.Peers = map[int32]string{from: voters[from]}, map[int32]string{}
		for to := range int32(3) {
			if to == from {
				continue
			}
			way := [2]int32{from, to}
			l.quorum[way], l.data[way] = newLink(t, voters[to]), newLink(t, addrs[to])
			cfg.Voters[to], cfg.Peers[to] = l.quorum[way].listener.Addr().String(), l.data[way].listener.Addr().String()
		}
	})...)
	return l
}

// part cuts or heals all ways between two nodes: those of data, or of the
// quorum too.
func (l *linked) part(a, b int32, quorumToo, cut bool) {
	for _, way := range [][2]int32{{a, b}, {b, a}} {
		l.data[way].set(cut)
		if quorumToo {
			l.quorum[way].set(cut)
		}
	}
}

// A follower that can't reach its leader leaves the ISR after the lag time,
// though its heartbeats arrive; writes go on without it until there are too few
// (min.insync.replicas); healed, it catches up and joins again.
func TestAFollowerThatLagsLeavesTheISR(t *testing.T) {
	t.Parallel()
	l := startLinked(t, func(cfg *Config) { cfg.ReplicaLag = 700 * time.Millisecond })
	l.topic("t", 1, map[string]*string{"min.insync.replicas": ptr("2")})
	leader := l.leader("t", 0)
	one, two := (leader+1)%3, (leader+2)%3
	cl := l.client(kgo.DefaultProduceTopic("t"))
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("by three")).FirstErr())

	l.part(leader, one, false, true)
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("by two")).FirstErr())
	require.ElementsMatch(t, []int32{leader, two}, l.partition("t", 0).ISR)
	require.Equal(t, leader, l.partition("t", 0).Leader)

	l.part(leader, two, false, true)
	require.Zero(t, l.produceOnce(leader, 1), "acks=1 doesn't ask for replicas")
	l.eventually("the leader alone in the ISR, as itself knows", func() bool {
		_, p, err := l.nodes[leader].Env().Quorum.Image().Partition("t", 0)
		return err == nil && len(p.ISR) == 1
	})
	resp := l.produceOnce(leader, -1)
	require.Equal(t, kerr.NotEnoughReplicas.Code, resp, "refused before it is appended")

	l.part(leader, one, false, false)
	l.part(leader, two, false, false)
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("by all again")).FirstErr())
	l.sameBytes("t", 0)
	require.Equal(t, []string{"by three", "by two", "raw", "by all again"}, l.values("t", 0, kgo.ReadUncommitted()))
}

// An append that is made and then not replicated to enough is told so.
func TestTooFewReplicasAfterTheAppend(t *testing.T) {
	t.Parallel()
	l := startLinked(t, func(cfg *Config) { cfg.ReplicaLag = 700 * time.Millisecond })
	l.topic("t", 1, map[string]*string{"min.insync.replicas": ptr("2")})
	leader := l.leader("t", 0)
	l.inSyncISR("t", 0)
	l.part(leader, (leader+1)%3, false, true)
	l.part(leader, (leader+2)%3, false, true)
	require.Equal(t, kerr.NotEnoughReplicasAfterAppend.Code, l.produceOnce(leader, -1))
}

// produceOnce sends a node one batch, without a retry, and returns the answer's
// code.
func (c *testCluster) produceOnce(id int32, acks int16) int16 {
	c.t.Helper()
	req := produceOf(acks, "t", 0, batchOf("raw"))
	req.TimeoutMillis = 15_000
	return serveOne[*kmsg.ProduceResponse](c.nodes[id], 11, req).Topics[0].Partitions[0].ErrorCode
}

// A leader that is cut off from everybody but its clients goes on believing that
// it leads: it acknowledges nothing that its replicas lack, and gives up, once it
// is back, what it took meanwhile.
func TestALeaderThatIsCutOffIsFenced(t *testing.T) {
	t.Parallel()
	l := startLinked(t)
	l.topic("t", 1, nil)
	old := l.leader("t", 0)
	cl := l.client(kgo.DefaultProduceTopic("t"), kgo.ProduceRequestTimeout(500*time.Millisecond))
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("before")).FirstErr())
	l.inSync("t", 0)
	l.part(old, (old+1)%3, true, true)
	l.part(old, (old+2)%3, true, true)

	// Straight at the old leader: acks=1 is taken, acks=all is not acknowledged.
	stale := l.nodes[old]
	p, err := stale.Env().Replicas.Partition("t", 0)
	require.NoError(t, err)
	require.Zero(t, l.produceOnce(old, 1))
	require.EqualValues(t, 2, p.Offsets().LogEnd)
	require.EqualValues(t, 1, p.Offsets().HighWatermark)
	acked := make(chan int16, 1)
	go func() { acked <- l.produceOnce(old, -1) }()

	l.eventually("another leader", func() bool {
		_, q, err := l.nodes[(old+1)%3].Env().Quorum.Image().Partition("t", 0)
		return err == nil && q.Leader != old && q.Leader >= 0
	})
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("after")).FirstErr())
	require.NoError(t, p.CheckLeader(-1), "it has not heard of it")
	require.EqualValues(t, 1, p.Offsets().HighWatermark)

	l.part(old, (old+1)%3, true, false)
	l.part(old, (old+2)%3, true, false)
	require.NotZero(t, <-acked)
	l.sameBytes("t", 0)
	require.Equal(t, []string{"before", "after"}, l.values("t", 0, kgo.ReadUncommitted()))
}

// A node that stops cleanly hands its leaderships over at once; it catches up
// and, asked for, leads again where it is preferred.
func TestACleanStopHandsOver(t *testing.T) {
	t.Parallel()
	const session = 18 * time.Second // elections take up to two thirds of it
	c := startCluster(t, 3, func(cfg *Config) { cfg.SessionTimeout = session })
	c.topic("t", 3, nil)
	for p := range int32(3) {
		c.inSyncISR("t", p)
	}
	leader := c.leader("t", 0)
	n := c.nodes[leader]
	begun := time.Now()
	require.NoError(t, n.Close())
	n.Node = nil
	next := c.leader("t", 0, leader)
	require.Less(t, time.Since(begun), session, "nobody waited for the session timeout")

	cl := c.client(kgo.DefaultProduceTopic("t"))
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr())
	meta, err := kadm.NewClient(cl).Metadata(t.Context(), "t")
	require.NoError(t, err)
	seen := meta.Topics["t"].Partitions[0]
	require.Equal(t, next, seen.Leader)
	require.Equal(t, []int32{leader}, seen.OfflineReplicas)
	require.NotContains(t, seen.ISR, leader)
	require.NotContains(t, meta.Brokers.NodeIDs(), leader)

	c.startAll()
	c.inSync("t", 0)
	require.Equal(t, next, c.partition("t", 0).Leader)
	elected, err := kadm.NewClient(cl).ElectLeaders(t.Context(), kadm.ElectPreferredReplica, kadm.TopicsSet{"t": {0: {}}})
	require.NoError(t, err)
	require.NoError(t, elected["t"][0].Err)
	require.Equal(t, leader, c.leader("t", 0, next))
	c.sameBytes("t", 0)
}
