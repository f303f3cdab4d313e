package storage

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

func TestLeaderAssignsOffsetsAndKeepsTheRest(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		first, second := by(7, 0, 0, 3).build(), by(7, 0, 3, 2).build()
		crc := binary.BigEndian.Uint32(second[posCRC:])
		require.Equal(t, Appended{BaseOffset: 0, LastOffset: 2, LogAppendTime: -1}, lead(t, l, first, client))
		res, err := l.AppendAsLeader(second, 4, client)
		require.NoError(t, err)
		require.Equal(t, Appended{BaseOffset: 3, LastOffset: 4, LogAppendTime: -1}, res)
		require.Equal(t, crc, binary.BigEndian.Uint32(second[posCRC:]), "offset and epoch lie outside of the CRC")
		require.NoError(t, psm.CheckCRC(second))
		require.Equal(t, string(first)+string(second), string(content(t, l)))
		require.Equal(t, []EpochStart{{0, 0}, {4, 3}}, l.Epochs())
		require.Equal(t, Marks{LogEnd: 5, HighWatermark: 3, LastStable: 3, Epoch: 4}, l.Marks())
	})
}

func TestClientBatchesThatAreRefused(t *testing.T) {
	edit := func(raw []byte, at int, b ...byte) []byte {
		copy(raw[at:], b)
		setCRC(raw)
		return raw
	}
	broken := by(1, 0, 0, 1).build()
	broken[posCRC]++
	for name, c := range map[string]struct {
		raw  []byte
		want *kerr.Error
	}{
		"nothing":           {nil, kerr.CorruptMessage},
		"half a batch":      {plain(3).build()[:70], kerr.CorruptMessage},
		"wrong CRC":         {broken, kerr.CorruptMessage},
		"magic 1":           {edit(plain(1).build(), 16, 1), kerr.InvalidRecord},
		"two batches":       {append(plain(1).build(), plain(1).build()...), kerr.InvalidRecord},
		"control batch":     {marker(1, 0, true), kerr.InvalidRecord},
		"barrier":           {barrier("x"), kerr.InvalidRecord},
		"too few records":   {edit(plain(2).build(), 57, 0, 0, 0, 1), kerr.InvalidRecord},
		"no records":        {edit(plain(1).build(), 57, 0, 0, 0, 0), kerr.InvalidRecord},
		"no sequence":       {by(1, 0, -1, 1).build(), kerr.InvalidRecord},
		"no epoch":          {by(1, -1, 0, 1).build(), kerr.InvalidRecord},
		"negative id":       {by(-7, 0, 0, 1).build(), kerr.InvalidRecord},
		"txn without id":    {plain(1).inTxn().build(), kerr.InvalidRecord},
		"log append time":   {edit(plain(1).build(), 22, 0x08), kerr.InvalidTimestamp},
		"too large":         {data{pid: -1, epoch: -1, seq: -1, n: 1, size: 3000}.build(), kerr.MessageTooLarge},
		"sequence gap":      {by(7, 0, 5, 1).build(), kerr.OutOfOrderSequenceNumber},
		"old epoch":         {by(8, 0, 0, 1).build(), kerr.InvalidProducerEpoch},
		"leaves its txn":    {by(9, 0, 1, 1).build(), kerr.InvalidTxnState},
		"negative length":   {edit(plain(1).build(), 8, 0xff), kerr.CorruptMessage},
		"batch and garbage": {append(plain(1).build(), 1, 2, 3), kerr.InvalidRecord},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small()
			cfg.MaxMessageBytes = 2000
			l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, cfg, OpenOptions{})
			lead(t, l, by(7, 0, 0, 1).build(), client)
			lead(t, l, by(8, 3, 0, 1).build(), client)
			lead(t, l, by(9, 0, 0, 1).inTxn().build(), client)
			before := factsOf(t, l)
			_, err := l.AppendAsLeader(c.raw, 1, client)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, before, factsOf(t, l))
		})
	}
}

