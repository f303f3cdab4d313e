package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// CreatePartitions (key 37), versions 0 to 3. A topic's count only grows; that
// of a topic that mirrors is its source's.
func createPartitions(t *topics) wire.API {
	return wire.Of("CreatePartitions", 0, 3, func(ctx context.Context, req *wire.Request, r *kmsg.CreatePartitionsRequest) (wire.Response, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, millis(r.TimeoutMillis), kerr.RequestTimedOut)
		defer cancel()
		resp := kmsg.NewPtrCreatePartitionsResponse()
		resp.Version = req.Version
		seen := map[string]int{}
		for _, want := range r.Topics {
			seen[want.Topic]++
		}
		for _, want := range r.Topics {
			var err error
			if seen[want.Topic] > 1 {
				err = fmt.Errorf("topic %q is named more than once: %w", want.Topic, kerr.InvalidRequest)
			} else {
				err = t.grow(ctx, want, r.ValidateOnly)
			}
			out := kmsg.NewCreatePartitionsResponseTopic()
			out.Topic = want.Topic
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

// GrowMirrored implements [env.Topics].
func (t *topics) GrowMirrored(ctx context.Context, mirror, topic string, partitions int) error {
	now, err := t.quorum.Image().Topic(topic)
	if err != nil {
		return err
	}
	have := len(now.Partitions)
	if partitions <= have {
		return nil
	}
	placed, err := t.command(env.NewTopic{Name: now.Name, Partitions: int32(partitions), Replication: int16(len(now.Partitions[0].Settled()))})
	if err != nil {
		return err
	}
	result, err := t.quorum.Apply(ctx, quorum.CreatePartitions{Name: now.Name, ID: now.ID, From: have, Assignment: placed.Assignment[have:], Mirror: mirror})
	if err != nil {
		return fmt.Errorf("topic %q has %d partitions, its source %d: %w", topic, have, partitions, err)
	}
	made, ok := result.(*quorum.Topic)
	if !ok {
		return fmt.Errorf("create partitions of topic %q: unexpected result %T", topic, result)
	}
	return t.served(made, have)
}

// grow adds partitions to a topic, or with validateOnly only says whether it would.
func (t *topics) grow(ctx context.Context, want kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	now, err := t.quorum.Image().Topic(want.Topic)
	if err != nil {
		return err
	}
	have := len(now.Partitions)
	switch {
	case now.Internal:
		return fmt.Errorf("topic %q is internal: %w", want.Topic, kerr.InvalidTopicException)
	case int(want.Count) <= have:
		return fmt.Errorf("topic %q has %d partitions already, and can't go to %d: %w", want.Topic, have, want.Count, kerr.InvalidPartitions)
	case want.Count > maxPartitions:
		return fmt.Errorf("topic %q: %d partitions (at most %d): %w", want.Topic, want.Count, maxPartitions, kerr.InvalidPartitions)
	case want.Assignment != nil && len(want.Assignment) != int(want.Count)-have:
		return fmt.Errorf("topic %q: replicas for %d of %d new partitions: %w", want.Topic, len(want.Assignment), int(want.Count)-have, kerr.InvalidReplicaAssignment)
	}
	c := quorum.CreatePartitions{Name: now.Name, ID: now.ID, From: have}
	for _, a := range want.Assignment {
		if replicas := len(now.Partitions[0].Replicas); len(a.Replicas) != replicas {
			return fmt.Errorf("topic %q: a new partition with %d replicas, where the others have %d: %w", want.Topic, len(a.Replicas), replicas, kerr.InvalidReplicaAssignment)
		}
		c.Assignment = append(c.Assignment, a.Replicas)
	}
	if want.Assignment == nil {
		// As many replicas as the first partition has, going on where the topic's ends.
		placed, err := t.command(env.NewTopic{Name: now.Name, Partitions: want.Count, Replication: int16(len(now.Partitions[0].Settled()))})
		if err != nil {
			return err
		}
		c.Assignment = placed.Assignment[have:]
	}
	if validateOnly {
		_, err := t.quorum.Image().Try(c)
		return err
	}
	result, err := t.quorum.Apply(ctx, c)
	if err != nil {
		return err
	}
	made, ok := result.(*quorum.Topic)
	if !ok {
		return fmt.Errorf("create partitions of topic %q: unexpected result %T", want.Topic, result)
	}
	return t.served(made, have)
}
