package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
)

// topicOn makes a topic of one partition on the nodes given.
func (c *testCluster) topicOn(name string, replicas ...int32) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	req.Topics = append(req.Topics, topic)
	c.insist("topic "+name+" is made", func() error {
		resp, err := req.RequestWith(c.t.Context(), c.client())
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}, kerr.TopicAlreadyExists)
	c.eventually("all nodes know "+name, func() bool {
		return !slices.ContainsFunc(c.up(), func(n *testNode) bool { return n.Env().Quorum.Image().Topics[name] == nil })
	})
	require.Equal(c.t, replicas, c.partition(name, 0).Replicas)
}

// reassign asks for other replicas of partition 0; none cancels what is in
// progress.
func (c *testCluster) reassign(topic string, replicas ...int32) error {
	c.t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	if replicas == nil {
		req.CancelAssign(topic, 0)
	} else {
		req.Assign(topic, 0, replicas)
	}
	var answer error
	c.eventually("an answer to the reassignment", func() bool { // a node may be down that the client asks first
		resp, err := kadm.NewClient(c.client()).AlterPartitionAssignments(c.t.Context(), req)
		if err == nil {
			answer = resp[topic][0].Err
		}
		return err == nil && !errors.Is(answer, kerr.RequestTimedOut)
	})
	return answer
}

// reassigned waits until partition 0 has just these replicas, all of them in
// sync with the same bytes and the same producers, and no other node has a log
// of it.
func (c *testCluster) reassigned(topic string, replicas ...int32) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%s on %v alone", topic, replicas), func() bool {
		p := c.partition(topic, 0)
		return !p.Reassigning() && slices.Equal(p.Replicas, replicas) && len(p.ISR) == len(replicas) && slices.Contains(replicas, p.Leader)
	})
	c.alike(topic, replicas...)
	for _, n := range c.up() {
		if slices.Contains(replicas, n.cfg.NodeID) {
			continue
		}
		c.eventually(fmt.Sprintf("no log of %s on node %d", topic, n.cfg.NodeID), func() bool {
			left, err := filepath.Glob(filepath.Join(n.cfg.DataDir, "logs", topic+"-0*"))
			return err == nil && len(left) == 0
		})
	}
}

// alike waits until replicas of partition 0 hold the same, all of it committed:
// bytes, marks, stops, barriers and producers.
func (c *testCluster) alike(topic string, replicas ...int32) {
	c.t.Helper()
	var seen []string
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%+v, by replica: %q", c.partition(topic, 0), seen)
		}
	}()
	c.eventually(fmt.Sprintf("replicas %v of %s are alike", replicas, topic), func() bool {
		seen = nil
		for _, id := range replicas {
			if c.nodes[id].Node == nil {
				return false
			}
			p, err := c.nodes[id].Env().Replicas.Partition(topic, 0)
			if err != nil {
				return false
			}
			o := p.Offsets()
			if o.HighWatermark != o.LogEnd {
				return false
			}
			seen = append(seen, fmt.Sprintf("%d to %d, stable %d, barriers %+v, producers %+v, bytes %x",
				o.LogStart, o.LogEnd, o.LastStable, p.Barriers(), p.Producers(), c.bytesFrom(id, topic, o.LogStart)))
		}
		return len(slices.Compact(slices.Clone(seen))) == 1
	})
}

// bytesFrom is what a replica holds from an offset on.
func (c *testCluster) bytesFrom(id int32, topic string, offset int64) []byte {
	c.t.Helper()
	raw := rawLog(c.t, c.nodes[id].cfg.DataDir, topic, 0)
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		require.NoError(c.t, err)
		if b.LastOffset >= offset {
			break
		}
		raw = raw[b.Size:]
	}
	return raw
}

// producing writes numbered values with acks=all until the function that it
// returns is called, which gives those that were acknowledged.
func (c *testCluster) producing(topic string) (stop func() []string) {
	c.t.Helper()
	cl := c.client(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.MaxProduceRequestsInflightPerBroker(1))
	ctx, cancel := context.WithCancel(c.t.Context())
	acked := make(chan []string, 1)
	go func() {
		var all []string
		for i := 0; ctx.Err() == nil; i++ {
			v := fmt.Sprint("value ", i)
			if err := cl.ProduceSync(c.t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
				c.t.Errorf("%s: %v", v, err)
				break
			}
			all = append(all, v)
		}
		acked <- all
	}()
	return func() []string {
		cancel()
		return <-acked
	}
}

// inProgress is what the cluster lists of reassignments, by partition.
func (c *testCluster) inProgress() map[string]quorum.Partition {
	c.t.Helper()
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = 30_000
	var resp *kmsg.ListPartitionReassignmentsResponse
	c.eventually("a list of reassignments", func() bool {
		var err error
		resp, err = req.RequestWith(c.t.Context(), c.client())
		return err == nil
	})
	all := map[string]quorum.Partition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			all[fmt.Sprintf("%s-%d", t.Topic, p.Partition)] = quorum.Partition{
				Replicas: p.Replicas, AddingReplicas: p.AddingReplicas, RemovingReplicas: p.RemovingReplicas,
			}
		}
	}
	return all
}

// A partition moves to other nodes while it is written to: those catch up and
// lead, those that it leaves delete their logs, and nothing that was
// acknowledged is lost or there twice (SC-1, SC-7, FA-03).
func TestReassignmentUnderWrites(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4)
	c.topicOn("t", 0, 1)
	stop := c.producing("t")
	for _, to := range [][]int32{{2, 3}, {3, 0}, {1}, {0, 1, 2, 3}, {2, 1}} {
		require.NoError(t, c.reassign("t", to...))
		c.eventually(fmt.Sprintf("t on %v", to), func() bool {
			p := c.partition("t", 0)
			return !p.Reassigning() && slices.Equal(p.Replicas, to) && len(p.ISR) == len(to)
		})
	}
	want := stop()
	require.NotEmpty(t, want)
	c.reassigned("t", 2, 1)
	require.Empty(t, c.inProgress())
	require.Equal(t, want, c.values("t", 0, kgo.ReadUncommitted()))
}

