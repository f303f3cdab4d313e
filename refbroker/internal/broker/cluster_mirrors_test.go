package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/txn"
)

// holdingGate holds the first node that comes to a point until it is killed.
type holdingGate struct {
	point   string
	node    int32
	taken   *atomic.Bool // shared by all nodes
	arrived chan int32   // holds one
}

func (g *holdingGate) Pass(ctx context.Context, point, _ string) error {
	if point != g.point || !g.taken.CompareAndSwap(false, true) {
		return nil
	}
	g.arrived <- g.node
	<-ctx.Done()
	return context.Cause(ctx)
}

// A mirror of three destination nodes is stopped, and its leader is killed at
// each step: a successor goes on where it stood. Each replica ends up with the
// source's bytes below L, one barrier and the local records behind it, and with
// the same producers (LOG-4, BAR-1, BAR-5, PSM-2, OPS-1).
func TestAStopSurvivesItsLeader(t *testing.T) {
	points := []string{""}
	for _, step := range mirror.Steps() {
		points = append(points, "before:"+step)
	}
	points = append(points, mirror.PointRecorded, "after:"+mirror.StepTruncated, "after:"+mirror.StepBarrierAppended, "after:"+mirror.StepStopped)
	for _, point := range points {
		t.Run("killed "+point, func(t *testing.T) {
			t.Parallel() // they mostly wait
			a, lso := sourceWithTraffic(t)
			arrived, taken := make(chan int32, 1), &atomic.Bool{}
			c := startCluster(t, 3, func(cfg *Config) {
				cfg.SessionTimeout = 700 * time.Millisecond
				cfg.Gate = &holdingGate{point: point, node: cfg.NodeID, arrived: arrived, taken: taken}
			})
			c.mirror(a)
			c.inSync("t", 0)
			below := belowOffset(t, a.batches(), lso)
			require.NoError(t, a.Close(), "no step needs the source")

			c.leader("t", 0)
			m := c.mirrors()
			require.NoError(t, m.Stop(t.Context(), "m", "t"))
			if point != "" {
				select {
				case old := <-arrived: // the leader of that moment: a busy node may have lost its session
					c.kill(old)
					c.leader("t", 0, old)
				case <-time.After(20 * time.Second):
					t.Fatal("the leader did not come to the point")
				}
			}
			// Whichever node is asked, it is its leader's word.
			awaitMirror(t, m, "STOPPED")

			// The first local record: every replica that is in sync then has the
			// barrier, so another leader's death loses neither.
			cl := c.client(kgo.DefaultProduceTopic("t"))
			require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("local 1")).FirstErr())
			for _, id := range c.partition("t", 0).ISR {
				p, err := c.nodes[id].Env().Replicas.Partition("t", 0)
				require.NoError(t, err)
				require.Len(t, p.Barriers(), 1, "node %d", id)
				require.Equal(t, lso, p.Barriers()[0].Offset)
				require.True(t, p.Barriers()[0].Own)
			}
			c.startAll()
			c.inSyncISR("t", 0)
			second := c.leader("t", 0)
			c.kill(second)
			c.leader("t", 0, second)
			require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("local 2")).FirstErr())
			transact(t, c.client(kgo.DefaultProduceTopic("t"), kgo.TransactionalID("b-txn")), true, "local 3")
			c.startAll()

			c.sameBytes("t", 0)
			c.requireStopped(below, lso)
			require.Equal(t, []string{"a1", "a2", "plain", "committed 1", "committed 2", "local 1", "local 2", "local 3"}, c.values("t", 0, kgo.ReadCommitted()))
		})
	}
}

func (c *testCluster) mirrors() mirrorrpc.Client {
	return mirrorrpc.Client{R: c.client(kgo.MaxVersions(nil))}
}

// mirror starts to mirror topic t and waits until all is here.
func (c *testCluster) mirror(a *mirrorNode) {
	c.t.Helper()
	m := c.mirrors()
	c.insist("the mirror is made", func() error {
		return m.Create(c.t.Context(), "m", map[string]string{mirrorrpc.ConfigBootstrap: a.addr()})
	}, mirrorrpc.ErrMirrorAlreadyExists)
	c.insist("the mirror is started", func() error { return m.Start(c.t.Context(), "m", "t") })
	want := a.part().Offsets().LogEnd
	c.eventually("all of the source's records", func() bool { _, end := c.end("t", 0); return end >= want })
}

