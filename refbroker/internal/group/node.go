package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
)

// DefaultShards is offsets.topic.num.partitions. Kafka's default is 50, for
// clusters with more nodes than a test has.
const DefaultShards = 8

// NewForNode returns the coordinator of a node.
func NewForNode(e *env.Env, verifier env.TxnVerifier, settings Settings) *Coordinator {
	return New(Config{
		Settings: settings, Cluster: node{e}, Verifier: verifier, TransactionVersion: e.TransactionVersion,
		Now: e.Host.Now, Log: e.Log.With("part", "group coordinator"),
	})
}

// EnsureTopic makes [TopicName] if there is none yet.
func EnsureTopic(ctx context.Context, e *env.Env) error {
	if e.Quorum.Image().Topics[TopicName] != nil {
		return nil
	}
	_, err := e.Topics.CreateTopic(ctx, env.NewTopic{
		Name: TopicName, Partitions: DefaultShards, Internal: true,
		Configs: map[string]string{"cleanup.policy": "compact"},
	})
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create %s: %w", TopicName, err)
	}
	return nil
}

// node is a broker's node as its coordinator sees it.
type node struct{ *env.Env }

func (n node) Shards() int {
	if t := n.Quorum.Image().Topics[TopicName]; t != nil {
		return len(t.Partitions)
	}
	return 0
}

func (n node) Leads(shard int32) (epoch int32, leads bool) {
	_, p, err := n.Quorum.Image().Partition(TopicName, shard)
	if err != nil {
		return -1, false
	}
	return p.LeaderEpoch, p.Leader == n.NodeID
}

func (n node) Changed() <-chan struct{} { return n.Quorum.Changed() }

func (n node) Open(shard int32) (Log, error) { return n.Replicas.Partition(TopicName, shard) }

func (n node) TopicID(topic string) (id [16]byte, ok bool) {
	t, ok := n.Quorum.Image().Topics[topic]
	if !ok {
		return id, false
	}
	return t.ID, true
}
