package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/txn"
)

// compacting is a node that compacts whatever it may, all the time.
func compacting(t *testing.T, dir string) (*Node, *running) {
	t.Helper()
	node, err := Start(ctx(t), Config{
		Host: host.Real(), DataDir: dir, NodeID: 1, CompactEvery: 10 * time.Millisecond,
		TopicDefaults: map[string]string{"segment.bytes": "1200", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"},
		Listeners:     []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	})
	require.NoError(t, err)
	return node, &running{seed: node.Addrs()["client"]}
}

// The log of the transaction coordinator is compacted while it is written to:
// after a kill each transactional id is what it was.
func TestTransactionStateIsCompacted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node, n := compacting(t, dir)
	_, err := kadm.NewClient(n.client(t)).CreateTopic(ctx(t), 2, 1, nil, "t")
	require.NoError(t, err)
	var ids []string
	for i := range 12 {
		id := fmt.Sprint("id-", i)
		ids = append(ids, id)
		p := n.producer(t, id, time.Minute)
		for j := range 12 {
			transaction(t, p, j%3 > 0, id)
		}
		if i%4 == 0 {
			require.NoError(t, p.BeginTransaction())
			produceAll(t, p, "open")
		}
	}
	cleaned := func() (shards []int32) {
		for _, p := range node.replicas.All() {
			if p.Topic() == txn.TopicName && p.CleanedUpTo() > 0 {
				shards = append(shards, p.Index())
			}
		}
		return shards
	}
	require.Eventually(t, func() bool { return len(cleaned()) >= 3 }, 10*time.Second, 10*time.Millisecond, "compaction of three shards of the transaction state")
	before, err := kadm.NewClient(n.client(t)).DescribeTransactions(ctx(t), ids...)
	require.NoError(t, err)
	node.Kill()

	node, n = compacting(t, dir)
	defer func() { require.NoError(t, node.Close()) }()
	var after kadm.DescribedTransactions
	require.Eventually(t, func() bool {
		after, err = kadm.NewClient(n.client(t)).DescribeTransactions(ctx(t), ids...)
		for _, d := range after {
			err = errors.Join(err, d.Err)
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "the coordinator to load its log")
	for _, id := range ids {
		b, a := before[id], after[id]
		require.Equal(t, []any{b.State, b.ProducerID, b.ProducerEpoch, b.Topics.Lookup("t", 0)}, []any{a.State, a.ProducerID, a.ProducerEpoch, a.Topics.Lookup("t", 0)}, id)
		p := n.producer(t, id, time.Minute)
		pid, epoch, err := p.ProducerID(ctx(t))
		require.NoError(t, err)
		require.Equal(t, b.ProducerID, pid, "%s goes on with its producer id", id)
		require.Greater(t, epoch, b.ProducerEpoch)
		transaction(t, p, kgo.TryCommit, "again")
	}
}

// A compacted topic as consumers of both levels see it, in a running broker.
func TestCompactedTopicEndToEnd(t *testing.T) {
	t.Parallel()
	node, n := compacting(t, t.TempDir())
	defer func() { require.NoError(t, node.Close()) }()
	policy := "compact"
	_, err := kadm.NewClient(n.client(t)).CreateTopic(ctx(t), 1, 1, map[string]*string{"cleanup.policy": &policy}, "t")
	require.NoError(t, err)
	p := n.producer(t, "w", time.Minute)
	want, end := map[string]string{}, int64(0)
	for i := range 120 {
		require.NoError(t, p.BeginTransaction())
		key, value := fmt.Sprint("k", i%5), fmt.Sprint(i, strings.Repeat("x", 100))
		r, err := p.ProduceSync(ctx(t), &kgo.Record{Key: []byte(key), Value: []byte(value)}).First()
		require.NoError(t, err)
		commit := i%3 > 0
		require.NoError(t, p.EndTransaction(ctx(t), kgo.TransactionEndTry(commit)))
		if commit {
			want[key], end = value, r.Offset
		}
	}
	part, ok := node.replicas.Get("t", 0)
	require.True(t, ok)
	require.Eventually(t, func() bool { return part.CleanedUpTo() > part.Offsets().LogEnd-20 }, 10*time.Second, 10*time.Millisecond, "compaction up to the last segments")
	require.Less(t, part.Size(), int64(120*100/2))
	got := map[string]string{}
	cl := n.client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	last := int64(-1)
	for last < end {
		fetched := cl.PollFetches(ctx(t))
		require.NoError(t, fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) { got[string(r.Key)], last = string(r.Value), r.Offset })
	}
	require.Equal(t, want, got)
}
