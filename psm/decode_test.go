package psm_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func TestDecodeRefuses(t *testing.T) {
	good := psm.Barrier{BaseOffset: 5, SourceClusterID: "src"}.Append(nil)
	be := binary.BigEndian
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		want   error
		header bool // the header alone is refused
	}{
		"nothing":                {func([]byte) []byte { return nil }, psm.ErrShort, true},
		"half a header":          {func(p []byte) []byte { return p[:60] }, psm.ErrShort, true},
		"cut":                    {func(p []byte) []byte { return p[:len(p)-1] }, psm.ErrShort, false},
		"magic 1":                {func(p []byte) []byte { p[16] = 1; return p }, psm.ErrMagic, true},
		"magic 3, short":         {func(p []byte) []byte { p[16] = 3; return p[:20] }, psm.ErrMagic, true},
		"length 48":              {func(p []byte) []byte { be.PutUint32(p[8:], 48); return p }, psm.ErrCorrupt, true},
		"length below 0":         {func(p []byte) []byte { be.PutUint32(p[8:], 1<<31); return p }, psm.ErrCorrupt, true},
		"length near the limit":  {func(p []byte) []byte { be.PutUint32(p[8:], math.MaxInt32-11); return p }, psm.ErrCorrupt, true},
		"offset below 0":         {func(p []byte) []byte { p[0] = 0x80; return p }, psm.ErrCorrupt, true},
		"last offset below base": {func(p []byte) []byte { p[23] = 0x80; return p }, psm.ErrCorrupt, true},
		"last offset delta -1":   {func(p []byte) []byte { copy(p[23:], "\xff\xff\xff\xff"); return p }, psm.ErrCorrupt, true},
		"last offset too great": {func(p []byte) []byte {
			be.PutUint64(p, math.MaxInt64-1)
			be.PutUint32(p[23:], 1)
			return p
		}, psm.ErrCorrupt, true},
		"count below 0":      {func(p []byte) []byte { p[57] = 0xff; return p }, psm.ErrCorrupt, true},
		"compressed control": {func(p []byte) []byte { p[22] |= 2; return p }, psm.ErrCorrupt, false},
		"record too long":    {func(p []byte) []byte { p[61] += 2; return p }, psm.ErrCorrupt, false},
		"record length -1":   {func(p []byte) []byte { p[61] = 1; return p }, psm.ErrCorrupt, false},
		"key too long":       {func(p []byte) []byte { p[65] = 120; return p }, psm.ErrCorrupt, false},
		"key null":           {func(p []byte) []byte { p[65] = 1; return p }, psm.ErrCorrupt, false},
		"value too long":     {func(p []byte) []byte { p[70] = 120; return p }, psm.ErrCorrupt, false},
		"id too long by one": {func(p []byte) []byte { p[73] += 2; return p }, psm.ErrCorrupt, false},
		"id null":            {func(p []byte) []byte { p[73] = 0; return p }, psm.ErrCorrupt, false},
		"value version -1":   {func(p []byte) []byte { p[71] = 0xff; return p }, psm.ErrCorrupt, false},
		"key version -1":     {func(p []byte) []byte { p[66] = 0xff; return p }, psm.ErrCorrupt, false},
		"endless varint":     {func(p []byte) []byte { copy(p[61:], []byte{0xff, 0xff, 0xff, 0xff, 0xff}); return p }, psm.ErrCorrupt, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.damage(slices.Clone(good))
			p = p[:len(p):len(p)]
			_, err := psm.DecodeBatch(p)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, psm.CodeCorruptMessage, psm.Code(err))
			_, err = psm.DecodeHeader(p)
			if c.header {
				require.ErrorIs(t, err, c.want)
			} else {
				require.NoError(t, err)
			}
			require.Error(t, psm.CheckCRC(p))
		})
	}
	// Neither the log's place nor the leader epoch is under the CRC.
	p := slices.Clone(good)
	psm.SetOffsets(p, 1<<40, 9)
	require.NoError(t, psm.CheckCRC(p))
	last := slices.Clone(good)
	psm.SetOffsets(last, math.MaxInt64-1, 9)
	_, err := psm.DecodeBatch(last)
	require.NoError(t, err)
}

