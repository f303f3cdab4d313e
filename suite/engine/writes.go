package engine

import (
	"fmt"

	"watershed.example/topologies"
)

// writes is what a Write step does on its cluster, in this order: the promoted
// traffic of some episodes runs and they end; the source traffic of others
// begins; zombies come to life on a cluster that others make a destination
// again. All are places in [topologies.Topology.Episodes].
type writes struct{ ends, opens, zombies []int }

// writesOf says what each Write step of a topology does, by its place.
func writesOf(t topologies.Topology) (map[int]writes, error) {
	all := map[int]writes{}
	for n, e := range t.Episodes() {
		ends, opens := -1, -1
		for i, s := range t.Steps {
			if s.Do != topologies.Write {
				continue
			}
			if s.Cluster == e.Mirror.To && e.Promote >= 0 && i > e.Promote && ends < 0 {
				ends = i
			}
			// The last one before the stop at which the source is its own master.
			if s.Cluster == e.Mirror.From && i < e.Stop && !becomesDestination(t, s.Cluster, i, e.Stop) {
				opens = i
			}
		}
		if ends < 0 {
			return nil, fmt.Errorf("topology %s: nobody writes to cluster %s after episode %s", t.Name, e.Mirror.To, e)
		}
		if opens < 0 {
			return nil, fmt.Errorf("topology %s: nobody writes to cluster %s before episode %s", t.Name, e.Mirror.From, e)
		}
		w := all[ends]
		w.ends = append(w.ends, n)
		all[ends] = w
		w = all[opens]
		w.opens = append(w.opens, n)
		all[opens] = w
		if z := zombiesOf(t, e); z >= 0 {
			w = all[z]
			w.zombies = append(w.zombies, n)
			all[z] = w
		}
	}
	return all, nil
}

// becomesDestination says whether a mirror into the cluster starts between two steps.
func becomesDestination(t topologies.Topology, cluster string, from, to int) bool {
	for _, s := range t.Steps[from:to] {
		if m, ok := t.Mirror(s.Mirror); ok && s.Do == topologies.StartMirror && m.To == cluster {
			return true
		}
	}
	return false
}

// zombiesOf finds the step at which writers of the episode's destination become
// zombies: the last Write there before it is a destination again. There are
// none where another mirror of it is stopped meanwhile: they would be its source
// traffic.
func zombiesOf(t topologies.Topology, e topologies.Episode) int {
	for i := e.Start - 1; i >= 0; i-- {
		s := t.Steps[i]
		if s.Do == topologies.Write && s.Cluster == e.Mirror.To {
			return i
		}
		if m, ok := t.Mirror(s.Mirror); ok && s.Do == topologies.StopMirror && m.From == e.Mirror.To {
			return -1
		}
	}
	return -1
}
