package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/mirrorrpc"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/history"
	"watershed.example/topologies"
)

// Target is clusters that run already, as they were found.
type Target struct {
	file *target.Target
	seen []fixtures.Seen
	// run is part of every name that this run makes, and stories counts them.
	run     string
	stories atomic.Int64
}

// FindTarget looks at the clusters of a target file, and finds out whether they
// answer and are different ones. run tells the names of this run from those of others.
func FindTarget(ctx context.Context, file *target.Target, run string) (*Target, error) {
	t := &Target{file: file, run: run}
	for i, c := range file.Clusters {
		s, err := fixtures.Look(ctx, c)
		if err != nil {
			return nil, err
		}
		for j, other := range t.seen {
			if other.ID == s.ID {
				return nil, fmt.Errorf("clusters %s and %s are one, given twice: both have cluster id %s", file.Clusters[j].Name, file.Clusters[i].Name, s.ID)
			}
		}
		t.seen = append(t.seen, s)
	}
	return t, nil
}

// File is what the target's file says.
func (t *Target) File() *target.Target { return t.file }

// Seen are its clusters as they answered, in their order.
func (t *Target) Seen() []fixtures.Seen { return slices.Clone(t.seen) }

// Profile is the text of KIP-1279 that the target follows.
func (t *Target) Profile() check.Profile { return check.Profile(t.file.Profile) }

// fit gives a scenario the names, the nodes and the profile that it has on the target.
func (t *Target) fit(sc Scenario) Scenario {
	return t.fitIn(sc, t.space(t.stories.Add(1)))
}

// space begins the names of a story, by its number.
func (t *Target) space(number int64) string {
	return t.file.Prefix + t.run + "-" + strconv.FormatInt(number, 10) + "-"
}

func (t *Target) fitIn(sc Scenario, space string) Scenario {
	sc.space = space
	sc.Topology = fixtures.NodesOf(sc.Topology, t.seen).In(sc.space)
	sc.Profile = t.Profile()
	sc.ungated = true
	sc.ungrouped = !t.refreshes()
	return sc
}

// refreshes says whether the target's mirrors look for groups often enough.
func (t *Target) refreshes() bool {
	if t.file.Mirroring == nil {
		return false
	}
	if every := t.file.Mirroring.OffsetSync; every > 0 {
		return every <= mostRefresh*time.Millisecond
	}
	ms, err := strconv.Atoi(t.file.Mirroring.Config[mirrorrpc.ConfigRefresh])
	return err == nil && ms <= mostRefresh
}

// Ungrouped is why stories on the target have no consumer groups, and GRP-1 is not applicable; ""
// where they have some, and where there is no mirroring.
func (t *Target) Ungrouped() string {
	if t.file.Mirroring == nil || t.refreshes() {
		return ""
	}
	return noGroups
}

// mostRefresh is the longest that mirrors may take to look for groups' offsets, in
// milliseconds, so that a story can wait for it.
const mostRefresh = 5000

// notApplicable are the requirements that a scenario declares and the target can't
// show, with the reason.
func (t *Target) notApplicable(Scenario) map[string]string {
	return map[string]string{
		"BAR-7": "the product's log dump tool needs its files, which a target does not show; run it on a segment, and judge that by hand",
	}
}

// Unplayed is a scenario that a target can't play, and why.
type Unplayed struct {
	Scenario Scenario
	Why      string
}

// Scenarios are those up to a level that the target can play, and the others with
// what keeps it from them.
func (t *Target) Scenarios(level contract.Level) (play []Scenario, not []Unplayed) {
	for _, sc := range append(Scenarios(Default), Outside()...) {
		if sc.Level() > level {
			continue
		}
		sc.ungrouped = !t.refreshes()
		if why := t.cant(sc); why != "" {
			not = append(not, Unplayed{sc, why})
			continue
		}
		play = append(play, sc)
	}
	return play, not
}

// Reasons that several scenarios have.
const (
	noGates = "no step of a stop can be held from outside: that needs the test hooks of the bundled broker"
	noFiles = "the files of the brokers are not ours to change"
	noStop  = "the target has no commands to stop and start nodes, or forbids it"
	noKill  = "the target has no commands to kill and start nodes, or forbids it"
	noPause = "the target has no commands to pause and resume nodes, or forbids it"
	noCut   = "the target has no proxies on the way to its first cluster, or forbids cuts"
	// What groups have committed is compared once it has been mirrored.
	noGroups = "the target's mirroring has neither a consumer-offset-sync of 5s at the most nor mirror.metadata.refresh.interval.ms of 5000 among its config: what groups have committed would be waited for too long"
	noPace   = "how often brokers clean their logs is not ours to say"
)

