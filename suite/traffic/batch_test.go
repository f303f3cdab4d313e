package traffic_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

func aBatch(t *rapid.T) traffic.Batch {
	return traffic.Batch{
		ID: history.BatchID{
			ProducerID:   rapid.Int64Min(-1).Draw(t, "id"),
			Epoch:        rapid.Int16Min(-1).Draw(t, "epoch"),
			BaseSequence: rapid.Int32Min(-1).Draw(t, "sequence"),
		},
		Transactional: rapid.Bool().Draw(t, "transactional"),
		Timestamp:     rapid.Int64Min(0).Draw(t, "timestamp"),
		Count:         rapid.Int32Range(1, 300).Draw(t, "count"),
		Payload:       rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"),
		First: history.Tag{
			Cluster: "B", Writer: "forger", Txn: history.NoTxn, Intent: history.IntentNone,
			Index: rapid.Int64Range(0, 1<<40).Draw(t, "index"), Place: "orders-0",
		},
	}
}

func TestBatchIsWhatAHeaderReaderFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := aBatch(t)
		raw := b.Encode()
		require.Equal(t, crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(raw[17:]))
		headers, err := traffic.Headers(raw)
		require.NoError(t, err)
		require.Equal(t, []traffic.Header{{
			LastOffset: int64(b.Count) - 1, LeaderEpoch: -1, ID: b.ID, Count: b.Count, Transactional: b.Transactional,
		}}, headers)
	})
}

func TestBatchCarriesATagInEveryRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := aBatch(t)
		var rb kmsg.RecordBatch
		require.NoError(t, rb.ReadFrom(b.Encode()))
		rest := rb.Records
		for i := range b.Count {
			n, size := binary.Varint(rest)
			var r kmsg.Record
			require.NoError(t, r.ReadFrom(rest[:size+int(n)]))
			rest = rest[size+int(n):]
			require.Len(t, r.Headers, 1)
			require.Equal(t, history.HeaderKey, r.Headers[0].Key)
			tag, err := history.TagOf(r.Headers[0].Value, r.Value)
			require.NoError(t, err)
			require.Equal(t, b.First.Add(int64(i)), tag)
			require.Equal(t, tag.Value(b.Payload), r.Value)
			require.Equal(t, i, r.OffsetDelta)
		}
		require.Empty(t, rest)
	})
}

func TestHeadersLeavesOutAPartialBatch(t *testing.T) {
	b := traffic.Batch{ID: traffic.PlainID, Count: 2, First: history.Tag{Cluster: "A", Writer: "w", Intent: history.IntentNone}}
	raw := b.Encode()
	for cut := range raw {
		headers, err := traffic.Headers(append(append([]byte(nil), raw...), raw[:cut]...))
		require.NoError(t, err)
		require.Len(t, headers, 1)
	}
}

func FuzzHeaders(f *testing.F) {
	b := traffic.Batch{ID: traffic.PlainID, Count: 1, First: history.Tag{Cluster: "A", Writer: "w", Intent: history.IntentNone}}
	f.Add(b.Encode())
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = traffic.Headers(raw) // no panic, whatever a broker sent
	})
}

func TestReusableTakesTheLastOrdinaryIdempotentBatchBelowTheEnd(t *testing.T) {
	at := func(offset, id int64, transactional bool) traffic.Header {
		return traffic.Header{
			BaseOffset: offset, LastOffset: offset, ID: history.BatchID{ProducerID: id}, Count: 1, Transactional: transactional,
		}
	}
	headers := []traffic.Header{
		at(0, 4, false), at(1, 5, false), at(2, 6, true), at(3, -1, false), at(4, 9_000_001, false), at(5, 7, false),
	}
	got, ok := traffic.Reusable(headers, 5)
	require.True(t, ok)
	require.Equal(t, headers[1], got)
	_, ok = traffic.Reusable(headers, 0)
	require.False(t, ok)
}

func TestRandIsDecidedBySeedAndName(t *testing.T) {
	draw := func(seed uint64, name string) [4]uint64 {
		r := traffic.Rand(seed, name)
		return [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
	}
	require.Equal(t, draw(7, "a"), draw(7, "a"))
	require.NotEqual(t, draw(7, "a"), draw(8, "a"))
	require.NotEqual(t, draw(7, "a"), draw(7, "b"))
}
