package traffic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/suite/history"
)

// rawTxn is a transactional producer made by hand, in one partition. It keeps
// its producer id and epoch whatever happens to its transactional id.
type rawTxn struct {
	raw     *Raw
	txnID   string
	part    Partition
	payload []byte
	// byHand adds the partition by AddPartitionsToTxn, as producers of
	// transactions version 1 do.
	byHand bool

	id       int64
	epoch    int16
	sequence int32
	number   int64
	intent   history.Intent
	last     int64 // offset of its newest batch
}

func newRawTxn(ctx context.Context, raw *Raw, txnID string, part Partition, payload []byte) (*rawTxn, error) {
	t := &rawTxn{raw: raw, txnID: txnID, part: part, payload: payload, intent: history.IntentNone}
	var err error
	t.id, t.epoch, err = raw.InitProducerID(ctx, txnID)
	return t, err
}

// version1 are raw clients' versions for transactions version 1: a producer's
// epoch stays the same from one transaction to the next, and Produce adds no
// partition by itself (KIP-890).
func version1() *kversion.Versions {
	v := rawVersions()
	v.SetMaxKeyVersion(int16(kmsg.Produce), 11)
	v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	return v
}

func (t *rawTxn) event(intent history.Intent, r *history.Result) *history.Txn {
	return &history.Txn{
		Writer: t.raw.name, Cluster: t.raw.cluster.Name, TransactionalID: t.txnID,
		Number: t.number, Intent: intent, Result: r,
	}
}

func (t *rawTxn) begin(intent history.Intent) {
	t.intent = intent
	t.raw.rec.Add(history.Event{Kind: history.KindTxnBegin, Txn: t.event(intent, nil)})
}

// send writes one record of the transaction that is, or was, open.
func (t *rawTxn) send(ctx context.Context, trial history.Trial) *history.Result {
	if t.byHand && trial == history.TrialFirst {
		if err := t.raw.join(ctx, t.txnID, t.id, t.epoch, t.part); err != nil {
			t.raw.rec.Note("%v", err)
		}
	}
	offset, res := t.raw.produceAgain(ctx, Write{
		Partition: t.part, Mode: history.Transactional, Trial: trial, TransactionalID: t.txnID,
		Batch: Batch{
			ID:            history.BatchID{ProducerID: t.id, Epoch: t.epoch, BaseSequence: t.sequence},
			Transactional: true, Timestamp: time.Now().UnixMilli(), Count: 1, Payload: t.payload,
			First: t.raw.Tag(t.part, t.number, t.intent, 1),
		},
	})
	if res.Outcome == history.OK {
		t.sequence++
		t.last = offset
	}
	return res
}

// end ends the transaction. The producer keeps its epoch even where the answer
// names a newer one: what it writes then is late.
func (t *rawTxn) end(ctx context.Context, commit bool) error {
	asked := history.IntentAbort
	if commit {
		asked = history.IntentCommit
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.raw.cluster.named(t.txnID), t.id, t.epoch, commit
	op := t.raw.rec.Op()
	t.raw.rec.Add(history.Event{Kind: history.KindTxnEndBegin, Op: op, Txn: t.event(asked, nil)})
	lost := false
	for {
		resp, err := req.RequestWith(ctx, t.raw.client())
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if busy(ctx, err) {
			lost = lost || broken(err)
			continue
		}
		t.raw.rec.Add(history.Event{Kind: history.KindTxnEnd, Op: op, Txn: t.event(asked, lastOf(lost, resultOf(err)))})
		if err != nil {
			return fmt.Errorf("raw client %s: end transaction of %s on cluster %s: %w", t.raw.name, t.txnID, t.raw.cluster.Name, err)
		}
		return nil
	}
}

// awaitMarker waits until the log holds a marker of the producer id behind its
// newest batch.
func (t *rawTxn) awaitMarker(ctx context.Context) error {
	for {
		headers, err := t.raw.HeadersFrom(ctx, t.part, t.last)
		if err != nil {
			return err
		}
		for _, h := range headers {
			if h.Control && h.ID.ProducerID == t.id && h.BaseOffset > t.last {
				return nil
			}
		}
		if !pause(ctx, askAgainAfter) {
			return fmt.Errorf("raw client %s: no marker of transaction %s in %s: %w", t.raw.name, t.txnID, t.part, context.Cause(ctx))
		}
	}
}

// askAgainAfter is how long a client waits for a coordinator that is busy.
const askAgainAfter = 5 * time.Millisecond

// busy says whether a coordinator's error passes by itself, and waits a moment
// where it does; false when ctx ends.
func busy(ctx context.Context, err error) bool {
	if err == nil || !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions) && !broken(err) {
		return false
	}
	return pause(ctx, askAgainAfter)
}

// pause waits; it is false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
