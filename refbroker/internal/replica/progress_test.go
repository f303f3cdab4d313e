package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func everyone(int32, int64) bool { return true }

func nobody(int32, int64) bool { return false }

func TestHighWatermark(t *testing.T) {
	const lag = 10 * time.Second
	start := time.Unix(1000, 0)
	type fetch struct {
		id        int32
		at        int64
		leaderEnd int64
		after     time.Duration
	}
	for _, c := range []struct {
		name    string
		isr     []int32 // committed and proposed
		since   int64
		fetches []fetch
		end     int64
		now     time.Duration
		may     eligible
		want    int64
	}{
		{"alone", []int32{1}, 5, nil, 9, 0, everyone, 9},
		{"nobody has fetched", []int32{1, 2}, 0, nil, 9, 0, everyone, -1},
		{"one has not fetched", []int32{1, 2, 3}, 0, []fetch{{2, 9, 9, 0}}, 9, 0, everyone, -1},
		{"the least of all", []int32{1, 2, 3}, 0, []fetch{{2, 7, 9, 0}, {3, 8, 9, 0}}, 9, 0, everyone, 7},
		{"one that was proposed counts", []int32{1, 2, 3}, 0, []fetch{{2, 9, 9, 0}, {3, 4, 9, 0}}, 9, 0, everyone, 4},
		{"who is in no ISR counts as long as it is about to join", []int32{1, 2}, 0, []fetch{{2, 9, 9, 0}, {3, 8, 8, 0}}, 9, lag, everyone, 8},
		{"but not once it lags", []int32{1, 2}, 0, []fetch{{2, 9, 9, 0}, {3, 8, 8, 0}}, 9, lag + 1, everyone, 9},
		{"nor if it may not", []int32{1, 2}, 0, []fetch{{2, 9, 9, 0}, {3, 8, 8, 0}}, 9, lag, nobody, 9},
		{"nor below where the leader began", []int32{1, 2}, 9, []fetch{{2, 9, 9, 0}, {3, 8, 8, 0}}, 9, lag, everyone, 9},
		{"nor if it never caught up", []int32{1, 2}, 0, []fetch{{2, 9, 9, 0}, {3, 3, 9, 0}, {3, 5, 9, time.Second}}, 9, time.Second, everyone, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := begin(1, []int32{1, 2}, c.since, start)
			for _, f := range c.fetches {
				p.fetch(f.id, -1, f.at, f.leaderEnd, start.Add(f.after))
			}
			require.Equal(t, c.want, p.highWatermark(c.isr, c.end, start.Add(c.now), lag, c.may))
		})
	}
}

func TestWhoIsInSync(t *testing.T) {
	const lag = 10 * time.Second
	start := time.Unix(1000, 0)
	replicas := []int32{1, 2, 3}
	p := begin(1, []int32{1, 2}, 10, start)
	wanted := func(isr []int32, end, high int64, after time.Duration) []int32 {
		return p.wanted(replicas, isr, end, high, start.Add(after), lag, everyone)
	}
	require.Equal(t, []int32{1, 2}, wanted([]int32{1, 2}, 20, 10, lag), "who was in sync has the lag time to fetch")
	require.Equal(t, []int32{1}, wanted([]int32{1, 2}, 20, 10, lag+1))
	p.fetch(2, -1, 15, 20, start.Add(time.Second))
	p.fetch(2, -1, 20, 25, start.Add(5*time.Second)) // all that there was the last time
	require.Equal(t, []int32{1, 2}, wanted([]int32{1, 2}, 30, 10, 11*time.Second), "caught up at the first fetch, a second after the start")
	require.Equal(t, []int32{1}, wanted([]int32{1, 2}, 30, 10, 11*time.Second+1))
	p.fetch(3, -1, 9, 30, start)
	require.Equal(t, []int32{1, 2}, wanted([]int32{1, 2}, 30, 5, 0), "9 is below where this leadership began")
	p.fetch(3, -1, 12, 30, start)
	require.Equal(t, []int32{1, 2}, wanted([]int32{1, 2}, 30, 15, 0), "12 is below the high watermark")
	require.Equal(t, []int32{1, 2, 3}, wanted([]int32{1, 2}, 30, 12, 0))
	require.Equal(t, []int32{1, 2}, p.wanted(replicas, []int32{1, 2}, 30, 12, start, lag, nobody))
	p.cut(11, start)
	require.Equal(t, []int32{1, 2}, wanted([]int32{1, 2}, 11, 11, 0), "what it had is forgotten with the cut")
	require.EqualValues(t, -1, p.highWatermark([]int32{1, 2}, 11, start, lag, everyone))

	// A request of a run that is over does not count any more.
	p.fetch(3, 7, 11, 11, start)
	p.fetch(3, 6, 99, 11, start)
	end, ok := p.known(3)
	require.True(t, ok)
	require.EqualValues(t, 11, end)
}

// Against a model that keeps all that every replica has: whatever is below the
// high watermark is on all replicas of the ISR in force, whether that is the
// committed or the proposed one; the high watermark never falls; and who lags
// only leaves after the lag time.
func TestHighWatermarkAgainstAModel(t *testing.T) {
	const lag = time.Second
	replicas := []int32{1, 2, 3}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		ends := map[int32]int64{1: 5, 2: rapid.Int64Range(0, 5).Draw(t, "end of 2"), 3: rapid.Int64Range(0, 5).Draw(t, "end of 3")}
		committed := []int32{1, 2, 3}
		var proposed []int32
		p := begin(1, committed, ends[1], now)
		high := min(ends[2], ends[3])
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				ends[1] += rapid.Int64Range(1, 3).Draw(t, "appended")
			case 1, 2:
				id := rapid.Int32Range(2, 3).Draw(t, "follower")
				p.fetch(id, -1, ends[id], ends[1], now) // it has what it fetched before
				ends[id] = min(ends[1], ends[id]+rapid.Int64Range(0, 3).Draw(t, "fetched"))
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			case 4:
				if proposed != nil {
					break
				}
				next := p.wanted(replicas, committed, ends[1], high, now, lag, everyone)
				for _, id := range next {
					if !slices.Contains(committed, id) {
						require.GreaterOrEqual(t, ends[id], high, "replica %d joins without what is committed", id)
					}
				}
				if !sameMembers(next, committed) {
					proposed = next
				}
			case 5: // the quorum's answer
				if proposed != nil && rapid.Bool().Draw(t, "accepted") {
					committed = proposed
				}
				proposed = nil
			}
			isr := append(append([]int32{}, committed...), proposed...)
			if h := p.highWatermark(isr, ends[1], now, lag, everyone); h > high {
				high = h
			}
			for _, id := range isr {
				require.GreaterOrEqual(t, ends[id], high, "replica %d of ISR %v and %v", id, committed, proposed)
			}
		}
	})
}
