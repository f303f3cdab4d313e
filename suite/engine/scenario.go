package engine

import (
	"cmp"
	"slices"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/history"
	"watershed.example/topologies"
)

// Scenario is one run: a topology, what goes wrong on the way, and the
// requirements that it exercises.
type Scenario struct {
	// Name is topology/fault/phase, and stable: it is part of test names.
	Name     string
	Topology topologies.Topology
	// Profile is the one that the clusters follow; "" for that of the run.
	Profile check.Profile
	// Episode is the number of the episode to whose stop all of the following
	// happens; 0 for the first.
	Episode int
	// Plan is the fault and when it strikes; nil for none.
	Plan *chaos.Plan
	// Node is what strikes a node of several, and when; nil for nothing.
	Node *chaos.NodePlan
	// Faults are more of both kinds, each of which says which stop it strikes.
	Faults chaos.Several
	// HealAfterStop leaves the faults in place until STOPPED was seen.
	HealAfterStop bool
	// EveryGate holds the stop at each of its gates in turn, and tries to write there.
	EveryGate bool
	// KillSource kills every node of the source before the stop is requested.
	KillSource bool
	// Kafka makes the first clusters of the mirrors Apache Kafka, which Kafka's own
	// client writes to as well.
	Kafka bool
	// Grows has the source's topics get a partition each while they are mirrored.
	Grows bool
	// SourceLoses kills the leader of a partition of the source while it is
	// mirrored, and starts it again once the mirror has gone on with the next.
	SourceLoses bool
	// RestartDestination cuts the source off and restarts every node of the
	// destination before the stop is requested.
	RestartDestination bool
	// CrashAt is the gate at which every node of the destination is killed, and
	// started again; "" for none.
	CrashAt string
	// Operate probes the control plane: a stop in every state, and again; mirrors
	// that lead elsewhere or nowhere, or are deleted.
	Operate bool
	// Wide stops a topic of so many partitions at the end, and before it one of a
	// tenth of them.
	Wide int32
	// Restart is how every node of the destination is restarted amid the promoted
	// traffic; "" for not.
	Restart Restart
	// ForeignStop has the destination's leaders stop by other rules, on purpose:
	// they leave transactions open below their barriers (PSM-8).
	ForeignStop bool
	// Vanish is how barriers are taken from the destination's logs when the last
	// episode has ended, or not: by a cleaner. "" for not at all.
	Vanish history.DisturbanceName
	// CleanPast has the old primary's cleaner go past the place where the logs part
	// before it mirrors the new one.
	CleanPast bool
	// Disturb is what befalls a cluster without mirrors, one after the other: its
	// state has to outlive that.
	Disturb []history.DisturbanceName
	// Amid is what befalls a stop that nobody can hold at a gate; "" for nothing.
	Amid Amid
	// RollOver takes a producer of a cluster without mirrors to the end of its
	// epochs, and past it; "" for not.
	RollOver RollOver

	// space begins the names of topics and mirrors on clusters of somebody else's;
	// "" on our own.
	space string
	// ungrouped has no consumer groups: it would take too long until they are mirrored.
	ungrouped bool
	// ungated says that nobody can hold a stop at a gate.
	ungated bool

	left  []string // what its target can't do of it, each with the reason
	short bool     // part of a short run
	deflt bool     // part of a default run
}

// strikes is the number of the episode that the scenario does something to.
func (s Scenario) strikes() int { return max(s.Episode, 1) }

// restarts is how often the destination of that episode is restarted until its
// promoted traffic meets the source's.
func (s Scenario) restarts() int64 {
	if s.RestartDestination || s.CrashAt != "" || s.Restart == OldSnapshot {
		return 1
	}
	return 0
}

// outlasts says whether the fault of the mirror's link is still there when STOPPED of an
// episode was seen.
func (s Scenario) outlasts(episode int) bool {
	p := s.linkPlan(episode)
	return (s.RestartDestination || s.Amid == CutOff) && episode == s.strikes() || p != nil && s.lasts(p.When)
}

// On returns the scenario with so many nodes in each cluster, or as it is for 0.
func (s Scenario) On(nodes int) Scenario {
	if nodes > 0 {
		s.Topology = s.Topology.On(nodes)
	}
	if s.Operate && s.replicated() && len(s.nodes()) == 0 {
		// A stop outlives any one broker (OPS-1).
		m, led := s.Topology.Mirrors[0], s.Topology.Topics[0].Name+"-0"
		s.HealAfterStop = true
		s.Node = &chaos.NodePlan{
			Act: chaos.Kill, Target: chaos.Target{Role: chaos.Leader, Cluster: m.To, Of: led}, Point: "before:barrier-committed",
		}
	}
	return s
}

// In returns the scenario with its clusters in a profile, unless it has one of its
// own.
func (s Scenario) In(p check.Profile) Scenario {
	s.Profile = cmp.Or(s.Profile, p, check.ProfileV42)
	return s
}

// replicated says whether partitions have several replicas.
func (s Scenario) replicated() bool {
	return !slices.ContainsFunc(s.Topology.Clusters, func(c topologies.Cluster) bool { return c.Replicas() < 2 })
}

// Weight is what the scenario asks of the machine while it runs: one for each
// cluster, and two where it has several nodes, since those mostly wait, for
// elections.
func (s Scenario) Weight() (weight int64) {
	for _, c := range s.Topology.Clusters {
		weight += int64(min(c.Nodes, 2))
	}
	return weight
}

