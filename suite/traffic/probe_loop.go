package traffic

import (
	"context"
	"errors"
	"fmt"

	"watershed.example/suite/history"
)

// ringTopic is the topic of [Loop], behind what begins the names of a cluster that is
// not ours alone.
const ringTopic = "ring"

// ringRecords is how many records the loop's first cluster holds.
const ringRecords = 5

// Loop makes a chain of mirrors of a topic of its own and closes it: the first
// cluster is asked to mirror the topic from the last one (CH-4). That must be
// refused, fail with a cause, or be harmless: no record is lost, none comes
// again and again. Then it takes the mirrors down.
//
// When to call: once per run, on chains, while their clusters are up and their
// links whole. ring are the clusters in the order of the chain; ring[i].Bootstrap
// is where the next one reaches it (the addresses of the mirror's link, and for
// the last one those of its client link).
func Loop(ctx context.Context, rec *Recorder, ring []Source) error {
	if len(ring) < 2 {
		return fmt.Errorf("a loop of %d clusters", len(ring))
	}
	topic := ring[0].Cluster.named(ringTopic)
	var sides []*sideMirror
	defer func() {
		for _, s := range sides {
			s.close(ctx, topic)
		}
	}()
	p := Partition{topic, 0}
	for i, src := range ring {
		last := i == len(ring)-1
		dst := ring[(i+1)%len(ring)].Cluster
		s, created, err := newSideMirror(ctx, rec, src, dst, fmt.Sprintf("ring-%d", i+1), src.ID)
		if err != nil {
			return err
		}
		sides = append(sides, s)
		if i == 0 {
			if err := s.seed(ctx, ringRecords, topic); err != nil {
				return err
			}
		}
		result := notCreated(created)
		if created.Outcome == history.OK {
			result = answerOf(s.Start(ctx, topic))
		}
		if !last {
			if result.Outcome != history.OK {
				return fmt.Errorf("mirror %s of the loop: code %d %s", s.name, result.Code, result.Message)
			}
			if _, err := s.await(ctx, "the loop's mirror caught up", []Partition{p}, func(m history.Mirror) bool {
				return m.State == StateMirroring && m.DestinationOffset >= ringRecords
			}); err != nil {
				return err
			}
			continue
		}
		probe := history.Probe{What: history.ProbeLoop, Topic: topic, Result: result}
		if result.Outcome == history.OK {
			probe.After = s.settledState(ctx, topic)
		}
		s.probe(probe)
	}
	return ringEnds(ctx, rec, ring, sides)
}

// ringEnds reads the topic on every cluster of the loop to its end, and samples
// its ends before and after.
func ringEnds(ctx context.Context, rec *Recorder, ring []Source, sides []*sideMirror) error {
	topic := ring[0].Cluster.named(ringTopic)
	p := Partition{topic, 0}
	var errs []error
	for i, src := range ring {
		if err := sides[i].raw.awaitEnd(ctx, p, ringRecords); err != nil {
			rec.Note("%v", err) // the reader tells what is there
		}
		o, err := sides[i].raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		reader, err := StartReader(ctx, rec, src.Cluster, "ring-"+src.Cluster.Name, history.ReadUncommitted, []Partition{p})
		if err != nil {
			return err
		}
		short, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("it took longer than %s", probeLimit))
		err = reader.Await(short, map[Partition]int64{p: o.HighWatermark})
		cancel()
		reader.Stop()
		if err != nil {
			rec.Note("%v", err)
		}
		_, err = sides[i].raw.Offsets(ctx, p)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
