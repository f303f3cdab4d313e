package storage

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// Readers never see a batch that was not, or half of one, while others append,
// roll, cut and delete records under them.
func TestReadersAmongWriters(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		l := openLog(t, p, Config{SegmentBytes: 2000, IndexInterval: 100, Now: now}, OpenOptions{})
		var done atomic.Bool
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for !done.Load() {
					m := l.Marks()
					at := m.LogStart + rand.Int64N(m.LogEnd-m.LogStart+1)
					raw, err := l.Read(at, m.LogEnd, 700, true)
					var outside *ErrOutOfRange
					if err != nil {
						require.ErrorAs(t, err, &outside)
						continue
					}
					for len(raw) > 0 {
						require.NoError(t, psm.CheckCRC(raw))
						b, err := psm.DecodeBatch(raw)
						require.NoError(t, err)
						require.GreaterOrEqual(t, b.LastOffset, at)
						raw = raw[b.Size:]
					}
					l.Aborted(nil, at, m.LogEnd)
					if _, err := l.OffsetForTime(1000, nil); err != nil && !errors.Is(err, ErrClosed) {
						require.NoError(t, err)
					}
				}
			})
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range 400 {
			d := plain(1 + rnd.IntN(4))
			d.size = rnd.IntN(100)
			lead(t, l, d.build(), client)
			m := l.Marks()
			switch {
			case i%17 == 16:
				_, err := l.TruncateTo(m.LogStart + rnd.Int64N(m.LogEnd-m.LogStart+1))
				require.NoError(t, err)
			case i%61 == 60:
				_, err := l.DeleteRecords(m.LogStart + rnd.Int64N(m.LogEnd-m.LogStart+1)/4)
				require.NoError(t, err)
			}
		}
		done.Store(true)
		wg.Wait()
		require.NoError(t, l.Close(true))
		_, err := l.Read(0, 1, 1, true)
		require.ErrorIs(t, err, ErrClosed)
		_, err = l.AppendAsLeader(plain(1).build(), 0, client)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// hookFs calls before each read of a log file that is open for reading.
type hookFs struct {
	afero.Fs
	before func(name string)
}

type hookFile struct {
	afero.File
	fs *hookFs
}

func (f *hookFs) Open(name string) (afero.File, error) {
	file, err := f.Fs.Open(name)
	if err != nil || !strings.HasSuffix(name, suffixLog) {
		return file, err
	}
	return &hookFile{File: file, fs: f}, nil
}

func (f *hookFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.before != nil {
		f.fs.before(f.Name())
	}
	return f.File.ReadAt(p, off)
}

// A read that a deletion overtakes is done again, on what is there then.
func TestReadIsRepeatedWhenOvertaken(t *testing.T) {
	hooks := &hookFs{Fs: afero.NewMemMapFs()}
	l := openLog(t, place{fs: hooks, dir: "/t-0"}, Config{SegmentBytes: 150, Now: now}, OpenOptions{})
	for range 6 {
		lead(t, l, plain(1).build(), client)
	}
	require.Greater(t, len(l.segments), 2)
	overtaken := 0
	hooks.before = func(string) {
		if overtaken++; overtaken == 1 {
			_, err := l.DeleteRecords(5)
			require.NoError(t, err)
		}
	}
	_, err := l.Read(0, 6, 1000, true)
	var outside *ErrOutOfRange
	require.ErrorAs(t, err, &outside)
	require.Equal(t, ErrOutOfRange{0, 5, 6}, *outside)
	require.Equal(t, 1, overtaken)
}

// What a search looks at stays as it was, whatever is cut and written meanwhile.
func TestACutLeavesAlonePassedOutIndexes(t *testing.T) {
	for at := int64(1); at < 20; at++ {
		l := openLog(t, place{fs: afero.NewMemMapFs(), dir: "/t-0"}, Config{SegmentBytes: 1 << 20, IndexInterval: 100, Now: now}, OpenOptions{})
		write := func(batches int64, size int) {
			for i := range batches {
				d := plain(1)
				d.time, d.size = 1000+int64(size)+i, size
				lead(t, l, d.build(), client)
			}
		}
		write(20, 1)
		s := l.segments[0]
		index, times := s.index, s.times
		before, timesBefore := slices.Clone(index), slices.Clone(times)
		require.Greater(t, len(index), 5)
		_, err := l.TruncateTo(at)
		require.NoError(t, err)
		write(20-at, 40)
		require.Equal(t, before, index, "cut at %d", at)
		require.Equal(t, timesBefore, times, "cut at %d", at)
	}
}
