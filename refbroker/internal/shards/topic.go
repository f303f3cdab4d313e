package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
)

// Count is the default of transaction.state.log.num.partitions and
// offsets.topic.num.partitions. Kafka's default is 50, for clusters with more
// nodes than a test has.
const Count = 8

// OnNode is a [Topic] of a broker's node.
type OnNode struct {
	env  *env.Env
	name string
}

// TopicOf is an internal topic as a node sees it.
func TopicOf(e *env.Env, name string) OnNode { return OnNode{e, name} }

// Shards implements [Topic].
func (t OnNode) Shards() int {
	if made := t.env.Quorum.Image().Topics[t.name]; made != nil {
		return len(made.Partitions)
	}
	return 0
}

// Leads implements [Topic].
func (t OnNode) Leads(shard int32) (epoch int32, leads bool) {
	_, p, err := t.env.Quorum.Image().Partition(t.name, shard)
	if err != nil {
		return -1, false
	}
	return p.LeaderEpoch, p.Leader == t.env.NodeID
}

// Changed implements [Topic].
func (t OnNode) Changed() <-chan struct{} { return t.env.Quorum.Changed() }

// Ensure makes the topic if there is none yet, compacted, with so many partitions
// (0 for [Count]) and more configs on top.
func (t OnNode) Ensure(ctx context.Context, partitions int32, more map[string]string) error {
	if t.env.Quorum.Image().Topics[t.name] != nil {
		return nil
	}
	configs := map[string]string{"cleanup.policy": "compact"}
	for name, value := range more {
		configs[name] = value
	}
	_, err := t.env.Topics.CreateTopic(ctx, env.NewTopic{Name: t.name, Partitions: cmp.Or(partitions, Count), Internal: true, Configs: configs})
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create %s: %w", t.name, err)
	}
	return nil
}
