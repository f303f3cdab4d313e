package storage

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/spf13/afero"

	"watershed.example/psm"
)

// Suffixes of the files of a segment.
const (
	suffixLog       = ".log"
	suffixIndex     = ".index"
	suffixTimeIndex = ".timeindex"
	suffixTxnIndex  = ".txnindex"
	suffixSnapshot  = ".snapshot"
)

// segment is one piece of a log: the batches from base on. Its log file is
// written under the log's append lock. What readers look at (size and the
// indexes) changes only under the log's publication lock.
type segment struct {
	fs   afero.Fs
	dir  string
	base int64

	w   afero.File
	r   *readAtFile
	txn afero.File // nil until the first aborted transaction

	size    int64
	index   []offsetEntry
	times   []timeEntry
	aborted []psm.AbortedTxn

	// maxTime is the highest timestamp of the segment, -1 for none, and
	// maxTimeOffset the last offset of the first batch that has it.
	maxTime       int64
	maxTimeOffset int64
	// firstTime is the first batch's, for rolling by segment.ms.
	firstTime int64
	// sinceIndex is how many bytes came after the last index entry.
	sinceIndex int
	// dirty: the index files do not hold all of the indexes.
	dirty bool
	// txnDirty: the .txnindex file does not hold just what aborted does.
	txnDirty bool
}

func fileName(dir string, base int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, suffix))
}

func (s *segment) file(suffix string) string { return fileName(s.dir, s.base, suffix) }

// openSegment opens the files of a segment, and creates them if there are
// none. The indexes are empty: load or rebuild them.
func openSegment(fsys afero.Fs, dir string, base int64) (*segment, error) {
	s := &segment{fs: fsys, dir: dir, base: base, maxTime: -1, maxTimeOffset: -1, firstTime: -1}
	w, err := fsys.OpenFile(s.file(suffixLog), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	s.w = w
	if s.r, err = openForReadAt(fsys, s.file(suffixLog)); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("open segment: %w", err)
	}
	st, err := w.Stat()
	if err != nil {
		_ = s.closeFiles()
		return nil, fmt.Errorf("size of segment %s: %w", s.file(suffixLog), err)
	}
	s.size = st.Size()
	return s, nil
}

// loadIndexes reads the index files; an error means that they can't be used.
func (s *segment) loadIndexes() error {
	if s.size == 0 {
		// Whatever index files there are go with the first flush.
		s.txnDirty = true
		return nil
	}
	raw, err := afero.ReadFile(s.fs, s.file(suffixIndex))
	if err != nil {
		return err
	}
	if s.index, err = decodeOffsetIndex(raw, s.size); err != nil {
		return err
	}
	if raw, err = afero.ReadFile(s.fs, s.file(suffixTimeIndex)); err != nil {
		return err
	}
	if s.times, err = decodeTimeIndex(raw); err != nil {
		return err
	}
	if n := len(s.times); n > 0 {
		s.maxTime, s.maxTimeOffset = s.times[n-1].ts, s.base+int64(s.times[n-1].rel)
	}
	return s.loadTxnIndex()
}

// write appends bytes to the log file. On an error the file is as before, or
// errBroken says that it could not be put back.
func (s *segment) write(raw []byte) error {
	n, err := s.w.WriteAt(raw, s.size)
	if err == nil && n < len(raw) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write to %s: %w", s.file(suffixLog), err)
	return errors.Join(err, s.cutBack())
}

// cutBack takes away what was written behind size.
func (s *segment) cutBack() error {
	if err := s.w.Truncate(s.size); err != nil {
		return fmt.Errorf("%w: cut %s back to %d bytes: %w", errBroken, s.file(suffixLog), s.size, err)
	}
	return nil
}

// note enters a batch that was written at the segment's end into the indexes.
func (s *segment) note(b *psm.Batch, interval int) {
	pos := s.size
	if b.MaxTimestamp > s.maxTime {
		s.maxTime, s.maxTimeOffset = b.MaxTimestamp, b.LastOffset
	}
	if s.firstTime < 0 {
		s.firstTime = b.MaxTimestamp
	}
	if s.sinceIndex > interval && pos <= math.MaxUint32 {
		s.index = append(s.index, offsetEntry{uint32(b.LastOffset - s.base), uint32(pos)})
		s.noteTime()
		s.sinceIndex = 0
	}
	s.dirty = true
	s.sinceIndex += b.Size
	s.size += int64(b.Size)
}

