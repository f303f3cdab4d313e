package storage

import (
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// Appended is where an append went.
type Appended struct {
	BaseOffset, LastOffset int64
	// LogAppendTime in ms, -1 for a topic with CreateTime.
	LogAppendTime int64
	LogStart      int64
	// Duplicate: the batch was there already, at these offsets.
	Duplicate bool
}

// OffsetError refuses batches that do not continue the log.
type OffsetError struct {
	// Offset is the batch's base offset, LogEnd where the log ends.
	Offset, LogEnd int64
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("batch at offset %d does not continue the log, which ends at %d", e.Offset, e.LogEnd)
}

// EpochOrderError refuses a batch whose leader epoch is below the log's
// latest (LOG-3).
type EpochOrderError struct {
	Offset        int64
	Epoch, Latest int32
}

func (e *EpochOrderError) Error() string {
	return fmt.Sprintf("batch at offset %d has leader epoch %d, below the log's %d", e.Offset, e.Epoch, e.Latest)
}

// AppendAsLeader appends batches at the log's end in leader epoch. It writes
// base offsets and epoch, and the time where the topic wants it, into raw. A
// client's append is checked as Kafka's broker does; errors have, or wrap, a
// Kafka code. A retry of a batch that is in the log is a duplicate, and
// appends nothing (KIP-98).
//
// An append that fails leaves log and producer state as they were.
func (l *Log) AppendAsLeader(raw []byte, epoch int32, a psm.Append) (Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	if latest := l.epochs.latest(); epoch < latest {
		return Appended{}, fmt.Errorf("append as leader: %w", &EpochOrderError{l.logEnd, epoch, latest})
	}
	if l.cfg.Defects.Has(defect.EpochsGoBackwards) && a.Origin == psm.Client && len(l.stops) > 0 {
		epoch--
	}
	chunk, err := l.assign(raw, epoch, a.Origin)
	if err != nil {
		return Appended{}, err
	}
	return l.append(chunk, a)
}

// AppendAsFollower appends batches as another log has them, byte for byte:
// offsets and leader epochs are kept. Offsets may leave a gap, as compaction
// does, but not go below the log's end (*OffsetError); leader epochs never
// decrease (*EpochOrderError), and enter the epoch cache with the batches. The
// first batch of a log without records may begin below its start, if it ends
// above it.
func (l *Log) AppendAsFollower(raw []byte) (Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	head := l.firstBatch(raw)
	if head == 0 {
		return l.follow(raw)
	}
	first, err := l.follow(raw[:head])
	if err != nil {
		return Appended{}, err
	}
	done, err := l.follow(raw[head:])
	done.BaseOffset = first.BaseOffset
	return done, err
}

func (l *Log) follow(raw []byte) (Appended, error) {
	chunk, err := l.check(raw)
	if err != nil {
		return Appended{}, err
	}
	return l.append(chunk, psm.Append{Origin: psm.Replication})
}

// chunk is what one append writes.
type chunk struct {
	raw     []byte
	batches []psm.Batch
	time    int64 // log append time, -1 for none
}

// decode splits raw into batches, checking what must hold for any. The
// batches are valid until the next append.
func (l *Log) decode(raw []byte) ([]psm.Batch, error) {
	l.batches = l.batches[:0]
	for rest := raw; len(rest) > 0; {
		b, _, r, err := nextBatch(rest)
		if err != nil {
			return nil, withCode(err)
		}
		l.batches = append(l.batches, b)
		rest = r
	}
	if len(l.batches) == 0 {
		return nil, fmt.Errorf("append without a batch: %w", kerr.InvalidRecord)
	}
	return l.batches, nil
}

// withCode gives a decoder's error the Kafka code that it has.
func withCode(err error) error {
	var coded *kerr.Error
	if errors.As(err, &coded) {
		return err
	}
	if code := psm.Code(err); code != psm.CodeUnknown {
		return fmt.Errorf("%w: %w", kerr.TypedErrorForCode(code), err)
	}
	return err
}

// assign gives raw's batches their offsets and leader epoch.
func (l *Log) assign(raw []byte, epoch int32, origin psm.Origin) (chunk, error) {
	c := chunk{raw: raw, time: -1}
	var err error
	if origin == psm.Client {
		if err = l.checkClient(raw); err != nil {
			return c, err
		}
	}
	if c.batches, err = l.decode(raw); err != nil {
		return c, err
	}
	if l.cfg.LogAppendTime {
		c.time = l.cfg.Now().UnixMilli()
	}
	next, pos := l.logEnd, 0
	for i := range c.batches {
		b := &c.batches[i]
		whole := raw[pos : pos+b.Size]
		pos += b.Size
		delta := b.LastOffset - b.BaseOffset
		if next > math.MaxInt64-delta-1 {
			return c, fmt.Errorf("log is full at offset %d: %w", next, kerr.KafkaStorageError)
		}
		psm.SetOffsets(whole, next, epoch)
		b.BaseOffset, b.LastOffset, b.LeaderEpoch = next, next+delta, epoch
		next = b.LastOffset + 1
		if c.time >= 0 {
			setAppendTime(whole, c.time)
			b.MaxTimestamp = c.time
		}
	}
	return c, nil
}

// checkClient refuses what no producer may write, with the codes of Kafka's
// LogValidator.
func (l *Log) checkClient(raw []byte) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", kerr.InvalidRecord, fmt.Sprintf(format, args...))
	}
	b, err := psm.DecodeHeader(raw)
	switch {
	case errors.Is(err, psm.ErrMagic):
		return invalid("%v", err)
	case err != nil:
		return withCode(err)
	case b.Size > len(raw):
		return withCode(fmt.Errorf("batch of %d bytes, %d there: %w", b.Size, len(raw), psm.ErrShort))
	case b.Size < len(raw):
		return invalid("one batch a partition, %d bytes follow the first", len(raw)-b.Size)
	case len(raw) > l.cfg.MaxMessageBytes:
		return fmt.Errorf("%w: batch of %d bytes, at most %d", kerr.MessageTooLarge, len(raw), l.cfg.MaxMessageBytes)
	case b.IsControl():
		return invalid("clients may not write control batches")
	case b.Count == 0:
		return invalid("batch without records")
	case int64(b.Count) != b.LastOffset-b.BaseOffset+1:
		return invalid("%d records, last offset delta %d", b.Count, b.LastOffset-b.BaseOffset)
	case b.ProducerID < -1:
		return invalid("producer id %d", b.ProducerID)
	case b.ProducerID >= 0 && b.BaseSequence < 0:
		return invalid("sequence %d of producer %d", b.BaseSequence, b.ProducerID)
	case b.ProducerID >= 0 && b.ProducerEpoch < 0:
		return invalid("epoch %d of producer %d", b.ProducerEpoch, b.ProducerID)
	case b.Transactional() && b.ProducerID < 0:
		return invalid("transactional batch without a producer id")
	case b.Attributes.LogAppendTime() && !l.cfg.LogAppendTime:
		return fmt.Errorf("%w: only the broker sets the log append time", kerr.InvalidTimestamp)
	}
	return nil
}

