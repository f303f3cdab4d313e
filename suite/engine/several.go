package engine

import (
	"fmt"

	"watershed.example/chaos"
	"watershed.example/topologies"
)

// several are the nodes of a cluster of several.
const several = 3

// severalNodes are the scenarios on clusters of several nodes: at each gate each
// role is struck by each act, and where a default run strikes.
func severalNodes() []Scenario {
	t := topologies.ActivePassive().On(several)
	t.Name += "-on-3"
	// The open transaction spans the first topic's partitions: these are cut. In
	// the next one batches meet what was mirrored.
	cluster, led, met := t.Mirrors[0].To, t.Topics[0].Name+"-0", t.Topics[1].Name+"-0"
	all := []Scenario{
		{Name: t.Name + "/no-fault/none", deflt: true},
		{Name: t.Name + "/restart/" + string(FollowerLeads), Restart: FollowerLeads, deflt: true},
		{Name: t.Name + "/foreign-stop/" + string(FollowerLeads), ForeignStop: true, Restart: FollowerLeads},
	}
	roles := []chaos.Target{
		{Role: chaos.Leader, Cluster: cluster, Of: led},
		{Role: chaos.Follower, Cluster: cluster, Of: led},
		{Role: chaos.Controller, Cluster: cluster},
		{Role: chaos.Source, Cluster: t.Mirrors[0].From, Of: led},
	}
	for _, point := range append(chaos.Points(), chaos.FirstWrite) {
		for _, target := range roles {
			if point == chaos.FirstWrite {
				if target.Role == chaos.Source {
					continue // it has nothing to do with it
				}
				if target.Of != "" {
					target.Of = met
				}
			}
			for _, act := range chaos.Acts() {
				if act == chaos.Strand && (target.Role != chaos.Leader || point == chaos.FirstWrite) {
					continue // what others do alone is nothing
				}
				what := fmt.Sprintf("%s-%s/%s", act, target.Role, inName(point))
				all = append(all, Scenario{
					Name: t.Name + "/" + what, HealAfterStop: true,
					Node:  &chaos.NodePlan{Act: act, Target: target, Point: point},
					deflt: defaultNodeFaults[what],
				})
			}
		}
	}
	for i := range all {
		all[i].Topology = t
	}
	for _, t := range []topologies.Topology{topologies.Failback(), topologies.Chain(3)} {
		t = t.On(several)
		t.Name += "-on-3"
		all = append(all, Scenario{Name: t.Name + "/no-fault/none", Topology: t, deflt: true})
	}
	return all
}

// defaultNodeFaults are those of a default run: the stop's own leader is lost
// with the barrier not yet committed (BAR-5), and when the first write was taken;
// a follower misses the truncation of what it holds (LOG-4); the quorum's leader
// is lost on the way.
var defaultNodeFaults = map[string]bool{
	"kill-leader/before-barrier-committed":  true,
	"kill-leader/first-write":               true,
	"strand-leader/before-barrier-appended": true,
	"cut-off-follower/before-settled":       true,
	"kill-controller/before-truncated":      true,
}
