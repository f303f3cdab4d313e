package broker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
)

// lead makes a replica of topic t the leader.
func (c *testCluster) lead(id int32) {
	c.t.Helper()
	now := c.partition("t", 0).Replicas
	to := append([]int32{id}, slices.DeleteFunc(slices.Clone(now), func(r int32) bool { return r == id })...)
	require.NoError(c.t, c.reassign("t", to...))
	c.eventually(fmt.Sprintf("node %d leads t", id), func() bool {
		_, _ = kadm.NewClient(c.client()).ElectLeaders(c.t.Context(), kadm.ElectPreferredReplica, kadm.TopicsSet{"t": {0: {}}})
		if c.nodes[id].Node == nil || c.partition("t", 0).Leader != id {
			return false
		}
		p, err := c.nodes[id].Env().Replicas.Partition("t", 0)
		return err == nil && p.CheckLeader(-1) == nil
	})
}

// spare are the nodes that are no replica of t.
func (c *testCluster) spare() []int32 {
	var all []int32
	for _, n := range c.nodes {
		if !slices.Contains(c.partition("t", 0).Replicas, n.cfg.NodeID) {
			all = append(all, n.cfg.NodeID)
		}
	}
	return all
}

// follower is a replica of t that does not lead.
func (c *testCluster) follower() int32 {
	p := c.partition("t", 0)
	return p.Replicas[slices.IndexFunc(p.Replicas, func(r int32) bool { return r != p.Leader })]
}

// failOver stops mirror m.
func (c *testCluster) failOver() {
	c.t.Helper()
	m := c.mirrors()
	c.insist("the mirror is to stop", func() error { return m.Stop(c.t.Context(), "m", "t") })
	awaitMirror(c.t, m, "STOPPED")
}

// writeLocally has an idempotent and a transactional producer of this cluster
// write to t.
func (c *testCluster) writeLocally(name string) {
	c.t.Helper()
	send(c.t, c.client(kgo.DefaultProduceTopic("t")), name+" 1", name+" 2")
	transact(c.t, c.client(kgo.DefaultProduceTopic("t"), kgo.TransactionalID("b "+name)), true, name+" 3")
}

// of4711 is a batch of a producer whose id no cluster has given out yet.
func of4711(value string) []byte {
	return batchOf(value, func(b *kmsg.RecordBatch) {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = 4711, 3, 0
		b.FirstTimestamp = time.Now().UnixMilli() // or it would have expired long ago
		b.MaxTimestamp = b.FirstTimestamp
	})
}

// writeRaw sends a batch to the leader of t, and returns where it is.
func (c *testCluster) writeRaw(raw []byte) int64 {
	c.t.Helper()
	req := produceOf(-1, "t", 0, slices.Clone(raw))
	req.TimeoutMillis = int32(patience.Milliseconds())
	p := serveOne[*kmsg.ProduceResponse](c.nodes[c.leader("t", 0)], 11, req).Topics[0].Partitions[0]
	require.Zero(c.t, p.ErrorCode, "%v", p.ErrorMessage)
	return p.BaseOffset
}

// route is how a replica comes to the own barrier: it is given the cluster
// before the stop, when the partition is writable, and after local writes, and
// then tells which replica it is about.
type route struct {
	name                    string
	mirroring, stopped, end func(c *testCluster, a *mirrorNode)
	who                     func(c *testCluster) int32
}

func routes() []route {
	var who int32 // each route runs by itself
	which := func(*testCluster) int32 { return who }
	add := func(c *testCluster, _ *mirrorNode) {
		who = c.spare()[0]
		require.NoError(c.t, c.reassign("t", append([]int32{who}, c.partition("t", 0).Replicas...)...))
		c.eventually("the new replica is in sync", func() bool { return !c.partition("t", 0).Reassigning() })
	}
	back := func(c *testCluster, _ *mirrorNode) { c.startAll() }
	return []route{
		{name: "in the leader's answers as they come", who: (*testCluster).follower},
		{
			name: "in one fetch with batches around it", who: which, end: back,
			mirroring: func(c *testCluster, a *mirrorNode) {
				who = c.follower()
				c.kill(who)
				// Mirrored without it, and below L all the same.
				before := a.part().Offsets().LogEnd
				plain := a.client(kgo.DisableIdempotentWrite())
				send(c.t, plain, "late")
				c.eventually("what the source wrote last", func() bool { _, end := c.end("t", 0); return end > before })
			},
		},
		{
			name: "catching up later", who: which, end: back,
			mirroring: func(c *testCluster, _ *mirrorNode) { who = c.follower(); c.kill(who) },
		},
		{name: "added while it mirrored", who: which, mirroring: add},
		{name: "added when it was writable", who: which, stopped: add},
		{name: "added after local writes", who: which, end: add},
		{
			name: "added after local writes, and killed", who: which,
			end: func(c *testCluster, a *mirrorNode) {
				add(c, a)
				c.kill(who)
				c.startAll()
			},
		},
		{
			name: "added when the barrier was deleted", who: which,
			end: func(c *testCluster, a *mirrorNode) {
				// BAR-8: up to the barrier and the first local record.
				p := c.partition("t", 0).Mirror.Stops[0]
				offsets := kadm.Offsets{}
				offsets.Add(kadm.Offset{Topic: "t", At: p.BarrierOffset + 1})
				resp, err := kadm.NewClient(c.client()).DeleteRecords(c.t.Context(), offsets)
				require.NoError(c.t, err)
				require.NoError(c.t, resp["t"][0].Err)
				add(c, a)
			},
		},
	}
}

