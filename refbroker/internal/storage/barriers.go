package storage

import (
	"cmp"
	"slices"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// Barrier is a MIRROR_PID_RESET batch in a log.
type Barrier struct {
	Offset          int64  `json:"offset"`
	LeaderEpoch     int32  `json:"leaderEpoch"`
	CRC             uint32 `json:"crc"`
	SourceClusterID string `json:"sourceClusterId"`
	// Writer is the id of the cluster whose stop wrote it, "" when not known:
	// the batch does not say.
	Writer string `json:"writer,omitempty"`
	// Markers is how many ABORT markers the writer's stop left right before it
	// (profile kip1279-latest): its log parts from others where they begin. Where
	// the writer is not known they are counted in the log, which may be too many.
	Markers int64 `json:"markers,omitempty"`
}

// sameBatch reports whether two entries are of the same bytes.
func (b Barrier) sameBatch(o Barrier) bool {
	b.Writer, b.Markers = o.Writer, o.Markers
	return b == o
}

// barrierLists are the lists beside a log.
type barrierLists struct {
	stops    []psm.Stop
	barriers []Barrier
	expected []Barrier
	// cutEpoch is the leader epoch of the last cut of mirroring that the log has
	// followed, 0 for none.
	cutEpoch int32
	// lost: there was no file when the log was opened, and nobody has told since
	// what was in it.
	lost bool
}

// isOwn reports whether a barrier is the own one of one of the stops.
func isOwn(stops []psm.Stop, b Barrier) bool {
	_, own := stopOf(stops, b)
	return own
}

// stopOf is the stop that a barrier is the own one of.
func stopOf(stops []psm.Stop, b Barrier) (psm.Stop, bool) {
	i := slices.IndexFunc(stops, func(s psm.Stop) bool {
		return s.BarrierOffset == b.Offset && s.SourceClusterID == b.SourceClusterID && b.LeaderEpoch >= s.Epoch
	})
	if i < 0 {
		return psm.Stop{}, false
	}
	return stops[i], true
}

// writtenBy is the entry with its writer, and what that left before it.
func (b Barrier) writtenBy(writer string, markers int64) Barrier {
	b.Writer, b.Markers = writer, markers
	return b
}

// entry is what the lists have to say of a barrier batch in the log.
func (l *Log) entry(b *psm.Batch) Barrier {
	e := Barrier{Offset: b.BaseOffset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.Control.SourceClusterID}
	if s, own := stopOf(l.stops, e); own {
		return e.writtenBy(l.cfg.ClusterID, s.BarrierOffset-s.L)
	}
	for _, known := range [][]Barrier{l.barriers, l.expected} {
		for _, k := range known {
			if k.Writer != "" && k.sameBatch(e) {
				e = e.writtenBy(k.Writer, k.Markers)
			}
		}
	}
	return e
}

// markersBefore counts the ABORT markers that lie in a row right below offset.
func (l *Log) markersBefore(offset int64) (n int64, err error) {
	from := l.logStart
	for i := 1; i < len(l.segments); i++ {
		if l.segments[i].base < offset {
			from = max(l.logStart, l.segments[i-1].base) // a segment may begin between them
		}
	}
	next := int64(-1)
	err = l.replay(from, offset, func(b *psm.Batch) error {
		switch {
		case b.ProducerID < 0 || b.Control.Type != psm.ControlAbort:
			n = 0
		case b.BaseOffset != next:
			n = 1
		default:
			n++
		}
		next = b.LastOffset + 1
		return nil
	})
	if next != offset {
		n = 0
	}
	return n, err
}

// countMarkers counts the markers before barriers whose writer nobody has told.
func (l *Log) countMarkers(list []Barrier) error {
	for i, b := range list {
		if b.Writer != "" || b.Markers > 0 || b.Offset < l.logStart || isOwn(l.stops, b) {
			continue
		}
		var err error
		if list[i].Markers, err = l.markersBefore(b.Offset); err != nil {
			return err
		}
	}
	return nil
}

// KnowsWriter reports whether it is known which cluster wrote a barrier: this one
// in a stop, or one that a source's list has told of.
func (l *Log) KnowsWriter(b *psm.Batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(b)
	return e.Writer != "" || isOwn(l.stops, e)
}

// noteBarriers keeps the list of the log's barriers.
func (l *Log) noteBarriers(batches []psm.Batch) {
	before := len(l.barriers)
	for i := range batches {
		if b := &batches[i]; b.IsBarrier() {
			l.barriers = append(l.barriers, l.entry(b))
		}
	}
	if len(l.barriers) == before {
		return
	}
	if err := l.countMarkers(l.barriers[before:]); err != nil {
		l.cfg.Logger.Warn("markers before a barrier are not counted", "log", l.dir, "error", err)
	}
	// The log has them too, and the lists what is not in it: so they are left to
	// the next flush. Recovery finds what is in the active segment.
	l.stopsDirty = true
}

// Stops returns the stops by which own barriers are known.
func (l *Log) Stops() []psm.Stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.stops)
}

// SetStops replaces the list of stops, synced before it returns: to be called
// before anything in a new stop's epoch is appended.
func (l *Log) SetStops(stops []psm.Stop) error { return l.SetStopsCut(stops, -1) }

