package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/chaos"
	"watershed.example/suite/check"
)

// What a search plays can be played as any plan that a person gives: it parses back from
// its line, and its topology has all that it names.
func TestMutantsCanBePlayed(t *testing.T) {
	all := cases()
	ways := Ways(1, check.ProfileV42)
	rapid.Check(t, func(t *rapid.T) {
		c, with := all.Draw(t, "case"), rapid.SampledFrom(ways).Draw(t, "with")
		seed := rapid.Uint64().Draw(t, "seed")
		r, again := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 0))
		for range 10 {
			m, ok := mutant(r, c, with)
			same, _ := mutant(again, c, with)
			require.Equal(t, m, same, "a mutant is its seed's")
			if !ok {
				continue
			}
			sc, err := m.Scenario()
			require.NoError(t, err, m.Flags())
			require.Equal(t, c.Profile, m.Profile)
			if m.Faults.Count() > 0 {
				back, err := chaos.ParseSeveral(m.Faults.String())
				require.NoError(t, err)
				require.Equal(t, m.Faults.String(), back.String())
			}
			for _, p := range m.Faults.Nodes {
				require.True(t, p.Point == chaos.FirstWrite || strikes(p.Act, p.Target.Role, p.Point), m.Flags())
				require.Equal(t, several, sc.nodesOf(p.Target.Cluster), m.Flags())
			}
			require.LessOrEqual(t, m.Faults.Count(), mostFaults)
			c = m
		}
	})
}

// Mutations lead everywhere: from the ways that a search begins with to each fault, role,
// point, topology and number of nodes, to stops by their number, to all numbers of faults.
func TestMutationsLeadEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	ways := Ways(7, check.ProfileV42)
	seen, seeds := map[string]bool{}, map[uint64]bool{}
	valid, tried := 0, 4000
	c := ways[0]
	for i := range tried {
		if i%40 == 0 {
			c = pick(r, ways)
		}
		m, ok := mutant(r, c, pick(r, ways))
		if !ok {
			continue
		}
		valid++
		c = m
		seeds[c.Seed] = true
		seen["topology "+c.Topology] = true
		seen["nodes "+string(rune('0'+c.Nodes))] = true
		seen["faults "+string(rune('0'+c.Faults.Count()))] = true
		for _, p := range c.Faults.Links {
			seen["kind "+string(p.Kind)], seen["link point "+p.Point] = true, true
			seen["amount"] = seen["amount"] || p.Delay > 0 && p.Jitter > 0
			seen["rate"] = seen["rate"] || p.Rate > 0
			seen["a later stop"] = seen["a later stop"] || p.Stop > 1
		}
		for _, p := range c.Faults.Nodes {
			seen["act "+string(p.Act)], seen["point "+p.Point], seen["role "+string(p.Target.Role)] = true, true, true
			seen["lasting"] = seen["lasting"] || p.UntilStopped
			seen["over"] = seen["over"] || !p.UntilStopped
		}
	}
	want := []string{"nodes 1", "nodes 3", "faults 0", "faults 1", "faults 2", "faults 3", "amount", "rate", "a later stop", "lasting", "over", "point " + chaos.FirstWrite}
	for _, k := range chaos.AllKinds() {
		want = append(want, "kind "+string(k))
	}
	for _, a := range chaos.AllActs() {
		want = append(want, "act "+string(a))
	}
	for _, p := range chaos.Points() {
		want = append(want, "point "+p, "link point "+p)
	}
	for _, r := range chaos.Roles() {
		want = append(want, "role "+string(r))
	}
	for _, t := range Planned() {
		want = append(want, "topology "+t)
	}
	for _, w := range want {
		require.True(t, seen[w], "no mutant has %s", w)
	}
	require.Greater(t, len(seeds), 20)
	t.Logf("%d of %d mutants can be played", valid, tried)
	require.Greater(t, 10*valid, tried)
}

func TestWaysAreEachFaultAndEachTopology(t *testing.T) {
	for _, profile := range []check.Profile{check.ProfileV42, check.ProfileLatest} {
		ways := Ways(3, profile)
		seen, keys := map[string]bool{}, map[string]bool{}
		for _, c := range ways {
			_, err := c.Scenario()
			require.NoError(t, err, c.Flags())
			require.Equal(t, profile, c.Profile)
			require.Equal(t, uint64(3), c.Seed)
			require.False(t, keys[c.key()], "twice: %s", c.key())
			keys[c.key()], seen[c.Topology] = true, true
			for _, p := range c.Faults.Links {
				seen[string(p.Kind)] = true
			}
			for _, p := range c.Faults.Nodes {
				seen["node "+string(p.Act)] = true
			}
		}
		for _, t := range Planned() {
			seen["topology "+t] = seen[t]
		}
		for _, k := range chaos.AllKinds() {
			require.True(t, seen[string(k)], k)
		}
		for _, a := range chaos.AllActs() {
			require.True(t, seen["node "+string(a)], a)
		}
		require.Less(t, len(ways), 60)
	}
	require.Equal(t, Ways(3, check.ProfileV42), Ways(3, check.ProfileV42))
}

// Two nodes of three that are away at the same stop leave nobody to end it.
func TestMutantsLeaveAMajority(t *testing.T) {
	for _, k := range []struct {
		plan string
		want bool
	}{
		{"kill leader of=orders-0 cluster=B at=before:settled + pause controller cluster=B at=after:truncated", false},
		{"kill leader of=orders-0 cluster=B at=before:settled + pause source of=orders-0 cluster=A at=after:truncated", true},
		{"kill leader of=orders-0 cluster=B at=before:settled + clock-skew controller cluster=B at=after:truncated", true},
		{"strand follower of=orders-0 cluster=B at=before:settled", false},
		{"hold-one-end-txn coordinator of=live cluster=A at=before:settled", true},
		{"hold-one-end-txn coordinator of=live cluster=B at=before:settled", false},
		{"slow-sync leader of=orders-0 cluster=B at=first-write", false},
		{"kill leader of=orders-0 cluster=B at=first-write", true},
	} {
		c := Case{Topology: "active-passive", Nodes: several, Profile: check.ProfileV42, Faults: planOf(t, k.plan)}
		require.Equal(t, k.want, c.provable(), k.plan)
	}
	failedBack := Case{Topology: "failback", Nodes: several, Profile: check.ProfileV42, Faults: planOf(t,
		"kill controller cluster=B at=before:settled stop=1 + kill controller cluster=A at=before:settled stop=2")}
	require.True(t, failedBack.provable())
	require.False(t, slices.Contains(Planned(), "single"))
}
