package broker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// patience is how long tests wait for what needs no time of its own.
const patience = time.Minute

// testCluster is several nodes of one cluster, on loopback and real disks.
type testCluster struct {
	t     *testing.T
	nodes []*testNode // by id; Node is nil while one is down
}

// startCluster starts a cluster; the test's end closes it.
func startCluster(t *testing.T, size int, change ...func(*Config)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, nodes: make([]*testNode, size)}
	voters := map[int32]string{}
	for id := range size {
		voters[int32(id)] = freeAddress(t)
	}
	for id := range size {
		c.nodes[id] = &testNode{t: t, cfg: Config{
			Host: host.Real(), Log: slog.New(slog.NewTextHandler(logWriter(t), nil)).With("node", id), DataDir: t.TempDir(),
			NodeID: int32(id), ClusterID: "BBBBBBBBBBBBBBBBBBBBBB", Listeners: []Listener{{Name: "client", Listen: freeAddress(t)}},
			RaftListen: voters[int32(id)], Voters: voters,
		}}
		for _, f := range change {
			f(&c.nodes[id].cfg)
		}
	}
	t.Cleanup(func() {
		var ending sync.WaitGroup
		for _, n := range c.nodes {
			if n.Node != nil {
				ending.Go(func() { _ = n.Close() })
			}
		}
		ending.Wait()
	})
	c.startAll()
	return c
}

// logWriter is where nodes log to: the test's output, with -v only, since there
// is much of it.
func logWriter(t *testing.T) io.Writer {
	if testing.Verbose() {
		return t.Output()
	}
	return io.Discard
}

// givenPorts are those that a test has been given: a node that is down for a moment
// leaves its port free, and no other test must be given it meanwhile.
var givenPorts sync.Map

// freeAddress is an address that was free a moment ago, and that no other test is
// given. Its port lies below those that the system gives to whoever asks for any,
// or to an outgoing connection, and below those of package fixtures: they might take
// it before it is listened on.
func freeAddress(t testing.TB) string {
	const lowest, highest = 4000, 10000
	for range highest - lowest {
		port := lowest + rand.IntN(highest-lowest)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, l.Close())
			t.Cleanup(func() { givenPorts.Delete(port) }) // what listens there is closed before
			return l.Addr().String()
		}
		givenPorts.Delete(port) // somebody else's
	}
	t.Fatal("no free port is left")
	return ""
}

// startAll starts the nodes that are down.
func (c *testCluster) startAll() {
	c.t.Helper()
	var starting sync.WaitGroup
	for _, n := range c.nodes {
		if n.Node != nil {
			continue
		}
		starting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			started, err := Start(ctx, n.cfg)
			if err != nil {
				c.t.Errorf("node %d: %v", n.cfg.NodeID, err)
				return
			}
			n.Node = started
		})
	}
	starting.Wait()
	require.False(c.t, c.t.Failed())
}

// kill ends a node as a crash would.
func (c *testCluster) kill(id int32) {
	c.t.Helper()
	n := c.nodes[id]
	require.NoError(c.t, n.Kill())
	n.Node = nil
}

// up lists the nodes that run.
func (c *testCluster) up() []*testNode {
	var up []*testNode
	for _, n := range c.nodes {
		if n.Node != nil {
			up = append(up, n)
		}
	}
	return up
}

// client is franz-go's own client, which knows all nodes.
func (c *testCluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, n := range c.nodes {
		seeds = append(seeds, n.cfg.Listeners[0].Listen)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)...)
	require.NoError(c.t, err)
	c.t.Cleanup(cl.Close)
	return cl
}

// topic makes a topic with all nodes as replicas of each partition.
func (c *testCluster) topic(name string, partitions int32, configs map[string]*string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(c.client())
	c.insist("topic "+name+" is made", func() error {
		resp, err := admin.CreateTopic(ctx, partitions, int16(len(c.nodes)), configs, name)
		return cmp.Or(err, resp.Err)
	}, kerr.TopicAlreadyExists)
	c.eventually("all nodes know "+name, func() bool {
		return !slices.ContainsFunc(c.up(), func(n *testNode) bool { return n.Env().Quorum.Image().Topics[name] == nil })
	})
}

// eventually waits for a condition that all nodes come to by themselves.
func (c *testCluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	require.Eventually(c.t, ok, patience, 5*time.Millisecond, what)
}

