package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// Restart is a way to restart a node, with what happened to its disk meanwhile.
// All of them find [mirrored batches, barrier, local batches] in the log
// (PSM-3, PSM-6, PSM-7).
type Restart string

// The ways to restart.
const (
	// Clean stops the node, which saves all it knows.
	Clean Restart = "clean"
	// KillNine kills it.
	KillNine Restart = "kill-9"
	// LostSnapshots kills it, and no producer snapshot is left. It was closed
	// cleanly since the barrier, so that there is one to lose.
	LostSnapshots Restart = "lost-snapshots"
	// TornTail kills it amid a write: half a batch follows the last one.
	TornTail Restart = "torn-tail"
	// OldSnapshot kills it, and the newest producer snapshot is one from before
	// the barrier. So the node was restarted once while it mirrored.
	OldSnapshot Restart = "old-snapshot"
)

// FollowerLeads kills a follower, which leads when it is back and in sync again:
// the leader is killed then. It is for clusters of several nodes.
const FollowerLeads Restart = "follower-leads"

var restarts = []Restart{Clean, KillNine, LostSnapshots, TornTail, OldSnapshot}

// restart restarts the destination, if that is what the scenario is about, and
// lets its writers go on.
func (e *episode) restart(ctx context.Context) error {
	how := e.story.scenario.Restart
	if how == "" || !e.struck() {
		return nil
	}
	e.story.forgetWatch(e.Mirror.To)
	if how == FollowerLeads {
		return e.followerLeads(ctx)
	}
	if how == LostSnapshots {
		if err := e.story.world.restartAll(ctx, e.Mirror.To); err != nil {
			return err
		}
		if err := awaitServing(ctx, e.promoted.raw, e.layout.All); err != nil {
			return err
		}
	}
	for _, n := range e.story.world.env.Cluster(e.Mirror.To).Nodes() {
		if err := e.restartNode(ctx, n, how); err != nil {
			return err
		}
	}
	if err := awaitServing(ctx, e.promoted.raw, e.layout.All); err != nil {
		return err
	}
	if err := e.promoted.describe(ctx, history.WhenAfterRestart); err != nil {
		return err
	}
	if err := e.trial.AfterRestart(ctx); err != nil {
		return err
	}
	return e.promoted.after(ctx)
}

// followerLeads lets a follower come back from a kill and makes it the leader of
// the partition where forged batches meet mirrored ones, by killing the one that
// is: it meets one more (PSM-2, PSM-3).
func (e *episode) followerLeads(ctx context.Context) error {
	w, part := e.story.world, e.layout.Forge
	c := w.env.Cluster(e.Mirror.To)
	p, err := c.Partition(ctx, part.Topic, part.Index)
	if err != nil {
		return err
	}
	// Who comes first in the order of the replicas, of those in sync, leads next.
	next := p.Followers()[0]
	if err := next.Kill(ctx); err != nil {
		return err
	}
	if err := next.Start(ctx); err != nil {
		return err
	}
	if err := w.awaitWhole(ctx, c.Name(), e.layout.All); err != nil {
		return err
	}
	old, err := e.giveLead(ctx, next)
	if err != nil {
		return err
	}
	if err := awaitServing(ctx, e.promoted.raw, e.layout.All); err != nil {
		return err
	}
	if err := e.promoted.describe(ctx, history.WhenAfterRestart); err != nil {
		return err
	}
	if err := traffic.MeetLater(ctx, e.promoted.raw, part, int32(e.Number), 0, e.promoted.payload); err != nil {
		return err
	}
	if err := e.trial.AfterRestart(ctx); err != nil {
		return err
	}
	if err := e.promoted.after(ctx); err != nil {
		return err
	}
	if old == nil {
		return nil
	}
	if err := old.Start(ctx); err != nil {
		return err
	}
	if err := w.awaitWhole(ctx, c.Name(), e.layout.All); err != nil {
		return err
	}
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}