// WayClear says whether the proxies by which the target's first cluster is cut off are
// there and cut nothing now; nil where there are none, or they may not cut.
func (t *Target) WayClear(ctx context.Context) error {
	if !fixtures.CapableOf(t.file, 1).Cut {
		return nil
	}
	return fixtures.LookAtWay(ctx, t.file.Clusters[0])
}

// cutsOff says whether a scenario cuts its source off by a target's proxies.
func (s Scenario) cutsOff() bool { return s.Amid == CutOff || s.RestartDestination }

// played are the topologies whose stories a target plays.
var played = []string{
	topologies.ActivePassive().Name, topologies.Resumed().Name, topologies.Failback().Name,
	topologies.FanOut().Name, topologies.FanOutAtOnce().Name, topologies.FanIn().Name, topologies.Chain(3).Name,
}

// cant says why the target can't play a scenario; "" where it can.
func (t *Target) cant(sc Scenario) string {
	mirroring := len(sc.Topology.Mirrors) > 0
	clusters := len(sc.Topology.Clusters)
	can := fixtures.CapableOf(t.file, clusters)
	several := sc.Topology.Clusters[0].Nodes > 1
	switch {
	case mirroring && t.file.Mirroring == nil:
		return "the target has no mirroring"
	case clusters > len(t.file.Clusters):
		return fmt.Sprintf("it needs %d clusters, the target has %d", clusters, len(t.file.Clusters))
	case several && slices.ContainsFunc(t.seen[:clusters], func(s fixtures.Seen) bool { return len(s.Brokers) < 3 }):
		return "it needs clusters of three nodes"
	case sc.Profile != "" && sc.Profile != t.Profile():
		return "it is about profile " + string(sc.Profile)
	case sc.EveryGate, len(sc.links())+len(sc.nodes()) > 0, sc.CrashAt != "":
		return noGates
	case (sc.Amid == PauseAmid || sc.Amid == KillHeld) && !can.Pause:
		return noPause
	case (sc.Amid == KillAmid || sc.Amid == KillHeld) && !can.Kill:
		return noKill
	case sc.ForeignStop:
		return "it needs a broker that is wrong on purpose"
	case (sc.RestartDestination || sc.Amid == CutOff) && !can.Cut:
		return noCut
	case sc.RestartDestination && !can.Stop:
		return noStop
	case sc.Restart == LostSnapshots, sc.Restart == TornTail, sc.Restart == OldSnapshot:
		return noFiles
	case sc.Vanish != "", sc.CleanPast:
		return noPace
	case sc.Wide > 0:
		return "a stop of hundreds of partitions is not asked of somebody else's clusters"
	case sc.Grows:
		return "how often mirrors look for new partitions is not ours to say"
	case sc.SourceLoses, sc.Kafka:
		return "it needs a source of our own"
	case (sc.KillSource || sc.Restart == KillNine || sc.Restart == FollowerLeads) && !can.Kill:
		return noKill
	case sc.Restart == Clean && !can.Stop:
		return noStop
	case !can.Stop && t.file.Mirroring != nil && t.file.Mirroring.Adapter == target.Command && slices.ContainsFunc(sc.Topology.Steps, elects):
		return noStop // leaders' epochs rise by restarts alone
	case several && sc.Node == nil && sc.Restart == "" && sc.Amid == "" && len(sc.Disturb) == 0:
		return "the same story is played under its other name: the clusters are as large as they are"
	case mirroring && !slices.Contains(played, strings.TrimSuffix(sc.Topology.Name, "-on-3")):
		return "this story is not played on a target yet"
	}
	for _, d := range sc.Disturb {
		switch {
		case d == history.CleanRestart && !can.Stop:
			return noStop
		case (d == history.KillRestart || d == history.CoordinatorMove) && !can.Kill:
			return noKill
		case d == history.Retention, d == history.Compaction:
			return noPace
		case d == history.Truncation:
			return "nothing of ours is between the nodes that could cut one off"
		}
	}
	return ""
}

// elects says whether a step gives partitions new leader epochs.
func elects(s topologies.Step) bool { return s.Do == topologies.Elect }
