package storage

import (
	"errors"
	"fmt"
	"slices"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// TruncateTo takes away everything at and above offset: batches, index
// entries, leader epochs, snapshots, and what the producer state had of them,
// so that what a cut barrier had expired is back (PSM-9). A batch that
// reaches over offset goes whole; the log ends where that began, or at the log's
// start if offset is that. It returns the new log end.
//
// Stops whose barrier is cut away are forgotten. One of a later epoch than
// the log has is not: its barrier is still to come.
//
// The recovery point falls with the log; whoever keeps it must write it down
// before more is appended.
func (l *Log) TruncateTo(offset int64) (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	if offset >= l.logEnd {
		return l.logEnd, l.dropEmptyEpochs()
	}
	if offset < l.logStart {
		return 0, &ErrOutOfRange{Offset: offset, Start: l.logStart, End: l.logEnd}
	}
	c, err := l.cutPlace(offset)
	if err != nil {
		return 0, err
	}
	return c.end, l.cutAt(c)
}

// dropEmptyEpochs forgets leader epochs of which no batch is there. A leader
// that was elected and wrote nothing leaves one at the log's end; another log
// that this one is to follow does not know it, and would tell it to cut for ever.
func (l *Log) dropEmptyEpochs() error {
	if !l.epochs.truncate(l.logEnd) {
		return nil
	}
	l.pub.Lock()
	l.epochView = l.epochs.entries
	l.pub.Unlock()
	return l.epochs.flush()
}

// CountRecords counts the records from offset on, control records left out.
func (l *Log) CountRecords(offset int64) (records int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	err = l.replay(max(offset, l.logStart), l.logEnd, func(b *psm.Batch) error {
		if !b.IsControl() {
			records += int64(b.Count)
		}
		return nil
	})
	return records, err
}

// cutPlace is where a truncation cuts: in segment keep at position pos.
type cutPlace struct {
	keep int
	pos  int64
	// end is the log's end from then on, written where its last batch ends.
	// Between them lies a gap that compaction left.
	end, written int64
}

// TruncateFully empties the log and lets it begin at start. below are the
// barriers that the log which is copied from there on has, or had, before it.
func (l *Log) TruncateFully(start int64, below ...Barrier) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if start < 0 {
		return fmt.Errorf("truncate the log to begin at %d: negative", start)
	}
	// Everything is cut first; then an empty segment of the right name takes
	// the place of the one that is left.
	base := l.segments[0].base
	l.pub.Lock()
	l.logStart = base // it may be above, and so above the cut
	l.pub.Unlock()
	if err := l.cutAt(cutPlace{end: base, written: base}); err != nil {
		return err
	}
	s, err := openSegment(l.fs, l.dir, start)
	if err != nil {
		return err
	}
	old := l.segments[0]
	l.pub.Lock()
	l.segments = []*segment{s}
	l.logStart, l.logEnd, l.highWater, l.lastStable = start, start, start, start
	l.gen++
	l.pub.Unlock()
	l.recovered = start
	if old.base != start {
		err = old.remove()
	} else {
		err = old.closeFiles()
	}
	lists := barrierLists{stops: l.stops, barriers: slices.Clone(below), cutEpoch: l.cutEpoch}
	return errors.Join(err, l.saveLists(lists), l.saveCleaned(cleaned{}), l.snapshots.DeleteAll(), l.reload())
}

// cutPlace finds where a truncation to offset cuts.
func (l *Log) cutPlace(offset int64) (cutPlace, error) {
	c := cutPlace{keep: len(l.segments) - 1, end: offset}
	for c.keep > 0 && l.segments[c.keep].base > offset {
		c.keep--
	}
	s := l.segments[c.keep]
	c.pos, c.written = s.size, s.base
	// From a batch below: where there is one the log ends with it.
	sc := newScanner(s.r, positionFor(s.index, offset-1-s.base), s.size, false)
	for sc.next() {
		if sc.b.LastOffset >= offset {
			c.pos, c.end = sc.at, min(offset, sc.b.BaseOffset)
			if offset == l.logStart {
				c.end = offset // what lies below has gone already
			}
			return c, nil
		}
		c.written = sc.b.LastOffset + 1
	}
	if err := sc.failure(); err != nil {
		return c, fmt.Errorf("truncate %s to %d: %w", l.dir, offset, err)
	}
	return c, nil
}

