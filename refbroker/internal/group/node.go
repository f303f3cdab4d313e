package group

import (
	"context"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/shards"
)

// NewForNode returns the coordinator of a node.
func NewForNode(e *env.Env, verifier env.TxnVerifier, settings Settings) *Coordinator {
	return New(Config{
		Settings: settings, Cluster: node{e, shards.TopicOf(e, TopicName)}, Verifier: verifier, TransactionVersion: e.TransactionVersion,
		Now: e.Host.Now, Log: e.Log.With("part", "group coordinator"),
	})
}

// EnsureTopic makes [TopicName] if there is none yet.
func EnsureTopic(ctx context.Context, e *env.Env) error {
	return shards.TopicOf(e, TopicName).Ensure(ctx, e.OffsetsPartitions, nil)
}

// node is a broker's node as its coordinator sees it.
type node struct {
	*env.Env
	shards.OnNode
}

func (n node) Open(shard int32) (Log, error) { return n.Replicas.Partition(TopicName, shard) }

func (n node) TopicID(topic string) (id [16]byte, ok bool) {
	t, ok := n.Quorum.Image().Topics[topic]
	if !ok {
		return id, false
	}
	return t.ID, true
}
