package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// holdOpenStopping pauses an in-sync follower before the stop is asked for: no barrier is
// committed without it, so that STOPPING lasts for as long as it stands and its cluster
// believes it to be in sync.
func (e *episode) holdOpenStopping(ctx context.Context) error {
	c := e.story.world.env.Cluster(e.Mirror.To)
	p, err := c.Partition(ctx, e.layout.Forge.Topic, e.layout.Forge.Index)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(p.Followers(), func(n *fixtures.Node) bool { return !slices.Contains(p.InSync, n) })
	if len(all) == 0 {
		return fmt.Errorf("%s has no in-sync follower that a stop would wait for", e.layout.Forge)
	}
	// One that leads the quorum as well would keep the request from being taken, where the
	// cluster says who that is: Apache Kafka names any of its brokers.
	if controller, err := c.Controller(ctx); err == nil && len(all) > 1 {
		all = slices.DeleteFunc(all, func(n *fixtures.Node) bool { return n == controller })
	}
	e.paused = all[traffic.Rand(e.story.seed, "held").IntN(len(all))]
	e.amidEvent(history.KindFaultStart, e.paused, "follower", 0)
	e.story.forgetWatch(e.Mirror.To)
	return e.paused.Pause(ctx)
}

// requestStop asks for the stop; where a node is paused, whoever is not.
func (e *episode) requestStop(ctx context.Context) error {
	if e.paused == nil {
		return e.control.Stop(ctx, e.Mirror.Topics...)
	}
	awake, done, err := e.awakeControl(e.rec)
	if err != nil {
		return err
	}
	defer done()
	return limited(ctx, fmt.Sprintf("the request of a stop while %s is paused", e.paused), heldRequest, func(ctx context.Context) error {
		for {
			if err := awake.Stop(ctx, e.Mirror.Topics...); !errors.Is(err, fixtures.ErrPaused) {
				return err
			}
			if err := pause(ctx, pollEvery); err != nil {
				return err
			}
		}
	})
}

// awakeControl drives the episode's mirror by nodes that are not paused.
func (e *episode) awakeControl(rec *traffic.Recorder) (c *traffic.Control, done func(), err error) {
	to := e.to()
	m, closeMirrors, err := e.story.world.env.Cluster(e.Mirror.To).AwakeMirrors()
	if err != nil {
		return nil, nil, err
	}
	to.Mirrors = m
	if c, err = traffic.NewControl(rec, to, e.Mirror.Name); err != nil {
		closeMirrors()
		return nil, nil, err
	}
	return c, func() { c.Close(); closeMirrors() }, nil
}

// resumePaused lets the follower go on, whatever else happened.
func (e *episode) resumePaused(ctx context.Context) error {
	if e.paused == nil || !e.paused.Paused() {
		return nil
	}
	return e.paused.Resume(context.WithoutCancel(ctx)) // the target's own limit bounds it
}

// heldRequest bounds the request of a stop while a follower stands. heldLeast and heldMost
// bound the wait from its answer until the leader is killed: time for the stop to come to
// where it waits, and less than clusters take to give a node up.
const (
	heldRequest = 10 * time.Second
	// stillMost is how long is waited for what the others say of the stop then.
	stillMost = 5 * time.Second

	heldLeast = 150 * time.Millisecond
	heldMost  = 500 * time.Millisecond
)

// killHeld kills the leader in the STOPPING that is held open, and lets the follower go on:
// whoever leads next has to end the stop. It has bitten as it was planned if those that are
// left still believe the follower to be in sync afterwards, so that no barrier was
// committed, and don't say STOPPED.
func (e *episode) killHeld(ctx context.Context) error {
	if err := pause(ctx, heldLeast+time.Duration(traffic.Rand(e.story.seed, "held-for").Int64N(int64(heldMost-heldLeast)))); err != nil {
		return err
	}
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	if leader == e.paused {
		return fmt.Errorf("%s leads %s by now, though it is paused", leader, e.layout.Forge)
	}
	if err := leader.Kill(ctx); err != nil {
		return err
	}
	var ends int64
	if why := e.over(ctx); why == "" {
		ends = 2
	} else {
		e.rec.Note("STOPPING of %s may have been over when its leader was killed: %s", e.layout.Forge, why)
	}
	e.amidEvent(history.KindFaultProof, leader, "leader", ends)
	if err := e.resumePaused(ctx); err != nil {
		return err
	}
	if err := leader.Start(ctx); err != nil {
		return err
	}
	e.amidEvent(history.KindFaultStop, leader, "leader", ends)
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}

// over says why the stop may be over, by those that neither stand nor were killed; "" where
// nothing says so.
func (e *episode) over(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, stillMost)
	defer cancel()
	c := e.story.world.env.Cluster(e.Mirror.To)
	inSync, err := c.InSync(ctx, e.layout.Forge.Topic, e.layout.Forge.Index)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(inSync, e.paused) {
		return fmt.Sprintf("%s, which is paused, is not in sync any more", e.paused)
	}
	awake, done, err := e.awakeControl(e.story.unseen)
	if err != nil {
		return err.Error()
	}
	defer done()
	// Where none comes, who is left may have had to ask the others.
	if now, err := awake.Describe(ctx); err == nil && now[e.layout.Forge].State == traffic.StateStopped {
		return "it is described as " + traffic.StateStopped
	}
	return ""
}
