package broker

import (
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
	}
}
