package postmortem

import (
	"fmt"
	"slices"

	"watershed.example/suite/wirelog"
)

// pair compares the logs of two sides while both are read.
type pair struct {
	sides [2]int
	lanes [2]*lane // the canonical ones
	out   *findings

	common     int64 // batches that are the same
	firstEqual int64
	lastEpoch  int32 // of the last of them
	restamped  int64 // … but for the leader epoch
	parted     int64 // offset at which they part, -1 while they do not
	ended      bool  // one of them ended first, without parting
	tails      [2]*tail
	hits       []hit
	hitCount   [2]int64
	gaps       [2]*gap
}

// head is what is kept of a batch.
type head struct {
	offset, last int64
	epoch        int32
	id           int64
	producer     int16
	control      bool
	barrier      bool
	transaction  bool
	time         int64
	count        int64
}

func headOf(b *wirelog.Batch) head {
	return head{
		offset: b.BaseOffset, last: b.LastOffset(), epoch: b.LeaderEpoch, id: b.ProducerID, producer: b.ProducerEpoch,
		control: b.IsControl(), barrier: b.IsBarrier(), transaction: b.IsTransactional(), time: b.MaxTimestamp, count: count(b),
	}
}

// tail is what a side has from where two logs part.
type tail struct {
	start     head // its first batch
	next      int64
	batches   int64
	records   int64
	bytes     int64
	firstTime int64
	lastTime  int64
	named     []Record
	prints    map[uint64]int64 // offsets of batches by what they are known by
	unprinted int64
	early     []head // the first ones
	before    []txn  // that had ended where the logs part, the last ones
	ended     []txn  // since, the first ones
}

// hit is a batch that both sides hold behind where they part.
type hit struct {
	offsets [2]int64
	// below says on which side its leader epoch is lower than what lies before it.
	below   [2]bool
	control bool
	id      int64
	count   int64
	records []Record
}

// gap is where a side lacks what the other one has.
type gap struct {
	from, to int64
	batches  int64
	records  int64
	keyless  bool // a cleaner never takes a record without a key
	named    []Record
	// wanted are keys of records that are missing and have not come again behind
	// them, by what stands for a key: of those a cleaner leaves the last.
	wanted map[uint64]int64
	// unread counts missing batches whose keys were not all read; unseen says that
	// some behind the gap were not.
	unread int64
	unseen bool
}

const (
	maxPrints = 1 << 18
	maxEarly  = 1 << 14
	maxHits   = 64
)

func newPair(a, b *lane, sideA, sideB int, out *findings) *pair {
	p := &pair{sides: [2]int{sideA, sideB}, lanes: [2]*lane{a, b}, out: out, parted: -1, firstEqual: -1, lastEpoch: -1}
	for i := range p.tails {
		p.tails[i] = &tail{}
	}
	return p
}

// step looks at the offset at which some log's next batch begins.
func (p *pair) step(offset int64) {
	a, b := p.lanes[0], p.lanes[1]
	for _, l := range p.lanes {
		for _, g := range p.gaps {
			if l.at(offset) {
				g.seen(l.cur)
			}
		}
	}
	switch {
	case p.parted >= 0:
		p.behind(offset)
	case a.at(offset) && b.at(offset):
		p.both(a.cur, b.cur)
	case a.at(offset):
		p.one(0, offset)
	case b.at(offset):
		p.one(1, offset)
	}
}

func (p *pair) both(a, b *wirelog.Batch) {
	same, unread := sameBatch(a, b), error(nil)
	if same && a.LeaderEpoch != b.LeaderEpoch {
		p.restamped++
	}
	if !same {
		same, unread = sameRecords(a, b)
	}
	if unread != nil {
		p.lanes[1].uncompared(b, p.lanes[0].name, unread)
	}
	if !same {
		what := rewritten(a, b)
		if what == "" {
			p.part(a.BaseOffset)
			return
		}
		p.out.add(Finding{
			Kind: Rewritten, Sure: Certain, Requirements: []string{"LOG-1"}, Side: p.lanes[1].name, Folder: p.lanes[1].folder,
			Offset: b.BaseOffset, LastOffset: b.LastOffset(), Affected: count(b), Records: records(b, maxRecords),
			What: fmt.Sprintf("the batch is that of %s but for its %s: producer %s there, %s here", p.lanes[0].name, what, writer(a), writer(b)),
			Why:  "the records' bytes and times are the same", Do: "mirrored batches are to be stored as they are; find the build that rewrote them",
		})
	}
	if p.firstEqual < 0 {
		p.firstEqual = a.BaseOffset
	}
	p.common++
	p.lastEpoch = max(a.LeaderEpoch, b.LeaderEpoch)
}

// one looks at a batch that only side i has.
func (p *pair) one(i int, offset int64) {
	other := p.lanes[1-i]
	b := p.lanes[i].cur
	switch end := other.end(); {
	case other.cur == nil && offset >= end:
		p.ended = true
		p.part(offset)
	case other.first < 0 || offset < other.first: // its log begins later
	case other.next > offset:
		p.part(offset)
	case other.damaged:
	default:
		g := p.gaps[1-i]
		if g == nil {
			g = &gap{from: offset}
			p.gaps[1-i] = g
		}
		g.to = b.NextOffset()
		g.batches++
		if b.IsControl() {
			return
		}
		g.records += count(b)
		g.named = append(g.named, records(b, maxRecords-len(g.named))...)
		g.want(b)
	}
}

// maxWanted bounds the keys of missing records that are looked for.
const maxWanted = 1024

func (g *gap) want(b *wirelog.Batch) {
	o := b.Outlines(comparedBytes)
	defer o.Close()
	for o.Next() {
		switch {
		case o.Key == nil:
			g.keyless = true
		case o.Tombstone:
			delete(g.wanted, o.KeySum) // a tombstone goes too
		case len(g.wanted) < maxWanted:
			if g.wanted == nil {
				g.wanted = map[uint64]int64{}
			}
			g.wanted[o.KeySum] = o.Offset
		}
	}
	if o.Err() != nil {
		g.unread++
	}
}

// seen looks for wanted keys in a batch that lies behind the gap.
func (g *gap) seen(b *wirelog.Batch) {
	if g == nil || len(g.wanted) == 0 || b.IsControl() {
		return
	}
	o := b.Outlines(comparedBytes)
	defer o.Close()
	for len(g.wanted) > 0 && o.Next() {
		if at, ok := g.wanted[o.KeySum]; ok && o.Key != nil && o.Offset > at {
			delete(g.wanted, o.KeySum)
		}
	}
	if o.Err() != nil {
		g.unseen = true
	}
}

// end is the offset behind the log: of one without a batch its last segment's.
func (l *lane) end() int64 {
	if l.next >= 0 {
		return l.next
	}
	var base int64
	_, _ = fmt.Sscanf(l.log.Segments[len(l.log.Segments)-1], "%020d.log", &base) // the name was checked
	return base
}

// part says that from this offset on the logs have nothing in common.
func (p *pair) part(offset int64) {
	p.parted = offset
	for i, l := range p.lanes {
		t := p.tails[i]
		t.prints = map[uint64]int64{}
		for _, e := range append(slices.Clone(l.line.recent[l.line.at:]), l.line.recent[:l.line.at]...) {
			if e.last < offset {
				t.before = append(t.before, e)
			} else { // the line has taken the batch at the offset already
				t.ended = append(t.ended, e)
			}
		}
		l.line.ended = append(l.line.ended, func(e txn) {
			if len(t.ended) < maxRecent {
				t.ended = append(t.ended, e)
			}
		})
	}
	p.behind(offset)
}

func (p *pair) behind(offset int64) {
	for i, l := range p.lanes {
		if l.at(offset) {
			p.tails[i].take(l.cur)
			p.look(i, l.cur)
		}
	}
}

func (t *tail) take(b *wirelog.Batch) {
	if t.batches == 0 {
		t.start, t.firstTime = headOf(b), b.BaseTimestamp
	}
	t.batches++
	t.bytes += b.Size()
	t.next, t.lastTime = b.NextOffset(), max(t.lastTime, b.MaxTimestamp)
	if len(t.early) < maxEarly {
		t.early = append(t.early, headOf(b))
	}
	if b.IsControl() {
		return
	}
	t.records += count(b)
	t.named = append(t.named, records(b, maxRecords-len(t.named))...)
}

// look searches the other side for the batch of side i.
func (p *pair) look(i int, b *wirelog.Batch) {
	if b.IsBarrier() {
		return // two stops in the same millisecond look alike
	}
	mine, other := p.tails[i], p.tails[1-i]
	print := fingerprint(b)
	if len(mine.prints) < maxPrints {
		mine.prints[print] = b.BaseOffset
	} else {
		mine.unprinted++
	}
	at, ok := other.prints[print]
	if !ok {
		return
	}
	h := hit{control: b.IsControl(), id: b.ProducerID, count: count(b)}
	h.offsets[i], h.offsets[1-i] = b.BaseOffset, at
	for k, l := range p.lanes {
		h.below[k] = b.LeaderEpoch < l.line.epoch
	}
	p.hitCount[i]++
	if len(p.hits) < maxHits {
		h.records = records(b, maxRecords)
		p.hits = append(p.hits, h)
	}
}
