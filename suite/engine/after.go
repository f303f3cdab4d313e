package engine

import (
	"context"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/history"
)

// late heals the fault and lets the old source go on, where it lives.
func (e *episode) late(ctx context.Context) error {
	if err := e.healNodes(ctx); err != nil {
		return err
	}
	if err := e.promoted.describe(ctx, history.WhenAfterStop); err != nil {
		return err
	}
	if err := e.sampleGroups(ctx, history.WhenAfterStop); err != nil {
		return err
	}
	if err := e.promoted.atBarrier(ctx, e.stopped); err != nil {
		return err
	}
	for _, r := range e.promoted.readers {
		r.Snapshot()
	}
	if err := e.holdOpen(ctx); err != nil {
		return err
	}
	if err := e.fault.heal(ctx); err != nil {
		return err
	}
	lives := e.story.world.lives(e.Mirror.From)
	if err := e.source.endLive(lives); err != nil && !e.sourceStruck() || !lives {
		return err
	}
	return e.source.late(ctx)
}

// writable waits until the destination accepts writes, and writes with the
// clients that were refused before.
func (e *episode) writable(ctx context.Context) error {
	if err := e.promoted.awaitHammer(ctx); err != nil {
		e.story.stuck = err
		e.rec.Note("STUCK: %v", err)
		return err
	}
	if due := e.due(chaos.FirstWrite); len(due) > 0 {
		return e.strikeWritable(ctx, due)
	}
	e.promoted.accepted(ctx)
	return nil
}

func (e *episode) trafficAfter(ctx context.Context) error {
	e.rec.Phase(history.TrafficAfter)
	if err := e.promoted.collide(ctx, e.forged, e.source.mirrored); err != nil {
		return err
	}
	if err := e.passForged(ctx); err != nil {
		return err
	}
	e.story.ids.meet(e)
	if err := e.story.ids.pass(ctx, e.Mirror.To, e.promoted.raw); err != nil {
		return err
	}
	for _, do := range []func(context.Context) error{
		e.revive, e.locally, e.promoted.after, e.restart, e.watch, e.commitHeld, e.othersGoOn, e.operateLate, e.closeLoop, e.promoted.last,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	e.rec.Phase(history.Settled)
	return nil
}

// passForged has nobody get the id whose header is forged: it is to meet nothing but what
// was mirrored.
func (e *episode) passForged(ctx context.Context) error {
	if e.forged == nil {
		return nil
	}
	return e.promoted.raw.PassProducerID(ctx, e.forged.ID.ProducerID)
}

// revive lets the zombies write again.
func (e *episode) revive(ctx context.Context) error {
	if e.zombies == nil {
		return nil
	}
	return e.zombies.revive(ctx)
}

// watchFor is how long a healed link is watched: a fetcher that still lives asks
// again within that time (a second is the usual pause between its attempts).
const watchFor = 1200 * time.Millisecond

// watchEvery paces what the old source writes meanwhile.
const watchEvery = 100 * time.Millisecond

// watch goes on writing to the old source after a fault of its link has healed,
// so that there is always something to come (LINK-3).
func (e *episode) watch(ctx context.Context) error {
	if e.fault.healedAt.IsZero() || !e.story.world.lives(e.Mirror.From) {
		return nil
	}
	end := time.NewTimer(watchFor - time.Since(e.fault.healedAt))
	defer end.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := e.source.plain.Send(ctx, 1, e.layout.Written...); err != nil {
			return err
		}
		if _, err := e.control.Describe(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
}

func (e *episode) readToEnd(ctx context.Context) error {
	if err := e.promoted.span(ctx, e.stopped); err != nil {
		return err
	}
	if err := e.resumeGroups(ctx); err != nil {
		return err
	}
	return limited(ctx, "readers", readLimit, func(ctx context.Context) error {
		if err := e.promoted.readToEnd(ctx, "fresh"); err != nil {
			// A reader that does not get there is a finding.
			e.rec.Note("%v", err)
		}
		return nil
	})
}

// end ends the episode's traffic and saves the raw logs of its clusters, before
// a later truncation can take something away. Those of the last one are saved
// with all others when the run has ended.
func (e *episode) end(ctx context.Context) error {
	for _, other := range e.story.others(e) {
		if err := other.source.endLive(e.story.world.lives(other.Mirror.From)); err != nil {
			return err
		}
	}
	if err := e.sampleEnds(ctx); err != nil {
		return err
	}
	e.close()
	e.ended = true
	if !e.captured() {
		return nil
	}
	return e.story.world.capture(ctx, e)
}

// last says whether no later episode ends.
func (e *episode) last() bool { return e.Number == len(e.story.episodes) }
