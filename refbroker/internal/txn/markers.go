package txn

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// markerOf is the marker of a transaction that is being ended.
func (s *shard) markerOf(t Txn) Marker {
	return Marker{
		ProducerID: t.ProducerID, Epoch: t.Epoch, CoordinatorEpoch: s.epoch,
		Version: t.Version, Commit: t.State == PrepareCommit,
	}
}

// mark brings the markers of t out and returns those that partitions owe. ok
// is false when the shard ended first.
func (s *shard) mark(t Txn) (owed []Debt, ok bool) {
	m := s.markerOf(t)
	left := t.Partitions
	for wait := s.c.cfg.Backoff; len(left) > 0; wait = min(2*wait, 50*s.c.cfg.Backoff) {
		if s.ctx.Err() != nil {
			return nil, false
		}
		errs := s.c.cfg.Markers.SendMarker(s.ctx, m, left)
		var again []Partition
		for i, p := range left {
			switch s.c.judge(p, errs[i]) {
			case owes:
				owed = append(owed, Debt{Partition: p, ProducerID: m.ProducerID, Epoch: m.Epoch, Version: m.Version, Commit: m.Commit})
			case repeat:
				again = append(again, p)
				s.c.cfg.Log.Warn("transaction marker not written yet", "transactional_id", t.ID, "partition", p, "err", errs[i])
			case settled:
				if errs[i] != nil {
					s.c.cfg.Log.Warn("transaction marker not needed", "transactional_id", t.ID, "partition", p, "err", errs[i])
				}
			}
		}
		left = again
		if len(left) > 0 && !shards.Pause(s.ctx, wait) {
			return nil, false
		}
	}
	return owed, true
}

// verdict says what a partition's answer to a marker means.
type verdict uint8

const (
	repeat verdict = iota
	settled
	owes
)

// judge tells from err, and from what the quorum says, whether a partition is
// done with a marker.
func (c *Coordinator) judge(p Partition, err error) verdict {
	switch {
	case err == nil:
		return settled
	case errors.Is(err, kerr.InvalidProducerEpoch):
		// A newer epoch wrote there. It could not have done so over an open
		// transaction of this one, so there is nothing left to end.
		return settled
	}
	switch state := c.cfg.Cluster.Partition(p); {
	case !state.Exists:
		return settled
	case errors.Is(err, replica.ErrReadOnly) && !state.ReadOnly:
		// The leader knows what this node is still to hear: whether there is an
		// alignment shows then.
		return repeat
	case errors.Is(err, replica.ErrReadOnly) && state.Aligned:
		// The alignment cut the transaction's records away.
		return settled
	case errors.Is(err, replica.ErrReadOnly):
		return owes
	}
	return repeat
}

// SettleDebts pays the markers that a partition owes to the transactional ids
// of this node. A mirror that stops before its log was aligned calls it before
// the partition becomes writable. It fails with what kept a marker out, when
// ctx ends, or while what this node coordinates is not loaded.
//
// A transaction that is being ended has no debt written down yet, and other
// partitions may keep it from that: its marker is written too. That the
// coordinator then tries it again is harmless.
func (c *Coordinator) SettleDebts(ctx context.Context, p Partition) error {
	led, err := c.shards.Led()
	if err != nil {
		return err
	}
	for _, s := range led {
		s.mu.Lock()
		if err := s.ready(); err != nil {
			s.mu.Unlock()
			return err
		}
		var ids []string
		var ending []Marker
		for id, e := range s.txns {
			if e.txn.State.preparing() && slices.Contains(e.txn.Partitions, p) {
				m := s.markerOf(e.txn)
				m.Owed = true
				ending = append(ending, m)
			}
			if slices.ContainsFunc(e.txn.Debts, func(d Debt) bool { return d.Partition == p }) {
				ids = append(ids, id)
			}
		}
		s.mu.Unlock()
		for _, m := range ending {
			if err := c.cfg.Markers.SendMarker(ctx, m, []Partition{p})[0]; c.judge(p, err) != settled {
				return err
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			if err := s.settle(ctx, id, &p); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle deals with the debts of one transactional id. With only, it pays
// those of one partition, whose mirror is being stopped. Without, it looks at
// each: debts of aligned and of deleted partitions are dropped, those of
// partitions that are writable are paid, and the rest stays.
func (s *shard) settle(ctx context.Context, id string, only *Partition) error {
	t, ok, _, err := s.look(id)
	if err != nil || !ok {
		return err
	}
	var gone []Debt
	var failed error
	for _, d := range t.Debts {
		if only != nil && d.Partition != *only {
			continue
		}
		state := s.c.cfg.Cluster.Partition(d.Partition)
		if state.Exists && !state.Aligned {
			if state.ReadOnly && only == nil {
				continue
			}
			m := Marker{
				ProducerID: d.ProducerID, Epoch: d.Epoch, CoordinatorEpoch: s.epoch,
				Version: d.Version, Commit: d.Commit, Owed: true,
			}
			err := s.c.cfg.Markers.SendMarker(ctx, m, []Partition{d.Partition})[0]
			if s.c.judge(d.Partition, err) != settled {
				failed = err
				continue
			}
		}
		gone = append(gone, d)
	}
	if len(gone) == 0 {
		return failed
	}
	for {
		s.mu.Lock()
		var changed <-chan struct{}
		if e := s.txns[id]; e != nil {
			changed = e.changed
		}
		s.mu.Unlock()
		_, err := s.update(id, func(t Txn, ok bool) outcome {
			if !ok {
				return outcome{}
			}
			t.Debts = slices.DeleteFunc(slices.Clone(t.Debts), func(d Debt) bool { return slices.Contains(gone, d) })
			return outcome{write: &t}
		})
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return errors.Join(failed, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
