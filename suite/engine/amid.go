package engine

import (
	"context"
	"fmt"
	"time"

	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// Amid is what befalls a node amid a stop that nobody can hold: when exactly, its
// seed and the machine decide.
type Amid string

// What may.
const (
	KillAmid  Amid = "kill-leader"
	PauseAmid Amid = "pause-leader"
)

// amidStops are the scenarios of clusters that can't be held at a gate.
func amidStops() []Scenario {
	t := topologies.ActivePassive()
	var all []Scenario
	for _, what := range []Amid{KillAmid, PauseAmid} {
		all = append(all, Scenario{Name: t.Name + "/outside/" + string(what) + "-amid-stop", Topology: t, Amid: what})
	}
	return all
}

const (
	// amidMost is the longest wait from the stop's request until something befalls
	// the leader, and pausedFor how long it stands.
	amidMost  = 40 * time.Millisecond
	pausedFor = 1500 * time.Millisecond
)

// amidFault is the scenario's fault, as runs plan one.
func (e *episode) amidFault() check.PlannedFault {
	return check.PlannedFault{
		ID: fmt.Sprintf("amid-%d", e.Number), Episode: int32(e.Number), Name: string(e.story.scenario.Amid),
		Link: "node:" + e.Mirror.To, Phase: "stop requested",
	}
}

// amid lets it befall the leader of the partition where forged batches meet
// mirrored ones, a moment after the stop was asked for.
func (e *episode) amid(ctx context.Context) error {
	what := e.story.scenario.Amid
	if what == "" || !e.struck() {
		return nil
	}
	leader, err := e.story.world.env.Cluster(e.Mirror.To).Leader(ctx, e.layout.Forge.Topic, e.layout.Forge.Index)
	if err != nil {
		return err
	}
	pause := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := pause(time.Duration(traffic.Rand(e.story.seed, "amid").Int64N(int64(amidMost)))); err != nil {
		return err
	}
	planned := e.amidFault()
	event := func(kind history.Kind, ends int64) {
		e.rec.Add(history.Event{Kind: kind, Fault: &history.Fault{
			ID: planned.ID, Name: planned.Name, Link: fmt.Sprintf("node:%s/%d", e.Mirror.To, leader.Number()), Role: "leader of " + e.layout.Forge.String(),
			Phase: planned.Phase, ProcessEvents: ends,
		}})
	}
	event(history.KindFaultStart, 0)
	e.story.forgetWatch(e.Mirror.To)
	if what == KillAmid {
		err = leader.Kill(ctx)
	} else {
		err = leader.Pause(ctx)
	}
	if err != nil {
		return err
	}
	event(history.KindFaultProof, 1)
	if what == KillAmid {
		err = leader.Start(ctx)
	} else if err = pause(pausedFor); err == nil {
		err = leader.Resume(ctx)
	}
	if err != nil {
		return err
	}
	event(history.KindFaultStop, 1)
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}
