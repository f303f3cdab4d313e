package traffic

import (
	"context"
	"fmt"
	"time"

	"watershed.example/suite/history"
)

// Idempotence tries the guarantees that producers have within one writable
// period (IDEM-3): the same batch again, a gap, an older epoch after a newer one
// wrote, and a transactional zombie.
//
// When to call: Run once on the promoted cluster after the forged collisions and
// the transactional ones (it takes producer ids that those need), on a
// partition that the mirror carried. Where the story restarts a broker of that
// cluster afterwards, within the same writable period, AfterRestart behind it.
type Idempotence struct {
	raw     *Raw
	part    Partition
	payload []byte
	id      int64
	txnID   string
	// oldest and newest are the first batch of the id's first epoch and the last
	// one of its second, which the broker has to know as retries.
	oldest, newest Batch
}

const (
	trialCount int32 = 2
	// trialGap is how far a gap lies above the next sequence.
	trialGap int32 = 7
)

// NewIdempotence prepares the trials on part; raw's name is the writer's.
func NewIdempotence(ctx context.Context, raw *Raw, part Partition, payload []byte) (*Idempotence, error) {
	t := &Idempotence{raw: raw, part: part, payload: payload, txnID: raw.name + "-fenced"}
	var err error
	t.id, _, err = raw.InitProducerID(ctx, "")
	return t, err
}

func (t *Idempotence) batch(epoch int16, sequence, count int32) Batch {
	return Batch{
		ID:        history.BatchID{ProducerID: t.id, Epoch: epoch, BaseSequence: sequence},
		Timestamp: time.Now().UnixMilli(), Count: count, Payload: t.payload,
		First: t.raw.Tag(t.part, history.NoTxn, history.IntentNone, count),
	}
}

// send writes a batch, and returns it.
func (t *Idempotence) send(ctx context.Context, trial history.Trial, b Batch) Batch {
	t.raw.produceAgain(ctx, Write{Partition: t.part, Mode: history.Idempotent, Trial: trial, Batch: b})
	return b
}

// Run makes the trials. What brokers answer is in the history.
func (t *Idempotence) Run(ctx context.Context) error {
	t.oldest = t.send(ctx, history.TrialFirst, t.batch(0, 0, trialCount))
	t.send(ctx, history.TrialRetry, t.oldest)
	second := t.send(ctx, history.TrialFirst, t.batch(0, trialCount, 1))
	t.send(ctx, history.TrialRetry, t.oldest) // within the last five batches
	t.send(ctx, history.TrialRetry, second)
	t.send(ctx, history.TrialGap, t.batch(0, trialCount+1+trialGap, 1))
	t.newest = t.send(ctx, history.TrialNewEpoch, t.batch(1, 0, trialCount))
	t.send(ctx, history.TrialRetry, t.newest)
	t.send(ctx, history.TrialZombie, t.batch(0, trialCount+1, 1))
	if err := t.zombie(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// zombie fences a transactional producer by a newer InitProducerId of its
// transactional id, while its transaction is open, and lets both go on.
func (t *Idempotence) zombie(ctx context.Context) error {
	old, err := newRawTxn(ctx, t.raw, t.txnID, t.part, t.payload)
	if err != nil {
		return err
	}
	old.begin(history.IntentAbort) // the newer one aborts it
	old.send(ctx, history.TrialFirst)
	fresh, err := newRawTxn(ctx, t.raw, t.txnID, t.part, t.payload)
	if err != nil {
		return err
	}
	fresh.number = old.number + 1
	old.send(ctx, history.TrialZombie)
	fresh.begin(history.IntentCommit)
	fresh.send(ctx, history.TrialNewEpoch)
	old.send(ctx, history.TrialZombie)
	return fresh.end(ctx, true)
}

// AfterRestart tries the last batch again, the first one, a gap and the older
// epoch, against what the broker knows after it came back.
func (t *Idempotence) AfterRestart(ctx context.Context) error {
	if t.newest.Count == 0 {
		return fmt.Errorf("trials of %s on %s: nothing was written before the restart", t.raw.name, t.part)
	}
	// The connections from before are gone.
	raw, err := t.raw.again(ctx, t.part)
	if err != nil {
		return err
	}
	defer raw.Close()
	before := t.raw
	t.raw = raw
	defer func() { before.index, t.raw = raw.index, before }()
	t.send(ctx, history.TrialRetry, t.newest)
	t.send(ctx, history.TrialRetry, t.oldest)
	t.send(ctx, history.TrialGap, t.batch(1, trialCount+trialGap, 1))
	t.send(ctx, history.TrialZombie, t.batch(0, trialCount+1, 1))
	return context.Cause(ctx)
}

// again returns a client with the same name and new connections, once part has
// a leader that answers.
func (r *Raw) again(ctx context.Context, part Partition) (*Raw, error) {
	for {
		raw, err := NewRaw(ctx, r.rec, r.cluster, r.name)
		if err == nil {
			if _, err = raw.Offsets(ctx, part); err == nil {
				raw.index = r.index
				return raw, nil
			}
			raw.Close()
		}
		if !pause(ctx, describeEvery) {
			return nil, fmt.Errorf("raw client %s: %s after a restart: %w", r.name, part, err)
		}
	}
}
