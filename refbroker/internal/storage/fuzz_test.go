package storage

import (
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// FuzzRecovery opens a good log with anything behind it: the good part is
// kept, what follows is whole valid batches or cut, and nothing panics.
func FuzzRecovery(f *testing.F) {
	good := append(by(1, 0, 0, 2).build(), by(2, 0, 0, 1).inTxn().at(2, 0).build()...)
	more := by(1, 0, 2, 2).at(3, 1).build()
	f.Add([]byte{}, false)
	f.Add(more, false)
	f.Add(more[:len(more)-1], true)
	f.Add(by(1, 0, 2, 2).at(1, 0).build(), false)
	f.Add(append(barrier(source), more...), true)
	f.Add(make([]byte, 200), false)
	huge := plain(1).at(3, 0).build()
	huge[8], huge[9] = 0x7f, 0xff
	f.Add(huge, true)
	f.Fuzz(func(t *testing.T, tail []byte, junk bool) {
		fsys := afero.NewMemMapFs()
		require.NoError(t, fsys.MkdirAll("/t-0", 0o755))
		raw := append(append([]byte{}, good...), tail...)
		require.NoError(t, afero.WriteFile(fsys, fileName("/t-0", 0, suffixLog), raw, 0o644))
		if junk {
			for _, name := range []string{suffixIndex, suffixTimeIndex, suffixTxnIndex, suffixSnapshot} {
				require.NoError(t, afero.WriteFile(fsys, fileName("/t-0", 0, name), tail, 0o644))
			}
			require.NoError(t, afero.WriteFile(fsys, "/t-0/"+fileEpochs, tail, 0o644))
		}
		l, err := Open(fsys, "/t-0", Config{Now: now}, OpenOptions{TopicID: topicID, RecoveryPoint: int64(len(tail))})
		if err != nil {
			// Only a log whose valid batches contradict each other.
			require.NotZero(t, psm.Code(err), "%v", err)
			return
		}
		l.SetHighWatermark(l.Marks().LogEnd)
		got := factsOf(t, l)
		require.GreaterOrEqual(t, len(got.bytes), len(good))
		require.Equal(t, string(raw[:len(got.bytes)]), got.bytes)
		require.Equal(t, replayed(t, got, nil), got)
		require.NoError(t, l.Close(true))
		again, err := Open(fsys, "/t-0", Config{Now: now}, OpenOptions{TopicID: topicID, Clean: true})
		require.NoError(t, err)
		again.SetHighWatermark(again.Marks().LogEnd)
		require.Equal(t, got, factsOf(t, again))
		require.NoError(t, again.Close(true))
	})
}

// FuzzCleanOpen opens a log whose helper files are anything, under the word
// that it was closed cleanly.
func FuzzCleanOpen(f *testing.F) {
	f.Add([]byte("0\n1\n0 0\n"), uint8(0))
	f.Add(encodeOffsetIndex([]offsetEntry{{1, 0}, {2, 70}}), uint8(1))
	f.Add(encodeTimeIndex([]timeEntry{{5, 1}, {6, 2}}), uint8(2))
	f.Add([]byte(`{"version":1,"stops":[{"l":1,"barrierOffset":1,"epoch":1,"sourceClusterId":"x"}]}`), uint8(3))
	line, err := encodeStops(barrierLists{stops: []psm.Stop{{L: 1, BarrierOffset: 1, Epoch: 1, SourceClusterID: "x"}}})
	require.NoError(f, err)
	f.Add(append(line, line[:9]...), uint8(3))
	f.Add([]byte("version: 0\ntopic_id: AAAA"), uint8(4))
	f.Add(psm.EncodeSnapshot(nil), uint8(5))
	f.Add([]byte{0, 0, 1}, uint8(6))
	f.Fuzz(func(t *testing.T, content []byte, which uint8) {
		fsys := afero.NewMemMapFs()
		cfg := Config{Now: now, IndexInterval: 1}
		l, err := Open(fsys, "/t-0", cfg, OpenOptions{TopicID: topicID})
		require.NoError(t, err)
		for i := range int32(5) {
			_, err := l.AppendAsLeader(by(1, 0, i, 1).build(), i, client)
			require.NoError(t, err)
		}
		want := wholeContent(t, l)
		require.NoError(t, l.Close(true))
		names := []string{
			"/t-0/" + fileEpochs, fileName("/t-0", 0, suffixIndex), fileName("/t-0", 0, suffixTimeIndex), "/t-0/" + fileStops,
			"/t-0/" + fileMetadata, fileName("/t-0", 5, suffixSnapshot), fileName("/t-0", 0, suffixTxnIndex),
		}
		require.NoError(t, afero.WriteFile(fsys, names[int(which)%len(names)], content, 0o644))
		l, err = Open(fsys, "/t-0", cfg, OpenOptions{TopicID: topicID, Clean: true})
		if err != nil {
			return
		}
		require.Equal(t, int64(5), l.Marks().LogEnd)
		if names[int(which)%len(names)] == fileName("/t-0", 0, suffixIndex) {
			// Of a clean log's index only form and last entry are checked.
			for at := range int64(5) {
				_, _ = l.Read(at, 5, 1<<20, true)
			}
			_ = l.Close(true)
			return
		}
		for at := range int64(5) {
			raw, err := l.Read(at, 5, 1<<20, true)
			require.NoError(t, err)
			require.NotEmpty(t, raw)
		}
		require.Equal(t, want, wholeContent(t, l))
		require.NoError(t, l.Close(true))
	})
}

func wholeContent(t *testing.T, l *Log) string { return string(content(t, l)) }
