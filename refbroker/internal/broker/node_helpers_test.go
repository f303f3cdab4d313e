package broker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/wire"
)

// testNode is a node of its own on loopback, with its data in dir.
type testNode struct {
	*Node
	t   *testing.T
	cfg Config
}

// startNode starts a node; the test's end closes it.
func startNode(t *testing.T, change ...func(*Config)) *testNode {
	t.Helper()
	n := &testNode{t: t, cfg: Config{
		Host: host.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), DataDir: t.TempDir(), NodeID: 1,
		Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	}}
	for _, c := range change {
		c(&n.cfg)
	}
	n.start()
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func (n *testNode) start() {
	n.t.Helper()
	var err error
	n.Node, err = Start(n.ctx(), n.cfg)
	require.NoError(n.t, err)
}

// ctx ends long before the test binary does.
func (n *testNode) ctx() context.Context {
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	n.t.Cleanup(cancel)
	return ctx
}

// client is franz-go's own client, connected to the node.
func (n *testNode) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.Addrs()["client"]), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(200 * time.Millisecond),
	}, opts...)...)
	require.NoError(n.t, err)
	n.t.Cleanup(cl.Close)
	return cl
}

func (n *testNode) topic(name string, partitions int32) {
	n.t.Helper()
	resp, err := kadm.NewClient(n.client()).CreateTopic(n.ctx(), partitions, 1, nil, name)
	require.NoError(n.t, err)
	require.NoError(n.t, resp.Err)
}

// produce writes values to partition 0, in order, and returns their offsets.
func (n *testNode) produce(cl *kgo.Client, topic string, values ...string) []int64 {
	n.t.Helper()
	var offsets []int64
	for _, v := range values {
		r, err := cl.ProduceSync(n.ctx(), &kgo.Record{Topic: topic, Value: []byte(v)}).First()
		require.NoError(n.t, err)
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

// consume reads count values of partition 0 from the start.
func (n *testNode) consume(topic string, count int, isolation kgo.IsolationLevel) []string {
	n.t.Helper()
	cl := n.client(kgo.FetchIsolationLevel(isolation), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().AtStart()},
	}))
	var values []string
	for len(values) < count {
		fs := cl.PollFetches(n.ctx())
		require.NoError(n.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// serveOne sends one request to a handler of the node, as a connection would.
func serveOne[R kmsg.Response](n *testNode, version int16, req kmsg.Request) R {
	n.t.Helper()
	resp, err := tryOne(n, version, req)
	require.NoError(n.t, err)
	if f, ok := resp.(*fetchResponse); ok {
		resp = f.whole(n.t)
	}
	r, ok := resp.(R)
	require.True(n.t, ok, "response %T", resp)
	return r
}

func tryOne(n *testNode, version int16, req kmsg.Request) (wire.Response, error) {
	for _, a := range n.table.APIs() {
		if a.Key == req.Key() {
			req.SetVersion(version)
			return a.Handle(n.ctx(), &wire.Request{Key: a.Key, Version: version, Listener: "client", Body: req})
		}
	}
	n.t.Fatalf("key %d is not served", req.Key())
	return nil, nil
}
