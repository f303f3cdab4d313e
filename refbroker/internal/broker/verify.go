package broker

import (
	"context"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/txn"
)

// verifier asks the coordinator of this node. A transactional id of another
// node's gets NOT_COORDINATOR, which producers try again.
type verifier struct {
	coordinator *txn.Coordinator
	// version is the finalized transaction.version.
	version int16
}

var _ env.TxnVerifier = verifier{}

// VerifyOrAdd implements [env.TxnVerifier].
func (v verifier) VerifyOrAdd(_ context.Context, transactionalID string, producerID int64, epoch int16, partitions []env.TopicPartition, add bool) []error {
	r := txn.AddRequest{TransactionalID: transactionalID, ProducerID: producerID, Epoch: epoch, VerifyOnly: !add, Version: v.version}
	for _, p := range partitions {
		r.Partitions = append(r.Partitions, txn.Partition{Topic: p.Topic, Index: p.Partition})
	}
	return v.coordinator.AddPartitions(r)
}