// FA-01 and FA-02: retries of the last five batches are answered with their
// offsets, across the end of the sequence numbers too.
func TestDuplicates(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		lead(t, l, by(7, 0, 2147483644, 2).build(), client)
		lead(t, l, by(7, 0, 2147483646, 4).build(), client)
		before := content(t, l)
		res, err := l.AppendAsLeader(by(7, 0, 2147483646, 4).build(), 0, client)
		require.NoError(t, err)
		require.Equal(t, Appended{BaseOffset: 2, LastOffset: 5, LogAppendTime: -1, Duplicate: true}, res)
		require.Equal(t, before, content(t, l))
		require.Equal(t, int64(6), lead(t, l, by(7, 0, 2, 1).build(), client).BaseOffset)
	})
}

func TestLogAppendTime(t *testing.T) {
	cfg := small()
	cfg.LogAppendTime = true
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, cfg, OpenOptions{})
	res := lead(t, l, by(7, 0, 0, 3).build(), client)
	require.Equal(t, now().UnixMilli(), res.LogAppendTime)
	raw := content(t, l)
	require.NoError(t, psm.CheckCRC(raw))
	b, err := psm.DecodeHeader(raw)
	require.NoError(t, err)
	require.True(t, b.Attributes.LogAppendTime())
	require.Equal(t, now().UnixMilli(), b.MaxTimestamp)
	f, err := l.OffsetForTime(now().UnixMilli(), nil)
	require.NoError(t, err)
	require.Equal(t, Found{0, now().UnixMilli(), 0}, f)
}

func TestFollowerKeepsBytes(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		raw := append(by(7, 0, 0, 5).at(0, 2).build(), by(7, 0, 20, 5).at(20, 5).build()...)
		res, err := l.AppendAsFollower(raw)
		require.NoError(t, err)
		require.Equal(t, Appended{BaseOffset: 0, LastOffset: 24, LogAppendTime: -1}, res)
		require.Equal(t, raw, content(t, l))
		require.Equal(t, []EpochStart{{2, 0}, {5, 20}}, l.Epochs(), "epochs enter with the batches")
		got, err := l.Read(7, 25, 1<<20, true)
		require.NoError(t, err)
		require.Equal(t, int64(24), lastOf(t, got), "a read in a gap goes on behind it")

		before := factsOf(t, l)
		var below *OffsetError
		_, err = l.AppendAsFollower(plain(3).at(23, 5).build())
		require.ErrorAs(t, err, &below)
		require.Equal(t, OffsetError{23, 25}, *below)
		var older *EpochOrderError
		_, err = l.AppendAsFollower(append(plain(1).at(25, 6).build(), plain(1).at(26, 5).build()...))
		require.ErrorAs(t, err, &older)
		require.Equal(t, EpochOrderError{26, 5, 6}, *older)
		_, err = l.AppendAsLeader(plain(1).build(), 4, client)
		require.ErrorAs(t, err, &older)
		_, err = l.AppendAsFollower(raw[:len(raw)-1])
		require.ErrorIs(t, err, kerr.CorruptMessage)
		require.Equal(t, before, factsOf(t, l))
		require.Equal(t, int64(25), lead2(t, l, by(7, 0, 25, 1).build(), 5).BaseOffset, "FA-06")
	})
}

func lead2(t *testing.T, l *Log, raw []byte, epoch int32) Appended {
	t.Helper()
	res, err := l.AppendAsLeader(raw, epoch, client)
	require.NoError(t, err)
	return res
}

func TestReadWholeBatchesWithinBounds(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, Config{SegmentBytes: 700, IndexInterval: 1, Now: now}, OpenOptions{})
		var sizes []int
		for i := range 20 {
			raw := data{pid: -1, epoch: -1, seq: -1, n: 2, size: i * 7}.build()
			sizes = append(sizes, len(raw))
			lead(t, l, raw, client)
		}
		require.Greater(t, len(l.segments), 3)
		for at := range int64(40) {
			size := sizes[at/2]
			raw, err := l.Read(at, 40, size-1, true)
			require.NoError(t, err)
			require.Len(t, raw, size, "at least one")
			raw, err = l.Read(at, 40, size-1, false)
			require.NoError(t, err)
			require.Empty(t, raw)
			raw, err = l.Read(at, at|1, 1000, true)
			require.NoError(t, err)
			require.Empty(t, raw, "none that reaches beyond the bound")
			raw, err = l.Read(at, at|1, 1, true)
			require.NoError(t, err)
			require.Empty(t, raw, "not even the first")
			raw, err = l.Read(at, at/2*2+2, 1000, true)
			require.NoError(t, err)
			require.Len(t, raw, size)
			raw, err = l.Read(at, 40, 1<<20, true)
			require.NoError(t, err)
			b, err := psm.DecodeHeader(raw)
			require.NoError(t, err)
			require.Equal(t, at/2*2, b.BaseOffset)
		}
		raw, err := l.Read(40, 40, 100, true)
		require.NoError(t, err)
		require.Empty(t, raw)
		var outside *ErrOutOfRange
		for _, at := range []int64{-1, 41} {
			_, err := l.Read(at, 40, 100, true)
			require.ErrorAs(t, err, &outside)
			require.Equal(t, ErrOutOfRange{at, 0, 40}, *outside)
		}
	})
}

