package mirror

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However large the responses are, and however many fetch, no more than the rate
// is taken, and no less where there is enough: but for the last response of each.
func TestTheRateIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.Int64Range(minRate, 1<<22).Draw(rt, "rate")
		fetchers := rapid.IntRange(1, 3).Draw(rt, "fetchers")
		size := rapid.IntRange(int(rate)/20, int(rate)).Draw(rt, "size")
		synctest.Test(t, func(t *testing.T) {
			const long = 30 * time.Second
			th := newThrottle(rate)
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			var mu sync.Mutex
			taken := 0
			var all sync.WaitGroup
			for range fetchers {
				all.Go(func() {
					for th.wait(ctx) == nil {
						th.take(size)
						mu.Lock()
						taken += size
						mu.Unlock()
					}
				})
			}
			all.Wait()
			want := float64(rate) * long.Seconds()
			slack := float64(fetchers * size)
			require.LessOrEqual(t, float64(taken), want+slack+1)
			require.GreaterOrEqual(t, float64(taken), want-slack-1)
		})
	})
}

// A change counts for who waits by the old rate.
func TestTheRateCanBeChangedWhileAFetcherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(1000)
		th.take(1000 * 1000) // 1000 seconds
		start := time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			th.set(99_000)
		}()
		require.NoError(t, th.wait(t.Context()))
		require.InDelta(t, 20, time.Since(start).Seconds(), 0.01)
		th.take(99_000 * 1000)
		go func() {
			time.Sleep(time.Second)
			th.set(0)
		}()
		start = time.Now()
		require.NoError(t, th.wait(t.Context()))
		require.Equal(t, time.Second, time.Since(start), "there is no limit any more")

		th.set(1000)
		th.take(1000 * 1000)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		require.ErrorIs(t, th.wait(ctx), gone)
	})
}

func TestAResponseIsNoLargerThanASecond(t *testing.T) {
	require.EqualValues(t, fetchMaxBytes, newThrottle(0).most(fetchMaxBytes))
	require.EqualValues(t, 5000, newThrottle(5000).most(fetchMaxBytes))
	require.EqualValues(t, fetchMaxBytes, newThrottle(1<<40).most(fetchMaxBytes))
}
