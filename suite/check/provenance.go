package check

import (
	"slices"
	"sort"

	"watershed.example/suite/wirelog"
)

// origin says who wrote a batch that lies in a destination's log.
type origin int

const (
	fromSource    origin = iota // equals the source's batch at that offset, byte for byte
	alteredCopy                 // lies where a batch of the source does and is of its writers, but differs
	movedCopy                   // the source's, at an offset where it is not the source's
	local                       // written by the destination itself or by its clients
	ownBarrier                  // a barrier that the destination wrote
	unknownWriter               // a data batch without provenance
	leftover                    // of the destination, from before the mirror's start: it should have been cut
	staleCopy                   // equals what an upstream of the source held there, and has been cut since
	stopMarker                  // a marker that the stop wrote before its barrier (profile kip1279-latest)
	asIs                        // in a log that is looked at as one line of history
)

func (o origin) String() string {
	return [...]string{"mirrored", "mirrored, altered", "of the source, out of place", "of this cluster", "own barrier", "of an unknown writer", "of this cluster before the mirror started, not cut", "mirrored, cut upstream since", "of the stop", "as it lies there"}[o]
}

// mirrored says whether the batch came from the source, whatever became of it.
func (o origin) mirrored() bool {
	return o == fromSource || o == alteredCopy || o == movedCopy || o == staleCopy
}

// entry is one batch with what is known of it.
type entry struct {
	*wirelog.Batch
	origin origin
	runs   []run // its data records
	txn    *txn  // in which they are; nil outside transactions
	// control is set for control batches that can be read.
	control *wirelog.Control
	// bad says why records or control can't be read; nil when they can.
	bad error
}

// side is one replica's log, taken apart.
type side struct {
	*Replica
	*content
	entries []entry // the content's, with what they are in this log
	// barrier is the index of the first own barrier, -1 without one.
	barrier int
	// cut is L: the first offset that the destination wrote itself. The log's
	// end where it wrote nothing.
	cut  int64
	txns []*txn
	// odd are places where a marker or a batch meets another's transaction.
	odd []oddity
	// whole is set where the log is looked at as one line of history, whoever
	// wrote its parts: a source's.
	whole bool
}

// newSide takes a log's entries for one who looks at it: most logs are looked at
// once, so that the first need no copy.
func newSide(r *Replica, c *content) *side {
	s := &side{Replica: r, content: c, entries: c.entries, barrier: -1}
	if c.taken {
		s.entries = slices.Clone(c.entries)
		for i := range s.entries {
			s.entries[i].origin, s.entries[i].txn = local, nil
		}
	}
	c.taken = true
	return s
}

func newDestination(j *judge, p *part, r *Replica, older []*wirelog.Batch) *side {
	s := newSide(r, j.trial.read(r))
	src := copies{source: p.source, lenient: j.run.Options.AllowLeaderEpochRewrite, before: j.writtenBefore(p), older: older}
	for _, other := range j.upstream() {
		if q := other.part(p.topic, p.index); q != nil && q.source != nil {
			src.upstream = append(src.upstream, q.source)
		}
	}
	for i := range s.entries {
		e := &s.entries[i]
		e.origin = src.originOf(e, p)
		if e.origin == movedCopy && e.IsControl() && s.ownMarker(i) {
			e.origin = local
		}
		if e.origin == ownBarrier && s.barrier < 0 {
			s.barrier = i
		}
		src.stopped = src.stopped || e.origin == ownBarrier
		src.promoted = src.promoted || e.origin == ownBarrier || e.origin == local && !e.IsControl()
	}
	if j.run.latest() {
		s.stopMarkers(p)
	}
	s.findCut(p)
	s.replay()
	return s
}

// findCut sets L. Before the barrier, L is where the destination's own batches
// begin that run up to the barrier; without a barrier, where its last mirrored
// batch ends.
func (s *side) findCut(p *part) {
	i := s.barrier
	if i < 0 {
		i = len(s.entries)
	}
	for i > 0 && (s.entries[i-1].origin == local || s.entries[i-1].origin == stopMarker) {
		i--
	}
	switch {
	case i < len(s.entries):
		s.cut = s.entries[i].BaseOffset
	case i > 0:
		s.cut = s.entries[i-1].NextOffset()
	case p.reportedL >= 0:
		s.cut = p.reportedL
	}
}

// boundary is the index of the first batch that lies after everything mirrored
// before the stop: that after the barrier, or the first at or above L without one.
func (s *side) boundary() int {
	if s.barrier >= 0 {
		return s.barrier + 1
	}
	return len(s.below(s.cut))
}

// barrierOffset is the first own barrier's offset, -1 without one.
func (s *side) barrierOffset() int64 {
	if s.barrier < 0 {
		return -1
	}
	return s.entries[s.barrier].BaseOffset
}

// below returns the entries below offset.
func (s *side) below(offset int64) []entry {
	for i := range s.entries {
		if s.entries[i].BaseOffset >= offset {
			return s.entries[:i]
		}
	}
	return s.entries
}

// at returns the index of the batch that holds offset, -1 when none does.
func (s *side) at(offset int64) int {
	if s.sorted {
		i := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].LastOffset() >= offset })
		if i < len(s.entries) && s.entries[i].BaseOffset <= offset {
			return i
		}
		return -1
	}
	for i := range s.entries {
		if s.entries[i].BaseOffset <= offset && offset <= s.entries[i].LastOffset() {
			return i
		}
	}
	return -1
}
