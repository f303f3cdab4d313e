package broker

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/host"
)

// BenchmarkProduceAndConsume moves records of 100 bytes through a node, by way
// of franz-go's client on loopback.
func BenchmarkProduceAndConsume(b *testing.B) {
	n, err := Start(b.Context(), Config{
		Host: host.Real(), Log: slog.New(slog.DiscardHandler), DataDir: b.TempDir(), NodeID: 1,
		Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, n.Close()) }()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs()["client"]), kgo.DisableClientMetrics(), kgo.ConsumeTopics("t"),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(b, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(b.Context(), 4, 1, nil, "t")
	require.NoError(b, err)
	value := make([]byte, 100)
	b.SetBytes(int64(len(value)))
	i := 0
	for b.Loop() {
		cl.Produce(b.Context(), &kgo.Record{Topic: "t", Key: strconv.AppendInt(nil, int64(i), 10), Value: value}, nil)
		i++
	}
	require.NoError(b, cl.Flush(b.Context()))
	for got := 0; got < i; {
		fs := cl.PollFetches(b.Context())
		require.NoError(b, fs.Err())
		got += fs.NumRecords()
	}
}

// BenchmarkProduceOne is the round trip of one acknowledged record.
func BenchmarkProduceOne(b *testing.B) {
	n, err := Start(b.Context(), Config{
		Host: host.Real(), DataDir: b.TempDir(), NodeID: 1, Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, n.Close()) }()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs()["client"]), kgo.DisableClientMetrics(), kgo.ProducerLinger(0))
	require.NoError(b, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(b.Context(), 1, 1, nil, "t")
	require.NoError(b, err)
	for b.Loop() {
		require.NoError(b, cl.ProduceSync(b.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr())
	}
}
