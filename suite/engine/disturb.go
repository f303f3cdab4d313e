package engine

import (
	"context"
	"fmt"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// disturb has something befall the cluster, and samples behind it: what was
// sampled before must be the same (SC-7).
func (a *alone) disturb(ctx context.Context, what history.DisturbanceName) error {
	ends := map[traffic.Partition]int64{}
	for _, p := range a.parts {
		o, err := a.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		ends[p] = o.HighWatermark
	}
	event := history.Disturbance{What: what, Cluster: a.cluster.Name}
	a.rec.Add(history.Event{Kind: history.KindDisturbance, Disturbance: &event})
	over := event
	over.Over = true
	err := limited(ctx, string(what), a.story.patience(disturbLimit), func(ctx context.Context) (err error) {
		over.Says, err = a.befall(ctx, what)
		return err
	})
	over.Took = err == nil
	if err != nil && ctx.Err() == nil && a.story.world.lives(a.cluster.Name) {
		// That it did not come about is for the checks to say.
		over.Says, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	if err := awaitServing(ctx, a.raw, a.parts); err != nil {
		return err
	}
	for p, end := range ends {
		if err := a.raw.AwaitEnd(ctx, p, end); err != nil {
			return err
		}
	}
	a.rec.Add(history.Event{Kind: history.KindDisturbance, Disturbance: &over})
	return a.sample(ctx)
}

// befall does it, and says what came of it.
func (a *alone) befall(ctx context.Context, what history.DisturbanceName) (string, error) {
	w, name := a.story.world, a.cluster.Name
	switch what {
	case history.CleanRestart:
		return "every node was stopped and started", w.restartAll(ctx, name)
	case history.KillRestart:
		if err := w.killAll(ctx, name); err != nil {
			return "", err
		}
		return "every node was killed and started", w.startAll(ctx, name)
	case history.DeleteRecords:
		return a.deleteRecords(ctx)
	case history.Retention:
		return a.retention(ctx)
	case history.Compaction:
		return a.compaction(ctx)
	case history.LeaderChange:
		return a.changeLeaders(ctx)
	case history.Reassignment:
		return a.reassign(ctx)
	case history.Truncation:
		return a.truncate(ctx)
	case history.CoordinatorMove:
		return a.moveCoordinator(ctx)
	}
	return "", fmt.Errorf("nobody knows how to have %s befall a cluster", what)
}

// deleteRecords deletes all records of the one partition, and those below the
// open transaction of the other (field case FA-04).
func (a *alone) deleteRecords(ctx context.Context) (string, error) {
	says := "logs start at"
	for _, p := range []traffic.Partition{a.part("sequences"), a.part("ledger"), a.part("late")} {
		o, err := a.raw.Offsets(ctx, p)
		if err != nil {
			return "", err
		}
		if err := a.raw.DeleteBelow(ctx, p, o.LastStableOffset); err != nil {
			return "", err
		}
		says += fmt.Sprintf(" %s@%d", p, o.LastStableOffset)
	}
	return says, nil
}

// retention lets all segments go but the newest.
func (a *alone) retention(ctx context.Context) (string, error) {
	if err := a.raw.AlterTopics(ctx, map[string]string{"retention.bytes": "1"}, a.topic("sequences"), a.topic("ledger")); err != nil {
		return "", err
	}
	for _, p := range []traffic.Partition{a.part("sequences"), a.part("ledger")} {
		if err := a.raw.AwaitStart(ctx, p, 1); err != nil {
			return "", err
		}
	}
	// No more of it: what comes next is to find the same start.
	return "segments were deleted", a.raw.AlterTopics(ctx, map[string]string{"retention.bytes": "-1"}, a.topic("sequences"), a.topic("ledger"))
}

// compaction has the cleaner go over logs with one key.
func (a *alone) compaction(ctx context.Context) (string, error) {
	parts := []traffic.Partition{a.part("sequences"), a.part("ledger")}
	before := map[traffic.Partition]int{}
	ends := map[traffic.Partition]int64{}
	for _, p := range parts {
		o, err := a.raw.Offsets(ctx, p)
		if err != nil {
			return "", err
		}
		ends[p] = o.LastStableOffset
		if before[p], err = a.raw.Records(ctx, p, ends[p]); err != nil {
			return "", err
		}
	}
	configs := map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
	if err := a.raw.AlterTopics(ctx, configs, a.topic("sequences"), a.topic("ledger")); err != nil {
		return "", err
	}
	for _, p := range parts {
		if err := a.raw.AwaitCompaction(ctx, p, ends[p], before[p]); err != nil {
			return "", err
		}
	}
	// No more of it: what comes next is to find the same log.
	return "logs were compacted", a.raw.AlterTopics(ctx, map[string]string{"cleanup.policy": "delete"}, a.topic("sequences"), a.topic("ledger"))
}
