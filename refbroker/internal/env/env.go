// Package env is what a node gives to its parts: the transaction coordinator,
// mirroring, the handlers. Parts are made with an *Env, never with the node
// itself, so that they can be tested alone and the node imports them.
package env

import (
	"context"
	"log/slog"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/peer"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// Env is shared by the parts of one node. Nothing in it changes after start.
type Env struct {
	NodeID    int32
	ClusterID string
	Host      host.Host
	Log       *slog.Logger
	Quorum    *quorum.Node
	Replicas  Replicas
	Gate      gate.Gate
	Defects   defect.Set
	// TransactionVersion is the finalized feature transaction.version: 1 or 2.
	TransactionVersion int16
	// OffsetsPartitions and TxnPartitions are how many partitions the internal
	// topics get when they are made; 0 for the default.
	OffsetsPartitions, TxnPartitions int32
	// Topics makes topics as CreateTopics does.
	Topics Topics
	// Peers are the other nodes of the cluster.
	Peers *peer.Peers
}

// Replicas finds the partitions of this node.
type Replicas interface {
	// Partition returns this node's replica, whether it leads or not. The error
	// wraps NOT_LEADER_OR_FOLLOWER when the partition is elsewhere and
	// UNKNOWN_TOPIC_OR_PARTITION when there is none.
	Partition(topic string, index int32) (replica.API, error)
}

// NewTopic asks for a topic.
type NewTopic struct {
	Name string
	// ID is chosen at random when it is zero.
	ID         [16]byte
	Partitions int32
	// Replication is the replication factor; <= 0 is the default.
	Replication int16
	// Assignment lists replicas by partition; it replaces the two above.
	Assignment [][]int32
	Configs    map[string]string
	// Internal topics can't be deleted or written by clients.
	Internal bool
}

// Topics makes topics.
type Topics interface {
	// CreateTopic makes a topic and waits until this node serves its share of
	// it. The error wraps TOPIC_ALREADY_EXISTS when it is there.
	CreateTopic(ctx context.Context, t NewTopic) (*quorum.Topic, error)
	// GrowMirrored gives a topic as many partitions as its source has, in the
	// mirror that it belongs to.
	GrowMirrored(ctx context.Context, mirror, topic string, partitions int) error
}

// TxnVerifier is the transaction coordinator as Produce sees it.
type TxnVerifier interface {
	// VerifyOrAdd asks the coordinator of a transactional id, wherever it is,
	// whether partitions belong to the producer's ongoing transaction, and adds
	// them when add is set (Produce v12 and up with transactions version 2,
	// KIP-890). The result has one error for each partition, nil when it may
	// write; errors wrap a *kerr.Error.
	VerifyOrAdd(ctx context.Context, transactionalID string, producerID int64, epoch int16, partitions []TopicPartition, add bool) []error
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}