// By whatever route a replica came to the own barrier, once it leads it knows
// no producer from before it, and those from after it (PSM-2, PSM-6, BAR-8): a
// local batch with a mirrored one's header is appended (IDEM-1), and a retry of
// that is not (IDEM-3).
func TestEveryReplicaForgetsTheSourcesProducers(t *testing.T) {
	for i := range routes() {
		t.Run(routes()[i].name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			r := routes()[i]
			c, a, lso := mirroredCluster(t, 4)
			along := func(do func(*testCluster, *mirrorNode)) {
				if do != nil {
					do(c, a)
				}
			}
			collide := of4711("local")
			along(r.mirroring)
			require.NoError(t, a.Close())
			c.failOver()
			along(r.stopped)
			c.writeLocally("local")
			along(r.end)
			who := r.who(c)
			c.alike("t", c.partition("t", 0).Replicas...)
			c.lead(who)
			p, err := c.nodes[who].Env().Replicas.Partition("t", 0)
			require.NoError(t, err)
			require.Len(t, p.Producers(), 2, "the two local producers")
			end := p.Offsets().LogEnd
			at := c.writeRaw(collide)
			require.GreaterOrEqual(t, at, end)
			require.Equal(t, at, c.writeRaw(collide), "a retry of its own is known")
			require.GreaterOrEqual(t, at, lso)
			c.alike("t", c.partition("t", 0).Replicas...)
		})
	}
}

// mirroredCluster is a cluster whose topic t mirrors a source with traffic; lso
// is where that has a transaction open.
func mirroredCluster(t *testing.T, size int, change ...func(*Config)) (c *testCluster, a *mirrorNode, lso int64) {
	a, lso = sourceWithTraffic(t, of4711("mirrored"))
	c = startCluster(t, size, change...)
	c.mirror(a)
	c.alike("t", c.partition("t", 0).Replicas...)
	return c, a, lso
}

// with is a configuration that is wrong in one way.
func with(t *testing.T, name defect.Name) func(*Config) {
	set, err := defect.Parse([]string{string(name)})
	require.NoError(t, err)
	return func(cfg *Config) { cfg.Defects = set }
}

// PSM-2: a replica that does not get the list of stops takes a local batch for
// the retry of a mirrored one.
func TestReplicaMissesStops(t *testing.T) {
	for i, r := range routes() {
		if r.end != nil && r.mirroring == nil && r.name != "added after local writes" {
			continue // a crash brings the state back, or there is nothing to forget
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r := routes()[i]
			c, a, lso := mirroredCluster(t, 4, with(t, defect.ReplicaMissesStops))
			collide := of4711("local")
			for _, do := range []func(*testCluster, *mirrorNode){r.mirroring, func(c *testCluster, _ *mirrorNode) { c.failOver() }, r.stopped, r.end} {
				if do != nil {
					do(c, a)
				}
			}
			leader := c.leader("t", 0)
			p, err := c.nodes[leader].Env().Replicas.Partition("t", 0)
			require.NoError(t, err)
			require.Empty(t, p.Producers(), "its own barrier expires them")
			who := r.who(c)
			require.NotEqual(t, leader, who)
			c.lead(who)
			require.Less(t, c.writeRaw(collide), lso, "it is acknowledged at the mirrored batch's offset, and lost")
		})
	}
}

