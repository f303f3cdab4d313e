package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// DescribeTransactions (key 65), version 0 (KIP-664).
func describeTransactions(c *txn.Coordinator) wire.API {
	return wire.Of("DescribeTransactions", 0, 0, func(_ context.Context, req *wire.Request, r *kmsg.DescribeTransactionsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDescribeTransactionsResponse()
		resp.Version = req.Version
		for _, id := range r.TransactionalIDs {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID = id
			t, err := c.Describe(id)
			if err != nil {
				s.ErrorCode, s.ProducerID, s.ProducerEpoch, s.StartTimestamp = txnErrorCode(err, false), -1, -1, -1
				resp.TransactionStates = append(resp.TransactionStates, s)
				continue
			}
			s.State, s.TimeoutMillis, s.StartTimestamp = t.State.String(), t.TimeoutMillis, t.StartedAt
			s.ProducerID, s.ProducerEpoch = t.ProducerID, t.Epoch
			for _, p := range t.Partitions {
				if n := len(s.Topics); n == 0 || s.Topics[n-1].Topic != p.Topic {
					s.Topics = append(s.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: p.Topic})
				}
				last := &s.Topics[len(s.Topics)-1]
				last.Partitions = append(last.Partitions, p.Index)
			}
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
		return resp, nil
	})
}
