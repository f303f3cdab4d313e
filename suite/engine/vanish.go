package engine

import (
	"context"
	"fmt"
	"path/filepath"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// barriersGone are the scenarios in which barriers are taken from a log: their
// effect must outlive them. A cleaner must leave them apart (BAR-8).
func barriersGone() []Scenario {
	var all []Scenario
	for _, v := range []struct {
		topology topologies.Topology
		what     history.DisturbanceName
	}{
		{topologies.ActivePassive(), history.DeleteRecords},
		{topologies.ActivePassive(), history.Retention},
		{topologies.Failback(), history.Compaction},
	} {
		all = append(all, Scenario{
			Name: v.topology.Name + "/barrier-gone/" + string(v.what), Topology: v.topology,
			Episode: len(v.topology.Episodes()), Vanish: v.what, deflt: true,
		})
	}
	return all
}

// vanish takes barriers from the destination's logs when the last episode has
// ended, or has a cleaner go over them. It belongs to no episode: what the logs
// held then is saved.
func (e *episode) vanish(ctx context.Context) error {
	what := e.story.scenario.Vanish
	event := history.Disturbance{What: what, Cluster: e.Mirror.To}
	e.story.rec.Add(history.Event{Kind: history.KindDisturbance, Disturbance: &event})
	raw, err := traffic.NewRaw(ctx, e.story.rec, e.to(), "vanish")
	if err != nil {
		return err
	}
	defer raw.Close()
	switch what {
	case history.DeleteRecords:
		for _, p := range e.layout.All {
			if err = raw.DeleteBelow(ctx, p, e.stopped[p].BarrierOffset+1); err != nil {
				break
			}
		}
	case history.Retention:
		err = e.retire(ctx, raw)
	case history.Compaction:
		err = e.clean(ctx, raw)
	default:
		err = fmt.Errorf("nobody knows how barriers go by %s", what)
	}
	if err != nil {
		return err
	}
	over := event
	over.Over, over.Took = true, true
	e.story.rec.Add(history.Event{Kind: history.KindDisturbance, Disturbance: &over})
	return nil
}

// roll begins a new segment in each log.
func (e *episode) roll(ctx context.Context, raw *traffic.Raw) error {
	if err := raw.AlterTopics(ctx, map[string]string{"segment.ms": "1"}, e.Mirror.Topics...); err != nil {
		return err
	}
	p, err := traffic.NewProducer(e.story.rec, e.to(), traffic.ProducerOptions{Name: "rolls", Mode: history.Plain, Attempts: traffic.Patiently})
	if err != nil {
		return err
	}
	defer p.Close()
	for range 2 {
		if err := p.Send(ctx, 1, e.layout.All...); err != nil {
			return err
		}
	}
	return nil
}

// retire lets all segments go but the newest ones.
func (e *episode) retire(ctx context.Context, raw *traffic.Raw) error {
	if err := e.roll(ctx, raw); err != nil {
		return err
	}
	if err := raw.AlterTopics(ctx, map[string]string{"retention.bytes": "1"}, e.Mirror.Topics...); err != nil {
		return err
	}
	for _, p := range e.layout.All {
		if err := raw.AwaitStart(ctx, p, e.stopped[p].BarrierOffset+1); err != nil {
			return err
		}
	}
	return raw.AlterTopics(ctx, map[string]string{"retention.bytes": "-1"}, e.Mirror.Topics...)
}

// clean has the cleaner go over the logs, in which each partition has one key.
func (e *episode) clean(ctx context.Context, raw *traffic.Raw) error {
	if err := e.roll(ctx, raw); err != nil {
		return err
	}
	ends, before := map[traffic.Partition]int64{}, map[traffic.Partition]int{}
	for _, p := range e.layout.Written {
		ends[p] = e.stopped[p].BarrierOffset
		var err error
		if before[p], err = raw.Records(ctx, p, ends[p]); err != nil {
			return err
		}
	}
	configs := map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
	if err := raw.AlterTopics(ctx, configs, e.Mirror.Topics...); err != nil {
		return err
	}
	for _, p := range e.layout.Written {
		if err := raw.AwaitCompaction(ctx, p, ends[p], before[p]); err != nil {
			return err
		}
	}
	return nil
}

// recoverWithout kills the destination and takes its producer snapshots away, so
// that it has nothing but its logs to recover from, and meets what comes back.
func (e *episode) recoverWithout(ctx context.Context) error {
	w := e.story.world
	e.story.forgetWatch(e.Mirror.To)
	if err := w.killAll(ctx, e.Mirror.To); err != nil {
		return err
	}
	for _, n := range w.env.Cluster(e.Mirror.To).Nodes() {
		if err := n.Alter(ctx, func(data string) error {
			for _, p := range e.layout.All {
				if _, _, err := removeSnapshots(filepath.Join(data, "logs", p.String()), 0); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		e.story.rec.Add(history.Event{Kind: history.KindNode, Node: &history.Node{
			Cluster: e.Mirror.To, Node: int32(n.Number()), What: history.NodeLostSnapshots,
		}})
	}
	if err := w.startAll(ctx, e.Mirror.To); err != nil {
		return err
	}
	raw, err := traffic.NewRaw(ctx, e.story.rec, e.to(), "recovered")
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := awaitServing(ctx, raw, e.layout.All); err != nil {
		return err
	}
	for _, p := range e.layout.All {
		if _, err := raw.Producers(ctx, p, history.WhenAfterRestart); err != nil {
			return err
		}
	}
	return traffic.MeetLater(ctx, raw, e.layout.Forge, int32(e.Number), 0, []byte("recovered"))
}
