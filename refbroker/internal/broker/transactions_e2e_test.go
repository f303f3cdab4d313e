package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"watershed.example/refbroker/internal/host"
)

// running is a node with data that outlives it.
type running struct {
	seed    string
	dir     string
	version int16
	stop    func()
}

func (n *running) start(t *testing.T) {
	t.Helper()
	node, err := Start(ctx(t), Config{
		Host: host.Real(), DataDir: n.dir, NodeID: 1, TransactionVersion: n.version,
		Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	})
	require.NoError(t, err)
	n.seed = node.Addrs()["client"]
	n.stop = func() { require.NoError(t, node.Close()) }
}

func (n *running) restart(t *testing.T) {
	t.Helper()
	n.stop()
	n.start(t)
}

func (n *running) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.seed), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
		kgo.MetadataMinAge(10 * time.Millisecond), kgo.ConcurrentTransactionsBackoff(2 * time.Millisecond),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func (n *running) producer(t *testing.T, id string, timeout time.Duration) *kgo.Client {
	t.Helper()
	return n.client(t, kgo.TransactionalID(id), kgo.TransactionTimeout(timeout), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// produceAll produces one record with each value, to partitions in turn.
func produceAll(t *testing.T, cl *kgo.Client, values ...string) {
	t.Helper()
	for i, v := range values {
		require.NoError(t, cl.ProduceSync(ctx(t), &kgo.Record{Partition: int32(i % 2), Value: []byte(v)}).FirstErr(), v)
	}
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

// transaction writes values and ends.
func transaction(t *testing.T, cl *kgo.Client, end kgo.TransactionEndTry, values ...string) {
	t.Helper()
	require.NoError(t, cl.BeginTransaction())
	produceAll(t, cl, values...)
	require.NoError(t, cl.EndTransaction(ctx(t), end))
}

// contents reads all partitions up to the end that the isolation level shows.
func (n *running) contents(t *testing.T, level kgo.IsolationLevel) []string {
	t.Helper()
	adm := kadm.NewClient(n.client(t))
	ends, err := adm.ListEndOffsets(ctx(t), "t")
	require.NoError(t, err)
	if level == kgo.ReadCommitted() {
		// A transaction that has ended may still be waiting for its marker.
		require.Eventually(t, func() bool {
			committed, err := adm.ListCommittedOffsets(ctx(t), "t")
			require.NoError(t, err)
			same := true
			ends.Each(func(o kadm.ListedOffset) {
				c, _ := committed.Lookup(o.Topic, o.Partition)
				same = same && c.Offset == o.Offset
			})
			if !same {
				ends, err = adm.ListEndOffsets(ctx(t), "t")
				require.NoError(t, err)
			}
			return same
		}, 10*time.Second, 5*time.Millisecond, "a transaction stays open")
	}
	cl := n.client(t, kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	at := map[int32]int64{}
	var got []string
	for done := false; !done; {
		fs := cl.PollFetches(ctx(t))
		require.NoError(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				got = append(got, string(r.Value))
			}
		})
		done = true
		ends.Each(func(o kadm.ListedOffset) { done = done && at[o.Partition] >= o.Offset })
	}
	return got
}

// For each transactions version, with the franz-go client unmodified.
func eachVersion(t *testing.T, f func(t *testing.T, n *running)) {
	for _, version := range []int16{1, 2} {
		t.Run(fmt.Sprintf("version=%d", version), func(t *testing.T) {
			n := &running{dir: t.TempDir(), version: version}
			t.Cleanup(func() { goleak.VerifyNone(t) })
			n.start(t)
			t.Cleanup(func() { n.stop() })
			_, err := kadm.NewClient(n.client(t)).CreateTopic(ctx(t), 2, 1, nil, "t")
			require.NoError(t, err)
			f(t, n)
		})
	}
}

func TestTransactionsEndToEnd(t *testing.T) {
	eachVersion(t, func(t *testing.T, n *running) {
		cl := n.producer(t, "x", time.Minute)
		transaction(t, cl, kgo.TryCommit, "c1", "c2", "c3")
		transaction(t, cl, kgo.TryAbort, "a1", "a2")
		transaction(t, cl, kgo.TryAbort, "a3")
		transaction(t, cl, kgo.TryCommit, "c4", "c5")
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "c4", "c5"}, n.contents(t, kgo.ReadCommitted()))
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "c4", "c5", "a1", "a2", "a3"}, n.contents(t, kgo.ReadUncommitted()))
	})
}

func TestSecondProducerFencesFirst(t *testing.T) {
	eachVersion(t, func(t *testing.T, n *running) {
		first := n.producer(t, "x", time.Minute)
		transaction(t, first, kgo.TryCommit, "c1")
		require.NoError(t, first.BeginTransaction())
		produceAll(t, first, "lost")

		second := n.producer(t, "x", time.Minute)
		transaction(t, second, kgo.TryCommit, "c2", "c3")
		require.ErrorIs(t, first.EndTransaction(ctx(t), kgo.TryCommit), kerr.ProducerFenced)
		transaction(t, second, kgo.TryCommit, "c4")
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "c4"}, n.contents(t, kgo.ReadCommitted()))
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "c4", "lost"}, n.contents(t, kgo.ReadUncommitted()))
	})
}

func TestTransactionTimesOut(t *testing.T) {
	eachVersion(t, func(t *testing.T, n *running) {
		cl := n.producer(t, "x", 300*time.Millisecond)
		transaction(t, cl, kgo.TryCommit, "c1")
		require.NoError(t, cl.BeginTransaction())
		produceAll(t, cl, "late1", "late2")
		require.ElementsMatch(t, []string{"c1"}, n.contents(t, kgo.ReadCommitted()))
		require.Error(t, cl.EndTransaction(ctx(t), kgo.TryCommit))
		other := n.producer(t, "x", time.Minute)
		transaction(t, other, kgo.TryCommit, "c2")
		require.ElementsMatch(t, []string{"c1", "c2"}, n.contents(t, kgo.ReadCommitted()))
		require.ElementsMatch(t, []string{"c1", "c2", "late1", "late2"}, n.contents(t, kgo.ReadUncommitted()))
	})
}

func TestTransactionsOverRestart(t *testing.T) {
	eachVersion(t, func(t *testing.T, n *running) {
		cl := n.producer(t, "x", time.Minute)
		transaction(t, cl, kgo.TryCommit, "c1")
		require.NoError(t, cl.BeginTransaction())
		produceAll(t, cl, "open1", "open2")
		n.restart(t)
		cl = n.producer(t, "x", time.Minute)
		transaction(t, cl, kgo.TryCommit, "c2", "c3")
		transaction(t, cl, kgo.TryAbort, "a1")
		require.ElementsMatch(t, []string{"c1", "c2", "c3"}, n.contents(t, kgo.ReadCommitted()))
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "open1", "open2", "a1"}, n.contents(t, kgo.ReadUncommitted()))
	})
}
