package traffic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
)

// wideStopLimit is how long a stop of so many partitions is waited for. One that
// takes longer has not come to its end.
const wideStopLimit = 30 * time.Second

// describeWideEvery is the pause between two looks at so many partitions.
const describeWideEvery = 50 * time.Millisecond

// Wide mirrors a topic of so many partitions, and before it one of a tenth of
// them, in which nothing was written, and stops each with one request (OPS-3).
// Topics and mirror are its own.
func Wide(ctx context.Context, rec *Recorder, source Source, destination Cluster, partitions int32) error {
	side, created, err := newSideMirror(ctx, rec, source, destination, "wide", source.ID)
	if err != nil {
		return err
	}
	defer side.Control.Close()
	defer side.raw.Close()
	if created.Outcome != history.OK {
		return fmt.Errorf("create mirror wide: code %d %s", created.Code, created.Message)
	}
	if err := side.wide(ctx, "wide-few", partitions/10); err != nil {
		return err
	}
	return side.wide(ctx, "wide-many", partitions)
}

func (s *sideMirror) wide(ctx context.Context, topic string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(wideStopLimit.Milliseconds()) // so many logs take a slow disk some time
	made := kmsg.NewCreateTopicsRequestTopic()
	made.Topic, made.NumPartitions, made.ReplicationFactor = topic, partitions, -1
	req.Topics = append(req.Topics, made)
	err := again(ctx, func() error {
		resp, err := req.RequestWith(ctx, s.raw.firstBroker())
		if err == nil && len(resp.Topics) == 1 {
			err = mirrorrpc.ErrorForCode(resp.Key(), resp.Topics[0].ErrorCode)
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // by an earlier try, whose answer came too late
		return fmt.Errorf("topic %s of %d partitions: %w", topic, partitions, err)
	}
	if err := s.Start(ctx, topic); err != nil {
		return err
	}
	if _, err := s.allOf(ctx, topic, partitions, StateMirroring); err != nil {
		return err
	}
	began := time.Now()
	p := history.Probe{What: history.ProbeStopMany, Topic: topic, State: StateMirroring, Result: answerOf(s.Stop(ctx, topic))}
	waiting, cancel := context.WithTimeout(ctx, wideStopLimit)
	defer cancel()
	now, err := s.allOf(waiting, topic, partitions, StateStopped)
	p.Many = &history.Many{Partitions: partitions, Took: time.Since(began).Nanoseconds()}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		p.After = StateStopped
	}
	for i := range partitions {
		m, ok := now[i]
		if !ok {
			continue
		}
		if m.State != StateStopped {
			p.After = m.State
		}
		p.Many.Ends = append(p.Many.Ends, history.StoppedEnd{
			Partition: i, State: m.State, L: m.LastMirrored, Barrier: m.BarrierOffset, End: m.DestinationOffset,
		})
	}
	s.probe(p)
	return nil
}

// allOf describes the mirror, without a record of it, until all partitions of a
// topic are in a state. It returns the last answer.
func (s *sideMirror) allOf(ctx context.Context, topic string, partitions int32, state string) (map[int32]history.Mirror, error) {
	now := map[int32]history.Mirror{}
	for {
		mirrors, err := s.rpc().Describe(ctx, s.name)
		there := int32(0)
		for _, m := range mirrors {
			for _, t := range m.Topics {
				if t.TopicName != topic {
					continue
				}
				for _, p := range t.Partitions {
					now[p.PartitionIndex] = history.Mirror{
						State: p.StateValue, LastMirrored: p.StopOffset, BarrierOffset: p.BarrierOffset, DestinationOffset: p.DestinationOffset,
					}
					if p.StateValue == state {
						there++
					}
				}
			}
		}
		if there == partitions {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, fmt.Errorf("%d of %d partitions of %s are %s: %w (at last: %w)", there, partitions, topic, state, context.Cause(ctx), err)
		case <-time.After(describeWideEvery):
		}
	}
}
