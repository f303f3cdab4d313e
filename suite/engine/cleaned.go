package engine

import (
	"context"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// cleanedPast is the scenario of a failback across which a cleaner runs.
func cleanedPast() []Scenario {
	t := topologies.Failback()
	return []Scenario{{Name: t.Name + "/cleaned/past-the-parting", Topology: t, Episode: 2, CleanPast: true, deflt: true}}
}

// cleanPast has the cleaner of an old primary, which lives on, go past the place
// where its log and its destination's part: of each key there is a newer value
// above by then, which is cut when it mirrors, and none below (AL-1). The topics
// are as before when it has ended.
func (e *episode) cleanPast(ctx context.Context) error {
	raw, err := traffic.NewRaw(ctx, e.story.unseen, e.to(), "cleaner")
	if err != nil {
		return err
	}
	defer raw.Close()
	event := history.Disturbance{What: history.Compaction, Cluster: e.Mirror.To}
	e.rec.Add(history.Event{Kind: history.KindDisturbance, Disturbance: &event})
	if err := raw.AlterTopics(ctx, map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1",
	}, e.Mirror.Topics...); err != nil {
		return err
	}
	p, err := traffic.NewProducer(e.rec, e.to(), traffic.ProducerOptions{
		Name: prefix(e.Mirror.To, e.Number) + "newer", Mode: history.Plain, Attempts: traffic.Patiently,
	})
	if err != nil {
		return err
	}
	defer p.Close()
	for range 3 { // each in a segment of its own; the last one is not compacted
		if err := p.Send(ctx, 1, e.layout.Written...); err != nil {
			return err
		}
	}
	for _, part := range e.layout.Written {
		if err := raw.AwaitCompaction(ctx, part, e.forkedAt(part), 1); err != nil {
			return err
		}
	}
	if err := raw.AlterTopics(ctx, map[string]string{"cleanup.policy": "delete", "segment.ms": "604800000"}, e.Mirror.Topics...); err != nil {
		return err
	}
	over := event
	over.Over, over.Took = true, true
	e.rec.Add(history.Event{Kind: history.KindDisturbance, Disturbance: &over})
	return nil
}

// forkedAt is where a partition's log parted from that of the cluster that the
// episode's destination was the source of before.
func (e *episode) forkedAt(p traffic.Partition) int64 {
	for i := e.Number - 2; i >= 0; i-- {
		if before := e.story.episodes[i]; before.Mirror.From == e.Mirror.To && before.Mirror.To == e.Mirror.From {
			return before.stopped[p].BarrierOffset
		}
	}
	return 0
}