func TestTransactionsAndStableOffset(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		lead(t, l, plain(2).build(), client)               // 0-1
		lead(t, l, by(1, 0, 0, 2).inTxn().build(), client) // 2-3
		lead(t, l, by(2, 0, 0, 1).inTxn().build(), client) // 4
		require.Equal(t, int64(2), l.Marks().LastStable)
		lead(t, l, marker(1, 0, false), coordinator) // 5
		require.Equal(t, int64(4), l.Marks().LastStable)
		res, err := l.AppendAsLeader(marker(2, 0, true), 0, coordinator) // 6
		require.NoError(t, err)
		require.Equal(t, int64(6), res.BaseOffset)
		require.Equal(t, Marks{LogEnd: 7, HighWatermark: 6, LastStable: 4, Epoch: 0}, l.Marks(), "the marker is not replicated yet")
		l.SetHighWatermark(7)
		require.Equal(t, int64(7), l.Marks().LastStable)
		want := []psm.AbortedTxn{{ProducerID: 1, FirstOffset: 2, LastOffset: 5, LSO: 4}}
		require.Equal(t, want, l.Aborted(nil, 0, 7))
		require.Equal(t, want, l.Aborted(nil, 5, 6))
		require.Empty(t, l.Aborted(nil, 6, 7))
		require.Empty(t, l.Aborted(nil, 0, 2))
	})
}

func TestTimes(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, Config{SegmentBytes: 500, IndexInterval: 50, Now: now}, OpenOptions{})
		f, err := l.MaxTimestamp(nil)
		require.NoError(t, err)
		require.Equal(t, notFound, f)
		// Three records each, timestamps 100i, +1, +2; one late batch.
		for i := range 20 {
			d := plain(3)
			d.time = int64(100 * i)
			if i == 15 {
				d.time = 50
			}
			lead(t, l, d.build(), client)
		}
		check := func(ms, offset, ts int64) {
			t.Helper()
			f, err := l.OffsetForTime(ms, nil)
			require.NoError(t, err)
			if offset < 0 {
				require.Equal(t, notFound, f)
				return
			}
			require.Equal(t, Found{offset, ts, 0}, f)
		}
		check(0, 0, 0)
		check(1, 1, 1)
		check(3, 3, 100)
		check(1401, 43, 1401)
		check(1403, 48, 1600)
		check(1902, 59, 1902)
		check(1903, -1, -1)
		f, err = l.MaxTimestamp(nil)
		require.NoError(t, err)
		require.Equal(t, Found{59, 1902, 0}, f)
		_, err = l.DeleteRecords(44)
		require.NoError(t, err)
		check(0, 44, 1402)
		require.NoError(t, l.Close(true))
		l = openLog(t, p, Config{SegmentBytes: 500, IndexInterval: 50, Now: now}, OpenOptions{Clean: true, LogStart: 44})
		check(1403, 48, 1600)
		check(1902, 59, 1902)
	})
}

func TestTimesInCompressedBatches(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	raw := plain(3).build()
	raw[22] |= 2
	setCRC(raw)
	lead(t, l, raw, client)
	f, err := l.OffsetForTime(1001, func(src []byte, codec int8) ([]byte, error) {
		require.Equal(t, int8(2), codec)
		return src, nil
	})
	require.NoError(t, err)
	require.Equal(t, Found{1, 1001, 0}, f)
	_, err = l.OffsetForTime(1001, func([]byte, int8) ([]byte, error) { return []byte{0xff}, nil })
	require.ErrorContains(t, err, "batch at offset 0")
}

