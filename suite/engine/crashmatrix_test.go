package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/chaos"
)

func TestTheCrashMatrixIsWhole(t *testing.T) {
	cells := map[[3]string]string{}
	for _, s := range CrashMatrix() {
		require.NoError(t, s.Node.Validate())
		cell := [3]string{string(s.Node.Target.Role), string(s.Node.Act), s.Node.Point}
		require.Empty(t, cells[cell], "%v is there twice", cell)
		cells[cell] = s.Name
	}
	for _, role := range []string{"leader", "follower", "controller", "source"} {
		for _, act := range []string{"kill", "pause", "cut-off"} {
			for _, point := range chaos.Points() {
				require.Contains(t, cells, [3]string{role, act, point})
			}
		}
	}
	require.Len(t, cells, 4*3*len(chaos.Points()))
}

func TestThePartOfTheCrashMatrixCoversAllPairs(t *testing.T) {
	pairs := func(all []Scenario) map[[2]string]bool {
		seen := map[[2]string]bool{}
		for _, s := range all {
			role, act, point := string(s.Node.Target.Role), string(s.Node.Act), s.Node.Point
			seen[[2]string{role, act}], seen[[2]string{role, point}], seen[[2]string{act, point}] = true, true, true
		}
		return seen
	}
	require.Equal(t, pairs(CrashMatrix()), pairs(CoveringCrashes()))
	require.Len(t, CoveringCrashes(), 4*len(chaos.Points()))
}

// A part of the covering cells, as CI runs one, has each role, each act and each
// gate.
func TestAShardOfTheCrashMatrixHasOneOfEach(t *testing.T) {
	single := func(all []Scenario) map[string]bool {
		seen := map[string]bool{}
		for _, s := range all {
			seen[string(s.Node.Target.Role)], seen[string(s.Node.Act)], seen[s.Node.Point] = true, true, true
		}
		return seen
	}
	for n := 1; n <= 4; n++ {
		for i := 1; i <= n; i++ {
			require.Equal(t, single(CrashMatrix()), single(ShardOfCrashes(CoveringCrashes(), i, n)), "%d/%d", i, n)
		}
	}
	names := func(all ...Scenario) (names []string) {
		for _, s := range all {
			names = append(names, s.Name)
		}
		return names
	}
	for _, all := range [][]Scenario{CoveringCrashes(), CrashMatrix()} {
		for _, n := range []int{1, 3, 4, 7} {
			var parts []Scenario
			for i := 1; i <= n; i++ {
				part := ShardOfCrashes(all, i, n)
				require.InDelta(t, len(all)/n, len(part), 1)
				parts = append(parts, part...)
			}
			require.ElementsMatch(t, names(all...), names(parts...), "%d parts are all, each once", n)
		}
	}
}