// holds are the gates at which the stop of an episode is held, in their order.
func (s Scenario) holds(episode int) []string {
	if all := s.points(episode); len(all) > 0 && !s.ungated {
		return all
	}
	if episode != s.strikes() || s.ungated {
		return nil
	}
	if s.EveryGate {
		if s.Profile == check.ProfileLatest {
			return chaos.AllPoints()
		}
		return chaos.Points()
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
		"LOG-1", "LOG-2", "LOG-3", "BAR-1", "BAR-2", "BAR-3", "BAR-4", "BAR-6", "BAR-7", "RO-1", "RO-3", "RO-4", "RO-5",
		"PSM-1", "PSM-4", "IDEM-1", "IDEM-2", "IDEM-3", "IDEM-4", "TXN-1", "TXN-2", "TXN-3", "TXN-4", "TXN-6",
	}
}

// exercises lists the requirements that the scenario exercises in an episode.
func (s Scenario) exercises(episode int) []string {
	e := s.Topology.Episodes()[episode-1]
	ids := append(everyStop(), episodeIs(s.Topology, e)...)
	if p := s.linkPlan(episode); p != nil {
		ids = append(ids, "LINK-3")
		if losesResponse(*p) {
			ids = append(ids, "LINK-1")
		}
	}
	if s.outlasts(episode) {
		ids = append(ids, "TXN-5")
	}
	struck := s.nodePlans(episode)
	if len(struck) > 0 {
		ids = without(ids, "RO-4")
	}
	for _, n := range struck {
		if n.Point == chaos.FirstWrite && n.Target.Role == chaos.Leader && n.Act == chaos.Kill {
			ids = append(ids, "BAR-5", "PSM-2")
		}
	}
	if episode != s.strikes() {
		return ids
	}
	if s.groups() && !s.ForeignStop { // it cuts nothing that a group could have read
		ids = append(ids, "GRP-1")
	}
	if s.KillSource || s.RestartDestination || s.Amid == CutOff {
		ids = append(ids, "LINK-2")
	}
	if s.Amid == CutOff {
		ids = append(ids, "LINK-3")
	}
	if s.EveryGate || len(struck) > 0 && len(s.Topology.Episodes()) == 1 {
		// What it would cut was described when nothing was written.
		ids = append(ids, "OPS-4")
	}
	if slices.Index(chaos.AllPoints(), s.CrashAt) >= slices.Index(chaos.AllPoints(), "after:barrier-appended") {
		ids = append(ids, "PSM-3") // the barrier is in the log that it recovers
	}
	if s.Restart == FollowerLeads {
		ids = append(ids, "PSM-2")
	}
	if s.Restart != "" {
		ids = append(ids, "PSM-3", "PSM-6")
		if s.Restart != Clean && s.Restart != FollowerLeads {
			ids = append(ids, "PSM-7")
		}
	}
	if s.ForeignStop {
		// That what is open leaves no record is not for this leader.
		ids = append(without(ids, "TXN-3"), "PSM-8")
	}
	if s.CrashAt != "" || s.Restart == OldSnapshot || s.Amid.strikesNodes() {
		// Whether what was refused before is accepted without a restart, this
		// does not show; nor does a stop whose nodes are struck.
		ids = without(ids, "RO-4")
	}
	return ids
}

func without(ids []string, gone string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return id == gone })
}

// Requirements lists all that the scenario exercises, in the order of the
// contract: what its episodes do, and what its topology is about.
func (s Scenario) Requirements() []string {
	if isAlone(s.Topology) {
		return inOrder(s.aloneExercises())
	}
	ids := topologyIs(s.Topology)
	for _, e := range s.Topology.Episodes() {
		ids = append(ids, s.exercises(e.Number)...)
	}
	if s.Vanish != "" {
		ids = append(ids, "BAR-8")
	}
	if s.replicated() {
		ids = append(ids, "LOG-4")
	}
	if s.Operate {
		ids = append(ids, "LINK-4", "OPS-1", "OPS-2", "OPS-5")
	}
	if s.Wide > 0 {
		ids = append(ids, "OPS-3")
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
	return inOrder(append(everyStop(),
		"SC-1", "SC-2", "SC-3", "SC-4", "SC-5", "SC-6", "SC-7", "SC-8",
		"LOG-4", "LOG-5", "BAR-5", "BAR-8", "RO-2", "PSM-2", "PSM-3", "PSM-5", "PSM-6", "PSM-7", "PSM-8", "PSM-9", "TXN-5", "LINK-1", "LINK-2", "LINK-3", "LINK-4",
		"GRP-1", "AP-1", "FB-1", "FB-2", "FB-3", "FB-4", "FO-1", "FO-2", "FI-1", "FI-2", "CH-1", "CH-2", "CH-3", "CH-4", "AL-1",
		"OPS-1", "OPS-2", "OPS-3", "OPS-4", "OPS-5",
	))
}

// NotSelected lists the expected requirements that no scenario declares.
func NotSelected(scenarios []Scenario) []string {
	return slices.DeleteFunc(Expected(), func(id string) bool {
		return slices.ContainsFunc(scenarios, func(s Scenario) bool { return slices.Contains(s.Requirements(), id) })
	})
}