// check decodes a follower's batches.
func (l *Log) check(raw []byte) (chunk, error) {
	c := chunk{raw: raw, time: -1}
	var err error
	if c.batches, err = l.decode(raw); err != nil {
		return c, err
	}
	next, latest := l.logEnd, l.epochs.latest()
	for i := range c.batches {
		b := &c.batches[i]
		if b.BaseOffset < next && (i > 0 || !l.startsInside(b)) {
			return c, &OffsetError{b.BaseOffset, next}
		}
		if b.LeaderEpoch < latest {
			return c, &EpochOrderError{b.BaseOffset, b.LeaderEpoch, latest}
		}
		next, latest = b.LastOffset+1, b.LeaderEpoch
	}
	return c, nil
}

// append writes a chunk whose offsets are set.
func (l *Log) append(c chunk, a psm.Append) (Appended, error) {
	first, last := &c.batches[0], &c.batches[len(c.batches)-1]
	res := Appended{BaseOffset: first.BaseOffset, LastOffset: last.LastOffset, LogAppendTime: c.time, LogStart: l.logStart}
	l.state.Begin(a)
	for i := range c.batches {
		dup, err := l.state.Add(&c.batches[i])
		if err != nil {
			l.state.Discard()
			return Appended{}, withCode(err)
		}
		if dup.Found {
			l.state.Discard()
			res.BaseOffset, res.LastOffset, res.Duplicate = dup.BaseOffset, dup.LastOffset, true
			if c.time >= 0 {
				res.LogAppendTime = dup.Timestamp
			}
			return res, nil
		}
	}
	if err := l.write(c); err != nil {
		l.state.Discard()
		return Appended{}, fmt.Errorf("append at offset %d of %s: %w: %w", first.BaseOffset, l.dir, kerr.KafkaStorageError, l.noteBroken(err))
	}
	l.publish(c, l.state.Commit())
	if err := l.flushSoon(); err != nil {
		return Appended{}, fmt.Errorf("append at offset %d of %s: %w: %w", first.BaseOffset, l.dir, kerr.KafkaStorageError, err)
	}
	return res, nil
}

