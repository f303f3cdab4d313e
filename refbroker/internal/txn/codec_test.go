package txn

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"watershed.example/refbroker/internal/shards"
)

func drawTxn(t *rapid.T) Txn {
	partition := rapid.Custom(func(t *rapid.T) Partition {
		return Partition{rapid.StringN(1, 5, -1).Draw(t, "topic"), rapid.Int32Min(0).Draw(t, "index")}
	})
	return Txn{
		ID:             rapid.String().Draw(t, "id"),
		ProducerID:     rapid.Int64().Draw(t, "pid"),
		Epoch:          rapid.Int16().Draw(t, "epoch"),
		LastEpoch:      rapid.Int16().Draw(t, "last"),
		PrevProducerID: rapid.Int64().Draw(t, "prev"),
		NextProducerID: rapid.Int64().Draw(t, "next"),
		Version:        rapid.SampledFrom([]int16{0, 2}).Draw(t, "version"),
		TimeoutMillis:  rapid.Int32().Draw(t, "timeout"),
		State:          State(rapid.Int8Range(0, 5).Draw(t, "state")),
		StartedAt:      rapid.Int64().Draw(t, "started"),
		UpdatedAt:      rapid.Int64().Draw(t, "updated"),
		Debts: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Debt {
			return Debt{
				partition.Draw(t, "partition"), rapid.Int64().Draw(t, "pid"),
				rapid.Int16().Draw(t, "epoch"), rapid.Int16().Draw(t, "version"), rapid.Bool().Draw(t, "commit"),
			}
		}), 0, 3).Draw(t, "debts"),
		Partitions: rapid.SliceOfNDistinct(partition, 0, 5, rapid.ID).Draw(t, "partitions"),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTxn(t)
		got := Txn{ID: "nothing"}
		raw := encode(want)
		binary.BigEndian.PutUint64(raw, 41)
		next, err := shards.DecodeBatches(raw, 0, shards.Visitor{Record: func(_, _ int64, key, value []byte) (err error) {
			var ok bool
			got, ok, err = decodeRecord(key, value)
			require.True(t, ok)
			return err
		}})
		require.NoError(t, err)
		require.Equal(t, int64(42), next)
		require.ElementsMatch(t, want.Partitions, got.Partitions)
		require.ElementsMatch(t, want.Debts, got.Debts)
		got.Partitions, got.Debts = want.Partitions, want.Debts
		require.Equal(t, want, got)
	})
}

// What Kafka itself writes: version 0, which has no tags, and keys of a later
// version, which are skipped.
func TestRecordsOfOthers(t *testing.T) {
	v := kmsg.NewTxnMetadataValue()
	v.ProducerID, v.ProducerEpoch, v.State, v.TimeoutMillis = 5, 3, 1, 60000
	v.Topics = []kmsg.TxnMetadataValueTopic{{Topic: "a", Partitions: []int32{1, 0}}}
	got, ok, err := decodeRecord(encodeKey("x"), v.AppendTo(nil))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Txn{
		ID: "x", ProducerID: 5, Epoch: 3, LastEpoch: -1, PrevProducerID: -1, NextProducerID: -1,
		TimeoutMillis: 60000, State: Ongoing, Partitions: []Partition{a0, a1},
	}, got)

	_, ok, err = decodeRecord([]byte{0, 7, 1, 2, 3}, nil)
	require.NoError(t, err)
	require.False(t, ok)

	got, ok, err = decodeRecord(encodeKey("x"), nil)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Dead, got.State)

	v.State = 7
	_, _, err = decodeRecord(encodeKey("x"), v.AppendTo(nil))
	require.ErrorContains(t, err, "PrepareEpochFence is never written")
}

func FuzzDecodeBatches(f *testing.F) {
	f.Add(encode(newTxn("x", 1)))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		// The checksum would keep the fuzzer out: mend it.
		shards.SealBatch(raw)
		_, _ = shards.DecodeBatches(raw, 0, shards.Visitor{Record: func(_, _ int64, key, value []byte) error {
			_, _, err := decodeRecord(key, value)
			return err
		}})
	})
}
