package engine

import (
	"cmp"
	"slices"

	"watershed.example/chaos"
	"watershed.example/topologies"
)

// linkPlan is what strikes the mirror's link in the stop of an episode; nil for nothing.
func (s Scenario) linkPlan(episode int) *chaos.Plan {
	if s.Plan != nil && episode == s.strikes() {
		return s.Plan
	}
	for _, p := range s.Faults.Links {
		if stopOfLink(s.Topology, p) == episode {
			return &p
		}
	}
	return nil
}

// nodePlans are what strikes nodes in the stop of an episode.
func (s Scenario) nodePlans(episode int) (all []chaos.NodePlan) {
	if s.Node != nil && episode == s.strikes() {
		all = append(all, *s.Node)
	}
	for _, p := range s.Faults.Nodes {
		if stopOfNode(s.Topology, p) == episode {
			all = append(all, p)
		}
	}
	return all
}

// links and nodes are all plans of the scenario.
func (s Scenario) links() []chaos.Plan {
	all := slices.Clone(s.Faults.Links)
	if s.Plan != nil {
		all = append(all, *s.Plan)
	}
	return all
}

func (s Scenario) nodes() []chaos.NodePlan {
	all := slices.Clone(s.Faults.Nodes)
	if s.Node != nil {
		all = append(all, *s.Node)
	}
	return all
}

// lasts says whether a fault is left in place until STOPPED was seen.
func (s Scenario) lasts(w chaos.When) bool { return s.HealAfterStop || w.UntilStopped }

// stopOfLink is the number of the episode whose stop a plan strikes; 0 for none.
func stopOfLink(t topologies.Topology, p chaos.Plan) int {
	return stopOf(t, p.When, func(m topologies.Mirror) bool { return m.Link() == p.Link })
}

// stopOfNode is the same of a plan against a node, of the destination or of the source.
func stopOfNode(t topologies.Topology, p chaos.NodePlan) int {
	return stopOf(t, p.When, func(m topologies.Mirror) bool {
		return m.To == p.Target.Cluster && p.Target.Role != chaos.Source || m.From == p.Target.Cluster && p.Point != chaos.FirstWrite &&
			(p.Target.Role == chaos.Source || p.Act == chaos.HoldOneEndTxn)
	})
}

func stopOf(t topologies.Topology, w chaos.When, of func(topologies.Mirror) bool) int {
	for _, e := range t.Episodes() {
		if of(e.Mirror) && e.Number == cmp.Or(w.Stop, e.Number) {
			return e.Number
		}
	}
	return 0
}

// points are those at which plans strike in the stop of an episode, in their order.
func (s Scenario) points(episode int) []string {
	var all []string
	if p := s.linkPlan(episode); p != nil {
		all = append(all, p.Point)
	}
	for _, p := range s.nodePlans(episode) {
		if p.Point != chaos.FirstWrite {
			all = append(all, p.Point)
		}
	}
	order := chaos.AllPoints()
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return slices.Compact(all)
}
