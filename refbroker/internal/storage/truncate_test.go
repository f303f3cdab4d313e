package storage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

const source = "o5jt3v-4S1Sc3Mw97_PqJw"

// FA-05: a truncation takes the producer state back with the log.
func TestTruncationTakesStateBack(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		lead(t, l, plain(10).build(), client)
		lead(t, l, by(1, 0, 0, 5).inTxn().build(), client)
		require.Equal(t, int64(10), l.Marks().LastStable)
		lead(t, l, marker(1, 0, true), coordinator)
		require.Equal(t, int64(16), l.Marks().LastStable)

		end, err := l.TruncateTo(15)
		require.NoError(t, err)
		require.Equal(t, int64(15), end)
		require.Equal(t, Marks{LogEnd: 15, HighWatermark: 15, LastStable: 10, Epoch: 0}, l.Marks())
		require.Equal(t, []psm.OpenTxn{{ProducerID: 1, FirstOffset: 10, LastTimestamp: 1004}}, l.OpenTransactions())

		end, err = l.TruncateTo(10)
		require.NoError(t, err)
		require.Equal(t, int64(10), end)
		require.Equal(t, Marks{LogEnd: 10, HighWatermark: 10, LastStable: 10, Epoch: 0}, l.Marks())
		require.Empty(t, l.OpenTransactions())
		require.Empty(t, l.Producers())
		require.Equal(t, int64(10), lead(t, l, by(1, 0, 0, 5).build(), client).BaseOffset)
	})
}

func TestTruncationCutsWholeBatchesEverywhere(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		for cut := int64(0); cut <= 61; cut += 3 {
			l := openLog(t, place{fs: p.fs, dir: fmt.Sprint(p.dir, cut)}, Config{SegmentBytes: 300, IndexInterval: 1, Now: now}, OpenOptions{})
			for i := range 12 {
				d := by(1, 0, int32(i*5), 5)
				_, err := l.AppendAsLeader(d.build(), int32(i/3), client)
				require.NoError(t, err)
			}
			l.SetHighWatermark(60)
			require.Greater(t, len(l.segments), 2)
			whole := content(t, l)
			end, err := l.TruncateTo(cut)
			require.NoError(t, err)
			require.Equal(t, min(cut/5*5, 60), end)
			f := factsOf(t, l)
			require.Equal(t, string(whole[:len(whole)*int(end)/60]), f.bytes)
			require.Equal(t, replayed(t, f, nil), f)
			require.NoError(t, l.Close(false))
			again := openLog(t, place{fs: l.fs, dir: l.dir}, small(), OpenOptions{HighWatermark: end})
			require.Equal(t, f, factsOf(t, again))
		}
	})
}

// PSM-9: cutting a barrier away brings back what it had expired; own barriers
// expire (PSM-1), inherited ones do not (PSM-5).
func TestBarriersUnderTruncation(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		lead(t, l, by(1, 0, 0, 2).build(), client)
		inherited := barrier(source)
		psm.SetOffsets(inherited, 2, 1)
		_, err := l.AppendAsFollower(inherited)
		require.NoError(t, err)
		require.Len(t, l.Producers(), 1, "an inherited barrier expires nothing")

		stop := psm.Stop{L: 3, BarrierOffset: 3, Epoch: 2, SourceClusterID: source}
		require.NoError(t, l.SetStops([]psm.Stop{stop}))
		_, err = l.AppendAsLeader(barrier(source), 2, coordinator)
		require.NoError(t, err)
		require.Empty(t, l.Producers())
		_, err = l.AppendAsLeader(by(1, 0, 0, 2).build(), 2, client)
		require.NoError(t, err)
		l.SetHighWatermark(6)
		barriers, own := l.Barriers()
		require.Equal(t, []bool{false, true}, own)
		require.Equal(t, []int64{2, 3}, []int64{barriers[0].Offset, barriers[1].Offset})
		f := factsOf(t, l)
		require.Equal(t, replayed(t, f, []psm.Stop{stop}), f)

		_, err = l.TruncateTo(4)
		require.NoError(t, err)
		require.Empty(t, l.Producers())
		_, err = l.TruncateTo(3)
		require.NoError(t, err)
		require.Equal(t, int32(1), l.Producers()[0].LastSequence)
		require.Empty(t, l.Stops(), "the stop went with its barrier")
		_, own = l.Barriers()
		require.Equal(t, []bool{false}, own)
		require.NoError(t, l.Close(true))
		l = openLog(t, p, small(), OpenOptions{Clean: true})
		require.Len(t, l.Producers(), 1)
		require.Empty(t, l.Stops())
	})
}

