package storage

import (
	"encoding/binary"
	"fmt"
	"sort"

	"watershed.example/psm"
)

// Found is a record found by its timestamp.
type Found struct {
	// Offset is -1 when there is none.
	Offset int64
	// Timestamp in ms.
	Timestamp int64
	// Epoch is the leader epoch of its batch.
	Epoch int32
}

var notFound = Found{Offset: -1, Timestamp: -1, Epoch: -1}

// OffsetForTime finds the first record with a timestamp at or above ms.
func (l *Log) OffsetForTime(ms int64, decompress Decompress) (Found, error) {
	return l.retried(func(segs []timeView, start int64) (Found, error) {
		for i := range segs {
			if segs[i].maxTime < ms {
				continue
			}
			f, err := segs[i].firstAt(ms, start, decompress)
			if err != nil || f.Offset >= 0 {
				return f, err
			}
		}
		return notFound, nil
	})
}

// MaxTimestamp finds the first record that has the log's highest timestamp.
func (l *Log) MaxTimestamp(decompress Decompress) (Found, error) {
	return l.retried(func(segs []timeView, start int64) (Found, error) {
		best := -1
		for i := range segs {
			if segs[i].maxTime >= 0 && (best < 0 || segs[i].maxTime > segs[best].maxTime) {
				best = i
			}
		}
		if best < 0 {
			return notFound, nil
		}
		f, err := segs[best].firstAt(segs[best].maxTime, start, decompress)
		if err != nil || f.Offset >= 0 {
			return f, err
		}
		// The cleaner took the record, and left its batch's time.
		return highest(segs, start, decompress)
	})
}

// highest looks for the highest timestamp record by record.
func highest(segs []timeView, start int64, decompress Decompress) (Found, error) {
	best := notFound
	for i := range segs {
		sc := newScanner(segs[i].s.r, 0, segs[i].size, false)
		for sc.next() {
			if sc.b.LastOffset < start || sc.b.Count == 0 || sc.b.MaxTimestamp <= best.Timestamp {
				continue
			}
			records, err := recordsOf(&sc.b, sc.bytes, decompress)
			if err != nil {
				return notFound, err
			}
			err = eachRecord(&sc.b, records, func(r *record) error {
				ts := r.timestamp
				if sc.b.Attributes.LogAppendTime() {
					ts = sc.b.MaxTimestamp
				}
				if ts > best.Timestamp && r.offset >= start {
					best = Found{Offset: r.offset, Timestamp: ts, Epoch: sc.b.LeaderEpoch}
				}
				return nil
			})
			if err != nil {
				return notFound, err
			}
		}
		if err := sc.failure(); err != nil {
			return notFound, err
		}
	}
	return best, nil
}

// timeView is what a search by time sees of a segment.
type timeView struct {
	s       *segment
	size    int64
	maxTime int64
	times   []timeEntry
	index   []offsetEntry
}

// retried runs a search until no truncation came between.
func (l *Log) retried(search func([]timeView, int64) (Found, error)) (Found, error) {
	for {
		l.pub.RLock()
		closed, gen, start := l.closed, l.gen, l.logStart
		views := make([]timeView, len(l.segments))
		for i, s := range l.segments {
			views[i] = timeView{s: s, size: s.size, maxTime: s.maxTime, times: s.times, index: s.index}
		}
		l.pub.RUnlock()
		if closed {
			return notFound, ErrClosed
		}
		f, err := search(views, start)
		if l.generation() == gen {
			return f, err
		}
	}
}

// firstAt finds the segment's first record at or above log start with a
// timestamp at or above ms.
func (v *timeView) firstAt(ms, start int64, decompress Decompress) (Found, error) {
	// Up to and with the entry's offset, all timestamps are at most its own.
	from := int64(0)
	if i := sort.Search(len(v.times), func(i int) bool { return v.times[i].ts >= ms }); i > 0 {
		from = v.s.base + int64(v.times[i-1].rel) + 1
	}
	sc := newScanner(v.s.r, positionFor(v.index, from-v.s.base), v.size, false)
	for sc.next() {
		if sc.b.LastOffset < max(from, start) || sc.b.MaxTimestamp < ms || sc.b.Count == 0 {
			continue
		}
		f, err := firstRecordAt(&sc.b, sc.bytes, ms, start, decompress)
		if err != nil || f.Offset >= 0 {
			return f, err
		}
	}
	return notFound, sc.failure()
}

// firstRecordAt looks at a batch's records.
func firstRecordAt(b *psm.Batch, raw []byte, ms, start int64, decompress Decompress) (Found, error) {
	if b.Attributes.LogAppendTime() {
		return Found{Offset: max(b.BaseOffset, start), Timestamp: b.MaxTimestamp, Epoch: b.LeaderEpoch}, nil
	}
	records := raw[psm.HeaderSize:]
	if c := b.Attributes.Compression(); c != 0 {
		var err error
		if records, err = decompress(records, c); err != nil {
			return notFound, fmt.Errorf("batch at offset %d: decompress with codec %d: %w", b.BaseOffset, c, err)
		}
	}
	for range b.Count {
		size, n := binary.Varint(records)
		if n <= 0 || size < 1 || size > int64(len(records)-n) {
			return notFound, fmt.Errorf("batch at offset %d: record of %d bytes, %d left", b.BaseOffset, size, len(records))
		}
		rec := records[n : n+int(size)]
		records = records[n+int(size):]
		tsDelta, k := binary.Varint(rec[1:])
		if k <= 0 {
			return notFound, fmt.Errorf("batch at offset %d: bad timestamp delta", b.BaseOffset)
		}
		offDelta, k2 := binary.Varint(rec[1+k:])
		if k2 <= 0 {
			return notFound, fmt.Errorf("batch at offset %d: bad offset delta", b.BaseOffset)
		}
		if ts, off := b.BaseTimestamp+tsDelta, b.BaseOffset+offDelta; ts >= ms && off >= start {
			return Found{Offset: off, Timestamp: ts, Epoch: b.LeaderEpoch}, nil
		}
	}
	return notFound, nil
}
