// Package storage keeps one partition's log in Kafka's file format: segments
// (.log) with sparse offset and time indexes, the index of aborted
// transactions, producer snapshots, the leader epoch checkpoint and
// partition.metadata, so that Kafka's own tools read it. Beside them lies
// mirror-stops.json, the stops of mirroring on this partition.
//
// Bytes are kept as they come: the leader sets base offset and leader epoch,
// which lie outside of a batch's CRC, and nothing else, except the time of a
// topic with LogAppendTime. Nothing is synced at an append, as in Kafka:
// durability comes from replicas. Rolling, closing and everything that
// recovery can't find in the log again is synced.
package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/lock"
)

// ErrClosed is returned by a log that is closed.
var ErrClosed = errors.New("log is closed")

// errBroken marks a log whose file could not be put back after a failed
// write: it takes nothing more until it is opened, and so recovered, again.
var errBroken = errors.New("log is broken until it is recovered")

// ErrOutOfRange is an offset outside of the log.
type ErrOutOfRange struct{ Offset, Start, End int64 }

func (e *ErrOutOfRange) Error() string {
	return fmt.Sprintf("offset %d is outside of the log [%d, %d]", e.Offset, e.Start, e.End)
}

// Config is how a log behaves. Zero values are Kafka's defaults.
type Config struct {
	// SegmentBytes and SegmentMs are segment.bytes and segment.ms.
	SegmentBytes int64
	SegmentMs    int64
	// IndexInterval is index.interval.bytes.
	IndexInterval int
	// IndexBytes is segment.index.bytes.
	IndexBytes int
	// FlushMessages and FlushMs are flush.messages and flush.ms: after how many
	// records, and how long, what was appended is synced. 0 leaves it to
	// replicas, as Kafka's defaults do.
	FlushMessages, FlushMs int64
	// MaxMessageBytes is max.message.bytes, a limit to clients' batches.
	MaxMessageBytes int
	// LogAppendTime is message.timestamp.type.
	LogAppendTime bool
	// Producers configures the producer state.
	Producers psm.Config
	// ClusterID is the cluster whose own barriers this log's stops write.
	ClusterID string
	// Now is the wall clock.
	Now func() time.Time
	// Logger gets what recovery found. nil for none.
	Logger *slog.Logger
	// Defects make it wrong on purpose.
	Defects defect.Set
}

func (c Config) withDefaults() Config {
	def := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&c.SegmentBytes, 1<<30)
	def(&c.SegmentMs, 7*24*time.Hour.Milliseconds())
	if c.IndexInterval <= 0 {
		c.IndexInterval = 4096
	}
	if c.IndexBytes <= 0 {
		c.IndexBytes = 10 << 20
	}
	if c.MaxMessageBytes <= 0 {
		c.MaxMessageBytes = 1048588
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Log is one partition's log. Its methods may be called by any goroutine.
type Log struct {
	fs  afero.Fs
	dir string
	cfg Config

	// cleaning is held over a compaction, and taken before mu; leaving asks it
	// to end.
	cleaning lock.Mutex
	leaving  atomic.Bool

	// mu is the append lock: it is held over file I/O. What is below it is
	// changed, and read except where said otherwise, under it.
	mu     lock.Mutex
	state  *psm.State
	epochs *epochCache
	barrierLists
	cleaned cleaned
	// stopsDirty: mirror-stops.json does not have all barriers.
	stopsDirty bool
	// stopsEnd is where the next line of mirror-stops.json goes, 0 where the file is
	// to be written anew.
	stopsEnd int64
	broken   error
	// recovered is up to where the log is known to be on disk.
	recovered int64
	snapshots *psm.Snapshots
	// flushLater is the next flush by flush.ms, nil for none.
	flushLater *time.Timer
	// lastSnapshot is the offset of the newest producer snapshot, -1 for none.
	lastSnapshot int64
	// batches and aborted are room for an append's, to be used again.
	batches []psm.Batch
	aborted []psm.AbortedTxn

	// pub guards what readers see. It is never held over anything that waits.
	pub        sync.RWMutex
	segments   []*segment
	logStart   int64
	logEnd     int64
	highWater  int64
	lastStable int64
	epochView  []EpochStart
	// gen counts the truncations, for reads that one may have overtaken.
	gen    uint64
	closed bool
}

// Marks are the offsets of a log at one moment.
type Marks struct {
	LogStart, LastStable, HighWatermark, LogEnd int64
	// Epoch is the latest leader epoch in the log, -1 when there is none.
	Epoch int32
}

// Marks returns the log's offsets.
func (l *Log) Marks() Marks {
	l.pub.RLock()
	defer l.pub.RUnlock()
	m := Marks{LogStart: l.logStart, LastStable: l.lastStable, HighWatermark: l.highWater, LogEnd: l.logEnd, Epoch: -1}
	if n := len(l.epochView); n > 0 {
		m.Epoch = l.epochView[n-1].Epoch
	}
	return m
}

// Dir is the log's folder.
func (l *Log) Dir() string { return l.dir }

// active is the segment that is written to. Under mu.
func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }

