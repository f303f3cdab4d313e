package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// EndTxn (key 26), versions 0 to 5: from 2 on PRODUCER_FENCED is known, from 5
// on each end raises the epoch, and the answer carries what the producer goes
// on with (KIP-890).
func endTxn(c *txn.Coordinator) wire.API {
	return wire.Of("EndTxn", 0, 5, func(ctx context.Context, req *wire.Request, r *kmsg.EndTxnRequest) (wire.Response, error) {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.Version = req.Version
		end := txn.EndRequest{
			TransactionalID: r.TransactionalID, ProducerID: r.ProducerID, Epoch: r.ProducerEpoch, Commit: r.Commit,
		}
		if req.Version >= 5 {
			end.Version = 2
		}
		id, epoch, err := c.EndTxn(ctx, end)
		resp.ProducerID, resp.ProducerEpoch = id, epoch
		resp.ErrorCode = txnErrorCode(err, req.Version < 2)
		return resp, nil
	})
}

// txnErrorCode is the code of a coordinator's error. Clients that are too old
// for PRODUCER_FENCED are told INVALID_PRODUCER_EPOCH.
func txnErrorCode(err error, old bool) int16 {
	if old && errors.Is(err, kerr.ProducerFenced) {
		err = kerr.InvalidProducerEpoch
	}
	return codeOf(err)
}
