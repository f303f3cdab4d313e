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
	// Episode is the number of the episode to whose stop all of the following
	// happens; 0 for the first.
	Episode int
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
	// CrashAt is the gate at which every node of the destination is killed, and
	// started again; "" for none.
	CrashAt string

	short bool // part of a short run
	deflt bool // part of a default run
}

// strikes is the number of the episode that the scenario does something to.
func (s Scenario) strikes() int { return max(s.Episode, 1) }

// restarts is how often the destination of that episode is restarted until its
// promoted traffic meets the source's.
func (s Scenario) restarts() int64 {
	if s.RestartDestination || s.CrashAt != "" {
		return 1
	}
	return 0
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
	if s.CrashAt != "" {
		return []string{s.CrashAt}
	}
	if s.KillSource || s.RestartDestination {
		// Without a source a stop is over in no time, and nobody would have tried
		// to write during it.
		return []string{"before:settled"}
	}
	return nil
}

// everyStop lists what each stop of a mirror exercises.
func everyStop() []string {
	return []string{
		"LOG-1", "LOG-2", "LOG-3", "BAR-1", "BAR-2", "BAR-3", "BAR-4", "BAR-6", "RO-1", "RO-4", "RO-5",
		"PSM-1", "IDEM-1", "IDEM-2", "IDEM-4", "TXN-1", "TXN-2", "TXN-3", "TXN-4",
	}
}

// exercises lists the requirements that the scenario exercises in an episode.
func (s Scenario) exercises(episode int) []string {
	ids := everyStop()
	if episode != s.strikes() {
		return ids
	}
	if s.Plan != nil {
		ids = append(ids, "LINK-3")
		if losesResponse(*s.Plan) {
			ids = append(ids, "LINK-1")
		}
	}
	if s.KillSource || s.RestartDestination {
		ids = append(ids, "LINK-2")
	}
	if s.CrashAt != "" {
		// What was refused before is accepted after a restart only.
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "RO-4" })
	}
	return ids
}

// Requirements lists all that the scenario exercises, in the order of the
// contract: what its episodes do, and what its topology is about.
func (s Scenario) Requirements() []string {
	var ids []string
	for _, e := range s.Topology.Episodes() {
		ids = append(ids, s.exercises(e.Number)...)
	}
	if len(s.Topology.Mirrors) == 1 && len(s.Topology.Episodes()) == 1 {
		ids = append(ids, "AP-1")
	}
	return inOrder(ids)
}

// inOrder sorts ids in the order of the contract, each once.
func inOrder(ids []string) []string {
	slices.SortFunc(ids, func(a, b string) int { return contract.Order(a) - contract.Order(b) })
	return slices.Compact(ids)
}

// Expected lists the requirements that a default run has to cover, in the
// order of the contract.
func Expected() []string {
	return inOrder(append(everyStop(), "AP-1", "LINK-1", "LINK-2", "LINK-3"))
}

// NotSelected lists the expected requirements that no scenario declares.
func NotSelected(scenarios []Scenario) []string {
	return slices.DeleteFunc(Expected(), func(id string) bool {
		return slices.ContainsFunc(scenarios, func(s Scenario) bool { return slices.Contains(s.Requirements(), id) })
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
	all := activePassive()
	for _, t := range topologies.All()[1:] {
		all = append(all, beyond(t)...)
	}
	return all
}

// activePassive is the whole matrix of faults and points, and what goes wrong
// with whole clusters.
func activePassive() []Scenario {
	t := topologies.ActivePassive()
	all := []Scenario{
		{Name: t.Name + "/source-cut/destination-restarted", RestartDestination: true, short: true, deflt: true},
		{Name: t.Name + "/source-killed/before-stop", KillSource: true, short: true, deflt: true},
		{Name: t.Name + "/no-fault/every-gate", EveryGate: true, deflt: true},
		{Name: t.Name + "/no-fault/none", short: true, deflt: true},
	}
	kinds := chaos.Kinds()
	for i, point := range chaos.Points() {
		for j, kind := range kinds {
			sc := Scenario{
				Name: t.Name + "/" + string(kind) + "/" + inName(point),
				Plan: &chaos.Plan{Kind: kind, Link: t.Mirrors[0].Link(), Point: point}, HealAfterStop: (i+j)%2 == 0,
				// Points and kinds are paired off along a diagonal: each point
				// once, and each kind at least once.
				deflt: i%len(kinds) == j,
			}
			sc.short = sc.deflt && slices.Contains(shortPoints, point)
			all = append(all, sc)
		}
		all = append(all, Scenario{
			Name: t.Name + "/crash/" + inName(point), CrashAt: point, deflt: slices.Contains(crashPoints, point),
		})
	}
	for i := range all {
		all[i].Topology = t
	}
	return all
}

// inName is a point as names of tests hold it.
func inName(point string) string { return strings.Replace(point, ":", "-", 1) }

// beyond is what a topology with several episodes goes through.
func beyond(t topologies.Topology) []Scenario {
	return []Scenario{{Name: t.Name + "/no-fault/none", Topology: t}}
}

// crashPoints are where the crashes of a default run strike.
var crashPoints = []string{"recorded:truncated", "after:barrier-appended", "before:stopped"}

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
