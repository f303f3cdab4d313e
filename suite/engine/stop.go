package engine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// stop stops the mirrors of episodes at the same moment, lets the fault strike
// the first, if it is that one's, and waits for STOPPED.
func (s *story) stop(ctx context.Context, stopping []*episode) error {
	for _, e := range stopping {
		e.source.startLive(s.whole)
	}
	for _, other := range s.others(stopping[0]) {
		if other.source.stopLive == nil { // in a stop of several it writes already
			other.source.startLive(s.whole)
		}
	}
	for _, e := range stopping {
		if err := e.prepareStop(ctx); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, e := range stopping {
		g.Go(func() error { return e.stop(ctx) })
	}
	return g.Wait()
}

// others are the episodes whose mirrors run while e's is stopped, and whose
// sources are written to already.
func (s *story) others(e *episode) []*episode {
	var all []*episode
	for _, other := range s.episodes {
		if other != e && other.Start < e.Stop && other.Stop >= e.Stop && !other.ended && other.source != nil && other.control != nil {
			all = append(all, other)
		}
	}
	return all
}

// holds are the gates at which this stop is held.
func (e *episode) holds() []string {
	return e.story.scenario.holds(e.Number)
}

// prepareStop does what goes before the request of a stop: what the scenario
// does to whole clusters, the gates, and what is to be in flight.
func (e *episode) prepareStop(ctx context.Context) error {
	sc := e.story.scenario
	if e.struck() && sc.KillSource {
		if err := e.story.world.killAll(ctx, e.Mirror.From); err != nil {
			return err
		}
	}
	if e.struck() && sc.Amid == CutOff {
		if err := e.cutOff(ctx); err != nil {
			return err
		}
	}
	if e.struck() && sc.RestartDestination {
		cut := e.fault.cutNow
		if e.fault.way != nil {
			cut = e.cutOff
		}
		if err := cut(ctx); err != nil {
			return err
		}
		if err := e.story.world.restartAll(ctx, e.Mirror.To); err != nil {
			return err
		}
		e.story.forgetWatch(e.Mirror.To)
	}
	e.watchGates()
	for _, p := range e.holds() {
		if err := e.gates.hold(ctx, p); err != nil {
			return err
		}
	}
	e.promoted.startHammer(e.story.whole)
	if e.struck() && sc.Amid == KillHeld {
		return e.holdOpenStopping(ctx)
	}
	return e.fault.prepare(ctx)
}

// watchGates begins to hear of this stop's gates.
func (e *episode) watchGates() {
	s, cluster := e.story, e.Mirror.To
	if s.watches[cluster] == nil {
		s.watches[cluster] = watchGates(s.whole, s.world.hooks(cluster))
	}
	e.gates = s.watches[cluster].of(e.rec, cluster, e.layout.All)
}

// forgetWatch ends the watch of a cluster whose node begins a new life.
func (s *story) forgetWatch(cluster string) {
	if w := s.watches[cluster]; w != nil {
		w.close()
		delete(s.watches, cluster)
	}
}

// stop requests the stop, lets the fault strike, and waits for STOPPED.
func (e *episode) stop(ctx context.Context) error {
	e.rec.Phase(history.StopRequested)
	err := e.requestStop(ctx)
	if err == nil {
		err = e.amid(ctx)
	}
	if err := errors.Join(err, e.resumePaused(ctx)); err != nil {
		return err
	}
	for _, p := range e.holds() {
		if err := e.gates.await(ctx, p); err != nil {
			return e.stuckAt(err)
		}
		if err := e.at(ctx, p); err != nil {
			return err
		}
	}
	stopped, err := e.control.Await(ctx, "every partition is STOPPED", e.layout.All, func(_ traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateStopped
	})
	if err != nil {
		return e.stuckAt(err)
	}
	e.stopped = stopped
	e.rec.Phase(history.Stopped)
	return nil
}

// at does what is to be done while every partition is held at point, and lets
// them go on.
func (e *episode) at(ctx context.Context, point string) error {
	sc := e.story.scenario
	if err := e.fault.strikeAt(ctx, point); err != nil {
		return err
	}
	if point != lastPoint { // after it the partitions are writable
		if err := e.refusedRound(ctx); err != nil {
			return err
		}
	}
	if err := e.atGate(ctx, point); err != nil {
		return err
	}
	if e.struck() && sc.CrashAt != "" {
		return e.crash(ctx, point)
	}
	for _, f := range e.due(point) {
		if err := e.strikeNode(ctx, f); err != nil {
			return err
		}
	}
	for _, f := range e.due(point) {
		if plan := f.strike.Plan(); sc.lasts(plan.When) || plan.Act.Passing() {
			continue
		}
		if err := e.healAtOnce(ctx, f); err != nil {
			return err
		}
	}
	if p := sc.linkPlan(e.Number); p != nil && p.Point == point && !sc.lasts(p.When) {
		if err := e.fault.heal(ctx); err != nil {
			return err
		}
	}
	if err := e.gates.release(ctx, point); err != nil {
		return err
	}
	for _, f := range e.due(point) {
		if err := e.finish(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// crash kills the destination where it is held, and starts it again.
func (e *episode) crash(ctx context.Context, point string) error {
	if err := e.story.world.killAll(ctx, e.Mirror.To); err != nil {
		return err
	}
	e.gates.crashed(point)
	e.story.forgetWatch(e.Mirror.To)
	if err := e.story.world.startAll(ctx, e.Mirror.To); err != nil {
		return err
	}
	e.watchGates()
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}

// othersGoOn shows that the other mirrors that run do so: they come to hold what
// their sources held just now, and are read-only (FO-2, FI-1, CH-2).
func (e *episode) othersGoOn(ctx context.Context) error {
	for _, other := range e.story.episodes {
		if other == e || other.control == nil || other.ended || other.Start > e.Stop || other.Stop <= e.Stop {
			continue
		}
		if err := other.catchUp(ctx); err != nil {
			return fmt.Errorf("mirror %s goes on while %s was stopped: %w", other.Mirror.Name, e.Mirror.Name, err)
		}
		if err := other.refusedRound(ctx); err != nil {
			return err
		}
	}
	return nil
}
