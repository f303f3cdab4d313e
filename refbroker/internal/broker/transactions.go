package broker

import (
	"context"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// transactionAPIs are the APIs of the transaction coordinator.
func transactionAPIs(e *env.Env, c *txn.Coordinator) []wire.API {
	return []wire.API{
		initProducerID(e, c),
		addPartitionsToTxn(c),
		endTxn(c),
		writeTxnMarkers(e),
		describeTransactions(c),
		listTransactions(c),
		settleDebts(c),
	}
}

// settleDebts (a key of our own, between nodes only): see
// [txn.KeySettleDebts].
func settleDebts(c *txn.Coordinator) wire.API {
	return wire.Of("SettleDebts", 0, 0, func(ctx context.Context, _ *wire.Request, r *txn.SettleDebtsRequest) (wire.Response, error) {
		return &txn.SettleDebtsResponse{ErrorCode: codeOf(c.SettleDebts(ctx, r.Partition))}, nil
	})
}
