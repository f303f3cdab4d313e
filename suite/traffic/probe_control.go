package traffic

import (
	"context"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// Pause pauses topics.
func (c *Control) Pause(ctx context.Context, topics ...string) error {
	return c.once(ctx, mirrorrpc.ErrMirrorTopicAlreadyPaused, func() error {
		return c.do("PauseMirrorTopics", topics, func() error { return c.rpc().Pause(ctx, c.mirror, topics...) })
	})
}

// Delete deletes the mirror, whose topics are all stopped.
func (c *Control) Delete(ctx context.Context) error {
	return c.once(ctx, mirrorrpc.ErrUnknownMirror, func() error {
		return c.do("DeleteClusterMirror", nil, func() error { return c.rpc().Delete(ctx, c.mirror) })
	})
}

// Sample describes the mirror and records every partition's state, changed or
// not (OPS-2).
//
// When to call: at each gate at which a stop is held, before it is released,
// and once while the mirror catches up.
func (c *Control) Sample(ctx context.Context) (map[Partition]history.Mirror, error) {
	c.last = map[Partition]history.Mirror{}
	return c.Describe(ctx)
}

// StopAgain stops topics while the story's own stop is under way or over
// (OPS-1: a stop is idempotent), and records for each in which state it was, what
// was answered and in which state it is after that.
//
// When to call: at a gate at which the stop is held (the state is STOPPING
// then), and once more after STOPPED was seen.
func (c *Control) StopAgain(ctx context.Context, topics ...string) error {
	before, err := c.Describe(ctx)
	if err != nil {
		return err
	}
	result := answerOf(c.Stop(ctx, topics...))
	after, err := c.Describe(ctx)
	if err != nil {
		return err
	}
	for _, t := range topics {
		c.rec.Add(history.Event{Kind: history.KindProbe, Probe: &history.Probe{
			What: history.ProbeStop, Cluster: c.cluster.Name, Mirror: c.mirror, Topic: t, Partition: -1,
			State: before[Partition{t, 0}].State, After: after[Partition{t, 0}].State, Result: result,
		}})
	}
	return nil
}
