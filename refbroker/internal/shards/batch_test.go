package shards

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func TestMarkersAreVisited(t *testing.T) {
	raw := EncodeBatch(5, Producer{7, 0}, Record{Key: []byte("k")})
	raw = psm.EndTxnMarker{BaseOffset: 1, ProducerID: 7, Commit: true}.Append(raw)
	raw = psm.EndTxnMarker{BaseOffset: 2, ProducerID: 8}.Append(raw)
	type end struct {
		producer int64
		commit   bool
	}
	var ends []end
	visitor := Visitor{Record: func(int64, int64, []byte, []byte) error { return nil }}
	next, err := DecodeBatches(raw, 0, visitor)
	require.NoError(t, err)
	require.Equal(t, int64(3), next, "markers are passed over")
	visitor.Marker = func(p int64, c bool) { ends = append(ends, end{p, c}) }
	next, err = DecodeBatches(raw, 0, visitor)
	require.NoError(t, err)
	require.Equal(t, int64(3), next)
	require.Equal(t, []end{{7, true}, {8, false}}, ends)
}

func TestDamagedBatchIsNamed(t *testing.T) {
	raw := EncodeBatch(1, NoProducer(), Record{Key: []byte("key"), Value: []byte("value")}, Record{Key: []byte("gone")})
	none := Visitor{Record: func(int64, int64, []byte, []byte) error { return nil }}
	for at := batchAttrsAt; at < len(raw); at++ {
		bad := append([]byte(nil), raw...)
		bad[at] ^= 0x10
		_, err := DecodeBatches(bad, 0, none)
		require.ErrorContains(t, err, "batch at offset 0")
	}
	_, err := DecodeBatches(raw[:len(raw)-1], 0, none)
	require.ErrorContains(t, err, "does not fit")
}