// STOPPING cuts the leader's log below where its followers' end, among them one
// that a reassignment in progress has brought: all give their suffix up, and so
// do those that come later (LOG-4).
func TestFollowersGiveUpWhatAStopCuts(t *testing.T) {
	t.Parallel()
	c, a, lso := mirroredCluster(t, 5)
	end := a.part().Offsets().LogEnd
	require.Less(t, lso, end)
	below := belowOffset(t, a.batches(), lso)
	added := c.spare()
	stays := c.leader("t", 0)
	c.kill(added[1])
	require.NoError(t, c.reassign("t", stays, added[0], added[1]))
	c.eventually("the new replica that lives holds what is to be cut", func() bool {
		p, err := c.nodes[added[0]].Env().Replicas.Partition("t", 0)
		return err == nil && p.Offsets().LogEnd == end && slices.Contains(c.partition("t", 0).ISR, added[0])
	})
	c.failOver()
	c.writeLocally("local")
	require.True(t, c.partition("t", 0).Reassigning())
	c.startAll()
	c.reassigned("t", stays, added[0], added[1])
	raw := rawLog(t, c.nodes[added[0]].cfg.DataDir, "t", 0)
	want := bytes.Join(below, nil)
	require.Equal(t, want, raw[:len(want)])
	b, err := psm.DecodeBatch(raw[len(want):])
	require.NoError(t, err)
	require.True(t, b.IsBarrier())
	require.Equal(t, lso, b.BaseOffset)
	require.NotContains(t, string(raw), "open", "what the source had not committed")
}

// LOG-4: a follower that ignores the cut is in sync and holds the source's
// uncommitted records where the leader holds the barrier.
func TestFollowerKeepsSuffix(t *testing.T) {
	t.Parallel()
	c, a, _ := mirroredCluster(t, 3, with(t, defect.FollowerKeepsSuffix))
	end := a.part().Offsets().LogEnd
	c.failOver()
	for i := range 4 {
		c.writeLocally(fmt.Sprint("local ", i)) // beyond the suffix
	}
	leader, follower := c.leader("t", 0), c.follower()
	var logs [2][]byte
	c.eventually("the follower is in sync, and another", func() bool {
		high, logEnd := c.end("t", 0)
		p, err := c.nodes[follower].Env().Replicas.Partition("t", 0)
		if err != nil || high <= end || high != logEnd || p.Offsets().HighWatermark != high || !slices.Contains(c.partition("t", 0).ISR, follower) {
			return false
		}
		logs = [2][]byte{rawLog(t, c.nodes[leader].cfg.DataDir, "t", 0), rawLog(t, c.nodes[follower].cfg.DataDir, "t", 0)}
		return true
	})
	require.NotEqual(t, logs[0], logs[1])
	require.NotContains(t, string(logs[0]), "open")
	require.Contains(t, string(logs[1]), "open")
}

// FA-11: followers of a partition that mirrors skip nothing, though the source's
// leader epoch rises above the destination's again and again (LOG-5).
func TestTheSourcesEpochRisesAboveTheDestinations(t *testing.T) {
	t.Parallel()
	a, _ := sourceWithTraffic(t)
	c := startCluster(t, 3)
	c.mirror(a)
	plain := a.client(kgo.DisableIdempotentWrite())
	for range 8 {
		_, err := a.Env().Quorum.Apply(t.Context(), quorum.RaiseLeaderEpoch{
			Partitions: []quorum.MinLeaderEpoch{{Topic: "t", Min: c.partition("t", 0).LeaderEpoch + 3}},
		})
		require.NoError(t, err)
		for i := range 10 {
			send(t, plain, fmt.Sprint("record ", i))
		}
		want := a.part().Offsets().LogEnd
		c.eventually("all that the source wrote", func() bool {
			for _, n := range c.nodes {
				p, err := n.Env().Replicas.Partition("t", 0)
				if err != nil {
					return false
				}
				o := p.Offsets()
				require.GreaterOrEqual(t, o.LeaderEpoch, o.LogEpoch, "at every moment")
				if o.LogEnd < want {
					return false
				}
			}
			return true
		})
	}
	c.sameBytes("t", 0)
	require.Equal(t, bytes.Join(a.batches(), nil), rawLog(t, c.nodes[0].cfg.DataDir, "t", 0))
}

