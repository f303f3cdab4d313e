package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// become gets a producer id, for a transactional id or for none. What that has
// open ends with it.
func (w *worker) become(ctx context.Context, txn string) (producer, bool) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.SetVersion(4)
	// Some transactions are so slow that their coordinator ends them.
	req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = -1, -1, 1000+w.rng.Int32N(20_000)
	if txn != "" {
		req.TransactionalID = &txn
	}
	for ctx.Err() == nil {
		node, err := int32(w.rng.IntN(len(w.nodes))), error(nil)
		if txn != "" {
			node, err = w.coordinator(ctx, txn)
		}
		if err == nil {
			o := w.history.call(operation{Client: w.number, Name: w.client.name, Kind: "init", Transaction: txn, Producer: -1, Epoch: -1, Offset: -1})
			resp := kmsg.NewPtrInitProducerIDResponse()
			if err = w.ask(ctx, node, req, resp); err == nil {
				err = kerr.ErrorForCode(resp.ErrorCode)
			}
			if err == nil {
				w.history.returned(o, acknowledged, func(o *operation) { o.Producer, o.Epoch = resp.ProducerID, resp.ProducerEpoch })
				return producer{resp.ProducerID, resp.ProducerEpoch, 0}, true
			}
			w.history.returned(o, unknown, func(o *operation) { o.Error = err.Error() })
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nobody, false
}

func (w *worker) coordinator(ctx context.Context, txn string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(4)
	req.CoordinatorType, req.CoordinatorKeys = 1, []string{txn}
	resp := kmsg.NewPtrFindCoordinatorResponse()
	w.asked = (w.asked + 1) % len(w.nodes)
	if err := w.ask(ctx, int32(w.asked), req, resp); err != nil {
		return -1, err
	}
	if len(resp.Coordinators) != 1 {
		return -1, fmt.Errorf("coordinator of %s: %d answers", txn, len(resp.Coordinators))
	}
	return resp.Coordinators[0].NodeID, kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
}

// transact runs transactions over several partitions; others may do so with
// the same transactional id, and fence this one. version is that of the
// cluster's transaction.version. The last transaction is ended, whatever ends
// ctx, as long as settling lasts.
func (w *worker) transact(ctx, settling context.Context, id string, version int16) {
	var me producer
	known := false
	next := map[partition]int32{}
	for ctx.Err() == nil {
		if !known {
			if me, known = w.become(ctx, id); !known {
				break
			}
			clear(next)
		}
		w.made++
		name := fmt.Sprintf("%s/%d-%d", id, w.number, w.made)
		known = w.fill(ctx, id, name, me, next, version)
		if known {
			var bumped producer
			bumped, known = w.finish(ctx, id, name, me, w.rng.IntN(3) > 0, version)
			if bumped != me {
				clear(next)
			}
			me = bumped
		}
		w.rest(ctx)
	}
	// What may still be open is ended.
	w.become(settling, id)
}

// fill writes the records of a transaction; false: one was not acknowledged.
func (w *worker) fill(ctx context.Context, id, name string, me producer, next map[partition]int32, version int16) bool {
	added := map[partition]bool{}
	for range 1 + w.rng.IntN(4) {
		p, names := w.somewhere(), w.names()
		if version < 2 && !added[p] {
			if !w.add(ctx, id, p, me) {
				return false
			}
			added[p] = true
		}
		of := me
		of.sequence = next[p]
		if w.write(ctx, p, names, of, &id, name) != acknowledged {
			return false
		}
		next[p] += int32(len(names))
		w.rest(ctx)
	}
	return true
}

// add tells the coordinator of a partition, as producers do before KIP-890.
func (w *worker) add(ctx context.Context, id string, p partition, me producer) bool {
	ctx, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.SetVersion(3)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, me.id, me.epoch
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = p.Topic, []int32{p.Index}
	req.Topics = append(req.Topics, t)
	for ctx.Err() == nil {
		node, err := w.coordinator(ctx, id)
		if err == nil {
			resp := kmsg.NewPtrAddPartitionsToTxnResponse()
			err = w.ask(ctx, node, req, resp)
			if err == nil && len(resp.Topics) == 1 && len(resp.Topics[0].Partitions) == 1 {
				if err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err == nil {
					return true
				}
				if !kerr.IsRetriable(err) {
					return false
				}
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
	return false
}

// finish ends a transaction. It returns who goes on; false: the outcome is not
// known, or the producer was fenced.
func (w *worker) finish(ctx context.Context, id, name string, me producer, commit bool, version int16) (producer, bool) {
	ctx, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	o := w.history.call(operation{
		Client: w.number, Name: w.client.name, Kind: "end", Transaction: name, Producer: me.id, Epoch: me.epoch, Commit: commit, Offset: -1,
	})
	req := kmsg.NewPtrEndTxnRequest()
	req.SetVersion(5)
	if version < 2 {
		req.SetVersion(4)
	}
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, me.id, me.epoch, commit
	outcome, last := refused, ""
	for ctx.Err() == nil {
		o.Tries++ // this goroutine's alone until it returns
		node, err := w.coordinator(ctx, id)
		if err == nil {
			resp := kmsg.NewPtrEndTxnResponse()
			err = w.ask(ctx, node, req, resp)
			coded := kerr.TypedErrorForCode(resp.ErrorCode)
			switch {
			case err != nil && !errors.Is(err, errNotSent):
				outcome, last = unknown, err.Error()
			case err != nil:
				last = err.Error()
			case coded == nil:
				w.history.returned(o, acknowledged, nil)
				if version >= 2 && resp.ProducerID >= 0 {
					me.id, me.epoch = resp.ProducerID, resp.ProducerEpoch
				}
				return me, true
			case !coded.Retriable:
				w.history.returned(o, outcome, func(o *operation) { o.Error = coded.Message })
				return me, false
			default:
				// Its coordinator may have moved after it wrote the decision.
				outcome, last = unknown, coded.Message
			}
		} else {
			last = err.Error()
		}
		pause(ctx, 20*time.Millisecond)
	}
	w.history.returned(o, outcome, func(o *operation) { o.Error = last })
	return me, false
}
