package storage

import (
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// insideLog is a log without records that begins at offset 5.
func insideLog(t *testing.T, p place, cfg Config) *Log {
	l := openLog(t, p, cfg, OpenOptions{})
	require.NoError(t, l.TruncateFully(5))
	return l
}

// Another log whose start lies in a batch gives that batch whole. It is taken,
// the log still begins at its start, and reading, recovery and truncation agree.
func TestALogThatBeginsInsideABatch(t *testing.T) {
	head := by(1, 0, 0, 5).inTxn().at(3, 2).build() // 3 to 7
	rest := by(1, 0, 5, 2).inTxn().at(8, 3).build()
	onEach(t, func(t *testing.T, p place) {
		for _, together := range []bool{true, false} {
			l := insideLog(t, place{fs: p.fs, dir: p.dir + map[bool]string{true: "one", false: "two"}[together]}, small())
			if together {
				done, err := l.AppendAsFollower(append(append([]byte(nil), head...), rest...))
				require.NoError(t, err)
				require.Equal(t, Appended{BaseOffset: 3, LastOffset: 9, LogAppendTime: -1, LogStart: 5}, done)
			} else {
				for _, raw := range [][]byte{head, rest} {
					_, err := l.AppendAsFollower(raw)
					require.NoError(t, err)
				}
			}
			l.SetHighWatermark(10)
			f := factsOf(t, l)
			require.Equal(t, Marks{LogStart: 5, LastStable: 5, HighWatermark: 10, LogEnd: 10, Epoch: 3}, f.marks)
			require.Equal(t, string(head)+string(rest), f.bytes)
			require.Equal(t, []EpochStart{{2, 5}, {3, 8}}, f.epochs)
			require.Equal(t, []psm.OpenTxn{{ProducerID: 1, FirstOffset: 3, LastTimestamp: 1001}}, f.open)
			_, err := l.AppendAsFollower(head)
			require.ErrorAs(t, err, new(*OffsetError), "there are records now")
			for _, clean := range []bool{true, false} {
				require.NoError(t, l.Close(clean))
				l = openLog(t, place{fs: l.fs, dir: l.dir}, small(), OpenOptions{Clean: clean, LogStart: 5, HighWatermark: 10, RecoveryPoint: 5})
				l.SetHighWatermark(10)
				require.Equal(t, f, factsOf(t, l), "clean %v", clean)
			}
		}
	})
}

// What does not reach over the log's end, or over one that has records, is
// refused as ever.
func TestOnlyABatchThatHoldsTheLogsStart(t *testing.T) {
	l := insideLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small())
	_, err := l.AppendAsFollower(plain(2).at(3, 0).build()) // 3 and 4
	require.ErrorAs(t, err, new(*OffsetError))
	_, err = l.AppendAsFollower(append(plain(3).at(3, 0).build(), plain(2).at(5, 0).build()...))
	require.ErrorAs(t, err, new(*OffsetError), "the second lies in the first")
	require.Equal(t, int64(6), l.Marks().LogEnd, "the first was taken")
}

// A stop may cut a log at its very start, in the middle of its first batch: an
// open transaction began there. The log ends there then, and the barrier has its
// place.
func TestACutInTheBatchThatTheLogBeginsIn(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := insideLog(t, p, small())
		_, err := l.AppendAsFollower(by(1, 0, 0, 5).inTxn().at(3, 2).build())
		require.NoError(t, err)
		l.SetHighWatermark(8)
		at, err := l.StableCut()
		require.NoError(t, err)
		require.Equal(t, int64(5), at)
		require.NoError(t, l.SetStops([]psm.Stop{{L: 5, BarrierOffset: 5, Epoch: 3, SourceClusterID: source}}))
		end, err := l.TruncateTo(5)
		require.NoError(t, err)
		require.Equal(t, int64(5), end)
		for _, clean := range []bool{true, false} {
			require.Equal(t, Marks{LogStart: 5, LastStable: 5, HighWatermark: 5, LogEnd: 5, Epoch: -1}, l.Marks())
			require.NoError(t, l.Close(clean))
			l = openLog(t, p, small(), OpenOptions{Clean: clean, LogStart: 5, HighWatermark: 5, RecoveryPoint: 5})
		}
		done, err := l.AppendAsLeader(barrier(source), 3, coordinator)
		require.NoError(t, err)
		require.Equal(t, int64(5), done.BaseOffset)
	})
}

// A disk that fails, or a process that ends, at each change of the first append
// leaves the log without records at its start, or with the whole batch.
func TestACrashWhileALogBeginsInsideABatch(t *testing.T) {
	head := by(1, 0, 0, 5).at(3, 2).build()
	for step := 0; ; step++ {
		fsys := &crashFs{Fs: afero.NewMemMapFs(), left: -1}
		l := insideLog(t, place{fs: fsys, dir: "/t-0"}, small())
		fsys.left = step
		_, err := l.AppendAsFollower(head)
		fsys.left = -1
		target := place{fs: afero.NewMemMapFs(), dir: "/t-0"}
		copyTree(t, fsys.Fs, "/t-0", target.fs, target.dir)
		if err != nil && l.Failure() == nil {
			_, again := l.AppendAsFollower(head)
			require.NoError(t, again, "step %d: %v", step, err)
		}
		require.NoError(t, l.Close(false))
		l = openLog(t, target, small(), OpenOptions{LogStart: 5, HighWatermark: 5, RecoveryPoint: 5})
		m := l.Marks()
		require.Equal(t, int64(5), m.LogStart, "step %d: %v", step, err)
		if m.LogEnd == 5 {
			require.Error(t, err, "step %d", step)
			_, err := l.AppendAsFollower(head)
			require.NoError(t, err, "step %d", step)
			m = l.Marks()
		}
		require.Equal(t, int64(8), m.LogEnd, "step %d: %v", step, err)
		require.Equal(t, string(head), string(content(t, l)))
		if err == nil {
			require.Greater(t, step, 4, "each change was tried")
			return
		}
	}
}