// write makes room for the chunk and writes it. On an error the log is as
// before, but that an empty segment may have been added.
func (l *Log) write(c chunk) error {
	first, last := &c.batches[0], &c.batches[len(c.batches)-1]
	if first.BaseOffset < l.logEnd {
		if err := l.beginInside(first.BaseOffset, c.raw); err != nil {
			return err
		}
		defer func() { l.epochs.truncateStart(l.logStart) }()
	} else {
		if l.rolls(len(c.raw), first, last) {
			if err := l.roll(first.BaseOffset); err != nil {
				return err
			}
		}
		if err := l.active().write(c.raw); err != nil {
			return err
		}
	}
	// The checkpoint is written by the next flush: recovery finds the epochs of the
	// active segment in its batches.
	for i := range c.batches {
		l.epochs.assign(c.batches[i].LeaderEpoch, c.batches[i].BaseOffset)
	}
	return nil
}

// publish makes a written chunk part of the log.
func (l *Log) publish(c chunk, completed []psm.Completed) {
	s := l.active()
	aborted := l.aborted[:0]
	for _, t := range completed {
		if t.Aborted {
			aborted = append(aborted, t.IndexEntry())
		}
	}
	l.aborted = aborted
	if len(aborted) > 0 {
		if err := s.writeAborted(aborted); err != nil {
			l.cfg.Logger.Warn("transaction index is left to the next flush", "log", l.dir, "error", err)
		}
	}
	stable := max(l.state.LSO(l.highWater), l.logStart)
	l.pub.Lock()
	for i := range c.batches {
		s.note(&c.batches[i], l.cfg.IndexInterval)
	}
	s.aborted = append(s.aborted, aborted...)
	l.logEnd = c.batches[len(c.batches)-1].LastOffset + 1
	l.epochView = l.epochs.entries
	l.lastStable = stable
	l.pub.Unlock()
	l.noteBarriers(c.batches)
}

// rolls reports whether a chunk of size bytes wants a new segment.
func (l *Log) rolls(size int, first, last *psm.Batch) bool {
	s := l.active()
	if last.LastOffset-s.base > math.MaxInt32 {
		return true
	}
	if s.size == 0 {
		return false
	}
	return s.size > l.cfg.SegmentBytes-int64(size) ||
		s.firstTime >= 0 && first.MaxTimestamp-s.firstTime > l.cfg.SegmentMs ||
		len(s.index)*offsetEntrySize >= l.cfg.IndexBytes || len(s.times)*timeEntrySize >= l.cfg.IndexBytes
}

// roll ends the active segment and begins one at base, which is at or above
// the log's end. The old one is synced, and a producer snapshot is taken.
func (l *Log) roll(base int64) error {
	old := l.active()
	if base < l.logEnd {
		base = l.logEnd
	}
	if old.base == base {
		return fmt.Errorf("segment at offset %d is there already", base)
	}
	l.pub.Lock()
	old.noteTime()
	l.pub.Unlock()
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.snapshot(); err != nil {
		return err
	}
	return l.addSegment(base)
}

// addSegment begins an empty segment at base.
func (l *Log) addSegment(base int64) error {
	s, err := openSegment(l.fs, l.dir, base)
	if err != nil {
		return err
	}
	if s.size > 0 {
		_ = s.closeFiles()
		return fmt.Errorf("new segment %s is not empty", s.file(suffixLog))
	}
	if err := SyncDir(l.fs, l.dir); err != nil {
		_ = s.closeFiles()
		return err
	}
	l.pub.Lock()
	l.segments = append(l.segments[:len(l.segments):len(l.segments)], s)
	l.pub.Unlock()
	return nil
}
