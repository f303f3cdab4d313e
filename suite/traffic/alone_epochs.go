package traffic

import (
	"context"
	"fmt"
	"math"

	"watershed.example/suite/history"
)

// lastEpoch is the highest epoch that a coordinator gives a producer: the one
// above it is for markers.
const lastEpoch int16 = math.MaxInt16 - 1

// RollOver takes a transactional producer to the end of its epochs by real
// requests, and past it: by InitProducerId, or by the EndTxn of transactions
// version 2 (SC-2). It writes at the last epochs and with what comes after.
func RollOver(ctx context.Context, raw *Raw, txnID string, part Partition, byEndTxn bool, payload []byte) error {
	t, err := NewHandTxn(ctx, raw, txnID, 2, payload)
	if err != nil {
		return err
	}
	if err := t.exhaust(ctx); err != nil {
		return err
	}
	for range 3 {
		for _, commit := range []bool{true, false} {
			t.Begin(intentOf(commit))
			if err := t.Send(ctx, part, 1); err != nil {
				return err
			}
			if !byEndTxn && t.epoch == lastEpoch {
				// Init aborts what is open, and has no epoch left to fence it with.
				if err := t.Init(ctx); err != nil {
					return err
				}
				t.number++
				continue
			}
			if err := t.End(ctx, commit); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

func intentOf(commit bool) history.Intent {
	if commit {
		return history.IntentCommit
	}
	return history.IntentAbort
}

// exhaust raises the producer's epoch to the one before the last. Thousands of
// answers tell nothing: only one in a thousand is recorded, and the last ones.
func (t *HandTxn) exhaust(ctx context.Context) error {
	rec := t.raw.rec
	for t.epoch < lastEpoch-1 {
		id := t.id
		var err error
		if t.epoch%1000 == 0 || t.epoch > lastEpoch-5 {
			err = t.Init(ctx)
		} else {
			t.id, t.epoch, err = t.raw.askProducerID(ctx, t.txnID, t.timeout, new(int32))
		}
		if err != nil {
			return err
		}
		if t.id != id || t.epoch < 0 {
			rec.Add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{
				Writer: t.raw.name, Cluster: t.raw.cluster.Name, TransactionalID: t.txnID, ProducerID: t.id, Epoch: t.epoch, Result: resultOf(nil),
			}})
			return fmt.Errorf("raw client %s: %s went from producer id %d to %d, epoch %d, before its epochs were used up", t.raw.name, t.txnID, id, t.id, t.epoch)
		}
	}
	return nil
}
