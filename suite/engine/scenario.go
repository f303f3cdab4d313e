package engine

import (
	"slices"
	"strings"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/contract"
	"watershed.example/topologies"
)

// Scenario is one run: a topology, what goes wrong on the way, and the
// requirements that it exercises.
type Scenario struct {
	// Name is topology/fault/phase, and stable: it is part of test names.
	Name     string
	Topology topologies.Topology
	// Plan is the fault and when it strikes; nil for none.
	Plan *chaos.Plan
	// HealAfterStop leaves the fault in place until STOPPED was seen.
	HealAfterStop bool
	// EveryGate holds the stop at each of its gates in turn, and tries to write there.
	EveryGate bool
	// KillSource kills every node of the source before the stop is requested.
	KillSource bool
	// RestartDestination cuts the source off and restarts every node of the
	// destination before the stop is requested.
	RestartDestination bool
	// Requirements that the scenario exercises, by id.
	Requirements []string

	short bool // part of a short run
	deflt bool // part of a default run
}

// Weight is what the scenario asks of the machine while it runs: its nodes.
func (s Scenario) Weight() int64 {
	n := 0
	for _, c := range s.Topology.Clusters {
		n += c.Nodes
	}
	return int64(n)
}

// holds are the gates at which the stop is held, in their order.
func (s Scenario) holds() []string {
	if s.EveryGate {
		return chaos.Points()
	}
	if s.Plan != nil {
		return []string{s.Plan.Point}
	}
	if s.KillSource || s.RestartDestination {
		// Without a source a stop is over in no time, and nobody would have tried
		// to write during it.
		return []string{"before:settled"}
	}
	return nil
}

// exercised by every failover of an active-passive pair.
func everyFailover() []string {
	return []string{
		"AP-1", "LOG-1", "LOG-2", "LOG-3", "BAR-1", "BAR-2", "BAR-3", "BAR-4", "BAR-6", "RO-1", "RO-4", "RO-5",
		"PSM-1", "IDEM-1", "IDEM-2", "IDEM-4", "TXN-1", "TXN-2", "TXN-3", "TXN-4",
	}
}

// Expected lists the requirements that a default run has to cover, in the
// order of the contract.
func Expected() []string {
	ids := append(everyFailover(), "LINK-1", "LINK-2", "LINK-3")
	slices.SortFunc(ids, func(a, b string) int { return contract.Order(a) - contract.Order(b) })
	return ids
}

// NotSelected lists the expected requirements that no scenario declares.
func NotSelected(scenarios []Scenario) []string {
	return slices.DeleteFunc(Expected(), func(id string) bool {
		return slices.ContainsFunc(scenarios, func(s Scenario) bool { return slices.Contains(s.Requirements, id) })
	})
}

// Selection is a part of the matrix.
type Selection int

// The selections. A default run strikes with each fault, and at each point, at
// least once.
const (
	Short Selection = iota
	Default
	Full
)

// Scenarios lists the scenarios of a selection, the slowest kinds first.
func Scenarios(s Selection) []Scenario {
	return slices.DeleteFunc(matrix(), func(sc Scenario) bool {
		return s == Short && !sc.short || s == Default && !sc.deflt
	})
}

func matrix() []Scenario {
	t := topologies.ActivePassive()
	mirror := t.Mirrors[0]
	all := []Scenario{
		{
			Name: t.Name + "/source-cut/destination-restarted", RestartDestination: true, short: true, deflt: true,
			Requirements: []string{"LINK-2"},
		},
		{
			Name: t.Name + "/source-killed/before-stop", KillSource: true, short: true, deflt: true,
			Requirements: []string{"LINK-2"},
		},
		{Name: t.Name + "/no-fault/every-gate", EveryGate: true, deflt: true},
		{Name: t.Name + "/no-fault/none", short: true, deflt: true},
	}
	kinds := chaos.Kinds()
	for i, point := range chaos.Points() {
		for j, kind := range kinds {
			plan := chaos.Plan{Kind: kind, Link: mirror.Link(), Point: point}
			sc := Scenario{
				Name: t.Name + "/" + string(kind) + "/" + strings.Replace(point, ":", "-", 1),
				Plan: &plan, HealAfterStop: (i+j)%2 == 0,
				// Points and kinds are paired off along a diagonal: each point
				// once, and each kind at least once.
				deflt:        i%len(kinds) == j,
				Requirements: []string{"LINK-3"},
			}
			if losesResponse(plan) {
				sc.Requirements = append(sc.Requirements, "LINK-1")
			}
			sc.short = sc.deflt && slices.Contains(shortPoints, point)
			all = append(all, sc)
		}
	}
	for i := range all {
		all[i].Topology = t
		all[i].Requirements = append(everyFailover(), all[i].Requirements...)
	}
	return all
}

// shortPoints are where the faults of a short run strike.
var shortPoints = []string{"before:truncated", "after:barrier-appended"}

// losesResponse says whether the plan holds a response in flight when the
// fetchers are removed, and loses it or delivers it late (LINK-1). Latency does
// so only where the stop is quicker than the delay, which is not for a plan to
// promise.
func losesResponse(p chaos.Plan) bool {
	switch p.Kind {
	case chaos.Partition, chaos.PartitionFromSource, chaos.HoldAndRelease, chaos.HoldAndDrop:
		return p.InFlight()
	}
	return false
}

// Costs of a run on two cores, for estimates.
const costOfScenario = 3 * time.Second

// Capacity is the weight that may run at the same time.
func Capacity() int64 { return 8 }

// Estimate says about how long scenarios take here.
func Estimate(scenarios []Scenario) time.Duration {
	var weight int64
	for _, s := range scenarios {
		weight += s.Weight()
	}
	return time.Duration(weight) * costOfScenario / time.Duration(Capacity())
}
