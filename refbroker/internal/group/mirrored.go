package group

import (
	"context"
	"slices"

	"watershed.example/refbroker/internal/shards"
)

// CommitMirrored writes what a group of a mirror's source has committed. A group
// that has members here is left alone, and so is a partition that does not
// mirror any more: what was asked of the source before a stop comes too late
// after it. It returns how many offsets were news.
func (c *Coordinator) CommitMirrored(ctx context.Context, group string, offsets []Offset) (int, error) {
	s, err := c.loaded(ctx, group)
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	var records []Record
	err = s.with(group, true, func(e *entry) {
		if !e.group.Idle() {
			done <- nil
			return
		}
		at := c.wall()
		for _, o := range offsets {
			was, ok, unstable := e.ledger.Lookup(o.Partition)
			same := ok && was.Offset == o.Offset && was.Metadata == o.Metadata && !c.gone(o.Partition, was)
			if same || unstable || !c.cfg.Cluster.Mirrors(o.Partition, o.TopicID) {
				continue
			}
			records = append(records, Record{Group: group, Partition: &o.Partition, Commit: &Commit{
				Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata, At: at, ExpiresAt: -1, TopicID: o.TopicID,
			}})
		}
		if len(records) == 0 {
			done <- nil
			return
		}
		for part := range slices.Chunk(records, recordsAtOnce) {
			s.enqueue(e, write{
				by: shards.NoProducer(), records: func() []Record { return part }, done: func(err error) {
					select {
					case done <- writeError(err):
					default: // that an earlier part failed is told
					}
				},
			})
		}
	})
	if err != nil {
		return 0, err
	}
	return len(records), answered(ctx, done)
}

// Coordinates says whether this node coordinates a group, or any where group is
// "".
func (c *Coordinator) Coordinates(group string) bool {
	if group == "" {
		led, err := c.shards.Led()
		return err == nil && len(led) > 0
	}
	_, err := c.shards.Of(group)
	return err == nil
}
