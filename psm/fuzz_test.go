package psm_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func seedBatches(f *testing.F) {
	f.Helper()
	for _, dir := range segments {
		_, raw := readLog(f, dir)
		for _, p := range raw {
			f.Add(p)
		}
	}
}

// Whatever the bytes, a batch is decoded or refused; what is decoded fits the
// bytes, and can be applied.
func FuzzDecodeBatch(f *testing.F) {
	seedBatches(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		h, errHeader := psm.DecodeHeader(p)
		b, err := psm.DecodeBatch(p)
		crc := psm.CheckCRC(p)
		if errHeader != nil {
			require.Error(t, err)
			require.Error(t, crc)
			return
		}
		if err != nil {
			return
		}
		require.LessOrEqual(t, b.Size, len(p))
		require.GreaterOrEqual(t, b.Size, psm.HeaderSize)
		require.GreaterOrEqual(t, b.LastOffset, b.BaseOffset)
		require.Equal(t, int64(binary.BigEndian.Uint64(p)), b.BaseOffset)
		h.Control = b.Control
		require.Equal(t, h, b)
		again := append([]byte(nil), p...)
		psm.SetOffsets(again, 77, 9)
		moved, err := psm.DecodeBatch(again)
		require.NoError(t, err)
		require.Equal(t, b.LastOffset-b.BaseOffset, moved.LastOffset-77)
		require.Equal(t, crc == nil, psm.CheckCRC(again) == nil)

		for _, o := range []psm.Origin{psm.Client, psm.Coordinator, psm.Replication} {
			s := psm.New(psm.Config{VerifyTransactions: b.Size%2 == 0, AnyBarrierExpires: b.Size%3 == 0})
			_, _, _ = try(s, psm.Append{Origin: o, TransactionVersion: 2}, &b)
			if _, dup, err := try(s, psm.Append{Origin: o}, &moved); err == nil && !dup.Found {
				require.Equal(t, max(b.LastOffset, moved.LastOffset)+1, s.End())
			}
		}
	})
}

func FuzzDecodeControlRecord(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 3})
	f.Add([]byte{0, 0, 0, 7}, []byte("\x00\x00\x04src\x00"))
	f.Add([]byte{0, 0, 0, 7}, []byte("\x00\x00\x04src\x01\x05\x02ab trailing"))
	f.Add([]byte{0, 0, 0, 4}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, err := psm.DecodeControlRecord(key, value)
		if err != nil {
			require.ErrorIs(t, err, psm.ErrCorrupt)
			require.Equal(t, psm.Control{Type: psm.ControlNone}, c)
			return
		}
		// Trailing data changes nothing (BAR-2).
		more, err := psm.DecodeControlRecord(key, append(append([]byte(nil), value...), 1, 2, 3))
		require.NoError(t, err)
		require.Equal(t, c, more)
		if c.Type == psm.ControlMirrorPIDReset {
			b, err := psm.DecodeBatch(psm.Barrier{SourceClusterID: c.SourceClusterID}.Append(nil))
			require.NoError(t, err)
			require.Equal(t, c.SourceClusterID, b.Control.SourceClusterID)
		}
	})
}

func FuzzBarrier(f *testing.F) {
	f.Add(int64(0), int32(0), int64(1753000000000), "AbCdEfGhIjKlMnOpQrStUv", false)
	f.Add(int64(1)<<40, int32(1)<<30, int64(-1), "", true)
	f.Fuzz(func(t *testing.T, offset int64, epoch int32, ts int64, source string, logAppend bool) {
		offset &= 1<<62 - 1
		p := psm.Barrier{BaseOffset: offset, LeaderEpoch: epoch, Timestamp: ts, SourceClusterID: source, LogAppendTime: logAppend}.Append(nil)
		require.NoError(t, psm.CheckCRC(p))
		b, err := psm.DecodeBatch(p)
		require.NoError(t, err)
		require.True(t, b.IsBarrier() && b.Size == len(p) && !b.HasProducerID() && !b.Transactional())
		require.Equal(t, psm.Control{Type: psm.ControlMirrorPIDReset, Timestamp: ts, SourceClusterID: source}, b.Control)
		require.Equal(t, []any{offset, offset, epoch, ts, ts}, []any{b.BaseOffset, b.LastOffset, b.LeaderEpoch, b.BaseTimestamp, b.MaxTimestamp})
	})
}