// What a header can't say is left to the record validation: a batch may span
// more offsets than it has records (compaction).
func TestDecodeControl(t *testing.T) {
	marker := psm.EndTxnMarker{Timestamp: 50, ProducerID: 3, CoordinatorEpoch: 9, LogAppendTime: true}.Append(nil)
	b, err := psm.DecodeBatch(marker)
	require.NoError(t, err)
	require.Equal(t, psm.Control{Type: psm.ControlAbort, CoordinatorEpoch: 9, Timestamp: 50}, b.Control)
	require.True(t, b.Attributes.LogAppendTime())

	// The broker's time is in the header; the record keeps its own delta.
	delta := slices.Clone(marker)
	delta[63] = 14 // +7
	b, err = psm.DecodeBatch(delta)
	require.NoError(t, err)
	require.Equal(t, int64(50), b.Control.Timestamp)
	delta[22] &^= 0x08
	b, err = psm.DecodeBatch(delta)
	require.NoError(t, err)
	require.Equal(t, int64(57), b.Control.Timestamp)

	// Emptied by the log cleaner.
	empty := slices.Clone(marker)[:psm.HeaderSize]
	binary.BigEndian.PutUint32(empty[8:], psm.HeaderSize-12)
	binary.BigEndian.PutUint32(empty[57:], 0)
	b, err = psm.DecodeBatch(empty)
	require.NoError(t, err)
	require.Equal(t, psm.Control{Type: psm.ControlNone}, b.Control)

	for _, c := range []struct {
		key, value string
		want       psm.Control
		bad        bool
	}{
		{"\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x05", psm.Control{Type: psm.ControlCommit, CoordinatorEpoch: 5}, false},
		{"\x00\x00\x00\x01", "\x00\x01\x00\x00\x00\x05\x00", psm.Control{Type: psm.ControlCommit, Version: 1, CoordinatorEpoch: 5}, false},
		{"\x00\x00\x00\x01", "\x00\x00\x00\x00\x00", psm.Control{}, true},
		{"\x00\x07\x00\x00more", "\x00\x00\x00\x00\x00\x05", psm.Control{Type: psm.ControlAbort, CoordinatorEpoch: 5}, false},
		{"\x00\x00\x00", "", psm.Control{}, true},
		{"\x00\x00\x00\x02", "", psm.Control{Type: 2}, false},
		{"\x00\x00\xff\xff", "", psm.Control{Type: psm.ControlNone}, false},
		{"\x00\x00\x00\x07", "\x00\x00\x04abc\x00", psm.Control{Type: psm.ControlMirrorPIDReset, SourceClusterID: "abc"}, false},
		{"\x00\x00\x00\x07", "\x00\x00\x04abc\x01\x00\x02xytrailing", psm.Control{Type: psm.ControlMirrorPIDReset, SourceClusterID: "abc"}, false},
		{"\x00\x00\x00\x07", "\x00\x00\x01\x00", psm.Control{Type: psm.ControlMirrorPIDReset}, false},
		{"\x00\x00\x00\x07", "\x00\x00\x05abc", psm.Control{}, true},
		{"\x00\x00\x00\x07", "\x00\x00", psm.Control{}, true},
		{"\x00\x00\x00\x07", "\x00\x00\x80\x80\x80\x80\x80\x01", psm.Control{}, true},
		{"\x00\x00\x00\x07", "\x00\x00\xff\xff\xff\xff\x0f", psm.Control{}, true},
	} {
		value := []byte(c.value)
		got, err := psm.DecodeControlRecord([]byte(c.key), value[:len(value):len(value)])
		require.Equal(t, c.bad, err != nil, "%q %q", c.key, c.value)
		if !c.bad {
			require.Equal(t, c.want, got)
		}
	}
	for typ, name := range map[psm.ControlType]string{-1: "NONE", 0: "ABORT", 1: "COMMIT", 7: "MIRROR_PID_RESET", 9: "UNKNOWN(9)"} {
		require.Equal(t, name, typ.String())
	}
	require.Equal(t, int8(4), psm.Attributes(0x24).Compression())
}

func TestSequenceArithmetic(t *testing.T) {
	for _, c := range []struct{ s, n, sum int32 }{
		{0, 0, 0},
		{0, 5, 5},
		{math.MaxInt32, 1, 0},
		{math.MaxInt32 - 1, 1, math.MaxInt32},
		{math.MaxInt32 - 1, 4, 2},
		{math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
		{5, math.MaxInt32, 4},
	} {
		require.Equal(t, c.sum, psm.AddSequence(c.s, c.n), "%d + %d", c.s, c.n)
		require.Equal(t, c.s, psm.SubSequence(c.sum, c.n), "%d - %d", c.sum, c.n)
	}
}
