package storage

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/lock"
)

// OpenOptions say what is known of a log that is opened.
type OpenOptions struct {
	// TopicID is written to partition.metadata; a folder of another topic is
	// refused.
	TopicID [16]byte
	// Clean says that the log was closed cleanly: nothing is scanned but what
	// follows the last index entry.
	Clean bool
	// RecoveryPoint is the offset below which the log was known to be on
	// disk; segments that end below it are not scanned.
	RecoveryPoint int64
	// LogStart is where the log begins, if that is above its first segment.
	LogStart int64
	// HighWatermark as last known; the log's end bounds it.
	HighWatermark int64
}

// Open opens the log in dir, and makes it if there is none. After an unclean
// stop it is recovered: from the recovery point on each batch is checked by
// its CRC, the log is cut before the first that is torn or damaged, indexes
// and leader epochs are made anew, and the producer state is replayed from the
// newest usable snapshot.
func Open(fsys afero.Fs, dir string, cfg Config, o OpenOptions) (_ *Log, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open log %s: %w", dir, err)
		}
	}()
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	l := &Log{fs: fsys, dir: dir, cfg: cfg, mu: lock.New(), cleaning: lock.New(), lastSnapshot: -1}
	l.snapshots = psm.NewSnapshots(snapshotDir{fsys, dir}, cfg.Logger)
	r := &recovery{Log: l, o: o, rebuildFrom: -1, damaged: -1}
	if err := r.run(); err != nil {
		for _, s := range l.segments {
			_ = s.closeFiles()
		}
		return nil, err
	}
	return l, nil
}

// recovery is the opening of a log.
type recovery struct {
	*Log
	o OpenOptions
	// rebuildFrom is the base of the first segment whose indexes are made
	// anew, -1 for none.
	rebuildFrom int64
	// all: epochs or barriers have to be found in the whole log.
	all bool
	cut bool
	// identified: partition.metadata is there.
	identified bool
	// noted are the barriers as the file has them, once a scan makes the list
	// anew.
	noted []Barrier
	// trusted is the newest snapshot: the transaction indexes were synced up
	// to there. damaged is the first segment whose index is not readable, -1
	// for none.
	trusted, damaged int64
}

