package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/topologies"
)

func TestWritesOfEveryTopology(t *testing.T) {
	got := map[string]map[int]writes{}
	for _, top := range topologies.All() {
		w, err := writesOf(top)
		require.NoError(t, err)
		got[top.Name] = w
	}
	require.Equal(t, map[string]map[int]writes{
		"active-passive":  {1: {opens: []int{0}}, 6: {ends: []int{0}}},
		"resumed":         {1: {opens: []int{0}}, 6: {ends: []int{0}, zombies: []int{1}}, 7: {opens: []int{1}}, 12: {ends: []int{1}}},
		"failback":        {1: {opens: []int{0}}, 6: {ends: []int{0}, opens: []int{1}}, 8: {zombies: []int{1}}, 13: {ends: []int{1}, opens: []int{2}}, 18: {ends: []int{2}}},
		"fan-out":         {1: {opens: []int{0, 1}}, 8: {ends: []int{0}}, 12: {ends: []int{1}}},
		"fan-out-at-once": {1: {opens: []int{0, 1}}, 9: {ends: []int{0}}, 10: {ends: []int{1}}},
		"fan-in":          {1: {opens: []int{0}}, 3: {opens: []int{1}}, 10: {ends: []int{0}}, 14: {ends: []int{1}}},
		"chain-3":         {1: {opens: []int{0}}, 8: {ends: []int{0}, opens: []int{1}}, 12: {ends: []int{1}}},
		"chain-4":         {1: {opens: []int{0}}, 10: {ends: []int{0}, opens: []int{1}}, 14: {ends: []int{1}, opens: []int{2}}, 18: {ends: []int{2}}},
		"repointed":       {1: {opens: []int{0, 1}}, 8: {ends: []int{0}, opens: []int{2}}, 11: {ends: []int{1}, zombies: []int{2}}, 16: {ends: []int{2}}},
		"bypassed":        {1: {opens: []int{0}}, 8: {ends: []int{0}, opens: []int{1}}, 12: {ends: []int{1}, zombies: []int{2}}, 13: {opens: []int{2}}, 18: {ends: []int{2}}},
		"fanned-back":     {1: {opens: []int{0}}, 8: {ends: []int{0}, opens: []int{1}}, 10: {zombies: []int{1}}, 16: {ends: []int{1}, opens: []int{2}}, 20: {ends: []int{2}}},
		"single":          {},
	}, got)
}

func TestEveryEpisodeNeedsWriters(t *testing.T) {
	top := topologies.ActivePassive()
	top.Steps = top.Steps[:6]
	_, err := writesOf(top)
	require.ErrorContains(t, err, "nobody writes to cluster B after episode 1-a-to-b")
	top = topologies.ActivePassive()
	top.Steps = append(top.Steps[:1:1], top.Steps[2:]...)
	_, err = writesOf(top)
	require.ErrorContains(t, err, "nobody writes to cluster A before episode 1-a-to-b")
}