// usable returns why nothing can be written. Under mu.
func (l *Log) usable() error {
	if l.closed {
		return ErrClosed
	}
	return l.broken
}

// note remembers that the log is broken, if that is what err says.
func (l *Log) noteBroken(err error) error {
	if errors.Is(err, errBroken) && l.broken == nil {
		l.broken = err
		l.cfg.Logger.Error("log is offline: it takes nothing until it is recovered by a restart", "log", l.dir, "err", err)
	}
	return err
}

// Failure is why the log takes nothing until it is opened again, nil when it
// does.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// RecoveryPoint is the offset below which the log is known to be on disk.
func (l *Log) RecoveryPoint() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recovered
}

// SetHighWatermark moves the high watermark, but not beyond the log's ends.
// It returns the marks after it.
func (l *Log) SetHighWatermark(hw int64) Marks {
	l.mu.Lock()
	l.setHighWatermark(hw)
	l.mu.Unlock()
	return l.Marks()
}

func (l *Log) setHighWatermark(hw int64) {
	hw = min(max(hw, l.logStart), l.logEnd)
	l.state.OnHighWatermark(hw)
	stable := max(l.state.LSO(hw), l.logStart)
	l.pub.Lock()
	l.highWater, l.lastStable = hw, stable
	l.pub.Unlock()
}

// Producers lists the active producers in the order of their ids.
func (l *Log) Producers() []psm.Producer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Producers()
}

// Epochs returns the leader epochs in the log and where they start. The
// slice must not be changed.
func (l *Log) Epochs() []EpochStart {
	l.pub.RLock()
	defer l.pub.RUnlock()
	return l.epochView
}

// EndOffsetForEpoch is the largest leader epoch in the log at or below the
// one given, and where it ends; (-1, -1) is undefined.
func (l *Log) EndOffsetForEpoch(epoch int32) (int32, int64) {
	l.pub.RLock()
	defer l.pub.RUnlock()
	return endOffsetFor(l.epochView, epoch, l.logEnd)
}

// EpochAt is the leader epoch of the record at offset, -1 when not known.
func (l *Log) EpochAt(offset int64) int32 {
	l.pub.RLock()
	defer l.pub.RUnlock()
	return epochAt(l.epochView, offset)
}

// AssignEpoch notes that the leader epoch starts at the log's end: what a
// leader of a partition that is not mirrored does when it is elected. It is
// made durable with the epoch's first batch.
func (l *Log) AssignEpoch(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.epochs.assign(epoch, l.logEnd) {
		l.pub.Lock()
		l.epochView = l.epochs.entries
		l.pub.Unlock()
	}
	return nil
}

// Flush makes all that is in the log durable.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.flush()
}

func (l *Log) flush() error {
	if err := l.epochs.flush(); err != nil {
		return err
	}
	if l.stopsDirty {
		if err := l.saveLists(l.barrierLists); err != nil {
			return err
		}
	}
	if err := l.flushBatches(); err != nil {
		return err
	}
	return l.active().flushIndexes()
}

// FlushBatches makes all batches durable. It leaves to the next flush what
// recovery makes anew from them in any case: the index of the active segment, and
// the leader epochs and barriers in it.
func (l *Log) FlushBatches() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.flushBatches()
}

func (l *Log) flushBatches() error {
	for _, s := range l.segments {
		var err error
		switch {
		case s == l.active():
			err = s.flushBatches()
		case s.dirty || l.recovered <= s.base:
			err = s.flush()
		default: // synced when it was rolled
		}
		if err != nil {
			return l.noteBroken(err)
		}
	}
	l.recovered = l.logEnd
	return nil
}

// settleDown leaves all of the log on disk. Of a log that was never written
// to there is nothing to leave.
func (l *Log) settleDown() error {
	if l.logEnd == l.segments[0].base && l.state.Len() == 0 && len(l.stops) == 0 && len(l.barriers) == 0 {
		return nil
	}
	return errors.Join(l.flush(), l.snapshot())
}

// Close ends the log. A clean close leaves everything on disk, with a
// producer snapshot at the log's end, so that opening needs no recovery; it
// returns an error when it could not. Without clean only the files are closed.
func (l *Log) Close(clean bool) error {
	l.leaving.Store(true)
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.flushLater != nil {
		l.flushLater.Stop()
	}
	var err error
	if clean {
		if err = l.broken; err == nil {
			l.active().noteTime()
			err = l.settleDown()
		}
	}
	l.pub.Lock()
	l.closed = true
	l.gen++
	segs := l.segments
	l.pub.Unlock()
	for _, s := range segs {
		err = errors.Join(err, s.closeFiles())
	}
	return err
}

// Reconfigure changes how the log behaves from now on. The producer state's
// configuration stays.
func (l *Log) Reconfigure(cfg Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cfg = cfg.withDefaults()
	cfg.Producers, cfg.ClusterID = l.cfg.Producers, l.cfg.ClusterID
	l.cfg = cfg
}