// A stop is noted before its truncation and its barrier: the truncation must
// not forget it.
func TestTruncationKeepsTheStopThatWantsIt(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	lead(t, l, by(1, 0, 0, 2).build(), client)
	lead(t, l, by(2, 0, 0, 2).inTxn().build(), client)
	stops := []psm.Stop{{L: 2, BarrierOffset: 2, Epoch: 1, SourceClusterID: source}}
	before := factsOf(t, l)
	require.NoError(t, l.SetStops(stops))
	require.Equal(t, before, factsOf(t, l), "it has no effect before the cut")
	for _, clean := range []bool{true, false} {
		require.NoError(t, l.Close(clean))
		l = openLog(t, place{fs: l.fs, dir: "/t-0"}, small(), OpenOptions{Clean: clean, HighWatermark: 4})
		require.Equal(t, before, factsOf(t, l), "nor when it is opened then")
	}
	_, err := l.TruncateTo(2)
	require.NoError(t, err)
	require.Equal(t, stops, l.Stops())
	require.NoError(t, l.Close(false))
	l = openLog(t, place{fs: l.fs, dir: "/t-0"}, small(), OpenOptions{})
	require.Equal(t, stops, l.Stops())
	raw := barrier(source)
	psm.SetOffsets(raw, 2, 1)
	_, err = l.AppendAsFollower(raw)
	require.NoError(t, err)
	require.Empty(t, l.Producers())
}

// PSM-7: one append that holds [batch, barrier, batch] leaves the last
// batch's producers, and recovery reads it the same.
func TestBarrierInsideOneAppend(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, small(), OpenOptions{})
		stop := psm.Stop{L: 1, BarrierOffset: 1, Epoch: 0, SourceClusterID: source}
		require.NoError(t, l.SetStops([]psm.Stop{stop}))
		b := barrier(source)
		psm.SetOffsets(b, 1, 0)
		raw := append(append(by(1, 0, 0, 1).build(), b...), by(2, 0, 0, 1).at(2, 0).build()...)
		_, err := l.AppendAsFollower(raw)
		require.NoError(t, err)
		l.SetHighWatermark(3)
		f := factsOf(t, l)
		require.Len(t, f.producers, 1)
		require.Equal(t, int64(2), f.producers[0].ProducerID)
		for _, clean := range []bool{true, false} {
			require.NoError(t, l.Close(clean))
			l = openLog(t, p, small(), OpenOptions{Clean: clean, HighWatermark: 3})
			require.Equal(t, f, factsOf(t, l))
		}
	})
}

// PSM-8: a leader refuses to write its barrier over an open transaction.
func TestNoBarrierOverAnOpenTransaction(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	lead(t, l, by(1, 0, 0, 2).inTxn().build(), client)
	before := factsOf(t, l)
	_, err := l.AppendAsLeader(barrier(source), 0, coordinator)
	require.Error(t, err)
	require.Equal(t, before, factsOf(t, l))
}

func TestTruncateFully(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		for _, start := range []int64{0, 5, 1000} {
			l := openLog(t, place{fs: p.fs, dir: fmt.Sprint(p.dir, start)}, Config{SegmentBytes: 300, Now: now}, OpenOptions{})
			for i := range 12 {
				lead(t, l, by(1, 0, int32(i*5), 5).build(), client)
			}
			require.NoError(t, l.TruncateFully(start))
			require.Equal(t, Marks{start, start, start, start, -1}, l.Marks())
			require.Empty(t, l.Producers())
			_, err := l.AppendAsFollower(by(1, 0, 0, 5).at(start, 3).build())
			require.NoError(t, err)
			f := factsOf(t, l)
			require.NoError(t, l.Close(false))
			l = openLog(t, place{fs: p.fs, dir: l.dir}, small(), OpenOptions{LogStart: start})
			l.SetHighWatermark(f.marks.HighWatermark)
			require.Equal(t, f, factsOf(t, l))
		}
	})
}

