package storage

import (
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// segmented has one batch of two records in each segment; the batch at place i
// is of time 1000·(i+1).
func segmented(t testing.TB, p place, batches int) *Log {
	l := openLog(t, p, Config{SegmentBytes: 1, Now: now}, OpenOptions{})
	for i := range batches {
		d := by(int64(i), 0, 0, 2)
		d.time = int64(1000 * (i + 1))
		lead(t, l, d.build(), client)
	}
	return l
}

func TestRetention(t *testing.T) {
	one := int64(len(by(0, 0, 0, 2).build()))
	for name, c := range map[string]struct {
		r    Retention
		high int64
		want int64
	}{
		"for ever":                     {Retention{Ms: -1, Bytes: -1}, 8, 0},
		"none is old":                  {Retention{Ms: 8999, Bytes: -1}, 8, 0},
		"just old":                     {Retention{Ms: 8998, Bytes: -1}, 8, 2},
		"two are old":                  {Retention{Ms: 7500, Bytes: -1}, 8, 4},
		"all are old":                  {Retention{Ms: 1, Bytes: -1}, 8, 8},
		"not above the high mark":      {Retention{Ms: 1, Bytes: -1}, 5, 4},
		"one too many":                 {Retention{Ms: -1, Bytes: 3 * one}, 8, 2},
		"a byte more than three fit":   {Retention{Ms: -1, Bytes: 3*one + 1}, 8, 0},
		"nothing fits":                 {Retention{Ms: -1, Bytes: 0}, 8, 6}, // the active one stays
		"size and age, size reaches":   {Retention{Ms: 8500, Bytes: one}, 8, 6},
		"size and age, age goes on":    {Retention{Ms: 6500, Bytes: 3 * one}, 8, 6},
		"size, but high mark is below": {Retention{Ms: -1, Bytes: 0}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, p place) {
				l := segmented(t, p, 4)
				l.SetHighWatermark(c.high)
				start, err := l.Retain(10_000, c.r)
				require.NoError(t, err)
				require.Equal(t, c.want, start)
				m := l.Marks()
				require.Equal(t, c.want, m.LogStart)
				require.Equal(t, int64(8), m.LogEnd)
				require.Equal(t, (8-c.want)/2*one, l.Size(), "whole segments go")
				// Producers stay known, and the log goes on where it was.
				require.True(t, lead(t, l, by(0, 0, 0, 2).build(), client).Duplicate)
				require.Equal(t, int64(8), lead(t, l, by(9, 0, 0, 1).build(), client).BaseOffset)
				require.NoError(t, l.Close(false))
				l = openLog(t, p, small(), OpenOptions{LogStart: start})
				require.Equal(t, start, l.Marks().LogStart)
				require.True(t, lead(t, l, by(3, 0, 0, 2).build(), client).Duplicate)
			})
		})
	}
}

// A log of records without timestamps is never too old.
func TestRetentionKeepsWhatHasNoTime(t *testing.T) {
	l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, small(), OpenOptions{})
	d := plain(1)
	d.time = -1
	lead(t, l, d.build(), client)
	l.SetHighWatermark(1)
	start, err := l.Retain(1<<60, Retention{Ms: 0, Bytes: -1})
	require.NoError(t, err)
	require.Zero(t, start)
}

// Whatever retention asks for, what it drops ends at a batch's end below the
// high watermark, and asking again drops no more.
func TestRetentionIsIdempotent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := segmented(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, rapid.IntRange(1, 6).Draw(r, "batches"))
		end := l.Marks().LogEnd
		high := rapid.Int64Range(0, end).Draw(r, "high watermark")
		l.SetHighWatermark(high)
		keep := Retention{Ms: rapid.Int64Range(-1, 10_000).Draw(r, "ms"), Bytes: rapid.Int64Range(-1, 600).Draw(r, "bytes")}
		first, err := l.Retain(10_000, keep)
		require.NoError(r, err)
		require.LessOrEqual(r, first, high)
		require.Zero(r, first%2)
		again, err := l.Retain(10_000, keep)
		require.NoError(r, err)
		require.Equal(r, first, again)
		require.Equal(r, end, l.Marks().LogEnd)
	})
}
