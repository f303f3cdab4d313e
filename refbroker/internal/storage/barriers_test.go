package storage

import (
	"path/filepath"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// inherited is a barrier batch of another cluster, at an offset, and the entry
// that a source's list has of it.
func inherited(t *testing.T, offset int64, epoch int32, writer string) ([]byte, Barrier) {
	raw := barrier(source)
	psm.SetOffsets(raw, offset, epoch)
	b, err := psm.DecodeBatch(raw)
	require.NoError(t, err)
	return raw, Barrier{Offset: offset, LeaderEpoch: epoch, CRC: b.CRC, SourceClusterID: source, Writer: writer}
}

func list(l *Log) []Barrier {
	all, _ := l.Barriers()
	return all
}

// Who wrote a barrier is on disk before its batch is, and found again by every
// way of recovery.
func TestTheWriterOfABarrierIsKept(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, lost := range []bool{false, true} { // the list as it was before the append
			l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
			raw, entry := inherited(t, 2, 3, "W")
			foreign, _ := inherited(t, 4, 3, "")
			require.NoError(t, l.NoteBarriers([]Barrier{entry}))
			file := filepath.Join(l.dir, fileStops)
			before, err := afero.ReadFile(l.fs, file)
			require.NoError(t, err)
			for _, batch := range [][]byte{plain(2).at(0, 1).build(), raw, plain(1).at(3, 3).build(), foreign} {
				_, err = l.AppendAsFollower(batch)
				require.NoError(t, err)
			}
			want := list(l)
			require.Len(t, want, 2)
			require.Equal(t, entry, want[0])
			require.Empty(t, want[1].Writer, "nobody said")
			if lost && !clean {
				require.NoError(t, l.Close(false))
				require.NoError(t, afero.WriteFile(l.fs, file, before, 0o644))
			} else {
				require.NoError(t, l.Close(clean))
			}
			l = openLog(t, place{fs: l.fs, dir: l.dir}, small(), OpenOptions{Clean: clean})
			require.Equal(t, want, list(l))

			// Learnt late.
			_, late := inherited(t, 4, 3, "V")
			require.NoError(t, l.NoteBarriers([]Barrier{entry, late}))
			require.Equal(t, []Barrier{entry, late}, list(l))
			_, other := inherited(t, 4, 3, "U")
			require.NoError(t, l.NoteBarriers([]Barrier{entry, other}))
			require.Equal(t, []Barrier{entry, late}, list(l), "what is known stays")
		}
	}
}

func TestAnOwnBarrierIsWrittenByThisCluster(t *testing.T) {
	cfg := small()
	cfg.ClusterID = "own"
	p := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
	l := openLog(t, p, cfg, OpenOptions{})
	require.NoError(t, l.SetStops([]psm.Stop{{Epoch: 2, SourceClusterID: source}}))
	_, err := l.AppendAsLeader(barrier(source), 2, coordinator)
	require.NoError(t, err)
	for _, clean := range []bool{true, false} {
		require.Equal(t, "own", list(l)[0].Writer)
		require.NoError(t, l.Close(clean))
		l = openLog(t, p, cfg, OpenOptions{Clean: clean})
	}
}

// BAR-8: a barrier that a cleaner took out of the log stays in the list; one
// that lies where there is another batch never was in this log.
func TestTheListOutlivesACleanedBarrier(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	for _, batch := range [][]byte{plain(2).at(0, 1).build(), plain(2).at(3, 3).build()} {
		_, err := l.AppendAsFollower(batch)
		require.NoError(t, err)
	}
	_, cleaned := inherited(t, 2, 3, "W")
	_, overwritten := inherited(t, 4, 3, "W")
	_, above := inherited(t, 9, 3, "W")
	require.NoError(t, l.Close(false))
	line, err := encodeStops(barrierLists{barriers: []Barrier{cleaned, overwritten, above}})
	require.NoError(t, err)
	require.NoError(t, afero.WriteFile(l.fs, filepath.Join(l.dir, fileStops), line, 0o644))
	l = openLog(t, place{fs: l.fs, dir: l.dir}, small(), OpenOptions{})
	require.Equal(t, []Barrier{cleaned}, list(l))
}

// A leader that was elected and wrote nothing leaves an epoch at the log's end.
// Another line does not know it.
func TestATruncationToTheEndForgetsEpochsWithoutABatch(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	lead2(t, l, plain(5).build(), 1)
	require.NoError(t, l.AssignEpoch(7))
	require.EqualValues(t, 7, l.Marks().Epoch)
	end, err := l.TruncateTo(5)
	require.NoError(t, err)
	require.EqualValues(t, 5, end)
	require.EqualValues(t, 1, l.Marks().Epoch)
	_, err = l.AppendAsFollower(plain(1).at(5, 2).build())
	require.NoError(t, err)
}

// Also where records were deleted up to the middle of the first segment.
func TestALogIsBegunAnewBelowItsStart(t *testing.T) {
	for _, start := range []int64{0, 3, 50} {
		l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
		lead(t, l, by(7, 0, 0, 10).build(), client)
		raw, entry := inherited(t, 10, 0, "")
		_, err := l.AppendAsFollower(raw)
		require.NoError(t, err)
		l.SetHighWatermark(10)
		_, err = l.DeleteRecords(5)
		require.NoError(t, err)
		require.Equal(t, []Barrier{entry}, list(l))
		_, below := inherited(t, 1, 0, "W")
		require.NoError(t, l.TruncateFully(start, below))
		require.Equal(t, Marks{start, start, start, start, -1}, l.Marks())
		require.Equal(t, []Barrier{below}, list(l))
		records, err := l.CountRecords(0)
		require.NoError(t, err)
		require.Zero(t, records)
		require.NoError(t, l.Close(false))
		l = openLog(t, place{fs: l.fs, dir: l.dir}, small(), OpenOptions{LogStart: start})
		require.Equal(t, Marks{start, start, start, start, -1}, l.Marks())
		if start > below.Offset {
			require.Equal(t, []Barrier{below}, list(l))
		}
	}
}

func TestRecordsAreCounted(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	lead(t, l, by(7, 0, 0, 10).build(), client)
	lead(t, l, by(8, 0, 0, 3).inTxn().build(), client)
	lead(t, l, marker(8, 0, true), coordinator)
	lead(t, l, plain(2).build(), client)
	for offset, want := range map[int64]int64{0: 15, 10: 5, 13: 2, 14: 2, 16: 0} {
		n, err := l.CountRecords(offset)
		require.NoError(t, err)
		require.Equal(t, want, n, "from %d", offset)
	}
}