// requireStopped checks each replica's log and producers: the source's bytes
// below L, one own barrier there, and only local producers.
func (c *testCluster) requireStopped(below [][]byte, lso int64) {
	c.t.Helper()
	var producers []psm.Producer
	for i, n := range c.nodes {
		raw := rawLog(c.t, n.cfg.DataDir, "t", 0)
		at := 0
		for _, b := range below {
			require.Equal(c.t, b, raw[at:at+len(b)], "node %d", i)
			at += len(b)
		}
		barriers := 0
		for first := true; at < len(raw); first = false {
			b, err := psm.DecodeBatch(raw[at:])
			require.NoError(c.t, err)
			if b.IsBarrier() {
				barriers++
				require.True(c.t, first, "the barrier is the first batch at L")
				require.Equal(c.t, lso, b.BaseOffset)
			}
			at += b.Size
		}
		require.Equal(c.t, 1, barriers, "node %d", i)
		p, err := n.Env().Replicas.Partition("t", 0)
		require.NoError(c.t, err)
		known := p.Producers()
		if i == 0 {
			producers = known
			require.Len(c.t, known, 2, "the two local producers, and none of the source's")
			continue
		}
		require.Equal(c.t, fmt.Sprint(producers), fmt.Sprint(known), "node %d", i)
	}
}

// A transaction of this cluster is open when a mirror starts over its partition,
// and is ended meanwhile: the marker is owed. The mirror is stopped before its
// source, which is dead, was ever asked; the markers are paid first, though their
// coordinators are on other nodes than the partition's leader (RO-2).
func TestOwedMarkersOfOtherNodesArePaid(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.topic("t", 1, nil)
	var producers []*kgo.Client
	for i := range 6 { // over several shards of the coordinator, on all nodes
		cl := c.client(kgo.DefaultProduceTopic("t"), kgo.TransactionalID(fmt.Sprint("txn ", i)))
		require.NoError(t, cl.BeginTransaction())
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint("of ", i))).FirstErr())
		producers = append(producers, cl)
	}
	leader := c.leader("t", 0)
	shards := map[int32]bool{}
	for i := range c.up()[0].Env().Quorum.Image().Topics[txn.TopicName].Partitions {
		shards[c.partition(txn.TopicName, int32(i)).Leader] = true
	}
	require.Len(t, shards, 3, "all nodes coordinate")
	m := c.mirrors()
	require.NoError(t, m.Create(t.Context(), "m", map[string]string{
		mirrorrpc.ConfigBootstrap: freeAddress(t), mirrorrpc.ConfigSourceClusterID: "AAAAAAAAAAAAAAAAAAAAAA",
	}))
	_, err := c.up()[0].Env().Quorum.Apply(t.Context(), quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring})
	require.NoError(t, err)
	c.eventually("the leader keeps others out", func() bool {
		p, err := c.nodes[leader].Env().Replicas.Partition("t", 0)
		return err == nil && p.ReadOnly()
	})
	_, before := c.end("t", 0)
	for i, cl := range producers {
		require.NoError(t, cl.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)))
	}
	_, end := c.end("t", 0)
	require.Equal(t, before, end, "no marker while the partition mirrors")

	require.NoError(t, m.Stop(t.Context(), "m", "t"))
	awaitMirror(t, m, "STOPPED")
	p, err := c.nodes[leader].Env().Replicas.Partition("t", 0)
	require.NoError(t, err)
	o := p.Offsets()
	require.Equal(t, before+6, o.LogEnd, "one marker for each")
	require.Equal(t, o.LogEnd, o.LastStable, "nothing is open once it is writable")
	c.sameBytes("t", 0)
	require.Equal(t, []string{"of 0", "of 2", "of 4"}, c.values("t", 0, kgo.ReadCommitted()))
}