// A failed append leaves log and state as they were, and the next one works.
func TestFailedWritesChangeNothing(t *testing.T) {
	disk := &failingFs{Fs: afero.NewMemMapFs()}
	p := place{fs: disk, dir: "/t-0"}
	l := openLog(t, p, small(), OpenOptions{})
	lead(t, l, by(1, 0, 0, 1).inTxn().build(), client)
	before := factsOf(t, l)
	disk.fail = func(name string) bool { return name == "write 00000000000000000000.log" }
	_, err := l.AppendAsLeader(by(1, 0, 1, 1).inTxn().build(), 1, client)
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, before, factsOf(t, l))
	require.Equal(t, before.epochs, l.epochs.entries)
	st, err := disk.Stat("/t-0/00000000000000000000.log")
	require.NoError(t, err)
	require.Equal(t, int64(len(before.bytes)), st.Size())
	disk.fail = nil
	_, err = l.AppendAsLeader(by(1, 0, 1, 1).inTxn().build(), 1, client)
	require.NoError(t, err)
	require.NoError(t, l.Close(false))
	l = openLog(t, p, small(), OpenOptions{})
	require.Equal(t, int64(2), l.Marks().LogEnd)
	require.Equal(t, []EpochStart{{0, 0}, {1, 1}}, l.Epochs())
}

// What an append leaves to the next flush (the checkpoint of leader epochs and the
// list of barriers) recovery finds in the batches: with the files of before, and
// with none.
func TestRecoveryFindsWhatNoFlushHasSaved(t *testing.T) {
	for _, flushed := range []string{"nothing", "before", "batches", "rolled"} {
		t.Run(flushed, func(t *testing.T) {
			disk := &failingFs{Fs: afero.NewMemMapFs()}
			p := place{fs: disk, dir: "/t-0"}
			l := openLog(t, p, small(), OpenOptions{})
			lead(t, l, by(1, 0, 0, 1).build(), client)
			if flushed != "nothing" {
				require.NoError(t, l.Flush())
			}
			disk.fail = func(name string) bool {
				return flushed != "rolled" && (strings.Contains(name, fileEpochs) || strings.Contains(name, fileStops))
			}
			_, err := l.AppendAsLeader(psm.Barrier{SourceClusterID: "A"}.Append(nil), 4, psm.Append{Origin: psm.Coordinator})
			require.NoError(t, err)
			_, err = l.AppendAsLeader(by(1, 0, 1, 1).build(), 7, client)
			require.NoError(t, err)
			switch flushed {
			case "batches":
				require.NoError(t, l.FlushBatches())
				require.ErrorIs(t, l.Flush(), errDisk)
			case "rolled":
				l.mu.Lock()
				require.NoError(t, l.roll(l.logEnd))
				l.mu.Unlock()
			}
			disk.fail = nil
			want, barriers := factsOf(t, l), slices.Clone(l.barriers)
			require.Len(t, barriers, 1)
			point := l.RecoveryPoint()
			require.NoError(t, l.Close(false))
			l = openLog(t, p, small(), OpenOptions{RecoveryPoint: point})
			require.Equal(t, []EpochStart{{0, 0}, {4, 1}, {7, 2}}, l.Epochs())
			require.Equal(t, barriers, l.barriers)
			require.Equal(t, want.bytes, factsOf(t, l).bytes)
		})
	}
}

// A log whose file can't be put back takes nothing more until it is recovered.
func TestBrokenLogNeedsRecovery(t *testing.T) {
	disk := &failingFs{Fs: afero.NewMemMapFs(), truncates: true}
	p := place{fs: disk, dir: "/t-0"}
	l := openLog(t, p, small(), OpenOptions{})
	lead(t, l, by(1, 0, 0, 1).build(), client)
	want := content(t, l)
	disk.fail = func(name string) bool { return strings.HasSuffix(name, ".log") }
	_, err := l.AppendAsLeader(by(1, 0, 1, 1).build(), 0, client)
	require.ErrorIs(t, err, errBroken)
	disk.fail = nil
	_, err = l.AppendAsLeader(by(1, 0, 1, 1).build(), 0, client)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, want, content(t, l), "it still can be read")
	require.ErrorIs(t, l.Close(true), errBroken)
	l = openLog(t, p, small(), OpenOptions{})
	require.Equal(t, want, content(t, l))
	lead(t, l, by(1, 0, 1, 1).build(), client)
}

