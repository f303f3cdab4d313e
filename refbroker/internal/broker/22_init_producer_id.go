package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// InitProducerId (key 22), versions 0 to 5: from 3 on a producer may say which
// id and epoch it has (KIP-360), from 4 on PRODUCER_FENCED is known (KIP-588).
func initProducerID(e *env.Env, c *txn.Coordinator) wire.API {
	return wire.Of("InitProducerId", 0, 5, func(ctx context.Context, req *wire.Request, r *kmsg.InitProducerIDRequest) (wire.Response, error) {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.Version = req.Version
		in := txn.InitRequest{
			TransactionalID: r.TransactionalID, TimeoutMillis: r.TransactionTimeoutMillis, ProducerID: -1, Epoch: -1,
		}
		if req.Version >= 3 {
			in.ProducerID, in.Epoch = r.ProducerID, r.ProducerEpoch
		}
		var err error
		if in.TransactionalID != nil {
			if err = txn.EnsureTopic(ctx, e); err != nil {
				e.Log.Warn("no coordinator for transactions", "err", err)
				err = kerr.CoordinatorNotAvailable
			}
		}
		if err == nil {
			resp.ProducerID, resp.ProducerEpoch, err = c.InitProducerID(ctx, in)
		}
		if err != nil {
			resp.ProducerID, resp.ProducerEpoch = -1, -1
		}
		resp.ErrorCode = txnErrorCode(err, req.Version < 4)
		return resp, nil
	})
}
