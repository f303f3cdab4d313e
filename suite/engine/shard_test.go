package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/topologies"
)

// costly are scenarios by their cost alone: a topology of one node for each unit.
func costly(costs []int) (all []Scenario) {
	for i, cost := range costs {
		sc := Scenario{Name: fmt.Sprintf("s-%03d", i)}
		for range cost {
			sc.Topology.Clusters = append(sc.Topology.Clusters, topologies.Cluster{Nodes: 1})
		}
		all = append(all, sc)
	}
	return all
}

// fair is the most that a part may cost: a scenario comes to the part that is the cheapest
// until then, which costs no more than all others together shared out evenly.
func fair(total, dearest int64, n int) int64 {
	return (total-dearest)/int64(n) + dearest
}

// requireShards holds what parts have to be: each scenario is in one, they keep its order,
// they are the same for whoever asks, none costs more than is fair, and no two differ by
// more than one scenario could make good.
func requireShards(t require.TestingT, all []Scenario, n int) {
	part, total, dearest := map[string]int{}, int64(0), int64(0)
	var costs []int64
	for i := 1; i <= n; i++ {
		mine := ShardOf(all, i, n)
		require.Equal(t, mine, ShardOf(slices.Clone(all), i, n), "the same for whoever asks")
		last, cost := -1, int64(0)
		for _, sc := range mine {
			require.Zero(t, part[sc.Name], "%s is in parts %d and %d of %d", sc.Name, part[sc.Name], i, n)
			part[sc.Name] = i
			at := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == sc.Name })
			require.Greater(t, at, last, "%s is out of order", sc.Name)
			last, cost = at, cost+sc.cost()
		}
		costs = append(costs, cost)
	}
	for _, sc := range all {
		require.NotZero(t, part[sc.Name], "%s is in no part of %d", sc.Name, n)
		total, dearest = total+sc.cost(), max(dearest, sc.cost())
	}
	for i, cost := range costs {
		require.LessOrEqual(t, cost, fair(total, dearest, n), "part %d of %d, of %v", i+1, n, costs)
		if cost > 0 {
			require.LessOrEqual(t, cost-slices.Min(costs), cheapestOf(all, part, i+1), "part %d of %d would better be without its cheapest, of %v", i+1, n, costs)
		}
	}
}

// cheapestOf is what the cheapest scenario of a part costs: that one came last, when the
// part cost no more than any other, and none has become cheaper since.
func cheapestOf(all []Scenario, part map[string]int, i int) int64 {
	least := int64(-1)
	for _, sc := range all {
		if part[sc.Name] == i && (least < 0 || sc.cost() < least) {
			least = sc.cost()
		}
	}
	return least
}

func TestShardsCostTheSameWhateverTheScenariosCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.IntRange(1, 20), 0, 40).Draw(t, "costs")
		all := costly(costs)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		requireShards(t, all, rapid.IntRange(1, 9).Draw(t, "parts"))
	})
}

func TestShardsOfWhatIsPlayed(t *testing.T) {
	for name, all := range map[string][]Scenario{
		"crash matrix": CoveringCrashes(), "fault matrix": ScenariosOf(CoveringFaults()), "default run": Scenarios(Default),
	} {
		for _, n := range []int{1, 2, 8, 13} {
			t.Run(fmt.Sprintf("%s in %d", name, n), func(t *testing.T) { requireShards(t, all, n) })
		}
	}
}

// Which part a scenario is in depends on nothing but the scenarios: not on their order,
// and not on how maps are gone through.
func TestShardsDoNotDependOnTheOrder(t *testing.T) {
	all := ScenariosOf(CoveringFaults())
	turned := slices.Clone(all)
	slices.Reverse(turned)
	for i := 1; i <= 8; i++ {
		mine := ShardOf(turned, i, 8)
		slices.Reverse(mine)
		require.Equal(t, ShardOf(all, i, 8), mine)
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