// The aborted transaction's index entry is not lost by a failed write to the
// index: the next flush writes it.
func TestFailedTxnIndexWriteIsMadeUpFor(t *testing.T) {
	disk := &failingFs{Fs: afero.NewMemMapFs()}
	p := place{fs: disk, dir: "/t-0"}
	l := openLog(t, p, small(), OpenOptions{})
	lead(t, l, by(1, 0, 0, 1).inTxn().build(), client)
	disk.fail = func(name string) bool { return strings.HasSuffix(name, ".txnindex") }
	lead(t, l, marker(1, 0, false), coordinator)
	disk.fail = nil
	want := []psm.AbortedTxn{{ProducerID: 1, FirstOffset: 0, LastOffset: 1, LSO: 2}}
	require.Equal(t, want, l.Aborted(nil, 0, 2))
	require.NoError(t, l.Close(true))
	l = openLog(t, p, small(), OpenOptions{Clean: true})
	require.Equal(t, want, l.Aborted(nil, 0, 2))
}

func TestEndOffsetForEpoch(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	check := func(epoch, wantEpoch int32, wantEnd int64) {
		t.Helper()
		e, end := l.EndOffsetForEpoch(epoch)
		require.Equal(t, [2]int64{int64(wantEpoch), wantEnd}, [2]int64{int64(e), end}, "epoch %d", epoch)
	}
	check(0, -1, -1)
	for _, e := range []int32{2, 2, 5, 9} {
		lead2(t, l, plain(10).build(), e)
	}
	check(-1, -1, -1)
	check(1, 1, 0)
	check(2, 2, 20)
	check(4, 2, 20)
	check(5, 5, 30)
	check(8, 5, 30)
	check(9, 9, 40)
	check(10, -1, -1)
	require.NoError(t, l.AssignEpoch(12))
	check(12, 12, 40)
	check(9, 9, 40)
	require.Equal(t, int32(5), l.EpochAt(25))
	require.Equal(t, int32(12), l.EpochAt(40))
}

// A clean close leaves the producer state at the log's end, all indexes, and
// nothing that the next opening has to write.
func TestCleanCloseLeavesEverything(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, Config{SegmentBytes: 300, IndexInterval: 1, Now: now}, OpenOptions{})
		for i := range int32(6) {
			lead(t, l, by(7, 0, i, 1).build(), client)
		}
		want := l.state.SnapshotEntries()
		require.NoError(t, l.Close(true))
		names, err := folderNames(p.fs, p.dir)
		require.NoError(t, err)
		files := map[string]string{}
		for _, n := range names {
			raw, err := afero.ReadFile(p.fs, p.dir+"/"+n)
			require.NoError(t, err)
			files[n] = string(raw)
		}
		got, err := psm.DecodeSnapshot([]byte(files[psm.SnapshotName(6)]))
		require.NoError(t, err)
		require.Equal(t, want, got)
		for i, s := range l.segments {
			require.Equal(t, string(encodeOffsetIndex(s.index)), files[fmt.Sprintf("%020d.index", s.base)], i)
			require.Equal(t, string(encodeTimeIndex(s.times)), files[fmt.Sprintf("%020d.timeindex", s.base)], i)
			require.NotEmpty(t, s.times)
		}
		require.Equal(t, "0\n1\n0 0\n", files[fileEpochs])
		_, err = Open(afero.NewReadOnlyFs(p.fs), p.dir, small(), OpenOptions{TopicID: topicID, Clean: true})
		require.ErrorIs(t, err, fs.ErrPermission, "a log is opened to be written to")
		l = openLog(t, p, small(), OpenOptions{Clean: true})
		require.NoError(t, l.Close(false))
		again, err := folderNames(p.fs, p.dir)
		require.NoError(t, err)
		require.ElementsMatch(t, names, again)
		for _, n := range again {
			raw, err := afero.ReadFile(p.fs, p.dir+"/"+n)
			require.NoError(t, err)
			require.Equal(t, files[n], string(raw), n)
		}
	})
}
