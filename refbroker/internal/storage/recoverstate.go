package storage

import (
	"errors"
	"slices"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// loadProducers makes the producer state, and the transaction indexes of the
// segments that were scanned.
func (r *recovery) loadProducers() error {
	cfg := r.cfg.Producers
	if r.cfg.Defects.Has(defect.RecoveryDoesNotExpire) {
		cfg.AnyBarrierExpires = false
	}
	r.state = psm.New(cfg)
	r.followStops()
	if r.cfg.Defects.Has(defect.RecoveryDoesNotExpire) {
		r.state.SetStops(nil)
	}
	var completed func(psm.Completed) error
	if r.rebuildFrom >= 0 {
		if err := r.trustIndexes(); err != nil {
			return err
		}
		completed = r.reindex
	}
	if err := r.state.Reload(r.snapshots, r.reloadTo(completed)); err != nil {
		return err
	}
	if r.cfg.Defects.Has(defect.StateLostOnRestart) && len(r.stops) > 0 {
		r.state.TruncateFully(r.logEnd)
	}
	if err := r.tidySnapshots(); err != nil {
		return err
	}
	r.setHighWatermark(r.highWater)
	return nil
}

// trustIndexes keeps of the scanned segments' transaction indexes what was
// synced before the newest snapshot was written. The rest comes from the
// replay that begins at that snapshot.
func (r *recovery) trustIndexes() error {
	if r.damaged >= 0 {
		// What is missing can only be had from before.
		if err := r.snapshots.DeleteAfter(r.damaged); err != nil {
			return err
		}
	}
	offsets, err := r.snapshots.Offsets()
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if o <= r.logEnd {
			r.trusted = o
		}
	}
	for _, s := range r.segments {
		if s.base >= r.rebuildFrom {
			s.aborted = psm.TruncateTxnIndex(s.aborted, r.trusted)
		}
	}
	return nil
}

// reindex enters an aborted transaction into the index of a scanned segment.
func (r *recovery) reindex(c psm.Completed) error {
	if !c.Aborted || c.LastOffset < r.rebuildFrom || c.LastOffset < r.trusted {
		return nil
	}
	i := len(r.segments) - 1
	for i > 0 && r.segments[i].base > c.LastOffset {
		i--
	}
	s := r.segments[i]
	s.aborted = append(s.aborted, c.IndexEntry())
	return nil
}

// tidySnapshots removes the snapshots that neither begin a segment nor are the
// newest, as Kafka does.
func (r *recovery) tidySnapshots() error {
	offsets, err := r.snapshots.Offsets()
	if err != nil {
		return err
	}
	for i, o := range offsets {
		if i == len(offsets)-1 || slices.ContainsFunc(r.segments, func(s *segment) bool { return s.base == o }) {
			continue
		}
		err = errors.Join(err, r.snapshots.Delete(o))
	}
	return errors.Join(err, r.findLastSnapshot())
}

// ForgetProducers empties the producer state: see defect.FollowerKeepsSuffix.
func (l *Log) ForgetProducers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.TruncateFully(l.logEnd)
}
