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
	// LostSnapshots kills it, and no producer snapshot is left.
	LostSnapshots Restart = "lost-snapshots"
	// TornTail kills it amid a write: half a batch follows the last one.
	TornTail Restart = "torn-tail"
	// OldSnapshot kills it, and the newest producer snapshot is one from before
	// the barrier. So the node was restarted once while it mirrored.
	OldSnapshot Restart = "old-snapshot"
)

var restarts = []Restart{Clean, KillNine, LostSnapshots, TornTail, OldSnapshot}

// restart restarts the destination, if that is what the scenario is about, and
// lets its writers go on.
func (e *episode) restart(ctx context.Context) error {
	how := e.story.scenario.Restart
	if how == "" || !e.struck() {
		return nil
	}
	e.story.forgetWatch(e.Mirror.To)
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

func (e *episode) restartNode(ctx context.Context, n *fixtures.Node, how Restart) error {
	end := n.Kill
	if how == Clean {
		end = n.Stop
	}
	if err := end(ctx); err != nil {
		return err
	}
	old := 0
	damage := map[Restart]func(dir string, p traffic.Partition) error{
		LostSnapshots: func(dir string, _ traffic.Partition) error {
			_, err := removeSnapshots(dir, 0)
			return err
		},
		TornTail: func(dir string, _ traffic.Partition) error { return tearTail(dir) },
		// A snapshot from before the barrier holds what lies below L at most.
		OldSnapshot: func(dir string, p traffic.Partition) error {
			left, err := removeSnapshots(dir, e.stopped[p].LastMirrored+1)
			old += left
			return err
		},
	}[how]
	if damage != nil {
		if err := n.Alter(ctx, func(data string) error {
			for _, p := range e.layout.All {
				if err := damage(filepath.Join(data, "logs", p.String()), p); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if how == OldSnapshot && old == 0 {
		return fmt.Errorf("%s has no producer snapshot from before a barrier", n)
	}
	return n.Start(ctx)
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
// from, and says how many are left.
func removeSnapshots(dir string, from int64) (left int, err error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		var at int64
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.snapshot", &at); err != nil {
			return 0, fmt.Errorf("name of snapshot %s: %w", path, err)
		}
		if at < from {
			left++
		} else if err := os.Remove(path); err != nil {
			return 0, err
		}
	}
	return left, nil
}

// tearTail appends the first half of a segment's last bytes to it, as a write
// does that a crash has cut.
func tearTail(dir string) error {
	all, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(all) == 0 {
		return errors.Join(err, fmt.Errorf("%s holds no segment to tear", dir))
	}
	newest := all[0]
	for _, path := range all {
		newest = max(newest, path) // names sort as their offsets do
	}
	data, err := os.ReadFile(newest)
	if err != nil {
		return err
	}
	if len(data) < 80 {
		return nil // not one batch
	}
	f, err := os.OpenFile(newest, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data[:70])
	return errors.Join(err, f.Close())
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
