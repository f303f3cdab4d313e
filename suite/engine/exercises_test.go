package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/topologies"
)

func TestWhatTopologiesExerciseByTheirShape(t *testing.T) {
	got, episodes := map[string][]string{}, map[string][][]string{}
	for _, top := range topologies.All() {
		got[top.Name] = inOrder(topologyIs(top))
		for _, e := range top.Episodes() {
			episodes[top.Name] = append(episodes[top.Name], episodeIs(top, e))
		}
	}
	require.Equal(t, map[string][]string{
		"active-passive":  {"AP-1"},
		"resumed":         nil,
		"failback":        {"FB-1", "FB-2", "FB-3", "FB-4", "AL-1"},
		"fan-out":         {"FO-1", "FO-2"},
		"fan-out-at-once": {"FO-1"},
		"fan-in":          {"FI-1", "FI-2"},
		"chain-3":         {"CH-1", "CH-2", "CH-3"},
		"chain-4":         {"CH-1", "CH-2", "CH-3", "CH-4"},
		"repointed":       {"FO-1", "FO-2"},
		"bypassed":        {"CH-1", "CH-2", "CH-3"},
		"fanned-back":     {"FB-1", "FB-2", "FB-3", "FB-4", "FO-1", "CH-1", "CH-2", "CH-3", "AL-1"},
		"single":          nil,
	}, got)
	inherited := []string{"LOG-5", "PSM-5"}
	require.Equal(t, map[string][][]string{
		"active-passive":  {nil},
		"resumed":         {nil, {"PSM-9", "RO-2"}},
		"failback":        {nil, {"LOG-5", "PSM-5", "RO-2"}, inherited},
		"fan-out":         {nil, nil},
		"fan-out-at-once": {nil, nil},
		"fan-in":          {nil, nil},
		"chain-3":         {nil, inherited},
		"chain-4":         {nil, inherited, inherited},
		"repointed":       {nil, nil, {"LOG-5", "PSM-5", "RO-2"}},
		"bypassed":        {nil, inherited, {"RO-2"}},
		"fanned-back":     {nil, {"LOG-5", "PSM-5", "RO-2"}, inherited},
	}, episodes)
}
