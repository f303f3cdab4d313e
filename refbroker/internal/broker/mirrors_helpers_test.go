package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/replica"
)

// mirrorNode is one cluster of one node, on real sockets and a real disk.
type mirrorNode struct {
	*Node
	t    *testing.T
	conf Config
}

func startMirrorNode(t *testing.T, cluster string) *mirrorNode {
	t.Helper()
	n := &mirrorNode{t: t, conf: startMirrorConfig(t, cluster)}
	n.start()
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func startMirrorConfig(t *testing.T, cluster string) Config {
	t.Helper()
	return Config{
		Host: host.Real(), DataDir: t.TempDir(), NodeID: 1, ClusterID: cluster,
		Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	}
}

func (n *mirrorNode) start() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	var err error
	n.Node, err = Start(ctx, n.conf)
	require.NoError(n.t, err)
	n.conf.Listeners[0].Listen = n.addr() // the same after a restart
}

func (n *mirrorNode) addr() string { return n.Addrs()["client"] }

func (n *mirrorNode) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.addr()), kgo.MaxVersions(nil), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(), kgo.RetryTimeout(5 * time.Second),
	}, opts...)...)
	require.NoError(n.t, err)
	n.t.Cleanup(cl.Close)
	return cl
}

func (n *mirrorNode) mirrors() mirrorrpc.Client { return mirrorrpc.Client{R: n.client()} }

func (n *mirrorNode) part() replica.API {
	n.t.Helper()
	p, err := n.Env().Replicas.Partition("t", 0)
	require.NoError(n.t, err)
	return p
}

// batches reads the log, from its start up to the high watermark.
func (n *mirrorNode) batches() [][]byte {
	n.t.Helper()
	all, err := n.tryBatches()
	require.NoError(n.t, err)
	return all
}

// tryBatches is batches while the log may be cut.
func (n *mirrorNode) tryBatches() (all [][]byte, err error) {
	p, err := n.Env().Replicas.Partition("t", 0)
	if err != nil {
		return nil, err
	}
	return batchesIn(p)
}

// batchesIn reads a log, from its start up to the high watermark.
func batchesIn(p replica.API) (all [][]byte, err error) {
	for at := p.Offsets().LogStart; at < p.Offsets().HighWatermark; {
		res, err := p.Read(replica.ReadOptions{Offset: at, MaxBytes: 1 << 20, MinOne: true, ReplicaID: -1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
		if err != nil {
			return nil, err
		}
		if len(res.Raw) == 0 {
			return nil, fmt.Errorf("nothing at offset %d of %+v", at, p.Offsets())
		}
		for raw := res.Raw; len(raw) > 0; {
			size := 12 + int(binary.BigEndian.Uint32(raw[8:]))
			b, err := psm.DecodeHeader(raw)
			if err != nil {
				return nil, err
			}
			all, raw, at = append(all, raw[:size]), raw[size:], b.LastOffset+1
		}
	}
	return all, nil
}

func send(t *testing.T, cl *kgo.Client, values ...string) {
	t.Helper()
	for _, v := range values {
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr())
	}
}

func transact(t *testing.T, cl *kgo.Client, commit bool, values ...string) {
	t.Helper()
	require.NoError(t, cl.BeginTransaction())
	send(t, cl, values...)
	require.NoError(t, cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
}

// sourceWithTraffic is a cluster A with an open transaction at its end; lso is
// where that begins. Raw batches come first.
func sourceWithTraffic(t *testing.T, first ...[]byte) (a *mirrorNode, lso int64) {
	a = startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA")
	_, err := kadm.NewClient(a.client()).CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	for _, raw := range first {
		req := produceOf(-1, "t", 0, raw)
		resp, err := req.RequestWith(t.Context(), a.client(kgo.MaxVersions(kversion.V3_0_0())))
		require.NoError(t, err)
		require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	}
	idempotent := a.client()
	send(t, idempotent, "a1", "a2")
	send(t, a.client(kgo.DisableIdempotentWrite()), "plain")
	txn := a.client(kgo.TransactionalID("a-txn"))
	transact(t, txn, true, "committed 1", "committed 2")
	transact(t, txn, false, "aborted")
	open := a.client(kgo.TransactionalID("a-open"), kgo.TransactionTimeout(10*time.Minute))
	require.NoError(t, open.BeginTransaction())
	res := open.ProduceSync(t.Context(), kgo.StringRecord("open"))
	require.NoError(t, res.FirstErr())
	lso = res[0].Record.Offset
	send(t, idempotent, "behind the open transaction")
	// The markers of the others come a moment after their ends.
	require.Eventually(t, func() bool { return a.part().Offsets().LastStable == lso }, 10*time.Second, time.Millisecond)
	return a, lso
}

func (n *mirrorNode) mirrorFrom(a *mirrorNode) mirrorrpc.Client {
	c := n.mirrors()
	require.NoError(n.t, c.Create(n.t.Context(), "m", map[string]string{mirrorrpc.ConfigBootstrap: a.addr()}))
	require.NoError(n.t, c.Start(n.t.Context(), "m", "t"))
	want := a.batches()
	require.Eventually(n.t, func() bool { return len(n.batches()) >= len(want) }, 10*time.Second, time.Millisecond)
	require.Equal(n.t, want, n.batches())
	return c
}

func awaitMirror(t *testing.T, c mirrorrpc.Client, state string) mirrorrpc.DescribedPartition {
	t.Helper()
	return awaitNamed(t, c, "m", state)
}

func awaitNamed(t *testing.T, c mirrorrpc.Client, mirror, state string) mirrorrpc.DescribedPartition {
	t.Helper()
	var p mirrorrpc.DescribedPartition
	require.Eventually(t, func() bool {
		mirrors, err := c.Describe(t.Context(), mirror)
		require.NoError(t, err)
		p = mirrors[0].Topics[0].Partitions[0]
		return p.StateValue == state
	}, patience, 2*time.Millisecond, "%+v", &p)
	return p
}

func (n *mirrorNode) requireFailedOver(below [][]byte, lso int64) {
	n.t.Helper()
	got := n.batches()
	require.Greater(n.t, len(got), len(below))
	require.Equal(n.t, below, got[:len(below)])
	b, err := psm.DecodeBatch(got[len(below)])
	require.NoError(n.t, err)
	require.True(n.t, b.IsBarrier())
	require.Equal(n.t, lso, b.BaseOffset)
	require.Equal(n.t, "AAAAAAAAAAAAAAAAAAAAAA", b.Control.SourceClusterID)
	for _, raw := range got[len(below)+1:] {
		b, err := psm.DecodeBatch(raw)
		require.NoError(n.t, err)
		require.False(n.t, b.IsBarrier())
	}
}

func belowOffset(t *testing.T, batches [][]byte, offset int64) [][]byte {
	for i, raw := range batches {
		b, err := psm.DecodeHeader(raw)
		require.NoError(t, err)
		if b.BaseOffset >= offset {
			return batches[:i]
		}
	}
	return batches
}