// noteTime enters the highest timestamp so far, if it is new, into the time
// index.
func (s *segment) noteTime() {
	if s.maxTime < 0 || len(s.times) > 0 && s.times[len(s.times)-1].ts >= s.maxTime {
		return
	}
	s.times = append(s.times, timeEntry{s.maxTime, uint32(s.maxTimeOffset - s.base)})
	s.dirty = true
}

// flush makes the segment's bytes and indexes durable.
func (s *segment) flush() error {
	if err := s.flushBatches(); err != nil {
		return err
	}
	return s.flushIndexes()
}

// flushBatches makes the segment's bytes durable, and of its indexes that of
// transactions.
func (s *segment) flushBatches() error {
	if err := s.w.Sync(); err != nil {
		// What the kernel had in hand may be lost, and the next sync would not
		// say so: only what recovery reads from the disk is there.
		return fmt.Errorf("%w: sync %s: %w", errBroken, s.file(suffixLog), err)
	}
	return s.syncAborted()
}

func (s *segment) flushIndexes() error {
	if !s.dirty {
		return nil
	}
	if err := writeSynced(s.fs, s.file(suffixIndex), encodeOffsetIndex(s.index)); err != nil {
		return err
	}
	if err := writeSynced(s.fs, s.file(suffixTimeIndex), encodeTimeIndex(s.times)); err != nil {
		return err
	}
	s.dirty = false
	return nil
}

// writeSynced overwrites a file that recovery can make anew, so it need not
// be replaced whole.
func writeSynced(fsys afero.Fs, name string, content []byte) error {
	f, err := fsys.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write index %s: %w", name, err)
	}
	return nil
}

// resetIndexes forgets what was known of the batches, before a scan.
func (s *segment) resetIndexes() {
	s.index, s.times, s.aborted = nil, nil, nil
	s.maxTime, s.maxTimeOffset, s.firstTime = -1, -1, -1
	s.sinceIndex = 0
	s.dirty, s.txnDirty = true, true
}

// truncate cuts the log file at position pos, which is a batch's start, and
// takes out of the indexes what lies at or above offset end. Whoever calls it
// holds the publication lock for the parts that readers see; the file is cut
// by cutBack afterwards.
func (s *segment) truncate(pos, end int64) {
	rel := end - s.base
	// Clipped: a search by time may still look at what was there, which the next
	// entries must not overwrite.
	s.index = slices.Clip(s.index[:sort.Search(len(s.index), func(i int) bool {
		return int64(s.index[i].rel) >= rel || int64(s.index[i].pos) >= pos
	})])
	s.times = slices.Clip(s.times[:sort.Search(len(s.times), func(i int) bool { return int64(s.times[i].rel) >= rel })])
	if kept := psm.TruncateTxnIndex(s.aborted, end); len(kept) < len(s.aborted) {
		s.aborted, s.txnDirty = kept, true
	}
	s.maxTime, s.maxTimeOffset = -1, -1
	if n := len(s.times); n > 0 {
		s.maxTime, s.maxTimeOffset = s.times[n-1].ts, s.base+int64(s.times[n-1].rel)
	}
	if pos == 0 {
		s.firstTime = -1
	}
	s.sinceIndex = 0
	s.size = pos
	s.dirty = true
}

func (s *segment) closeFiles() error {
	err := s.w.Close()
	if s.r != nil {
		err = errors.Join(err, s.r.Close())
	}
	if s.txn != nil {
		err = errors.Join(err, s.txn.Close())
		s.txn = nil
	}
	return err
}

// remove closes and deletes the segment's files, but not its snapshot.
func (s *segment) remove() error {
	err := s.closeFiles()
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
		err = errors.Join(err, removeIfAny(s.fs, s.file(suffix)))
	}
	return err
}
