package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Whoever leads is killed, again and again, while a producer writes with
// acks=all: each acknowledged record is there, once, in its order, and all
// replicas hold the same bytes (SC-1, SC-7, LOG-4).
func TestKillTheLeaderAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.topic("t", 1, map[string]*string{"min.insync.replicas": ptr("2")})
	cl := c.client(kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0), kgo.MaxProduceRequestsInflightPerBroker(1))
	ctx, stop := context.WithCancel(t.Context())
	acked := make(chan []string, 1)
	go func() {
		var all []string
		for i := 0; ctx.Err() == nil; i++ {
			v := fmt.Sprint("value ", i)
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
				t.Errorf("%s: %v", v, err)
				break
			}
			all = append(all, v)
		}
		acked <- all
	}()
	for range 4 {
		c.inSyncISR("t", 0)
		leader := c.leader("t", 0)
		_, end := c.end("t", 0)
		c.kill(leader)
		died := time.Now()
		next := c.leader("t", 0, leader)
		t.Logf("leader moved from %d to %d after %s", leader, next, time.Since(died))
		require.Less(t, time.Since(died), 10*time.Second)
		c.eventually("writes at the new leader", func() bool { _, now := c.end("t", 0); return now > end+20 })
		c.startAll()
	}
	stop()
	want := <-acked
	require.NotEmpty(t, want)
	c.sameBytes("t", 0)
	got := c.values("t", 0, kgo.ReadUncommitted())
	require.Equal(t, want, got[:min(len(want), len(got))])
	require.LessOrEqual(t, len(got), len(want)+1, "at most the last is there without an acknowledgement")
	require.False(t, slices.Contains(got[min(len(got), len(want)):], want[len(want)-1]))
}

func ptr(s string) *string { return &s }

// inSyncISR waits until all replicas are in the ISR, whatever they lag.
func (c *testCluster) inSyncISR(topic string, index int32) {
	c.t.Helper()
	c.eventually("a full ISR", func() bool { return len(c.partition(topic, index).ISR) == len(c.nodes) })
}

// end is the leader's high watermark and log end; -1 while there is no leader.
func (c *testCluster) end(topic string, index int32) (high, end int64) {
	c.t.Helper()
	leader := c.partition(topic, index).Leader
	if leader < 0 || c.nodes[leader].Node == nil {
		return -1, -1
	}
	p, err := c.nodes[leader].Env().Replicas.Partition(topic, index)
	if err != nil {
		return -1, -1
	}
	o := p.Offsets()
	return o.HighWatermark, o.LogEnd
}

// Transactions over partitions of all nodes, from producers whose coordinators
// are on all nodes, while leaders are killed: what was committed is there, what
// was aborted is not, and no transaction stays open.
func TestTransactionsOverAllNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.topic("t", 3, map[string]*string{"min.insync.replicas": ptr("2")})
	var committed, aborted []string
	transact := func(cl *kgo.Client, name string, commit bool) error {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		for p := range int32(3) {
			r := &kgo.Record{Topic: "t", Partition: p, Value: []byte(name)}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				_ = cl.EndTransaction(t.Context(), kgo.TryAbort)
				return err
			}
		}
		// What fails from here on may have been committed all the same.
		if err := cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			return err
		}
		if commit {
			committed = append(committed, name)
		} else {
			aborted = append(aborted, name)
		}
		return nil
	}
	var producers []*kgo.Client
	for i := range 6 {
		producers = append(producers, c.client(kgo.TransactionalID(fmt.Sprint("producer ", i)), kgo.ProducerLinger(0)))
	}
	for i, cl := range producers {
		for n := range 3 {
			require.NoError(t, transact(cl, fmt.Sprintf("%d/%d", i, n), n != 1))
		}
	}
	leader := c.leader("t", 0)
	c.kill(leader)
	c.leader("t", 0, leader)
	for i, cl := range producers {
		for try := 0; ; try++ { // a name of its own for each
			err := transact(cl, fmt.Sprintf("%d/after/%d", i, try), true)
			if err == nil {
				break
			}
			require.Less(t, try, 100, "producer %d: %v", i, err)
		}
	}
	c.startAll()
	for p := range int32(3) {
		c.eventually("nothing open", func() bool {
			l := c.partition("t", p).Leader
			if l < 0 {
				return false
			}
			part, err := c.nodes[l].Env().Replicas.Partition("t", p)
			return err == nil && part.Offsets().LastStable == part.Offsets().LogEnd
		})
		c.sameBytes("t", p)
		got := c.values("t", p, kgo.ReadCommitted())
		require.Subset(t, got, committed, "partition %d", p)
		for _, name := range aborted {
			require.NotContains(t, got, name, "partition %d", p)
		}
		slices.Sort(got)
		require.Len(t, slices.Compact(slices.Clone(got)), len(got), "nothing twice in partition %d", p)
	}
}

// Clients give up where they are told of no controller; every node passes their
// changes on, so each can be named while there is no leader.
func TestAControllerIsNamedWithoutOne(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.kill(0)
	c.kill(1)
	left := c.nodes[2]
	c.eventually("node 2 to know of no leader", func() bool { return left.Env().Quorum.Leader() < 0 })
	require.Equal(t, int32(2), serveOne[*kmsg.MetadataResponse](left, 12, metadataOf()).ControllerID)
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.EndpointType = 1
	require.Equal(t, int32(2), serveOne[*kmsg.DescribeClusterResponse](left, 1, cluster).ControllerID)
}
