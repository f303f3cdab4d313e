package storage

import (
	"errors"
	"fmt"

	"watershed.example/psm"
)

// startsInside reports whether a batch may be the first of the log although it
// begins below the log's end: the log has no records, and its start lies within
// the batch. Another log of which DeleteRecords went to the middle of a batch
// gives it whole (as Kafka's: a follower takes it, and keeps its own log start).
// Under mu.
func (l *Log) startsInside(b *psm.Batch) bool {
	return l.logStart == l.logEnd && b.BaseOffset < l.logEnd && b.LastOffset >= l.logEnd
}

// firstBatch is the length of the first batch of raw if it is one that the log's
// start lies in, 0 for any other.
func (l *Log) firstBatch(raw []byte) int {
	b, err := psm.DecodeHeader(raw)
	if err != nil || b.Size >= len(raw) || !l.startsInside(&b) {
		return 0
	}
	return b.Size
}

// beginInside replaces all segments by one that begins with a batch below the
// log's start, and holds it. What they hold lies below the start. A crash
// leaves either no segment, so that the log is as empty as it was, or the new one
// with all of the batch: its torn head would leave a log that ends below its
// start.
func (l *Log) beginInside(base int64, raw []byte) error {
	name := fileName(l.dir, base, suffixLog)
	tmp, err := writeTemp(l.fs, name, raw)
	if err != nil {
		return err
	}
	old := l.segments
	for i := len(old) - 1; i >= 0 && err == nil; i-- {
		for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
			err = errors.Join(err, removeIfAny(l.fs, old[i].file(suffix)))
		}
	}
	if err == nil {
		err = SyncDir(l.fs, l.dir)
	}
	if err == nil {
		err = rename(l.fs, tmp, name)
	}
	var s *segment
	if err == nil {
		s, err = openSegment(l.fs, l.dir, base)
	}
	if err != nil {
		return fmt.Errorf("%w: begin at offset %d: %w", errBroken, base, err)
	}
	s.size = 0 // until the batch is noted
	s.txnDirty = true
	l.pub.Lock()
	l.segments = []*segment{s}
	l.gen++
	l.pub.Unlock()
	for _, o := range old {
		err = errors.Join(err, o.closeFiles())
	}
	if err != nil {
		l.cfg.Logger.Warn("old segments are not closed", "log", l.dir, "error", err)
	}
	return nil
}
