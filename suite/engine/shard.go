package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// parseShard reads "I/N".
func parseShard(text string) (i, n int, err error) {
	if _, err := fmt.Sscanf(text, "%d/%d", &i, &n); err != nil || i < 1 || i > n || fmt.Sprintf("%d/%d", i, n) != text {
		return 0, 0, errors.New("want I/N with I from 1 to N, such as 1/8")
	}
	return i, n, nil
}

// Sharded is the part of the scenarios that -shard chose, or all.
func (s *Settings) Sharded(all []Scenario) []Scenario {
	if s.Shards == 0 {
		return all
	}
	return ShardOf(all, s.Shard, s.Shards)
}

// ShardOf is part i, from 1, of n parts of the scenarios which cost about the same.
// It depends on nothing but the scenarios: the parts are all of them together, each
// once, whoever plays them. Within a part they keep their order.
func ShardOf(all []Scenario, i, n int) []Scenario {
	order := make([]int, len(all))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(all[b].cost(), all[a].cost()), cmp.Compare(all[a].Name, all[b].Name))
	})
	// The dearest first, each to the part that has cost the least so far.
	load, part := make([]int64, n), make([]int, len(all))
	for _, k := range order {
		least := 0
		for j := range load {
			if load[j] < load[least] {
				least = j
			}
		}
		load[least] += all[k].cost()
		part[k] = least + 1
	}
	var mine []Scenario
	for k, sc := range all {
		if part[k] == i {
			mine = append(mine, sc)
		}
	}
	return mine
}

// cost is what the scenario takes of the machine in all: its weight as long as each
// of its episodes lasts.
func (s Scenario) cost() int64 { return s.Weight() * int64(max(len(s.Topology.Episodes()), 1)) }
