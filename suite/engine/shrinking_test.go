package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/engine/shrink"
)

func TestWhatIsSmallerCanBePlayedAndIsSmaller(t *testing.T) {
	all := cases()
	rapid.Check(t, func(t *rapid.T) {
		c := all.Draw(t, "case")
		smaller := c.smaller()
		require.NotEmpty(t, smaller, "without its faults, at the least")
		for _, d := range smaller {
			_, err := d.Scenario()
			require.NoError(t, err, d.Flags())
			require.Equal(t, c.Seed, d.Seed)
		}
		require.True(t, slices.ContainsFunc(smaller, func(d Case) bool { return d.size() < c.size() && d.Faults.Count() == 0 }))
	})
}

// Three plans of which one matters, in a topology that does not: what is left is that
// one, as weak as it still shows.
func TestACaseIsShrunkToWhatMatters(t *testing.T) {
	c := Case{Seed: 7, Topology: "failback", Nodes: 3, Profile: check.ProfileV42, Faults: planOf(t,
		"latency link=A->B at=after:truncated delay=80ms until=stopped + kill leader of=orders-0 cluster=B at=before:barrier-committed until=stopped + pause controller cluster=A at=before:settled")}
	_, err := c.Scenario()
	require.NoError(t, err)
	for _, k := range []struct {
		name  string
		shows func(Case) bool
		want  string
	}{
		{"the kill", func(c Case) bool {
			return slices.ContainsFunc(c.Faults.Nodes, func(p chaos.NodePlan) bool { return p.Act == "kill" })
		}, "-topology=active-passive -plan='kill leader of=orders-0 cluster=B at=before:barrier-committed'"},
		{"a node that ends", func(c Case) bool {
			return slices.ContainsFunc(c.Faults.Nodes, func(p chaos.NodePlan) bool { return p.Act.Ends() })
		}, "-topology=active-passive -plan='stop leader of=orders-0 cluster=B at=before:barrier-committed'"},
		{"the link, as long as it lasts", func(c Case) bool {
			return slices.ContainsFunc(c.Faults.Links, func(p chaos.Plan) bool { return p.UntilStopped })
		}, "-topology=active-passive -plan='none link=A->B at=after:truncated until=stopped'"},
		{"nothing", func(Case) bool { return true }, "-topology=active-passive -plan='none'"},
		{"the topology", func(c Case) bool { return c.Topology == "failback" }, "-topology=failback -plan='none'"},
	} {
		got, err := shrink.Minimise(t.Context(), c, shrink.Problem[Case]{
			Smaller: Case.smaller, Size: Case.size, Key: Case.Flags,
			Shows: func(_ context.Context, c Case) (bool, error) { return k.shows(c), nil },
		})
		require.NoError(t, err)
		require.True(t, got.Whole)
		require.Equal(t, k.want, got.Case.Flags(), k.name)
		require.Less(t, got.Asked, 40, k.name)
	}
}