// FA-04: producers whose records were deleted stay known, also after a crash.
func TestDeleteRecordsKeepsProducers(t *testing.T) {
	for _, clean := range []bool{true, false} {
		onEach(t, func(t *testing.T, p place) {
			l := openLog(t, p, Config{Now: now}, OpenOptions{})
			lead(t, l, by(7, 0, 0, 10).build(), client)
			lead(t, l, by(8, 0, 0, 10).build(), client)
			start, err := l.DeleteRecords(99)
			require.NoError(t, err)
			require.Equal(t, int64(20), start)
			require.True(t, lead(t, l, by(7, 0, 0, 10).build(), client).Duplicate)
			require.Equal(t, int64(20), lead(t, l, by(7, 0, 10, 1).build(), client).BaseOffset)
			require.NoError(t, l.Close(clean))
			l = openLog(t, p, small(), OpenOptions{Clean: clean, LogStart: start})
			require.Equal(t, int64(20), l.Marks().LogStart)
			require.True(t, lead(t, l, by(8, 0, 0, 10).build(), client).Duplicate)
			require.Equal(t, int64(21), lead(t, l, by(7, 0, 11, 1).build(), client).BaseOffset)
			require.Equal(t, int64(22), lead(t, l, by(8, 0, 10, 1).build(), client).BaseOffset)
			_, err = l.Read(3, 21, 100, true)
			require.Error(t, err)
		})
	}
}

// Transactions that interleave: what ended above the last stable offset, but
// began below it, would be open again if the log were cut just there.
func TestStableCut(t *testing.T) {
	txn := func(pid int64) []byte { return by(pid, 0, 0, 1).inTxn().build() }
	for name, c := range map[string]struct {
		raw       [][]byte
		lso, want int64
	}{
		"empty":           {nil, 0, 0},
		"nothing open":    {[][]byte{txn(1), marker(1, 0, true), txn(2), marker(2, 0, false)}, 4, 4},
		"one open":        {[][]byte{plain(1).build(), txn(1), plain(1).build()}, 1, 1},
		"begun behind it": {[][]byte{plain(1).build(), txn(1), txn(2), marker(2, 0, true)}, 1, 1},
		"straddling":      {[][]byte{plain(1).build(), txn(1), txn(2), marker(1, 0, true)}, 2, 1},
		"aborted":         {[][]byte{plain(1).build(), txn(1), txn(2), marker(1, 0, false)}, 2, 1},
		"chain":           {[][]byte{txn(1), txn(2), marker(1, 0, true), plain(1).build(), txn(3), marker(2, 0, true)}, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
			for _, raw := range c.raw {
				o := client
				if b, err := psm.DecodeHeader(raw); err == nil && b.IsControl() {
					o = coordinator
				}
				lead(t, l, raw, o)
			}
			require.Equal(t, c.lso, l.Marks().LastStable)
			before := factsOf(t, l)
			at, err := l.StableCut()
			require.NoError(t, err)
			require.Equal(t, c.want, at)
			require.Equal(t, before, factsOf(t, l), "a look changes nothing")
			_, err = l.TruncateTo(at)
			require.NoError(t, err)
			require.Empty(t, l.OpenTransactions())
			require.Equal(t, at, l.Marks().LastStable)
		})
	}
}

// A log that is cut and then follows another line, of lower leader epochs,
// must not find the epochs that were cut in its checkpoint again.
func TestCutEpochsStayCut(t *testing.T) {
	for _, clean := range []bool{true, false} {
		l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
		lead2(t, l, plain(5).build(), 1)
		lead2(t, l, plain(5).build(), 3)
		_, err := l.TruncateTo(5)
		require.NoError(t, err)
		_, err = l.AppendAsFollower(plain(9).at(5, 1).build())
		require.NoError(t, err)
		require.NoError(t, l.Close(clean))
		l = openLog(t, place{fs: l.fs, dir: "/t-0"}, small(), OpenOptions{Clean: clean, RecoveryPoint: 5})
		require.Equal(t, []EpochStart{{1, 0}}, l.Epochs())
	}
}

// A cut at a batch at which an index entry points is one like any other: the log ends
// with the batch before, and needs no segment to say so.
func TestACutAtAnIndexedBatchMakesNoSegment(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, Config{IndexInterval: 1, Now: now}, OpenOptions{})
	for i := range int32(5) {
		lead(t, l, by(1, 0, i, 1).build(), client)
	}
	for end := int64(4); end > 0; end-- {
		require.True(t, slices.ContainsFunc(l.active().index, func(e offsetEntry) bool { return int64(e.rel) == end }))
		got, err := l.TruncateTo(end)
		require.NoError(t, err)
		require.Equal(t, end, got)
		require.Len(t, l.segments, 1)
	}
}