// SetStopsCut is SetStops and, for a cutEpoch that is not negative, SetCutEpoch
// in one write.
func (l *Log) SetStopsCut(stops []psm.Stop, cutEpoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if cutEpoch < 0 {
		cutEpoch = l.cutEpoch
	}
	if slices.Equal(stops, l.stops) && cutEpoch == l.cutEpoch {
		return nil
	}
	lists := l.barrierLists
	lists.cutEpoch = cutEpoch
	lists.stops = slices.Clone(stops)
	lists.barriers = slices.Clone(l.barriers)
	for i, b := range lists.barriers {
		if s, own := stopOf(lists.stops, b); own && b.Writer == "" {
			lists.barriers[i] = b.writtenBy(l.cfg.ClusterID, s.BarrierOffset-s.L) // found by recovery without the file
		}
	}
	if err := l.saveLists(lists); err != nil {
		return err
	}
	if l.useStops() {
		return l.reload()
	}
	return nil
}

// CutEpoch is the leader epoch of the last cut of mirroring that the log has
// followed, 0 for none.
func (l *Log) CutEpoch() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cutEpoch
}

// SetCutEpoch notes that the log has followed a cut, synced before it returns:
// to be called before anything is appended after the cut.
func (l *Log) SetCutEpoch(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	lists := l.barrierLists
	lists.cutEpoch = epoch
	return l.saveLists(lists)
}

// useStops is followStops for a log in use.
func (l *Log) useStops() (reload bool) {
	if l.cfg.Defects.Has(defect.ReplicaMissesStops) {
		return false // who leads expires what its own barrier says, and nobody else does
	}
	return l.followStops()
}

// followStops gives the producer state the stops that the log has followed. One
// that wants a cut that is still to come has no effect on what lies beyond it.
// It reports whether the state must be made anew.
func (l *Log) followStops() (reload bool) {
	latest := l.epochs.latest()
	return l.state.SetStops(slices.DeleteFunc(slices.Clone(l.stops), func(s psm.Stop) bool {
		return s.BarrierOffset < l.logEnd && s.Epoch > latest && s.BarrierOffset < l.written()
	}))
}

// written is where the last batch ends: the log's end, or below it where a
// truncation into a gap left none. Under mu.
func (l *Log) written() int64 {
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		end := s.base
		sc := newScanner(s.r, positionFor(s.index, max(l.logEnd-1-s.base, 0)), s.size, false)
		for sc.next() {
			end = sc.b.LastOffset + 1
		}
		if sc.failure() != nil {
			return l.logEnd // reading will tell
		}
		if s.size > 0 {
			return end
		}
	}
	return l.logStart
}

// Barriers lists the barriers that the log holds or has held, by offset, and
// whether each is this partition's own.
func (l *Log) Barriers() (barriers []Barrier, own []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	barriers = slices.Clone(l.barriers)
	for _, b := range barriers {
		own = append(own, isOwn(l.stops, b))
	}
	return barriers, own
}

// NoteBarriers learns from a source's list who wrote the barriers that came, or
// are yet to come, from it. It is synced before it returns: a batch does not say
// who wrote it, so this has to be on disk before the batch is.
func (l *Log) NoteBarriers(source []Barrier) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	lists := l.barrierLists
	lists.expected = nil
	for _, s := range source {
		if s.Offset >= l.logEnd {
			lists.expected = append(lists.expected, s)
			continue
		}
		i := slices.IndexFunc(lists.barriers, s.sameBatch)
		if i >= 0 && lists.barriers[i].Writer == "" && s.Writer != "" {
			lists.barriers = slices.Clone(lists.barriers)
			lists.barriers[i] = s
		}
	}
	if slices.Equal(lists.expected, l.expected) && slices.Equal(lists.barriers, l.barriers) {
		return nil
	}
	return l.saveLists(lists)
}

// ListsLost reports whether the log was opened without its lists, so that who
// wrote inherited barriers, and which lay below its start, is not known.
func (l *Log) ListsLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// RestoreBarriers takes from the list of another replica what was lost of the
// log's own, synced before it returns.
func (l *Log) RestoreBarriers(of []Barrier) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	lists := l.barrierLists
	lists.barriers, lists.lost = slices.Clone(l.barriers), false
	for _, b := range of {
		i := slices.IndexFunc(lists.barriers, b.sameBatch)
		switch {
		case i < 0 && b.Offset < l.logStart:
			lists.barriers = append(lists.barriers, b)
		case i >= 0 && lists.barriers[i].Writer == "":
			lists.barriers[i] = b
		}
	}
	slices.SortStableFunc(lists.barriers, func(a, b Barrier) int { return cmp.Compare(a.Offset, b.Offset) })
	return l.saveLists(lists)
}

// cutStops takes barriers at or above end off the lists, and the stops that
// they belong to: those that began in an epoch that the log had reached.
func (l *Log) cutStops(end int64, latest int32) error {
	lists := l.barrierLists
	lists.stops = slices.DeleteFunc(slices.Clone(l.stops), func(s psm.Stop) bool {
		return s.BarrierOffset >= end && s.Epoch <= latest
	})
	lists.barriers = slices.DeleteFunc(slices.Clone(l.barriers), func(b Barrier) bool { return b.Offset >= end })
	if len(lists.stops) == len(l.stops) && len(lists.barriers) == len(l.barriers) {
		return nil
	}
	return l.saveLists(lists)
}