// A reassignment waits for a node that is down, is listed meanwhile, and can be
// cancelled: what it had brought so far goes.
func TestAReassignmentIsCancelled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4)
	c.topicOn("t", 0, 1)
	cl := c.client(kgo.DefaultProduceTopic("t"))
	send(t, cl, "one")
	require.ErrorIs(t, c.reassign("t"), kerr.NoReassignmentInProgress)
	require.ErrorIs(t, c.reassign("t", 9), kerr.InvalidReplicaAssignment)
	require.ErrorIs(t, c.reassign("t", []int32{}...), kerr.InvalidReplicaAssignment)
	c.kill(3)
	require.NoError(t, c.reassign("t", 2, 3))
	c.eventually("the new replica that lives is in sync", func() bool { return slices.Contains(c.partition("t", 0).ISR, 2) })
	require.Equal(t, map[string]quorum.Partition{
		"t-0": {Replicas: []int32{2, 3, 0, 1}, AddingReplicas: []int32{2, 3}, RemovingReplicas: []int32{0, 1}},
	}, c.inProgress())
	send(t, cl, "two")

	if err := c.reassign("t"); !errors.Is(err, kerr.NoReassignmentInProgress) { // as who lost the first answer is told
		require.NoError(t, err)
	}
	require.Empty(t, c.inProgress())
	c.reassigned("t", 0, 1)
	c.startAll()
	send(t, cl, "three")
	c.reassigned("t", 0, 1)
	require.Equal(t, []string{"one", "two", "three"}, c.values("t", 0, kgo.ReadUncommitted()))
}

// Whoever dies while a reassignment waits, it goes on once all are back, also
// under another controller; a node that was down when its replica was taken
// away deletes the log when it starts.
func TestAReassignmentSurvives(t *testing.T) {
	for _, who := range []string{"the leader", "the controller", "the new replica", "everybody"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel() // they mostly wait
			c := startCluster(t, 4)
			c.topicOn("t", 0, 1)
			stop := c.producing("t")
			c.eventually("records", func() bool { high, _ := c.end("t", 0); return high > 20 })
			c.kill(3) // so that it can't end too early
			require.NoError(t, c.reassign("t", 2, 3))
			c.eventually("the new replica that lives is in sync", func() bool { return slices.Contains(c.partition("t", 0).ISR, 2) })
			victims := map[string][]int32{
				"the leader": {c.leader("t", 0)}, "the controller": {c.nodes[0].Env().Quorum.Leader()}, "the new replica": {2}, "everybody": {0, 1, 2},
			}[who]
			want := []string(nil)
			if who == "everybody" {
				want = stop()
			}
			for _, id := range victims {
				c.kill(id)
			}
			c.startAll()
			c.eventually("the reassignment has ended", func() bool { return slices.Equal(c.partition("t", 0).Replicas, []int32{2, 3}) })
			if want == nil {
				want = stop()
			}
			c.reassigned("t", 2, 3)
			require.Equal(t, want, c.values("t", 0, kgo.ReadUncommitted()))
		})
	}
}

func TestALogThatWasReassignedAwayWhileTheNodeWasDown(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.topicOn("t", 0, 1)
	c.topicOn("other", 0, 1)
	cl := c.client(kgo.DefaultProduceTopic("t"))
	send(t, cl, "one", "two")
	send(t, c.client(kgo.DefaultProduceTopic("other")), "three")
	c.kill(0)
	require.NoError(t, c.reassign("t", 1, 2))
	c.reassigned("t", 1, 2)
	_, err := os.Stat(filepath.Join(c.nodes[0].cfg.DataDir, "logs", "t-0"))
	require.NoError(t, err)
	c.startAll()
	c.reassigned("t", 1, 2)
	c.alike("other", 0, 1)
	// Back again: what it had is of no use, and not in the way.
	send(t, cl, "four")
	require.NoError(t, c.reassign("t", 0, 2))
	c.reassigned("t", 0, 2)
	require.Equal(t, []string{"one", "two", "four"}, c.values("t", 0, kgo.ReadUncommitted()))
}

// The number of replicas stays where version 1 of the request says so, and a
// topic that gets partitions meanwhile gets them with as many replicas as it has.
func TestReassignmentAndTheNumberOfReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.topicOn("t", 0)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.AllowReplicationFactorChange = false
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = []int32{0, 1}
	req.Topics = append(req.Topics, kmsg.AlterPartitionAssignmentsRequestTopic{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{p}})
	refused := serveOne[*kmsg.AlterPartitionAssignmentsResponse](c.nodes[0], 1, req)
	require.Equal(t, kerr.InvalidReplicationFactor.Code, refused.Topics[0].Partitions[0].ErrorCode)
	req.AllowReplicationFactorChange = true
	c.kill(1)
	require.Zero(t, serveOne[*kmsg.AlterPartitionAssignmentsResponse](c.nodes[0], 1, req).Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, []int32{0, 1}, c.partition("t", 0).Replicas)
	made, err := kadm.NewClient(c.client()).UpdatePartitions(t.Context(), 2, "t")
	require.NoError(t, err)
	require.NoError(t, made["t"].Err)
	require.Len(t, c.partition("t", 1).Replicas, 1)
	c.startAll()
	c.reassigned("t", 0, 1)
}
