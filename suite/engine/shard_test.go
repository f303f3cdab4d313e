package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShardsAreAllOfItAndCostTheSame(t *testing.T) {
	for name, all := range map[string][]Scenario{"crash matrix": CoveringCrashes(), "everything": Scenarios(Full)} {
		for _, n := range []int{1, 2, 8, 13} {
			var seen []string
			least, most, dearest := int64(-1), int64(0), int64(0)
			for _, sc := range all {
				dearest = max(dearest, sc.cost())
			}
			for i := 1; i <= n; i++ {
				mine := ShardOf(all, i, n)
				require.Equal(t, mine, ShardOf(slices.Clone(all), i, n), "the same for whoever asks")
				var cost int64
				for _, sc := range mine {
					cost += sc.cost()
					seen = append(seen, sc.Name)
				}
				if most = max(most, cost); least < 0 || cost < least {
					least = cost
				}
			}
			var want []string
			for _, sc := range all {
				want = append(want, sc.Name)
			}
			require.ElementsMatch(t, want, seen, "%s in %d: each scenario is in one part", name, n)
			require.LessOrEqual(t, most-least, dearest, "%s in %d: a part costs %d and another %d", name, n, most, least)
		}
	}
}

func TestShardsAreNamedInOneWay(t *testing.T) {
	for _, bad := range []string{"", "1", "0/8", "9/8", "-1/8", "1/8x", "01/8", "1/0", "a/b"} {
		_, _, err := parseShard(bad)
		require.Error(t, err, bad)
	}
	i, n, err := parseShard("3/8")
	require.NoError(t, err)
	require.Equal(t, []int{3, 8}, []int{i, n})
}