func (r *recovery) run() error {
	if err := r.identify(); err != nil {
		return err
	}
	if err := r.readLists(); err != nil {
		return err
	}
	bases, err := r.bases()
	if err != nil {
		return err
	}
	if err := r.openSegments(bases); err != nil {
		return err
	}
	r.settle()
	if r.rebuildFrom >= 0 {
		if err := r.countMarkers(r.barriers); err != nil {
			return err
		}
	}
	if err := r.loadProducers(); err != nil {
		return err
	}
	if err := r.cutCleaned(r.logEnd); err != nil {
		return err
	}
	if !r.identified {
		// Last, so that its sync of the folder is for the segments too.
		if err := writeTopicID(r.fs, r.dir, r.o.TopicID); err != nil {
			return err
		}
	}
	if r.rebuildFrom < 0 && !r.cut {
		r.recovered = r.logEnd
		return nil
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.snapshot()
}

func (r *recovery) identify() error {
	id, ok, err := ReadTopicID(r.fs, r.dir)
	if err != nil {
		return err
	}
	r.identified = ok
	if ok && id != r.o.TopicID {
		return fmt.Errorf("folder belongs to topic id %s, not %s", FormatTopicID(id), FormatTopicID(r.o.TopicID))
	}
	return nil
}

// readLists reads the epoch checkpoint and mirror-stops.json.
func (r *recovery) readLists() (err error) {
	var ok bool
	if r.epochs, ok, err = loadEpochs(r.fs, filepath.Join(r.dir, fileEpochs)); err != nil {
		return err
	}
	r.all = !ok
	if ok, err = afero.Exists(r.fs, filepath.Join(r.dir, fileStops)); err != nil {
		return err
	}
	if !ok {
		r.all, r.stopsDirty = true, true
	}
	if r.barrierLists, r.stopsEnd, err = loadStops(r.fs, r.dir); err != nil {
		return err
	}
	r.lost = !ok
	r.cleaned, err = loadCleaned(r.fs, r.dir)
	return err
}

// bases lists the segments, and removes what an interrupted write left.
func (r *recovery) bases() ([]int64, error) {
	names, err := folderNames(r.fs, r.dir)
	if err != nil {
		return nil, err
	}
	if err := r.finishSwaps(names); err != nil {
		return nil, err
	}
	if names, err = folderNames(r.fs, r.dir); err != nil {
		return nil, err
	}
	var bases []int64
	for _, name := range names {
		if strings.HasSuffix(name, ".tmp") {
			if err := removeIfAny(r.fs, filepath.Join(r.dir, name)); err != nil {
				return nil, err
			}
		}
		digits, isLog := strings.CutSuffix(name, suffixLog)
		base, err := strconv.ParseInt(digits, 10, 64)
		if isLog && err == nil && base >= 0 {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	if len(bases) == 0 {
		bases = append(bases, max(r.o.LogStart, 0))
	}
	return bases, nil
}

// openSegments opens the segments, and scans those that need it. It cuts the
// log at the first damage.
func (r *recovery) openSegments(bases []int64) error {
	for i, base := range bases {
		s, err := openSegment(r.fs, r.dir, base)
		if err != nil {
			return err
		}
		r.segments = append(r.segments, s)
		limit, last := int64(-1), i == len(bases)-1
		if !last {
			limit = bases[i+1]
		}
		// A scan drops what the lists have from there on: so it goes to the end.
		scan := r.all || r.rebuildFrom >= 0 || !r.o.Clean && (last || limit > r.o.RecoveryPoint)
		scan = scan && s.size > 0
		if !scan {
			if err := s.loadIndexes(); err != nil {
				r.cfg.Logger.Warn("indexes are made anew", "segment", s.file(suffixLog), "error", err)
				scan = true
			}
		}
		if !scan {
			if scan, err = r.tail(s, last); err != nil {
				return err
			}
		}
		if scan {
			if err := r.scan(s, limit); err != nil {
				return err
			}
		}
		if r.cut && !last {
			return r.dropAfter(bases[i+1:])
		}
	}
	return nil
}

// tail reads the end of a segment whose indexes are good: of the last one, to
// learn the log's end. scan is true when there is damage.
func (r *recovery) tail(s *segment, last bool) (scan bool, err error) {
	if s.size > 0 {
		sc := newScanner(s.r, 0, s.size, false)
		if !sc.next() {
			return sc.err == nil, sc.err
		}
		s.firstTime = sc.b.MaxTimestamp
	}
	from := int64(0)
	if n := len(s.index); n > 0 {
		from = int64(s.index[n-1].pos)
		sc := newScanner(s.r, from, s.size, false)
		if !sc.next() || sc.b.LastOffset != s.base+int64(s.index[n-1].rel) {
			return sc.err == nil, sc.err
		}
	}
	if !last {
		return false, nil
	}
	r.logEnd = s.base
	sc := newScanner(s.r, from, s.size, true)
	for sc.next() {
		r.logEnd = sc.b.LastOffset + 1
		if sc.at > from || from == 0 {
			s.sinceIndex += sc.b.Size
		}
		if sc.b.MaxTimestamp > s.maxTime {
			s.maxTime, s.maxTimeOffset = sc.b.MaxTimestamp, sc.b.LastOffset
		}
	}
	return sc.torn != nil, sc.err
}

// scan goes through all batches of a segment and makes its indexes, and the
// leader epochs and barriers from there on, anew. limit is the next segment's
// base, -1 for none.
func (r *recovery) scan(s *segment, limit int64) error {
	if r.rebuildFrom < 0 {
		r.rebuildFrom = s.base
		r.epochs.truncate(s.base)
		r.noted = r.barriers
		r.barriers = slices.DeleteFunc(slices.Clone(r.barriers), func(b Barrier) bool { return b.Offset >= s.base })
		r.stopsDirty = true
	}
	end := s.size
	s.resetIndexes()
	if err := s.loadTxnIndex(); err != nil && r.damaged < 0 {
		r.damaged = s.base
	}
	s.size = 0
	next := s.base
	sc := newScanner(s.r, 0, end, true)
	why := error(nil)
	for sc.next() {
		if why = r.fits(&sc.b, next, limit); why != nil {
			break
		}
		s.note(&sc.b, r.cfg.IndexInterval)
		r.epochs.assign(sc.b.LeaderEpoch, sc.b.BaseOffset)
		r.keepNoted(next, sc.b.BaseOffset)
		if sc.b.IsBarrier() {
			r.barriers = append(r.barriers, r.noteOf(&sc.b))
		}
		next = sc.b.LastOffset + 1
	}
	if sc.err != nil {
		return sc.err
	}
	r.logEnd = next
	if s.size == end {
		r.keepNoted(next, limit)
		return nil
	}
	if why == nil {
		why = sc.torn
	}
	r.cfg.Logger.Warn("log is cut at damage", "segment", s.file(suffixLog), "offset", next,
		"position", s.size, "bytes", end-s.size, "cause", why)
	r.cut = true
	return s.cutBack()
}

// keepNoted keeps the barriers of a gap that a cleaner left: the list outlives
// them (BAR-8).
func (r *recovery) keepNoted(from, to int64) {
	for _, b := range r.noted {
		if b.Offset >= from && b.Offset < to {
			r.barriers = append(r.barriers, b)
		}
	}
}

// noteOf is the list's entry of a barrier that was scanned, with what the file
// has of its writer.
func (r *recovery) noteOf(b *psm.Batch) Barrier {
	e := r.entry(b)
	for _, n := range r.noted {
		if e.Writer == "" && n.sameBatch(e) {
			e = n
		}
	}
	return e
}

// fits reports what is wrong with the batch that follows the log's end next.
func (r *recovery) fits(b *psm.Batch, next, limit int64) error {
	switch {
	case b.BaseOffset < next:
		return &OffsetError{b.BaseOffset, next}
	case b.LeaderEpoch < r.epochs.latest() && !r.cfg.Defects.Has(defect.EpochsGoBackwards):
		return &EpochOrderError{b.BaseOffset, b.LeaderEpoch, r.epochs.latest()}
	case limit >= 0 && b.LastOffset >= limit:
		return fmt.Errorf("batch [%d, %d] reaches into the segment at %d", b.BaseOffset, b.LastOffset, limit)
	}
	return nil
}

// dropAfter removes the segments that follow damage.
func (r *recovery) dropAfter(bases []int64) error {
	for i := len(bases) - 1; i >= 0; i-- {
		r.cfg.Logger.Warn("segment behind damage is removed", "log", r.dir, "base", bases[i])
		for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
			if err := removeIfAny(r.fs, fileName(r.dir, bases[i], suffix)); err != nil {
				return err
			}
		}
	}
	return SyncDir(r.fs, r.dir)
}

// settle cuts the lists to what the log holds, and sets its marks.
func (r *recovery) settle() {
	r.logStart = max(r.segments[0].base, min(r.o.LogStart, r.logEnd))
	// What is changed here is written with the first flush; until then every
	// opening changes it the same way.
	r.epochs.truncate(r.logEnd)
	r.epochs.truncateStart(r.logStart)
	n := len(r.barriers)
	r.barriers = slices.DeleteFunc(r.barriers, func(b Barrier) bool { return b.Offset >= r.logEnd })
	r.stopsDirty = r.stopsDirty || len(r.barriers) < n
	r.epochView = r.epochs.entries
	r.highWater = min(max(r.o.HighWatermark, r.logStart), r.logEnd)
}