func (l *Log) cutAt(c cutPlace) error {
	pos, end := c.pos, c.end
	latest := l.epochs.latest()
	changedEpochs := l.epochs.truncate(end)
	s, gone := l.segments[c.keep], l.segments[c.keep+1:]
	l.pub.Lock()
	l.segments = slices.Clone(l.segments[:c.keep+1])
	s.truncate(pos, end)
	if l.cfg.Defects.Has(defect.AbortedIndexLostOnTruncation) {
		s.aborted, s.txnDirty = nil, true
	}
	l.logEnd = end
	// It may have been in the middle of the batch that goes.
	l.logStart = min(l.logStart, end)
	l.highWater = min(l.highWater, end)
	l.lastStable = min(l.lastStable, end)
	l.epochView = l.epochs.entries
	l.gen++
	l.pub.Unlock()
	l.recovered = min(l.recovered, end)

	// The newest goes first: a crash leaves a log without a hole.
	for i := len(gone) - 1; i >= 0; i-- {
		if err := gone[i].remove(); err != nil {
			return l.noteBroken(fmt.Errorf("%w: %w", errBroken, err))
		}
	}
	err := s.cutBack()
	if err == nil && c.written < end {
		err = s.flush()
	} else if err == nil {
		err = s.flushBatches() // as the active segment it is scanned by recovery
	}
	if err == nil && changedEpochs {
		err = l.epochs.flush()
	}
	barriers := len(l.barriers)
	if err == nil {
		err = l.cutStops(end, latest)
	}
	cutBarrier := len(l.barriers) < barriers
	if err == nil {
		err = l.cutCleaned(end)
	}
	if err == nil && c.written < end {
		// The end is in no batch: a segment of that name keeps it.
		err = l.addSegment(end)
	} else if err == nil && len(gone) > 0 {
		err = SyncDir(l.fs, l.dir)
	}
	if err != nil {
		return l.noteBroken(fmt.Errorf("truncate to %d: %w: %w", end, errBroken, err))
	}
	l.useStops()
	if err := l.reload(); err != nil {
		return err
	}
	if cutBarrier && l.cfg.Defects.Has(defect.CutBarrierStillExpires) {
		l.state.TruncateFully(l.logEnd)
	}
	return nil
}

// DeleteRecords raises the log's start to offset, but not above the high
// watermark, and drops the segments that end below it. It returns the start.
// Whoever keeps the log start must write it down.
func (l *Log) DeleteRecords(offset int64) (start int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	return l.deleteRecords(offset)
}

func (l *Log) deleteRecords(offset int64) (start int64, err error) {
	start = max(min(offset, l.highWater), l.logStart)
	if start == l.logStart {
		return start, nil
	}
	// Producers stay known when their records go (FA-04), also after a crash.
	if err := l.flush(); err != nil {
		return 0, err
	}
	if err := l.snapshot(); err != nil {
		return 0, err
	}
	drop := 0
	for drop+1 < len(l.segments) && l.segments[drop+1].base <= start {
		drop++
	}
	changed := l.epochs.truncateStart(start)
	l.pub.Lock()
	gone := l.segments[:drop]
	l.segments = slices.Clone(l.segments[drop:])
	l.logStart = start
	l.lastStable = max(l.lastStable, start)
	l.epochView = l.epochs.entries
	if drop > 0 {
		l.gen++
	}
	l.pub.Unlock()
	l.state.OnLogStart(start)
	for _, s := range gone {
		err = errors.Join(err, s.remove())
	}
	if changed {
		err = errors.Join(err, l.epochs.flush())
	}
	return start, err
}
