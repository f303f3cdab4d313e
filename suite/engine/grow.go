package engine

import (
	"context"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// grown is the scenario of a source whose topics grow while they are mirrored:
// what comes late is read-only, is mirrored, and gets a barrier as all the rest.
func grown() []Scenario {
	t := growing(1)
	return []Scenario{{Name: t.Name + "/growth/while-mirroring", Topology: t, Grows: true, deflt: true}}
}

// growing is a failover of topics with two partitions each at the least, so that
// one may come late.
func growing(nodes int) topologies.Topology {
	t := topologies.ActivePassive().On(nodes)
	t.Topics = append([]topologies.Topic(nil), t.Topics...)
	for i := range t.Topics {
		t.Topics[i].Partitions = max(t.Topics[i].Partitions, 2)
	}
	return t
}

// growLimit bounds the growth of a source, and all that comes of it.
const growLimit = 60 * time.Second

// late is how many partitions of each topic come later than the topic.
func (s *story) late() int32 {
	if s.scenario.Grows {
		return 1
	}
	return 0
}

// early are those of some partitions that are there when the topics are made: of
// each topic all but the last.
func (e *episode) early(parts []traffic.Partition) []traffic.Partition {
	var all []traffic.Partition
	for _, p := range parts {
		if t, _ := e.story.scenario.Topology.Topic(p.Topic); p.Index < int32(t.Partitions)-e.story.late() {
			all = append(all, p)
		}
	}
	return all
}

// grow gives the source's topics their last partitions, while all clients go on,
// and waits until the destination mirrors these too.
func (e *episode) grow(ctx context.Context) error {
	want := map[string]int32{}
	for _, t := range e.story.scenario.Topology.Topics {
		want[t.Name] = int32(t.Partitions)
	}
	if err := e.source.raw.Grow(ctx, want); err != nil {
		return err
	}
	for _, p := range e.source.producers() {
		if err := p.Learn(ctx, e.layout.All...); err != nil {
			return err
		}
	}
	if err := e.source.again(ctx); err != nil {
		return err
	}
	_, err := e.control.Await(ctx, "every new partition is mirrored", e.layout.All, func(_ traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateMirroring
	})
	return err
}
