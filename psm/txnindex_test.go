package psm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func TestTxnIndex(t *testing.T) {
	entries := []psm.AbortedTxn{
		{ProducerID: 1, FirstOffset: 0, LastOffset: 10, LSO: 4},
		{ProducerID: 2, FirstOffset: 4, LastOffset: 12, LSO: 13},
		{ProducerID: 3, FirstOffset: 20, LastOffset: 30, LSO: 25},
		{ProducerID: 4, FirstOffset: 25, LastOffset: 40, LSO: 41},
	}
	var file []byte
	for _, a := range entries {
		file = a.Append(file)
	}
	require.Len(t, file, 4*psm.AbortedTxnSize)
	got, err := psm.DecodeTxnIndex(file)
	require.NoError(t, err)
	require.Equal(t, entries, got)

	torn, err := psm.DecodeTxnIndex(file[:len(file)-1])
	require.ErrorIs(t, err, psm.ErrShort)
	require.Equal(t, entries[:3], torn)
	bad := slices.Clone(file)
	bad[psm.AbortedTxnSize+1] = 9
	torn, err = psm.DecodeTxnIndex(bad)
	require.ErrorIs(t, err, psm.ErrCorrupt)
	require.Equal(t, entries[:1], torn)

	for _, c := range []struct {
		from, to int64
		want     []psm.AbortedTxn
		done     bool
	}{
		{0, 13, entries[:2], true}, // the first's LSO lies below the second's data
		{0, 4, entries[:1], true},
		{11, 13, entries[1:2], true},
		{13, 25, entries[2:3], true},
		{13, 26, entries[2:4], true},
		{31, 100, entries[3:], false},
		{41, 100, nil, false},
	} {
		got, done := psm.CollectAborted(nil, entries, c.from, c.to)
		require.Equal(t, c.want, got, "%+v", c)
		require.Equal(t, c.done, done, "%+v", c)
	}
	for offset, n := range map[int64]int{0: 0, 10: 0, 11: 1, 12: 1, 13: 2, 30: 2, 40: 3, 41: 4, 99: 4} {
		require.Len(t, psm.TruncateTxnIndex(entries, offset), n, "offset %d", offset)
	}
}