// insist does something again until it has done it, or one of done says that an
// earlier try had: on a busy machine the quorum's leader may change under a
// request.
func (c *testCluster) insist(what string, do func() error, done ...error) {
	c.t.Helper()
	var last error
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s: %v", what, last)
		}
	}()
	c.eventually(what, func() bool {
		last = do()
		return last == nil || slices.ContainsFunc(done, func(d error) bool { return errors.Is(last, d) })
	})
}

// partition is the quorum's word, as the node that runs and is furthest has it;
// an empty one when there is no such partition yet.
func (c *testCluster) partition(topic string, index int32) *quorum.Partition {
	var newest *quorum.Image
	for _, n := range c.up() {
		if img := n.Env().Quorum.Image(); newest == nil || img.Index > newest.Index {
			newest = img
		}
	}
	if _, p, err := newest.Partition(topic, index); err == nil {
		return p
	}
	return &quorum.Partition{Leader: -1}
}

// leader waits for a partition's leader, other than those given.
func (c *testCluster) leader(topic string, index int32, not ...int32) int32 {
	c.t.Helper()
	var leader int32
	c.eventually(fmt.Sprintf("a leader of %s-%d other than %v", topic, index, not), func() bool {
		leader = c.partition(topic, index).Leader
		return leader >= 0 && c.nodes[leader].Node != nil && !slices.Contains(not, leader)
	})
	return leader
}

// inSync waits until all replicas of a partition are in sync and have all that
// the leader has, committed.
func (c *testCluster) inSync(topic string, index int32) {
	c.t.Helper()
	var all []replica.Offsets
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%+v, offsets by node %+v", c.partition(topic, index), all)
		}
	}()
	c.eventually(fmt.Sprintf("all replicas of %s-%d in sync", topic, index), func() bool {
		if len(c.partition(topic, index).ISR) < len(c.nodes) {
			return false
		}
		all = nil
		for _, n := range c.nodes {
			p, err := n.Env().Replicas.Partition(topic, index)
			if err != nil {
				return false
			}
			o := p.Offsets()
			o.LeaderSince, o.LogEpoch = 0, 0 // a leader's epoch needs no record
			all = append(all, o)
		}
		for _, o := range all {
			if o != all[0] || o.HighWatermark != o.LogEnd {
				return false
			}
		}
		return true
	})
}

// sameBytes compares the logs of all replicas, byte for byte, once they are in
// sync.
func (c *testCluster) sameBytes(topic string, index int32) {
	c.t.Helper()
	c.inSync(topic, index)
	first := rawLog(c.t, c.nodes[0].cfg.DataDir, topic, index)
	for _, n := range c.nodes[1:] {
		require.True(c.t, bytes.Equal(first, rawLog(c.t, n.cfg.DataDir, topic, index)), "logs of nodes 0 and %d of %s-%d differ", n.cfg.NodeID, topic, index)
	}
}

// rawLog is a partition's segments, one behind the other.
func rawLog(t *testing.T, data, topic string, index int32) []byte {
	t.Helper()
	dir := filepath.Join(data, "logs", fmt.Sprintf("%s-%d", topic, index))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []byte
	for _, e := range entries { // by name, which is by offset
		if strings.HasSuffix(e.Name(), ".log") {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			all = append(all, raw...)
		}
	}
	return all
}

// values reads a partition up to its high watermark, by offset.
func (c *testCluster) values(topic string, index int32, isolation kgo.IsolationLevel) []string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cl := c.client(kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {index: kgo.NewOffset().AtStart()},
	}))
	list, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if isolation == kgo.ReadCommitted() {
		list, err = kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	}
	require.NoError(c.t, err)
	end, ok := list.Lookup(topic, index)
	require.True(c.t, ok)
	require.NoError(c.t, end.Err)
	var values []string
	for at := int64(0); at < end.Offset; {
		fs := cl.PollFetches(ctx)
		require.NoError(c.t, fs.Err0())
		fs.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if r.Attrs.IsControl() {
					continue // there to see how far it reads
				}
				values = append(values, string(r.Value))
			}
		})
		if n := fs.NumRecords(); n == 0 {
			require.NoError(c.t, ctx.Err(), "read %d of %d", at, end.Offset)
		}
		fs.EachRecord(func(r *kgo.Record) { at = r.Offset + 1 })
	}
	return values
}
