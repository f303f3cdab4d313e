package storage

// Retention is how long and how much of a log is kept, as retention.ms and
// retention.bytes say; -1 is for ever, and all.
type Retention struct {
	Ms, Bytes int64
}

// Retain drops what retention no longer keeps at nowMs, and returns the log's
// start, which whoever keeps it must write down if it moved. Producers stay
// known, as after [Log.DeleteRecords].
func (l *Log) Retain(nowMs int64, r Retention) (start int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	start = l.retentionStart(nowMs, r)
	if start == l.logEnd && l.active().size > 0 && start > l.logStart {
		// The segment that is written to goes too: a new one takes its place.
		if err := l.roll(start); err != nil {
			return 0, err
		}
	}
	return l.deleteRecords(start)
}

// retentionStart is where the log would begin if retention dropped what it may
// at nowMs: whole segments, the oldest first, wholly below the high watermark,
// whose newest record is older than Ms, or without which Bytes are still kept.
// A segment without any timestamp is kept. Of the segment that is written to
// everything goes once all of it is too old; it does not go for its size.
func (l *Log) retentionStart(nowMs int64, r Retention) int64 {
	l.pub.RLock()
	defer l.pub.RUnlock()
	start := l.logStart
	var size int64
	for _, s := range l.segments {
		size += s.size
	}
	for i, s := range l.segments {
		end, last := l.logEnd, i == len(l.segments)-1
		if !last {
			end = l.segments[i+1].base
		}
		old := r.Ms >= 0 && s.maxTime >= 0 && nowMs-s.maxTime > r.Ms
		big := r.Bytes >= 0 && size-s.size >= r.Bytes && !last
		if end > l.highWater || s.size == 0 && last || s.size > 0 && !old && !big {
			break
		}
		start, size = max(start, end), size-s.size
	}
	return start
}
