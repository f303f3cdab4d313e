package storage

import (
	"errors"
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
//
// It takes all of the log for committed, as it is when a stop cuts.
func (l *Log) StableCut() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stableCut()
}

func (l *Log) stableCut() (int64, error) {
	at := l.logEnd
	if first, open := l.state.FirstUndecided(); open {
		at = max(first, l.logStart)
	}
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

// StopPreview is what a stop would do to a log as it is at one moment.
type StopPreview struct {
	// At is where it would be cut, End where it ends, Records what lies between,
	// without control records.
	At, End, Records int64
	// Oldest is the open transaction that began first, nil for none, and Since the
	// timestamp of its first batch in ms, -1 where that is gone.
	Oldest *psm.OpenTxn
	Since  int64
}

// PreviewStop says what a stop now would cut, if stops do so at all. Nothing is
// appended meanwhile, so that its parts are of one moment.
func (l *Log) PreviewStop(cuts bool) (StopPreview, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := StopPreview{At: l.logEnd, End: l.logEnd, Since: -1}
	if err := l.usable(); err != nil {
		return v, err
	}
	for _, t := range l.state.OpenTransactions() {
		if v.Oldest == nil || t.FirstOffset < v.Oldest.FirstOffset {
			v.Oldest = &t
		}
	}
	if v.Oldest == nil {
		return v, nil // and so nothing is cut
	}
	var err error
	if !cuts {
		v.Since, err = l.timeAt(v.Oldest.FirstOffset)
		return v, err
	}
	if v.At, err = l.stableCut(); err != nil {
		return v, err
	}
	err = l.replay(v.At, l.logEnd, func(b *psm.Batch) error {
		if !b.IsControl() {
			v.Records += int64(b.Count)
		}
		if b.BaseOffset <= v.Oldest.FirstOffset && v.Oldest.FirstOffset <= b.LastOffset {
			v.Since = b.BaseTimestamp
		}
		return nil
	})
	return v, err
}

// timeAt is the timestamp of the batch that holds an offset, -1 where it is gone.
func (l *Log) timeAt(offset int64) (ms int64, err error) {
	ms = -1
	found := errors.New("found")
	err = l.replay(max(offset, l.logStart), l.logEnd, func(b *psm.Batch) error {
		if b.BaseOffset <= offset {
			ms = b.BaseTimestamp
		}
		return found
	})
	if errors.Is(err, found) {
		err = nil
	}
	return ms, err
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