// An inherited barrier expires nothing while the partition mirrors, on no
// replica (PSM-5): not on one that was added afterwards, nor on one that lost its
// lists and has them from the leader again, with those who wrote the barriers.
func TestReplicasOfALogWithAnInheritedBarrier(t *testing.T) {
	t.Parallel()
	a, _ := sourceWithTraffic(t, of4711("mirrored"))
	mid := startMirrorNode(t, "MMMMMMMMMMMMMMMMMMMMMM")
	m := mid.mirrorFrom(a)
	require.NoError(t, m.Stop(t.Context(), "m", "t"))
	awaitMirror(t, m, "STOPPED")
	send(t, mid.client(), "of the middle")
	c := startCluster(t, 4)
	c.mirror(mid)
	replicas := c.partition("t", 0).Replicas
	loseLists := func(id int32) {
		c.kill(id)
		require.NoError(t, os.Remove(filepath.Join(c.nodes[id].cfg.DataDir, "logs", "t-0", "mirror-stops.json")))
		c.startAll()
	}
	know := func(want bool) {
		t.Helper()
		now := c.partition("t", 0).Replicas
		c.alike("t", now...)
		for _, id := range now {
			p, err := c.nodes[id].Env().Replicas.Partition("t", 0)
			require.NoError(t, err)
			require.Equal(t, want, slices.ContainsFunc(p.Producers(), func(q psm.Producer) bool { return q.ProducerID == 4711 }), "node %d", id)
			for _, b := range p.Barriers() {
				require.NotEmpty(t, b.Writer, "node %d", id)
			}
		}
	}
	know(true)
	added := c.spare()[0]
	require.NoError(t, c.reassign("t", append([]int32{added}, replicas...)...))
	c.inSyncISR("t", 0)
	know(true)
	loseLists(c.follower())
	c.inSyncISR("t", 0)
	know(true)

	c.failOver()
	c.writeLocally("local")
	know(false)
	loseLists(added)
	c.inSyncISR("t", 0)
	know(false)
	c.lead(added)
	at := c.writeRaw(of4711("local"))
	require.Equal(t, at, c.writeRaw(of4711("local")), "a retry of its own is known")
	know(true)
}

// DeleteRecords waits until every replica that lives has followed, and no longer
// than it is told to.
func TestDeleteRecordsWaitsForFollowers(t *testing.T) {
	t.Parallel()
	l := startLinked(t)
	l.topic("t", 1, nil)
	cl := l.client(kgo.DefaultProduceTopic("t"))
	send(t, cl, "one", "two", "three", "four")
	l.sameBytes("t", 0)
	leader := l.leader("t", 0)
	deleteTo := func(offset int64, timeout time.Duration) kmsg.DeleteRecordsResponseTopicPartition {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = int32(timeout.Milliseconds())
		req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
		return serveOne[*kmsg.DeleteRecordsResponse](l.nodes[leader], 2, req).Topics[0].Partitions[0]
	}
	starts := func() (all []int64) {
		for _, n := range l.nodes {
			p, err := n.Env().Replicas.Partition("t", 0)
			require.NoError(t, err)
			all = append(all, p.Offsets().LogStart)
		}
		return all
	}
	done := deleteTo(1, patience)
	require.Zero(t, done.ErrorCode)
	require.EqualValues(t, 1, done.LowWatermark)
	require.Equal(t, []int64{1, 1, 1}, starts(), "when it is answered, all have")

	follower := (leader + 1) % 3
	l.part(leader, follower, false, true)
	late := deleteTo(3, time.Second)
	require.Equal(t, kerr.RequestTimedOut.Code, late.ErrorCode)
	require.EqualValues(t, 1, starts()[follower])
	require.EqualValues(t, 3, starts()[leader], "its own records are gone all the same")
	l.part(leader, follower, false, false)
	done = deleteTo(3, patience)
	require.Zero(t, done.ErrorCode)
	require.EqualValues(t, 3, done.LowWatermark)
	require.Equal(t, []int64{3, 3, 3}, starts())

	// Nobody waits for one that is fenced.
	l.kill(follower)
	require.Zero(t, deleteTo(4, patience).ErrorCode)
}

// FA-07: source and destination give out the same producer ids. The first batches
// after a failover, with the very headers of mirrored ones, are all appended
// above what was mirrored, each once.
func TestProducerIDsCollideAfterAFailover(t *testing.T) {
	t.Parallel()
	a := startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA")
	_, err := kadm.NewClient(a.client()).CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	batch := func(where string, i int) []byte {
		return batchOf(fmt.Sprint(where, " ", i), func(b *kmsg.RecordBatch) {
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1, 0, int32(i)
			b.FirstTimestamp = time.Now().UnixMilli()
			b.MaxTimestamp = b.FirstTimestamp
		})
	}
	var want []string
	source := a.client(kgo.MaxVersions(kversion.V3_0_0()))
	for i := range 10 {
		resp, err := produceOf(-1, "t", 0, batch("source", i)).RequestWith(t.Context(), source)
		require.NoError(t, err)
		require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
		require.EqualValues(t, i, resp.Topics[0].Partitions[0].BaseOffset)
		want = append(want, fmt.Sprint("source ", i))
	}
	c := startCluster(t, 3)
	c.mirror(a)
	c.failOver()
	_, end := c.end("t", 0)
	for i := range 10 {
		require.EqualValues(t, end+int64(i), c.writeRaw(batch("local", i)))
		want = append(want, fmt.Sprint("local ", i))
	}
	c.alike("t", c.partition("t", 0).Replicas...)
	require.Equal(t, want, c.values("t", 0, kgo.ReadCommitted()))
}
