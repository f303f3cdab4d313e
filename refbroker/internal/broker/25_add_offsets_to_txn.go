package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// AddOffsetsToTxn (key 25), versions 0 to 4: a group's partition of
// __consumer_offsets joins a transaction; from 2 on PRODUCER_FENCED is known.
// Clients of transactions version 2 don't need it: see TxnOffsetCommit.
func addOffsetsToTxn(e *env.Env, c *txn.Coordinator) wire.API {
	return wire.Of("AddOffsetsToTxn", 0, 4, func(ctx context.Context, req *wire.Request, r *kmsg.AddOffsetsToTxnRequest) (wire.Response, error) {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.Version = req.Version
		if r.Group == "" {
			resp.ErrorCode = kerr.InvalidGroupID.Code
			return resp, nil
		}
		if err := group.EnsureTopic(ctx, e); err != nil {
			e.Log.Warn("no coordinator for groups", "err", err)
			resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
			return resp, nil
		}
		topic, err := e.Quorum.Image().Topic(group.TopicName)
		if err != nil {
			resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
			return resp, nil
		}
		errs := c.AddPartitions(txn.AddRequest{
			TransactionalID: r.TransactionalID, ProducerID: r.ProducerID, Epoch: r.ProducerEpoch,
			Partitions: []txn.Partition{{Topic: group.TopicName, Index: group.PartitionFor(r.Group, len(topic.Partitions))}},
		})
		resp.ErrorCode = txnErrorCode(errs[0], req.Version < 2)
		return resp, nil
	})
}
