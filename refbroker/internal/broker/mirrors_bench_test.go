package broker

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
)

// manyProducers is how many producers each partition of the benchmark has seen.
const manyProducers = 100

// BenchmarkStopPartitions stops a topic of 1,000 partitions, and one of 5,000,
// in one request each, on one node whose source is gone (OPS-3). It reports
// both times, and how many times longer the second took: 5 is linear.
// WATERSHED_STOP_PARTITIONS has other numbers, "500,1000".
func BenchmarkStopPartitions(b *testing.B) {
	few, many := 1000, 5000
	if text := os.Getenv("WATERSHED_STOP_PARTITIONS"); text != "" {
		_, err := fmt.Sscanf(text, "%d,%d", &few, &many)
		require.NoError(b, err)
	}
	for b.Loop() {
		short := stopMany(b, int32(few), manyProducers)
		long := stopMany(b, int32(many), manyProducers)
		b.ReportMetric(short.Seconds(), fmt.Sprintf("s/%d-partitions", few))
		b.ReportMetric(long.Seconds(), fmt.Sprintf("s/%d-partitions", many))
		b.ReportMetric(long.Seconds()/short.Seconds(), "ratio")
	}
}

// BenchmarkStopProducers stops 200 partitions that one producer has written to,
// and 200 that 1,000 have: the barrier expires them all at once.
func BenchmarkStopProducers(b *testing.B) {
	for b.Loop() {
		one := stopMany(b, 200, 1)
		thousand := stopMany(b, 200, 1000)
		b.ReportMetric(one.Seconds()*1000, "ms/1-producer")
		b.ReportMetric(thousand.Seconds()*1000, "ms/1000-producers")
	}
}

// stopMany times a stop, from the request until every partition takes writes.
func stopMany(b *testing.B, partitions, producers int32) time.Duration {
	node, err := Start(b.Context(), Config{
		Host: host.Real(), Log: slog.New(slog.DiscardHandler), DataDir: b.TempDir(), NodeID: 1,
		Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, node.Close()) }()
	ctx, q := b.Context(), node.Env().Quorum
	assignment := make([][]int32, partitions)
	for i := range assignment {
		assignment[i] = []int32{1}
	}
	apply := func(c quorum.Command) {
		_, err := q.Apply(ctx, c)
		require.NoError(b, err)
	}
	apply(quorum.CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: assignment})
	apply(quorum.CreateMirror{Name: "m", SourceClusterID: crashSource, Bootstrap: []string{"127.0.0.1:1"}})
	apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Mirroring})
	raw := manyBatches(producers)
	var aligned []quorum.PartitionCommand
	for i, p := range q.Image().Topics["t"].Partitions {
		aligned = append(aligned, quorum.AlignMirror{Topic: "t", Partition: int32(i), LeaderEpoch: p.LeaderEpoch, LogEpoch: 5})
	}
	for some := range slices.Chunk(aligned, 1000) {
		together, err := quorum.NewTogether(some)
		require.NoError(b, err)
		apply(together)
	}
	_, err = q.Wait(ctx, func(img *quorum.Image) bool {
		for _, p := range img.Topics["t"].Partitions {
			if p.Mirror.State != quorum.Mirroring {
				return false
			}
		}
		return true
	})
	require.NoError(b, err)
	for i := range partitions {
		part, err := node.Env().Replicas.Partition("t", i)
		require.NoError(b, err)
		session, err := part.BeginMirror()
		require.NoError(b, err)
		_, err = part.AppendMirrored(session, raw)
		require.NoError(b, err)
	}

	began := time.Now()
	apply(quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"t"}, Desired: quorum.Stopped})
	_, err = q.Wait(ctx, func(img *quorum.Image) bool {
		for _, p := range img.Topics["t"].Partitions {
			if p.Mirror.State != quorum.Stopped {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	require.NoError(b, err)
	b.Logf("%d partitions with %d producers each stopped in %s", partitions, producers, took)
	for i := range partitions {
		part, err := node.Env().Replicas.Partition("t", i)
		require.NoError(b, err)
		require.False(b, part.ReadOnly())
		require.Empty(b, part.Producers())
		require.Len(b, part.Barriers(), 1)
		require.EqualValues(b, producers, part.Barriers()[0].Offset)
	}
	return took
}

// manyBatches are mirrored batches of as many producers, one each.
func manyBatches(producers int32) []byte {
	var all []byte
	for i := range int64(producers) {
		raw := batchOf("v", func(b *kmsg.RecordBatch) {
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = i, 0, 0
			b.FirstTimestamp = time.Now().UnixMilli()
			b.MaxTimestamp = b.FirstTimestamp
		})
		binary.BigEndian.PutUint64(raw, uint64(i))
		binary.BigEndian.PutUint32(raw[12:], 3)
		all = append(all, raw...)
	}
	return all
}
