package storage

import (
	"fmt"

	"watershed.example/psm"
)

// StableCut is the highest offset at or below the last stable offset to which
// the log can be cut without cutting a transaction in two.
//
// It is lower than the last stable offset when transactions interleave: one
// that began before the earliest open transaction and ended behind it has
// its records below the last stable offset and its marker above. Cut between
// them, it would be open again, for good. A stop has to cut below it (TXN-3),
// and the same question comes up again there. At the result, the last stable
// offset of the cut log is its end.
func (l *Log) StableCut() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.lastStable
	ends, err := l.endsAbove(at)
	if err != nil || !ends {
		return at, err
	}
	for {
		s := psm.New(psm.Config{
			AnyBarrierExpires: l.cfg.Producers.AnyBarrierExpires, ExpirationMs: l.cfg.Producers.ExpirationMs, Faults: l.cfg.Producers.Faults,
		})
		s.SetStops(psm.CutStops(l.stops, at))
		r := l.reloadTo(nil)
		r.Target = at
		if err := s.Reload(psm.NewSnapshots(peekDir{snapshotDir{l.fs, l.dir}, at}, nil), r); err != nil {
			return 0, fmt.Errorf("producer state at %d of %s: %w", at, l.dir, err)
		}
		first, open := s.FirstUndecided()
		if !open || first >= at {
			return at, nil
		}
		at = max(first, l.logStart)
		if at == l.logStart {
			return at, nil
		}
	}
}

// endsAbove reports whether a transaction ends at or above offset.
func (l *Log) endsAbove(offset int64) (found bool, err error) {
	err = l.replay(offset, l.logEnd, func(b *psm.Batch) error {
		found = found || b.ProducerID != -1 && (b.Control.Type == psm.ControlAbort || b.Control.Type == psm.ControlCommit)
		return nil
	})
	return found, err
}

// peekDir shows the snapshots at or below an offset, and changes nothing.
type peekDir struct {
	snapshotDir
	upTo int64
}

// Names implements psm.Dir.
func (d peekDir) Names() ([]string, error) {
	all, err := d.snapshotDir.Names()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range all {
		if at, ok := psm.ParseSnapshotName(n); ok && at <= d.upTo {
			names = append(names, n)
		}
	}
	return names, nil
}

// Remove implements psm.Dir: a look deletes nothing.
func (d peekDir) Remove(string) error { return nil }

// Sync implements psm.Dir.
func (d peekDir) Sync() error { return nil }