// giveLead kills whoever leads the partition of forged batches until a node does, and
// returns the last one that it killed, which is down yet. There is none where the node
// leads already; and a third may come first, where the node was not in sync just then:
// on a busy machine both happen of themselves.
func (e *episode) giveLead(ctx context.Context, next *fixtures.Node) (old *fixtures.Node, err error) {
	w, part := e.story.world, e.layout.Forge
	c := w.env.Cluster(e.Mirror.To)
	for {
		p, err := c.Partition(ctx, part.Topic, part.Index)
		switch {
		case err != nil:
			return old, err
		case p.Leader == next:
			return old, nil
		case p.Leader == old: // nobody else has heard of its end yet
			select {
			case <-time.After(pollEvery):
				continue
			case <-ctx.Done():
				return old, fmt.Errorf("%s leads %s after its end: %w", old, part, context.Cause(ctx))
			}
		case old != nil: // a third one leads
			if err := old.Start(ctx); err != nil {
				return old, err
			}
			if err := w.awaitWhole(ctx, c.Name(), e.layout.All); err != nil {
				return old, err
			}
			if p, err = c.Partition(ctx, part.Topic, part.Index); err != nil {
				return old, err
			}
			if p.Leader == next {
				return nil, nil
			}
		}
		old = p.Leader
		if err := old.Kill(ctx); err != nil {
			return old, err
		}
	}
}

func (e *episode) restartNode(ctx context.Context, n *fixtures.Node, how Restart) error {
	end := n.Kill
	if how == Clean {
		end = n.Stop
	}
	if err := end(ctx); err != nil {
		return err
	}
	if how == LostSnapshots || how == TornTail || how == OldSnapshot {
		damaged := 0
		if err := n.Alter(ctx, func(data string) (err error) {
			damaged, err = e.damage(filepath.Join(data, "logs"), how)
			return err
		}); err != nil {
			return err
		}
		if damaged == 0 {
			return fmt.Errorf("%s: %s has nothing to damage", how, n)
		}
		if how == LostSnapshots {
			e.rec.Add(history.Event{Kind: history.KindNode, Node: &history.Node{
				Cluster: e.Mirror.To, Node: int32(n.Number()), What: history.NodeLostSnapshots,
			}})
		}
	}
	return n.Start(ctx)
}

// damage does to the logs of a node that is down what a way to restart says, and
// returns to how many things: snapshots removed, tails torn, or snapshots from
// before the barrier that are the newest now.
func (e *episode) damage(logs string, how Restart) (damaged int, err error) {
	for _, p := range e.layout.All {
		dir := filepath.Join(logs, p.String())
		var removed, left, torn int
		switch how {
		case LostSnapshots:
			removed, _, err = removeSnapshots(dir, 0)
			damaged += removed
		case TornTail:
			torn, err = tearTail(dir)
			damaged += torn
		case OldSnapshot:
			// A snapshot from before the barrier holds what lies below L at most.
			_, left, err = removeSnapshots(dir, e.stopped[p].LastMirrored+1)
			damaged += left
		}
		if err != nil {
			return damaged, err
		}
	}
	return damaged, nil
}

// snapshotNow restarts the destination cleanly while it mirrors, so that it
// leaves producer snapshots from before the barrier, where the scenario wants one.
func (e *episode) snapshotNow(ctx context.Context) error {
	if e.story.scenario.Restart != OldSnapshot || !e.struck() {
		return nil
	}
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	if err := e.story.world.restartAll(ctx, e.Mirror.To); err != nil {
		return err
	}
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}

// removeSnapshots removes a partition's producer snapshots at and above offset
// from, and says how many it removed and how many are left.
func removeSnapshots(dir string, from int64) (removed, left int, err error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil {
		return removed, left, err
	}
	for _, path := range all {
		var at int64
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.snapshot", &at); err != nil {
			return removed, left, fmt.Errorf("name of snapshot %s: %w", path, err)
		}
		if at < from {
			left++
		} else if err := os.Remove(path); err != nil {
			return removed, left, err
		} else {
			removed++
		}
	}
	return removed, left, nil
}

// tearTail appends the first half of a segment's last bytes to it, as a write
// does that a crash has cut. It returns 0 where there is not one batch to tear.
func tearTail(dir string) (torn int, err error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(all) == 0 {
		return 0, errors.Join(err, fmt.Errorf("%s holds no segment to tear", dir))
	}
	newest := all[0]
	for _, path := range all {
		newest = max(newest, path) // names sort as their offsets do
	}
	data, err := os.ReadFile(newest)
	if err != nil {
		return 0, err
	}
	if len(data) < 80 {
		return 0, nil
	}
	f, err := os.OpenFile(newest, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(data[:70])
	return 1, errors.Join(err, f.Close())
}

// awaitServing waits until a restarted cluster answers for every partition.
func awaitServing(ctx context.Context, raw *traffic.Raw, parts []traffic.Partition) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for _, p := range parts {
		for {
			err := raw.Renew()
			if err == nil {
				_, err = raw.Offsets(ctx, p)
			}
			if err == nil {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%s is not served after the restart: %w", p, errors.Join(context.Cause(ctx), err))
			}
		}
	}
	return nil
}
