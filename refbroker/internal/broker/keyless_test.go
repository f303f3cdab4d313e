package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A compacted topic takes no records without a key, compressed ones neither; an
// empty key is one.
func TestACompactedTopicWantsKeys(t *testing.T) {
	n := startNode(t)
	compact := "compact"
	made, err := kadm.NewClient(n.client()).CreateTopic(n.ctx(), 1, 1, map[string]*string{"cleanup.policy": &compact}, "t")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	n.topic("plain", 1)
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		cl := n.client(kgo.ProducerBatchCompression(codec))
		require.ErrorIs(t, cl.ProduceSync(n.ctx(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(), kerr.InvalidRecord)
		require.NoError(t, cl.ProduceSync(n.ctx(), &kgo.Record{Topic: "t", Key: []byte("k"), Value: []byte("v")}).FirstErr())
		require.NoError(t, cl.ProduceSync(n.ctx(), &kgo.Record{Topic: "t", Key: []byte{}, Value: []byte("v")}).FirstErr())
		require.NoError(t, cl.ProduceSync(n.ctx(), &kgo.Record{Topic: "plain", Value: []byte("v")}).FirstErr())
	}
	p, err := n.Env().Replicas.Partition("t", 0)
	require.NoError(t, err)
	require.EqualValues(t, 10, p.Offsets().LogEnd, "nothing of the refused batches")

	// The answer names the records (KIP-467).
	mixed := batchOf("", func(b *kmsg.RecordBatch) {
		b.Records, b.NumRecords, b.LastOffsetDelta = nil, 3, 2
		for i, key := range [][]byte{nil, []byte("k"), nil} {
			r := kmsg.Record{Key: key, Value: []byte("v"), OffsetDelta: int32(i)}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			b.Records = r.AppendTo(b.Records)
		}
	})
	resp := serveOne[*kmsg.ProduceResponse](n, 11, produceOf(-1, "t", 0, mixed)).Topics[0].Partitions[0]
	require.Equal(t, kerr.InvalidRecord.Code, resp.ErrorCode)
	var places []int32
	for _, r := range resp.ErrorRecords {
		places = append(places, r.RelativeOffset)
		require.Contains(t, *r.ErrorMessage, "compacted topic cannot accept message without key in topic partition t-0")
	}
	require.Equal(t, []int32{0, 2}, places)
	torn := batchOf("v", func(b *kmsg.RecordBatch) { b.Records = []byte{9, 9} })
	require.Equal(t, kerr.CorruptMessage.Code, serveOne[*kmsg.ProduceResponse](n, 11, produceOf(-1, "t", 0, torn)).Topics[0].Partitions[0].ErrorCode)
}
