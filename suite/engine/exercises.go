package engine

import (
	"slices"

	"watershed.example/topologies"
)

// episodeIs lists what an episode exercises by its place in the story.
func episodeIs(t topologies.Topology, e topologies.Episode) []string {
	var ids []string
	inherits, cuts := false, false
	for _, before := range t.Episodes()[:e.Number-1] {
		// A source that was promoted has a barrier of its own, and leader epochs
		// above the first.
		inherits = inherits || before.Mirror.To == e.Mirror.From
		switch {
		case before.Mirror.Name == e.Mirror.Name:
			cuts = true
		case before.Mirror.From == e.Mirror.To:
			cuts = false // the others have by now what this destination wrote
		}
	}
	if inherits {
		ids = append(ids, "LOG-5", "PSM-5")
	}
	if cuts {
		ids = append(ids, "PSM-9")
	}
	if zombiesOf(t, e) >= 0 {
		ids = append(ids, "RO-2")
	}
	return ids
}

// mirrorsBetween says whether a mirror into the cluster starts between two steps.
func mirrorsBetween(episodes []topologies.Episode, cluster string, from, to int) bool {
	return slices.ContainsFunc(episodes, func(e topologies.Episode) bool {
		return e.Mirror.To == cluster && from < e.Start && e.Start < to
	})
}

// topologyIs lists what a topology exercises by its shape.
func topologyIs(t topologies.Topology) []string {
	var ids []string
	episodes := t.Episodes()
	if len(t.Mirrors) == 1 && len(episodes) == 1 {
		ids = append(ids, "AP-1")
	}
	for _, a := range episodes {
		for _, b := range episodes[a.Number:] {
			switch {
			case a.Mirror.From == b.Mirror.To && a.Mirror.To == b.Mirror.From:
				ids = append(ids, "FB-1", "FB-2", "FB-3", "FB-4", "AL-1")
			case a.Mirror.From == b.Mirror.From && a.Mirror.To != b.Mirror.To && b.Start < a.Stop:
				ids = append(ids, "FO-1")
				// What a source wrote meanwhile is no witness where it has mirrored since.
				if a.Stop != b.Stop && !mirrorsBetween(episodes, a.Mirror.From, a.Stop, b.Stop) {
					ids = append(ids, "FO-2")
				}
			case a.Mirror.To == b.Mirror.To && a.Mirror.From != b.Mirror.From && b.Start < a.Stop:
				ids = append(ids, "FI-1", "FI-2")
			case a.Mirror.To == b.Mirror.From && b.Start < a.Stop:
				ids = append(ids, "CH-1", "CH-2", "CH-3")
			}
		}
	}
	if len(chainOf(t)) > 3 {
		ids = append(ids, "CH-4")
	}
	return ids
}
