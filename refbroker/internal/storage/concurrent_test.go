package storage

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

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
