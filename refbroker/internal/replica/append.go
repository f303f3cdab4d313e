package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// Append implements [API]. It writes offsets and leader epoch into raw.
func (p *Partition) Append(ctx context.Context, raw []byte, o AppendOptions) (AppendResult, error) {
	if o.Purpose == ForClient {
		if err := p.checkKeys(raw); err != nil {
			return AppendResult{}, err
		}
	}
	if !p.order.TryLock() {
		var cancel context.CancelFunc
		ctx, cancel = o.bound(ctx)
		defer cancel()
		o.Within = 0 // once is enough
		if err := p.order.LockContext(ctx); err != nil {
			return AppendResult{}, err
		}
	}
	res, epoch, err := p.appendLocked(raw, o)
	p.order.Unlock()
	if err != nil {
		return AppendResult{}, err
	}
	if !res.Duplicate {
		p.notify()
	}
	if o.Acks != -1 {
		return res, nil
	}
	if done, err := p.replicated(res.LastOffset, epoch); done || err != nil {
		return res, err
	}
	ctx, cancel := o.bound(ctx)
	defer cancel()
	return res, p.waitFor(ctx, func() (bool, error) { return p.replicated(res.LastOffset, epoch) })
}

// bound gives ctx the deadline of o.
func (o AppendOptions) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Within <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, o.Within, o.Late)
}

func (p *Partition) appendLocked(raw []byte, o AppendOptions) (AppendResult, int32, error) {
	r, err := p.mayAppend(raw, o)
	if err != nil {
		return AppendResult{}, 0, err
	}
	if res, lost := p.loses(raw, o); lost {
		return res, r.epoch, nil
	}
	a := psm.Append{Origin: psm.Coordinator, Guard: psm.Guard(o.Guard), TransactionVersion: o.TransactionVersion}
	if o.Purpose == ForClient {
		a.Origin = psm.Client
	}
	done, err := p.log.AppendAsLeader(raw, r.epoch, a)
	if err != nil {
		return AppendResult{}, 0, p.told(storageError(err))
	}
	p.failing = false
	if !done.Duplicate {
		p.raiseHighWatermark()
	}
	return AppendResult{
		BaseOffset: done.BaseOffset, LastOffset: done.LastOffset, LogAppendTime: done.LogAppendTime,
		LogStartOffset: done.LogStart, Duplicate: done.Duplicate,
	}, r.epoch, nil
}

// told logs the first of a row of appends that the disk refused: clients only
// see a code that they retry. order is held.
func (p *Partition) told(err error) error {
	if errors.Is(err, kerr.KafkaStorageError) && !p.failing {
		p.failing = true
		p.logger.Error("append refused by the storage; logged once until one succeeds", "partition", p.Name(), "err", err)
	}
	return err
}

// mayAppend says whether others than the mirror may append now.
func (p *Partition) mayAppend(raw []byte, o AppendOptions) (role, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keepsOut(p.role) && !p.closed && !(o.Purpose == ForOwedMarker && p.role.owed) && !p.letsIn(o.Purpose) {
		p.remember(raw, true)
		return p.role, fmt.Errorf("%s: %w", p.Name(), ErrReadOnly)
	}
	if o.Purpose == ForClient && p.remember(raw, false) {
		return p.role, fmt.Errorf("%s: %w", p.Name(), ErrReadOnly)
	}
	r, err := p.leadingLocked(o.LeaderEpoch)
	if err != nil {
		return r, err
	}
	if o.Acks == -1 && len(r.isr) < r.minISR {
		return r, fmt.Errorf("%s: %d in-sync replicas, %d wanted: %w", p.Name(), len(r.isr), r.minISR, kerr.NotEnoughReplicas)
	}
	return r, nil
}

// replicated reports whether all in-sync replicas have what was appended in
// leader epoch, up to and with last.
func (p *Partition) replicated(last int64, epoch int32) (bool, error) {
	// The mark before the role: it is of this epoch then. One that a later
	// leader raised says nothing of what lay there before.
	high := p.log.Marks().HighWatermark
	r, err := p.leading(-1)
	switch {
	case err != nil:
		return false, err
	case r.epoch != epoch:
		return false, fmt.Errorf("%s: leader epoch moved from %d to %d: %w", p.Name(), epoch, r.epoch, kerr.NotLeaderForPartition)
	case high <= last:
		return false, nil
	case len(r.isr) < r.minISR:
		return false, fmt.Errorf("%s: %d in-sync replicas, %d wanted: %w", p.Name(), len(r.isr), r.minISR, kerr.NotEnoughReplicasAfterAppend)
	}
	return true, nil
}

// raiseHighWatermark moves the high watermark of a leader to what every
// in-sync replica is known to hold. It says whether it moved. order is held.
func (p *Partition) raiseHighWatermark() bool {
	marks := p.log.Marks()
	p.mu.Lock()
	high := int64(-1)
	if p.role.leader == p.node && !p.closed {
		high = p.progress.highWatermark(p.insyncLocked(), marks.LogEnd, time.Now(), p.lag, p.eligible)
	}
	p.mu.Unlock()
	if high <= marks.HighWatermark {
		return false
	}
	p.log.SetHighWatermark(high)
	return true
}

// followed notes how far a follower has fetched in this leader epoch.
func (p *Partition) followed(o ReadOptions, epoch int32, end int64) error {
	p.mu.Lock()
	r := p.role
	known := slices.Contains(r.replicas, o.ReplicaID)
	begins := false
	if known && r.epoch == epoch {
		p.progress.fetch(o.ReplicaID, o.ReplicaEpoch, o.Offset, end, time.Now())
		begins = p.progress.begins(o.ReplicaID, o.LogStart)
	}
	p.mu.Unlock()
	if begins {
		p.notify()
	}
	if !known {
		return fmt.Errorf("%s: node %d is no replica: %w", p.Name(), o.ReplicaID, kerr.NotLeaderForPartition)
	}
	p.raise()
	if !slices.Contains(r.isr, o.ReplicaID) {
		p.mu.Lock()
		joins := p.progress.joins(o.ReplicaID, p.log.Marks().HighWatermark, p.eligible)
		p.mu.Unlock()
		if joins {
			p.joined()
		}
	}
	return nil
}
