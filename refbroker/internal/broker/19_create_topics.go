package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// CreateTopics (key 19), versions 2 to 7: from 4 on -1 partitions or replicas
// mean the default (KIP-464), from 5 on the configuration is told, from 7 on
// the topic's id.
func createTopics(t *topics, c *configs) wire.API {
	return wire.Of("CreateTopics", 2, 7, func(ctx context.Context, req *wire.Request, r *kmsg.CreateTopicsRequest) (wire.Response, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, millis(r.TimeoutMillis), kerr.RequestTimedOut)
		defer cancel()
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.Version = req.Version
		seen := map[string]int{}
		for _, want := range r.Topics {
			seen[want.Topic]++
		}
		for _, want := range r.Topics {
			out := kmsg.NewCreateTopicsResponseTopic()
			out.Topic, out.NumPartitions, out.ReplicationFactor = want.Topic, -1, -1
			var err error
			if seen[want.Topic] > 1 {
				err = fmt.Errorf("topic %q is named more than once: %w", want.Topic, kerr.InvalidRequest)
			} else {
				err = t.answer(ctx, &out, want, r.ValidateOnly, c)
			}
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

// answer makes one topic, or with validateOnly only looks whether it could be
// made, and fills in what the response tells of it.
func (t *topics) answer(ctx context.Context, out *kmsg.CreateTopicsResponseTopic, want kmsg.CreateTopicsRequestTopic, validateOnly bool, c *configs) error {
	ask := env.NewTopic{Name: want.Topic, Partitions: want.NumPartitions, Replication: want.ReplicationFactor, Configs: map[string]string{}}
	for _, c := range want.Configs {
		if c.Value == nil {
			return fmt.Errorf("topic %q: config %q without a value: %w", want.Topic, c.Name, kerr.InvalidConfig)
		}
		ask.Configs[c.Name] = *c.Value
	}
	assignment, err := assignmentOf(want)
	if err != nil {
		return err
	}
	ask.Assignment = assignment
	command, err := t.command(ask)
	if err != nil {
		return err
	}
	if validateOnly {
		if err := t.validate(command); err != nil {
			return err
		}
	} else {
		made, err := t.create(ctx, command)
		if err != nil {
			return err
		}
		out.TopicID = made.ID
	}
	out.NumPartitions, out.ReplicationFactor = int32(len(command.Assignment)), int16(len(command.Assignment[0]))
	// All of them, not only those that were asked for: a client shows what the
	// topic has. The Java client fails on a list that is missing (null).
	for _, one := range c.ofTopic(&quorum.Topic{Configs: command.Configs}) {
		told := kmsg.NewCreateTopicsResponseTopicConfig()
		told.Name, told.Value, told.Source, told.IsSensitive, told.ReadOnly = one.Name, one.Value, int8(one.Source), one.IsSensitive, one.ReadOnly
		out.Configs = append(out.Configs, told)
	}
	return nil
}

// assignmentOf is the replicas that the request names for each partition, or
// nil when it leaves the choice to us.
func assignmentOf(want kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	if len(want.ReplicaAssignment) == 0 {
		return nil, nil
	}
	if want.NumPartitions != -1 || want.ReplicationFactor != -1 {
		return nil, fmt.Errorf("topic %q: both an assignment and counts: %w", want.Topic, kerr.InvalidRequest)
	}
	assignment := make([][]int32, len(want.ReplicaAssignment))
	for _, a := range want.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(assignment) || assignment[a.Partition] != nil || len(a.Replicas) == 0 {
			return nil, fmt.Errorf("topic %q: assignment of partition %d: %w", want.Topic, a.Partition, kerr.InvalidReplicaAssignment)
		}
		if n := len(want.ReplicaAssignment[0].Replicas); len(a.Replicas) != n {
			return nil, fmt.Errorf("topic %q: partition %d with %d replicas, another with %d: %w", want.Topic, a.Partition, len(a.Replicas), n, kerr.InvalidReplicaAssignment)
		}
		assignment[a.Partition] = a.Replicas
	}
	return assignment, nil
}

// millis is a request's timeout; nothing below zero.
func millis(ms int32) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }
