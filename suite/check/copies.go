package check

import (
	"bytes"
	"hash/crc32"

	"watershed.example/suite/wirelog"
)

// ownMarker says whether the marker with index i, which equals one of the
// source's, is nevertheless the destination's own: with ids and epochs that
// collide on purpose and clocks that may stand still, two coordinators can
// write the same bytes. It is when a local transaction of its id is open and no
// other marker follows that would end that.
func (s *side) ownMarker(i int) bool {
	id, open := s.entries[i].ProducerID, false
	for k := range s.entries[:i] {
		if e := &s.entries[k]; e.origin == local && e.ProducerID == id && e.IsTransactional() {
			open = !e.IsControl()
		}
	}
	if !open {
		return false
	}
	for k := i + 1; k < len(s.entries); k++ {
		if e := &s.entries[k]; e.ProducerID == id && e.IsTransactional() {
			return !e.IsControl()
		}
	}
	return true
}

// writtenBefore holds what clients of the destination sent to the partition,
// and had answered, before this mirror started. The source holds it by now, or it
// was to be cut.
func (j *judge) writtenBefore(p *part) map[record]bool {
	all := map[record]bool{}
	for _, o := range j.local(p) {
		if o.ended < p.started && p.started != never {
			for k := range int64(o.sent.Count) {
				all[record{index: o.sent.index + k, stem: o.sent.stem}] = true
			}
		}
	}
	return all
}

// copies finds out whence a destination's batches come, one after the other.
type copies struct {
	source  *side               // nil where its log is not there
	next    int                 // the source's batch behind the one that was met last
	at      map[int64]*entry    // of a source whose offsets do not go up
	bodies  map[uint32][]*entry // made when it is first asked for
	lenient bool
	before  map[record]bool  // see [judge.writtenBefore]
	older   []*wirelog.Batch // the destination's barriers of earlier stops
	// upstream are the logs of clusters further up, at the ends of earlier episodes.
	upstream []*side

	stopped  bool // an own barrier was seen
	promoted bool // a batch of the destination's own was seen
}

func (c *copies) originOf(e *entry, p *part) origin {
	there := c.there(e.BaseOffset)
	if there != nil && sameBatch(e.Batch, there.Batch, c.lenient) {
		// The source too may hold this cluster's batches, after a failback.
		return fromSource
	}
	for _, s := range c.upstream {
		if k := s.at(e.BaseOffset); k >= 0 && sameBatch(e.Batch, s.entries[k].Batch, c.lenient) {
			return staleCopy
		}
	}
	switch {
	case e.IsBarrier():
		return c.barrierOrigin(e, p, there)
	case e.IsControl():
		if c.elsewhere(e) {
			return movedCopy
		}
		if !c.promoted && there != nil && there.IsControl() && there.LastOffset() == e.LastOffset() {
			return alteredCopy
		}
		return local
	}
	for i := range e.runs {
		r := &e.runs[i]
		if r.stem == nil {
			continue
		}
		if r.stem.Cluster == p.dst.Name {
			return c.ownRecord(e, r)
		}
		if there != nil && !c.promoted {
			return alteredCopy
		}
		return movedCopy
	}
	if there != nil && !c.promoted {
		return alteredCopy
	}
	if c.elsewhere(e) {
		return movedCopy
	}
	return unknownWriter
}

// there is the source's batch that begins at an offset, nil without one. Who asks
// goes up the log most of the time.
func (c *copies) there(offset int64) *entry {
	switch {
	case c.source == nil:
		return nil
	case !c.source.sorted:
		if c.at == nil {
			c.at = map[int64]*entry{}
			for i := range c.source.entries {
				c.at[c.source.entries[i].BaseOffset] = &c.source.entries[i]
			}
		}
		return c.at[offset]
	}
	k := c.next
	if k >= len(c.source.entries) || c.source.entries[k].BaseOffset != offset {
		k = c.source.at(offset)
	}
	if k < 0 || c.source.entries[k].BaseOffset != offset {
		return nil
	}
	c.next = k + 1
	return &c.source.entries[k]
}

// elsewhere says whether the source holds the same batch at another offset.
func (c *copies) elsewhere(e *entry) bool {
	if c.bodies == nil && c.source != nil {
		c.bodies = map[uint32][]*entry{}
		for i := range c.source.entries {
			s := &c.source.entries[i]
			sum := crc32.ChecksumIEEE(s.Body())
			c.bodies[sum] = append(c.bodies[sum], s)
		}
	}
	for _, s := range c.bodies[crc32.ChecksumIEEE(e.Body())] {
		if bytes.Equal(s.Body(), e.Body()) {
			return true
		}
	}
	return false
}

// ownRecord tells what clients of the destination wrote in this writable period
// from what they wrote in an earlier one. That comes back from the source, as
// all it holds does; before the barrier it is a suffix that was not cut.
func (c *copies) ownRecord(e *entry, first *run) origin {
	switch {
	case !c.before[record{index: first.index, stem: first.stem}]:
		return local
	case c.stopped && c.elsewhere(e):
		return movedCopy
	case !c.stopped:
		return leftover
	}
	return local
}

// barrierOrigin tells the barrier of this stop from others that are not the
// source's at that offset: one of an earlier stop that was not cut, or one of
// the source's out of place or altered. A downstream that stops where its
// upstream did has its own at the very offset of the upstream's.
func (c *copies) barrierOrigin(e *entry, p *part, there *entry) origin {
	for _, b := range c.older {
		if b.BaseOffset == e.BaseOffset && bytes.Equal(b.Raw, e.Raw) {
			return leftover
		}
	}
	reported := p.reportedBarrier == e.BaseOffset
	named := e.bad == nil && e.control != nil && e.control.SourceClusterID == p.src.ID
	switch {
	case reported:
		return ownBarrier
	case c.elsewhere(e):
		return movedCopy
	case there != nil && there.IsBarrier() && !named && !c.promoted:
		return alteredCopy
	}
	return ownBarrier
}

func sameBatch(a, b *wirelog.Batch, lenient bool) bool {
	if !lenient {
		return bytes.Equal(a.Raw, b.Raw)
	}
	return len(a.Raw) == len(b.Raw) && bytes.Equal(a.Raw[:12], b.Raw[:12]) && bytes.Equal(a.Raw[16:], b.Raw[16:])
}
