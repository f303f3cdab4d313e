package traffic

import (
	"context"
	"fmt"
	"time"

	"watershed.example/suite/history"
)

// OldPrimary is what still runs against a primary that was failed over: an
// idempotent producer that does not know, and a transaction that nobody ends,
// so that the cluster's own coordinator aborts it when its time is up. When the
// cluster mirrors, neither may leave a byte in its log (FB-4, RO-2).
//
// When to call: NewOldPrimary on the old primary after its own failover and
// before it starts to mirror, in failback and where a mirror is restarted.
// Write at any time while it mirrors, and at a gate of its next stop. TimedOut
// while it mirrors, before that stop; it waits until the transaction's time is
// up. Close before the run's end.
type OldPrimary struct {
	raw     *Raw
	part    Partition
	payload []byte
	id      int64
	next    int32
	open    *rawTxn
	since   time.Time
}

// abandonedFor is the timeout of the transaction that nobody ends.
const abandonedFor = 1500 * time.Millisecond

// NewOldPrimary writes to part under a producer id of its own and leaves a
// transaction open there. The writer's name is name.
func NewOldPrimary(ctx context.Context, rec *Recorder, cluster Cluster, name string, part Partition, payload []byte) (*OldPrimary, error) {
	raw, err := NewRaw(ctx, rec, cluster, name)
	if err != nil {
		return nil, err
	}
	o := &OldPrimary{raw: raw, part: part, payload: payload}
	if o.id, _, err = raw.InitProducerID(ctx, ""); err != nil {
		raw.Close()
		return nil, err
	}
	if res := o.write(ctx); res.Outcome != history.OK {
		raw.Close()
		return nil, fmt.Errorf("write to %s on cluster %s, which is still writable: code %d %s", part, cluster.Name, res.Code, res.Message)
	}
	o.open = &rawTxn{raw: raw, txnID: name + "-abandoned", part: part, payload: payload}
	if o.open.id, o.open.epoch, err = raw.initProducerID(ctx, o.open.txnID, abandonedFor); err != nil {
		raw.Close()
		return nil, err
	}
	o.open.begin(history.IntentAbort) // by its timeout
	o.open.send(ctx, history.TrialFirst)
	o.since = time.Now()
	return o, nil
}

// Write writes the next batch of the producer that does not know, once.
func (o *OldPrimary) Write(ctx context.Context) *history.Result {
	_, res := o.raw.Produce(ctx, o.batch())
	return o.wrote(res)
}

// write is Write while the cluster is writable: it goes on while leaders change.
func (o *OldPrimary) write(ctx context.Context) *history.Result {
	_, res := o.raw.produceAgain(ctx, o.batch())
	return o.wrote(res)
}

func (o *OldPrimary) batch() Write {
	return Write{Partition: o.part, Mode: history.Idempotent, Batch: Batch{
		ID:        history.BatchID{ProducerID: o.id, BaseSequence: o.next},
		Timestamp: time.Now().UnixMilli(), Count: 1, Payload: o.payload,
		First: o.raw.Tag(o.part, history.NoTxn, history.IntentNone, 1),
	}}
}

func (o *OldPrimary) wrote(res *history.Result) *history.Result {
	if res.Outcome == history.OK {
		o.next++
	}
	return res
}

// TimedOut waits until the abandoned transaction's time is up and takes up its
// transactional id anew, which must not be wedged by a partition that takes no
// marker (RO-2). Its writer's next batch is refused all the same.
func (o *OldPrimary) TimedOut(ctx context.Context) error {
	up := time.NewTimer(time.Until(o.since.Add(abandonedFor)))
	defer up.Stop()
	select {
	case <-up.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	short, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("it took longer than %s", probeLimit))
	defer cancel()
	if _, _, err := o.raw.InitProducerID(short, o.open.txnID); err != nil {
		o.raw.rec.Note("%v", err) // the answer is in the history
	}
	o.open.send(ctx, history.TrialZombie)
	o.Write(ctx)
	return context.Cause(ctx)
}

// Close closes the client.
func (o *OldPrimary) Close() { o.raw.Close() }
