package traffic

import (
	"context"
	"fmt"
	"time"

	"watershed.example/suite/history"
)

// Prober writes to partitions of a destination that ought to refuse: plain,
// idempotent and transactional batches, and AddPartitionsToTxn. It knows what
// was answered by the codes on the wire, not through a client library.
type Prober struct {
	raw     *Raw
	parts   []Partition
	payload []byte

	idempotentID  int64
	transactional struct {
		name  string
		id    int64
		epoch int16
	}
	sequences map[Partition]int32 // of the idempotent id
	txnParts  map[Partition]int32 // sequences of the transactional id
	txn       int64
}

// NewProber makes a prober with producer ids of the destination's own.
func NewProber(ctx context.Context, raw *Raw, parts []Partition, payload []byte) (*Prober, error) {
	p := &Prober{
		raw: raw, parts: parts, payload: payload,
		sequences: map[Partition]int32{}, txnParts: map[Partition]int32{},
	}
	var err error
	if p.idempotentID, _, err = raw.InitProducerID(ctx, ""); err != nil {
		return nil, err
	}
	p.transactional.name = raw.name + "-txn"
	p.transactional.id, p.transactional.epoch, err = raw.InitProducerID(ctx, p.transactional.name)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// probeWithin is how long a probe goes on while leaders change: a stop is held for it.
const probeWithin = 2 * time.Second

// Plain tries one plain write to part and says whether it was accepted.
func (p *Prober) Plain(ctx context.Context, part Partition) bool {
	_, res := p.raw.Produce(ctx, Write{Partition: part, Mode: history.Plain, Batch: Batch{
		ID: PlainID, Timestamp: time.Now().UnixMilli(), Count: 1, Payload: p.payload,
		First: p.raw.Tag(part, history.NoTxn, history.IntentNone, 1),
	}})
	return res.Outcome == history.OK
}

// Idempotent tries one idempotent write to part.
func (p *Prober) Idempotent(ctx context.Context, part Partition) bool {
	_, res := p.raw.produceFor(ctx, probeWithin, Write{Partition: part, Mode: history.Idempotent, Batch: Batch{
		ID:        history.BatchID{ProducerID: p.idempotentID, BaseSequence: p.sequences[part]},
		Timestamp: time.Now().UnixMilli(), Count: 1, Payload: p.payload,
		First: p.raw.Tag(part, history.NoTxn, history.IntentNone, 1),
	}})
	if res.Outcome == history.OK {
		p.sequences[part]++
	}
	return res.Outcome == history.OK
}

// Transactional tries one transactional write to part, in a transaction that
// its writer means to abort. The transaction is left open where it was accepted.
func (p *Prober) Transactional(ctx context.Context, part Partition) bool {
	_, res := p.raw.produceFor(ctx, probeWithin, Write{
		Partition: part, Mode: history.Transactional, TransactionalID: p.transactional.name,
		Batch: Batch{
			ID: history.BatchID{
				ProducerID: p.transactional.id, Epoch: p.transactional.epoch, BaseSequence: p.txnParts[part],
			},
			Transactional: true, Timestamp: time.Now().UnixMilli(), Count: 1, Payload: p.payload,
			First: p.raw.Tag(part, p.txn, history.IntentAbort, 1),
		},
	})
	if res.Outcome == history.OK {
		p.txnParts[part]++
	}
	return res.Outcome == history.OK
}

// Round tries each way to write once, at every partition.
func (p *Prober) Round(ctx context.Context) error {
	for _, part := range p.parts {
		p.Plain(ctx, part)
		p.Idempotent(ctx, part)
		p.Transactional(ctx, part)
		if _, err := p.raw.AddPartitions(ctx, p.transactional.name, p.transactional.id, p.transactional.epoch, part); err != nil {
			return fmt.Errorf("probe %s: %w", part, err)
		}
		if ended(ctx) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// probeEvery paces the hammering of [Prober.UntilAccepted], so that histories
// stay small while a gate is held.
const probeEvery = 3 * time.Millisecond

// UntilAccepted writes plain batches to one partition after the other, until
// each has accepted one or ctx ends. So it has a write in flight at every moment
// of STOPPING (RO-5).
func (p *Prober) UntilAccepted(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	left := append([]Partition(nil), p.parts...)
	for {
		var still []Partition
		for _, part := range left {
			if ended(ctx) {
				return fmt.Errorf("these partitions accepted no write: %v: %w", left, context.Cause(ctx))
			}
			if !p.Plain(ctx, part) {
				still = append(still, part)
			}
		}
		if left = still; len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
