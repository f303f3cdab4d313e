package engine

import (
	"context"
	"fmt"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// Amid is what befalls a stop that no gate can hold.
type Amid string

// What may.
const (
	// KillAmid and PauseAmid strike a leader of the destination right after the stop was
	// asked for: when exactly, its seed and the machine decide.
	KillAmid  Amid = "kill-leader"
	PauseAmid Amid = "pause-leader"
	// KillHeld kills it in a STOPPING that is held open: an in-sync follower is paused
	// from before the request, so that the barrier can't be committed.
	KillHeld Amid = "kill-leader-held"
	// CutOff has the target's proxies cut the source off from before the request until
	// after STOPPED.
	CutOff Amid = "cut-off"
)

// strikesNodes says whether nodes of the destination are struck.
func (a Amid) strikesNodes() bool { return a != "" && a != CutOff }

// amidStops are the scenarios of clusters that can't be held at a gate.
func amidStops() []Scenario {
	one, three := topologies.ActivePassive(), topologies.ActivePassive().On(3)
	three.Name += "-on-3"
	return []Scenario{
		{Name: one.Name + "/outside/kill-leader-amid-stop", Topology: one, Amid: KillAmid},
		{Name: one.Name + "/outside/pause-leader-amid-stop", Topology: one, Amid: PauseAmid},
		{Name: three.Name + "/outside/kill-leader-in-stopping", Topology: three, Amid: KillHeld},
		{Name: one.Name + "/outside/source-cut-off", Topology: one, Amid: CutOff},
	}
}

// Outside are scenarios that are played on a target alone: those of stops without gates,
// and what befalls a cluster by itself where nothing of ours is between its nodes.
func Outside() []Scenario {
	three := topologies.Single().On(3)
	name := three.Name + "-on-3/outside/"
	return append(amidStops(),
		Scenario{Name: name + "leaders-changed", Topology: three, Disturb: []history.DisturbanceName{history.LeaderChange, history.LeaderChange, history.Reassignment}},
		Scenario{Name: name + "coordinator-moved", Topology: three, Disturb: []history.DisturbanceName{history.CoordinatorMove}},
	)
}

const (
	// amidMost is the longest wait from the stop's request until something befalls
	// the leader, and pausedFor how long it stands.
	amidMost  = 40 * time.Millisecond
	pausedFor = 1500 * time.Millisecond
)

// amidFault is what strikes nodes, as runs plan it.
func (e *episode) amidFault() check.PlannedFault {
	phase := "stop requested"
	if e.story.scenario.Amid == KillHeld {
		phase = "STOPPING"
	}
	return check.PlannedFault{
		ID: fmt.Sprintf("amid-%d", e.Number), Episode: int32(e.Number), Name: string(e.story.scenario.Amid),
		Link: "node:" + e.Mirror.To, Phase: phase,
	}
}

// amidEvent records what befell a node.
func (e *episode) amidEvent(kind history.Kind, n *fixtures.Node, role string, ends int64) {
	planned := e.amidFault()
	e.rec.Add(history.Event{Kind: kind, Fault: &history.Fault{
		ID: planned.ID, Name: planned.Name, Link: fmt.Sprintf("node:%s/%d", e.Mirror.To, n.Number()), Role: role + " of " + e.layout.Forge.String(),
		Phase: planned.Phase, ProcessEvents: ends,
	}})
}

// leader leads the partition where forged batches meet mirrored ones.
func (e *episode) leader(ctx context.Context) (*fixtures.Node, error) {
	return e.story.world.env.Cluster(e.Mirror.To).Leader(ctx, e.layout.Forge.Topic, e.layout.Forge.Index)
}

// amid lets it befall the leader, a moment after the stop was asked for.
func (e *episode) amid(ctx context.Context) error {
	what := e.story.scenario.Amid
	switch {
	case !what.strikesNodes() || !e.struck():
		return nil
	case what == KillHeld:
		return e.killHeld(ctx)
	}
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(traffic.Rand(e.story.seed, "amid").Int64N(int64(amidMost)))); err != nil {
		return err
	}
	e.amidEvent(history.KindFaultStart, leader, "leader", 0)
	e.story.forgetWatch(e.Mirror.To)
	if what == KillAmid {
		err = leader.Kill(ctx)
	} else {
		err = leader.Pause(ctx)
	}
	if err != nil {
		return err
	}
	e.amidEvent(history.KindFaultProof, leader, "leader", 1)
	if what == KillAmid {
		err = leader.Start(ctx)
	} else if err = pause(ctx, pausedFor); err == nil {
		err = leader.Resume(ctx)
	}
	if err != nil {
		return err
	}
	e.amidEvent(history.KindFaultStop, leader, "leader", 1)
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
