package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// AddPartitionsToTxn (key 24), versions 0 to 5: up to 3 from clients; from 4 on
// from brokers, several transactions at once, to add or only to verify
// (KIP-890); from 5 on TRANSACTION_ABORTABLE is known.
func addPartitionsToTxn(c *txn.Coordinator) wire.API {
	return wire.Of("AddPartitionsToTxn", 0, 5, func(_ context.Context, req *wire.Request, r *kmsg.AddPartitionsToTxnRequest) (wire.Response, error) {
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		resp.Version = req.Version
		if req.Version < 4 {
			add := txn.AddRequest{TransactionalID: r.TransactionalID, ProducerID: r.ProducerID, Epoch: r.ProducerEpoch}
			for _, t := range r.Topics {
				add.Partitions = appendPartitions(add.Partitions, t.Topic, t.Partitions)
			}
			codes := addCodes(c, add, req.Version)
			for _, t := range r.Topics {
				out := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
				for _, p := range t.Partitions {
					out.Partitions = append(out.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p, ErrorCode: codes[0]})
					codes = codes[1:]
				}
				resp.Topics = append(resp.Topics, out)
			}
			return resp, nil
		}
		for _, tx := range r.Transactions {
			add := txn.AddRequest{
				TransactionalID: tx.TransactionalID, ProducerID: tx.ProducerID, Epoch: tx.ProducerEpoch, VerifyOnly: tx.VerifyOnly, Version: 2,
			}
			for _, t := range tx.Topics {
				add.Partitions = appendPartitions(add.Partitions, t.Topic, t.Partitions)
			}
			codes := addCodes(c, add, req.Version)
			result := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: tx.TransactionalID}
			for _, t := range tx.Topics {
				out := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: t.Topic}
				for _, p := range t.Partitions {
					out.Partitions = append(out.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p, ErrorCode: codes[0]})
					codes = codes[1:]
				}
				result.Topics = append(result.Topics, out)
			}
			resp.Transactions = append(resp.Transactions, result)
		}
		return resp, nil
	})
}

func appendPartitions(dst []txn.Partition, topic string, partitions []int32) []txn.Partition {
	for _, p := range partitions {
		dst = append(dst, txn.Partition{Topic: topic, Index: p})
	}
	return dst
}

// addCodes adds, or verifies, and returns one error code for each partition.
func addCodes(c *txn.Coordinator, r txn.AddRequest, version int16) []int16 {
	codes := make([]int16, len(r.Partitions))
	for i, err := range c.AddPartitions(r) {
		if version < 5 && errors.Is(err, kerr.TransactionAbortable) {
			err = kerr.InvalidTxnState
		}
		codes[i] = txnErrorCode(err, version < 2)
	}
	return codes
}