func FuzzEndTxnMarker(f *testing.F) {
	f.Add(int64(3), int64(7), int16(2), int32(9), true)
	f.Fuzz(func(t *testing.T, ts, pid int64, epoch int16, coord int32, commit bool) {
		p := psm.EndTxnMarker{Timestamp: ts, ProducerID: pid, ProducerEpoch: epoch, CoordinatorEpoch: coord, Commit: commit}.Append(nil)
		require.Len(t, p, 78)
		require.NoError(t, psm.CheckCRC(p))
		b, err := psm.DecodeBatch(p)
		require.NoError(t, err)
		want := psm.Control{Type: psm.ControlAbort, CoordinatorEpoch: coord, Timestamp: ts}
		if commit {
			want.Type = psm.ControlCommit
		}
		require.Equal(t, want, b.Control)
		require.Equal(t, []any{pid, epoch, int32(-1)}, []any{b.ProducerID, b.ProducerEpoch, b.BaseSequence})
		require.True(t, b.IsControl() && b.Transactional())
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	for dir, offset := range map[string]int64{"A/t1-0": 12, "A/t2-0": 23, "B/t1-0": 11, "B/t2-0": 22} {
		p, err := os.ReadFile(filepath.Join(segment(dir), psm.SnapshotName(offset)))
		require.NoError(f, err)
		f.Add(p)
	}
	f.Add(psm.EncodeSnapshot(nil))
	none := psm.SnapshotEntry{ProducerID: 1, LastSequence: -1, LastOffset: -1, CurrentTxnFirstOffset: -1}
	late, far := none, none
	late.CurrentTxnFirstOffset, far.LastOffset = 2000, 2000 // beyond the snapshot
	f.Add(psm.EncodeSnapshot([]psm.SnapshotEntry{late}))
	f.Add(psm.EncodeSnapshot([]psm.SnapshotEntry{far}))
	f.Add(psm.EncodeSnapshot([]psm.SnapshotEntry{none, none}))
	f.Fuzz(func(t *testing.T, p []byte) {
		entries, err := psm.DecodeSnapshot(p)
		if err == nil {
			require.Equal(t, p, psm.EncodeSnapshot(entries))
		}
		// Behind a right checksum, too, nothing but an error may come of it.
		if len(p) >= 10 {
			q := append([]byte(nil), p...)
			fixCRC(q)
			d := newCrashDir()
			d.files[psm.SnapshotName(1000)] = q
			s := psm.New(psm.Config{})
			require.NoError(t, s.Reload(psm.NewSnapshots(d, nil), psm.Reload{
				Target: 1000, Replay: func(int64, int64, func(*psm.Batch) error) error { return nil },
			}))
			require.Equal(t, int64(1000), s.End())
			for _, o := range s.OpenTransactions() {
				require.Less(t, o.FirstOffset, int64(1000))
			}
		}
	})
}

func FuzzDecodeTxnIndex(f *testing.F) {
	for _, dir := range []string{"A/t2-0", "B/t2-0"} {
		p, err := os.ReadFile(filepath.Join(segment(dir), "00000000000000000000.txnindex"))
		require.NoError(f, err)
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		entries, err := psm.DecodeTxnIndex(p)
		var again []byte
		for _, a := range entries {
			again = a.Append(again)
		}
		require.Equal(t, p[:len(again)], append([]byte{}, again...))
		require.Equal(t, err == nil, len(again) == len(p))
		psm.CollectAborted(nil, psm.TruncateTxnIndex(entries, 100), 3, 50)
	})
}
