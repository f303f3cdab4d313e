package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/chaos"
)

func pairsOfCells(cells []Cell) map[pairOf]bool {
	all := map[pairOf]bool{}
	for _, c := range cells {
		for _, p := range pairsIn(c.row()) {
			all[p] = true
		}
	}
	return all
}

func TestThePartOfTheMatrixCoversAllPairs(t *testing.T) {
	whole, part := FaultMatrix(), CoveringFaults()
	require.Equal(t, pairsOfCells(whole), pairsOfCells(part))
	require.Equal(t, part, CoveringFaults(), "the same each time")
	// Each fault meets each step, and no more often than it has to.
	require.GreaterOrEqual(t, len(part), 7*len(faultsOf())-2)
	require.LessOrEqual(t, len(part), 8*len(faultsOf()))
	t.Logf("%d of %d cells", len(part), len(whole))
}

func TestTheMatrixHasEachFaultAtEachPointAndRole(t *testing.T) {
	kinds, acts := map[chaos.Kind]bool{}, map[chaos.Act]bool{}
	roles, points, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range FaultMatrix() {
		sc := c.Scenario
		require.False(t, names[sc.Name], sc.Name)
		names[sc.Name], roles[c.Role], points[c.Side+":"+c.Step] = true, true, true
		if sc.Plan != nil {
			require.NoError(t, sc.Plan.Validate())
			kinds[sc.Plan.Kind] = true
			continue
		}
		require.NoError(t, sc.Node.Validate(), sc.Name)
		acts[sc.Node.Act] = true
	}
	for _, k := range chaos.AllKinds() {
		require.True(t, kinds[k], k)
	}
	for _, a := range chaos.AllActs() {
		require.True(t, acts[a], a)
	}
	require.Len(t, roles, 1+len(chaos.Roles()))
	require.Len(t, points, len(chaos.Points()))
}

func TestCoveringCoversWhateverTheRowsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(2, 4).Draw(t, "columns")
		rows := rapid.SliceOf(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), columns, columns)).Draw(t, "rows")
		want, got := map[pairOf]bool{}, map[pairOf]bool{}
		for _, r := range rows {
			for _, p := range pairsIn(r) {
				want[p] = true
			}
		}
		chosen := covering(rapid.Uint64().Draw(t, "seed"), rows, func(int) int64 { return 1 })
		for _, k := range chosen {
			before := len(got)
			for _, p := range pairsIn(rows[k]) {
				got[p] = true
			}
			require.Greater(t, len(got), before, "each row adds something")
		}
		require.Equal(t, want, got)
	})
}
