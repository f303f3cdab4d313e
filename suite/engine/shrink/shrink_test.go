package shrink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/suite/engine/shrink"
)

// fake is a problem whose cases are lists of numbers, which get shorter and whose numbers
// get smaller; a case shows what is sought if for each needed number it has one as large.
func fake(needed []int, shows func(context.Context, []int) (bool, error)) shrink.Problem[[]int] {
	if shows == nil {
		shows = func(_ context.Context, c []int) (bool, error) { return covers(c, needed), nil }
	}
	return shrink.Problem[[]int]{
		Smaller: func(c []int) [][]int {
			all := shrink.Without(c)
			for i, n := range c {
				for _, less := range []int{n / 2, n - 1, n} { // the last is none smaller
					d := slices.Clone(c)
					d[i] = less
					all = append(all, d)
				}
			}
			return all
		},
		Size: func(c []int) (size int) {
			for _, n := range c {
				size += n + 1
			}
			return size
		},
		Key:   func(c []int) string { return fmt.Sprint(c) },
		Shows: shows,
	}
}

// covers says whether c has another number at least as large for each of needed, taken
// from the largest down.
func covers(c, needed []int) bool {
	have, want := slices.Sorted(slices.Values(c)), slices.Sorted(slices.Values(needed))
	for len(want) > 0 {
		if len(have) == 0 || have[len(have)-1] < want[len(want)-1] {
			return false
		}
		have, want = have[:len(have)-1], want[:len(want)-1]
	}
	return true
}

func problems() *rapid.Generator[[2][]int] {
	return rapid.Custom(func(t *rapid.T) [2][]int {
		start := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 7).Draw(t, "start")
		var needed []int
		for _, n := range start {
			if rapid.Bool().Draw(t, "matters") {
				needed = append(needed, rapid.IntRange(0, n).Draw(t, "as much"))
			}
		}
		return [2][]int{start, needed}
	})
}

func TestTheResultIsTheSmallestThatShowsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems().Draw(t, "problem")
		asked := 0
		problem := fake(p[1], func(_ context.Context, c []int) (bool, error) { asked++; return covers(c, p[1]), nil })
		problem.Proofs = 2
		got, err := shrink.Minimise(t.Context(), p[0], problem)
		require.NoError(t, err)
		require.ElementsMatch(t, p[1], got.Case, "just what matters, and just as much of it")
		require.True(t, got.Whole)
		require.Equal(t, asked, got.Asked)
		require.Equal(t, got.Seen, got.Tries, "it always shows it")
		require.GreaterOrEqual(t, got.Seen, 2)
		again, err := shrink.Minimise(t.Context(), p[0], problem)
		require.NoError(t, err)
		require.Equal(t, got, again, "the same each time")
	})
}

func TestAFlakyOracleMakesNothingUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems().Draw(t, "problem")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		shown := map[string][2]int{}
		problem := fake(p[1], func(_ context.Context, c []int) (bool, error) {
			shows := covers(c, p[1]) && r.IntN(2) == 0
			n := shown[fmt.Sprint(c)]
			if shows {
				n[0]++
			}
			n[1]++
			shown[fmt.Sprint(c)] = n
			return shows, nil
		})
		problem.Tries, problem.Proofs, problem.Needs = 3, 4, rapid.IntRange(0, 3).Draw(t, "needs")
		got, err := shrink.Minimise(t.Context(), p[0], problem)
		require.NoError(t, err)
		require.True(t, covers(got.Case, p[1]))
		n := shown[fmt.Sprint(got.Case)]
		if slices.Equal(got.Case, p[0]) {
			n = [2]int{n[0] + 1, n[1] + 1} // it was seen before
		} else {
			require.GreaterOrEqual(t, got.Seen, problem.Needs, "no chance hit is taken")
		}
		require.Equal(t, n, [2]int{got.Seen, got.Tries}, "the rate is what was seen")
		require.GreaterOrEqual(t, got.Seen, 1)
	})
}

func TestShrinkingEndsWithItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems().Draw(t, "problem")
		left := rapid.IntRange(0, 10).Draw(t, "questions")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if left == 0 {
			cancel()
		}
		got, err := shrink.Minimise(ctx, p[0], fake(p[1], func(ctx context.Context, c []int) (bool, error) {
			if left--; left <= 0 {
				cancel()
				return false, context.Canceled // a run that is called off tells nothing
			}
			return covers(c, p[1]), nil
		}))
		require.NoError(t, err)
		require.True(t, covers(got.Case, p[1]))
	})
}

func TestWhatCanNotBeTriedEndsTheSearch(t *testing.T) {
	broken := errors.New("no room")
	got, err := shrink.Minimise(t.Context(), []int{3, 4}, fake(nil, func(context.Context, []int) (bool, error) { return false, broken }))
	require.ErrorIs(t, err, broken)
	require.Equal(t, []int{3, 4}, got.Case)
	require.False(t, got.Whole)
}

func TestWithoutTakesEachPartAway(t *testing.T) {
	require.Empty(t, shrink.Without([]int{}))
	require.Equal(t, [][]int{{}}, shrink.Without([]int{1}))
	require.Equal(t, [][]int{{}, {3, 4}, {1, 2}, {2, 3, 4}, {1, 3, 4}, {1, 2, 4}, {1, 2, 3}}, shrink.Without([]int{1, 2, 3, 4}))
}
