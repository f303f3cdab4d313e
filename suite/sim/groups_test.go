//go:build synctests

package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/fixtures/memnet"
)

// TestAGroupInVirtualTime shares a topic among members of a group with the
// time-outs that Kafka has by default: one of them falls silent for good, and
// another takes over at the committed offset once its session has ended.
func TestAGroupInVirtualTime(t *testing.T) {
	began := time.Now()
	var virtual time.Duration
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		takeOver(t)
		virtual = time.Since(start)
	})
	t.Logf("%s of virtual time in %s", virtual, time.Since(began).Round(time.Millisecond))
}

func takeOver(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Minute, fmt.Errorf("it took more than 10 virtual minutes"))
	defer cancel()
	network := memnet.New()
	a := serve(t, network, "A", idA, "127.0.1.1:9092")
	defer a.stop() // else a failure is reported as a deadlock of the bubble
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(a.address), kgo.Dialer(network.Dial), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()),
		}, opts...)...)
		require.NoError(t, err)
		return cl
	}
	member := func(instance string) *kgo.Client {
		return client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.InstanceID(instance), kgo.DisableAutoCommit(),
			kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	read := func(cl *kgo.Client, n int) []string {
		var got []string
		for len(got) < n {
			fs := cl.PollFetches(ctx)
			require.NoError(t, fs.Err())
			fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		slices.Sort(got)
		return got
	}
	writer := client()
	defer writer.Close()
	write := func(values ...string) {
		for i, v := range values {
			require.NoError(t, writer.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: int32(i % 2), Value: []byte(v)}).FirstErr())
		}
	}
	adm := kadm.NewClient(writer)
	_, err := adm.CreateTopic(ctx, 2, 1, nil, "t")
	require.NoError(t, err)

	write("a", "b", "c", "d")
	first := member("first")
	require.Equal(t, []string{"a", "b", "c", "d"}, read(first, 4))
	require.NoError(t, first.CommitUncommittedOffsets(ctx))
	first.Close() // a static member falls silent; it doesn't leave
	silent := time.Now()

	second := member("second")
	defer second.Close()
	write("e", "f")
	require.Equal(t, []string{"e", "f"}, read(second, 2), "all partitions, from where they were committed")
	require.GreaterOrEqual(t, time.Since(silent), 44*time.Second, "not before the session of the first has ended")
	require.NoError(t, second.CommitUncommittedOffsets(ctx))
	lag, err := adm.Lag(ctx, "g")
	require.NoError(t, err)
	require.Equal(t, []string{"Stable", "0"}, []string{lag["g"].State, fmt.Sprint(lag["g"].Lag.Total())})
	second.Close()
	writer.Close()
	a.end(t)
}
