package engine

import (
	"fmt"
	"slices"
	"strings"

	"watershed.example/chaos"
	"watershed.example/topologies"
)

// Cell is one of the matrix of faults: a fault, whom it strikes, at which step and on
// which side of it, and in which topology.
type Cell struct {
	Fault, Role, Step, Side string
	topology                topologies.Topology
	Scenario                Scenario
}

// linkRole is the mirror's link, where others are nodes.
const linkRole = "mirror-link"

// faultOf is a fault as it strikes links of mirrors, and as it strikes nodes; "" for
// not.
type faultOf struct {
	name string
	kind chaos.Kind
	act  chaos.Act
}

// faultsOf lists the faults of the matrix.
func faultsOf() []faultOf {
	all := []faultOf{
		{"partition", chaos.Partition, chaos.CutOff},
		{"partition-inbound", chaos.PartitionToSource, chaos.CutInbound},
		{"partition-outbound", chaos.PartitionFromSource, chaos.CutOutbound},
		{"hold-and-drop", chaos.HoldAndDrop, ""},
		{"hold-one-fetch-response", chaos.HoldOneFetch, ""},
	}
	for _, both := range []chaos.Kind{chaos.Latency, chaos.Bandwidth, chaos.HoldAndRelease, chaos.Reset, chaos.CutInFrame} {
		all = append(all, faultOf{string(both), both, chaos.Act(both)})
	}
	known := func(a chaos.Act) bool {
		return slices.ContainsFunc(all, func(f faultOf) bool { return f.act == a })
	}
	for _, a := range chaos.AllActs() {
		if !known(a) {
			all = append(all, faultOf{string(a), "", a})
		}
	}
	return all
}

// steps lists the steps of STOPPING, and the sides of one.
func stepsAndSides() (steps [][2]string) {
	for _, p := range chaos.Points() {
		side, step, _ := strings.Cut(p, ":")
		steps = append(steps, [2]string{step, side})
	}
	return steps
}

// liveTxn stands for the transactional id of what is written to the source while the
// stop is on its way.
const liveTxn = "live"

// FaultMatrix lists every cell: each fault at each step, before and after it, struck at
// each role that it can strike, in topologies on clusters of three nodes.
func FaultMatrix() []Cell {
	var all []Cell
	for _, t := range []topologies.Topology{topologies.ActivePassive(), topologies.Failback(), topologies.Chain(3)} {
		t = t.On(several)
		t.Name += "-on-3"
		for _, f := range faultsOf() {
			for _, role := range append([]string{linkRole}, rolesOfMatrix()...) {
				for _, at := range stepsAndSides() {
					c := Cell{Fault: f.name, Role: role, Step: at[0], Side: at[1], topology: t}
					if c.plan(f) {
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

func rolesOfMatrix() []string {
	var all []string
	for _, r := range chaos.Roles() {
		all = append(all, string(r))
	}
	return all
}

// CoveringFaults is the part of the matrix in which every pair of fault, role, step,
// side and topology occurs that occurs anywhere.
func CoveringFaults() []Cell {
	all := FaultMatrix()
	rows, costs := make([][]string, len(all)), make([]int64, len(all))
	for i, c := range all {
		rows[i], costs[i] = c.row(), c.Scenario.cost()
	}
	var chosen []Cell
	for _, k := range covering(coveringSeed, rows, func(k int) int64 { return costs[k] }) {
		chosen = append(chosen, all[k])
	}
	return chosen
}

// coveringSeed decides which part: names of cells are to stay the same.
const coveringSeed = 1

func (c Cell) row() []string { return []string{c.Fault, c.Role, c.Step, c.Side, c.topology.Name} }

// ScenariosOf are the cells' scenarios.
func ScenariosOf(cells []Cell) []Scenario {
	var all []Scenario
	for _, c := range cells {
		all = append(all, c.Scenario)
	}
	return all
}

// plan makes the cell's scenario; false for a fault that can't strike so.
func (c *Cell) plan(f faultOf) bool {
	t, point := c.topology, c.Side+":"+c.Step
	m, led := t.Mirrors[0], t.Topics[0].Name+"-0"
	sc := Scenario{Name: fmt.Sprintf("%s/%s-%s/%s", t.Name, c.Fault, c.Role, inName(point)), Topology: t}
	if c.Role == linkRole {
		if f.kind == "" {
			return false
		}
		sc.Plan = &chaos.Plan{Kind: f.kind, Link: m.Link(), Point: point}
		// Each fault outlasts every second stop that it strikes.
		sc.HealAfterStop = slices.Index(chaos.Points(), point)%2 == 0
		c.Scenario = sc
		return true
	}
	role := chaos.Role(c.Role)
	if f.act == "" || !strikes(f.act, role, point) {
		return false
	}
	target := chaos.Target{Role: role, Cluster: m.To, Of: led}
	switch role {
	case chaos.Source:
		target.Cluster = m.From
	case chaos.Controller:
		target.Of = ""
	case chaos.Coordinator:
		target.Of = "anybody"
		if f.act == chaos.HoldOneEndTxn {
			target = chaos.Target{Role: role, Cluster: m.From, Of: liveTxn}
		}
	}
	sc.Node = &chaos.NodePlan{Act: f.act, Target: target, Point: point}
	sc.HealAfterStop = !f.act.Passing() && !f.act.AtOnce()
	c.Scenario = sc
	return true
}

// strikes says whether an act can strike a role at a point, and be seen to.
func strikes(act chaos.Act, role chaos.Role, point string) bool {
	switch act {
	case chaos.Strand:
		return role == chaos.Leader // what others do alone is nothing
	case chaos.BelowMinISR:
		return role == chaos.Source // a replica lags only behind what is written meanwhile
	case chaos.HoldOneReplica:
		return role == chaos.Leader || role == chaos.Source
	case chaos.HoldOneProduce, chaos.HoldOneTxnMarker:
		return role == chaos.Source // which is written to meanwhile
	case chaos.HoldOneEndTxn:
		return role == chaos.Coordinator
	case chaos.Depose:
		return role != chaos.Follower
	case chaos.DiskFull:
		// Of a cluster that is not written to, the stop itself is what writes.
		return role == chaos.Source || point != lastPoint
	case chaos.SlowSync:
		// A write waits for no sync, a stop does.
		return role != chaos.Source && point != lastPoint
	}
	return true
}
