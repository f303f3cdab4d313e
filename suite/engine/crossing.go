package engine

import (
	"slices"

	"watershed.example/topologies"
)

// isCrossing says whether a topology crosses plainer ones, which have the
// faults of a default run.
func isCrossing(t topologies.Topology) bool {
	return slices.ContainsFunc(topologies.Crossings(), func(c topologies.Topology) bool { return c.Name == t.Name })
}

// crossing is what a crossing goes through: in a default run no fault, or the
// end of the cluster that the others pass by.
func crossing(t topologies.Topology, struck []topologies.Episode, turn, first int) []Scenario {
	all := beyond(t, struck, turn, first)
	for i := range all {
		all[i].deflt = false
	}
	if t.Name != topologies.Bypassed().Name {
		all[0].deflt = true // without a fault
		return all
	}
	return append(all, Scenario{
		Name: t.Name + "/source-killed/2-b-to-c-before-stop", Topology: t, Episode: 2, KillSource: true, deflt: true,
	})
}
