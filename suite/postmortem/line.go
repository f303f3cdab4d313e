package postmortem

import (
	"fmt"

	"watershed.example/suite/wirelog"
)

// line replays one log as one line of history. Every barrier in it, whoever
// wrote it, is where another cluster began to write: before it lies what was
// mirrored, behind it what the cluster wrote that had mirrored it.
type line struct {
	side   string
	folder string
	out    *findings

	first, next int64 // offsets of the first batch and after the last one; -1 before the first
	batches     int64
	records     int64
	bytes       int64
	firstTime   int64
	lastTime    int64
	epoch       int32 // the highest so far
	lastGap     int64 // offset after the last gap, -1 without one
	gaps        int64
	cleaned     bool // some batch has fewer records than offsets
	unsure      bool // damage lies before the next batch

	spans    []*span
	barriers []*barrier
	dropped  int64 // barriers that are not kept

	stopFrom  int64 // where a run of ABORT markers begins that goes on to here, -1 outside one
	stopAfter int32 // leader epoch of what lies before it
	stopped   []txn

	index *indexes

	recent []txn // the last ones that ended, a ring
	at     int
	ended  []func(txn)

	// Of the end, see settle.
	open      int64 // transactions
	forgotten int64 // producers
}

// span is what lies between two barriers.
type span struct {
	First     int64
	Next      int64
	Batches   int64
	Records   int64
	FirstTime int64
	LastTime  int64
	Committed int64
	Aborted   int64
	Producers int64
	epoch     int32 // of its last data

	table     *table
	open      map[int64]openTxn
	prior     *table // of the span before
	priorOpen map[int64]openTxn
	collided  []collision
	collisions,
	unopened int64 // markers of transactions without a record here
}

// collision is a producer id on both sides of a barrier.
type collision struct {
	id       int64
	offset   int64 // of its first batch behind the barrier
	sequence int32
	mirrored producer
	epoch    int16
}

// barrier is a MIRROR_PID_RESET batch as it lies in a log.
type barrier struct {
	offset  int64
	from    int64 // L: where the stop's own bytes begin
	epoch   int32
	time    int64
	crc     uint32
	source  string
	aborted []txn // what the stop ended by markers of its own; settle leaves the first
	// abortions counts them all, once settled.
	abortions int
	open      int64 // transactions that nobody ended
	before    int32 // leader epoch of the last batch below from
}

const (
	maxBarriers = 4096
	maxRecent   = 4096
	maxNamed    = 20
	// expiry is how long a producer must be silent until a broker may have
	// forgotten it (producer.id.expiration.ms is a day unless set; less is common).
	expiry = 3_600_000
)

func newLine(side, folder string, out *findings) *line {
	l := &line{side: side, folder: folder, out: out, first: -1, next: -1, epoch: -1, lastGap: -1, stopFrom: -1}
	l.begin(0)
	return l
}

// begin starts the span that begins at offset.
func (l *line) begin(offset int64) {
	s := &span{First: offset, Next: offset, table: newTable(), open: map[int64]openTxn{}, epoch: -1}
	if n := len(l.spans); n > 0 {
		last := l.spans[n-1]
		s.prior, s.priorOpen = last.table, last.open
		last.table, last.open, last.prior, last.priorOpen = nil, nil, nil, nil
	}
	l.spans = append(l.spans, s)
}

func (l *line) span() *span { return l.spans[len(l.spans)-1] }

func (l *line) report(f Finding) {
	f.Side, f.Folder = l.side, l.folder
	l.out.add(f)
}

// take takes the log's next batch.
func (l *line) take(b *wirelog.Batch) {
	if l.index != nil {
		l.index.enter(l, b.Segment)
	}
	l.place(b)
	s := l.span()
	if s.Batches == 0 {
		s.First, s.FirstTime = b.BaseOffset, b.BaseTimestamp
	}
	s.Batches++
	s.Next, s.LastTime = b.NextOffset(), b.MaxTimestamp
	var control wirelog.Control
	var err error
	if b.IsControl() {
		if control, err = b.Control(); err != nil {
			l.report(Finding{
				Kind: Damaged, Sure: Certain, Requirements: badControl(b), Offset: b.BaseOffset,
				What: "a control batch that can't be read: " + err.Error(), Why: "its checksum is right, so it was written like that",
				Do: "have the batch looked at by whoever builds the broker", Affected: 1,
			})
		}
	}
	if b.IsBarrier() {
		l.barrier(b, control, err)
		return
	}
	abort := err == nil && b.IsControl() && control.Type == wirelog.Abort && b.ProducerID >= 0
	l.run(b, abort)
	switch {
	case abort, err == nil && b.IsControl() && control.Type == wirelog.Commit && b.ProducerID >= 0:
		l.marker(b, control)
	case b.IsControl():
	default:
		n := count(b)
		l.records += n
		s.Records += n
		if b.ProducerID >= 0 {
			l.data(b)
		}
	}
	s.epoch = b.LeaderEpoch
}

// run keeps track of ABORT markers that follow each other above the leader epochs
// before them: those of a stop lie so, right before its barrier. A stop that a
// crash interrupted goes on in a later epoch.
func (l *line) run(b *wirelog.Batch, abort bool) {
	switch before := l.span().epoch; {
	case !abort:
		l.stopFrom, l.stopped = -1, nil
	case l.stopFrom < 0 && b.LeaderEpoch > before:
		l.stopFrom, l.stopAfter = b.BaseOffset, before
	}
}

func badControl(b *wirelog.Batch) []string {
	if b.IsBarrier() {
		return []string{"BAR-2"}
	}
	return nil
}

// place looks at where the batch lies, whatever it is.
func (l *line) place(b *wirelog.Batch) {
	switch {
	case l.first < 0:
		l.first = b.BaseOffset
		l.firstTime = b.BaseTimestamp
	case b.BaseOffset < l.next:
		l.report(Finding{
			Kind: OffsetBack, Sure: Certain, Requirements: []string{"LOG-3"}, Offset: b.BaseOffset, LastOffset: b.LastOffset(),
			What: fmt.Sprintf("a batch of offsets %d to %d lies behind offset %d", b.BaseOffset, b.LastOffset(), l.next-1),
			Why:  "offsets along a log increase strictly", Do: "take this replica out, and let it copy the partition anew",
			Affected: count(b), Records: records(b, maxRecords),
		})
	case b.BaseOffset > l.next:
		l.lastGap = b.BaseOffset
		l.gaps++
	}
	if int64(b.Count) < int64(b.LastOffsetDelta)+1 {
		l.cleaned = true
	}
	if l.unsure {
		l.lastGap, l.unsure = b.BaseOffset, false
	}
	if b.LeaderEpoch < l.epoch {
		l.report(Finding{
			Kind: LeaderEpochBack, Sure: Certain, Requirements: []string{"LOG-3"}, Offset: b.BaseOffset, LastOffset: b.LastOffset(),
			What: fmt.Sprintf("leader epoch %d (producer %s) behind epoch %d", b.LeaderEpoch, writer(b), l.epoch),
			Why:  "leader epochs along a log never decrease; a batch that does it was written by a leader of before, which may be the other cluster's",
			Do:   "look whether the records are the other side's; followers may have left them out, so compare all replicas", Affected: count(b), Records: records(b, maxRecords),
		})
	}
	if b.ProducerID < -1 {
		l.report(Finding{
			Kind: NegativeID, Sure: Certain, Requirements: []string{"LOG-2"}, Offset: b.BaseOffset, LastOffset: b.LastOffset(),
			What: fmt.Sprintf("producer id %d", b.ProducerID), Why: "no cluster hands out ids below 0, and -1 is no id: it was rewritten on the way",
			Do: "stop mirroring with this build: rewritten ids of two clusters become the same one", Affected: count(b), Records: records(b, maxRecords),
		})
	}
	l.epoch = max(l.epoch, b.LeaderEpoch)
	l.next = max(l.next, b.NextOffset())
	l.lastTime = max(l.lastTime, b.MaxTimestamp)
	l.batches++
	l.bytes += b.Size()
}

func writer(b *wirelog.Batch) string {
	if b.ProducerID == -1 {
		return "without an id"
	}
	return fmt.Sprintf("%d, epoch %d", b.ProducerID, b.ProducerEpoch)
}

// barrier ends a span.
func (l *line) barrier(b *wirelog.Batch, c wirelog.Control, err error) {
	s := l.span()
	at := &barrier{
		offset: b.BaseOffset, from: b.BaseOffset, epoch: b.LeaderEpoch, time: b.MaxTimestamp, crc: b.CRC,
		source: c.SourceClusterID, open: int64(len(s.open)), before: s.epoch,
	}
	if l.stopFrom >= 0 {
		at.from, at.before, at.aborted = l.stopFrom, l.stopAfter, l.stopped
	}
	l.stopFrom, l.stopped = -1, nil
	if err == nil {
		if bad := badEncoding(b, c); bad != "" {
			l.report(Finding{
				Kind: BadBarrier, Sure: Certain, Requirements: []string{"BAR-2"}, Offset: b.BaseOffset, What: "a barrier " + bad,
				Why: "KIP-1279 says how it is written", Do: "have the batch looked at by whoever builds the broker; readers may take it for something else", Affected: 1,
			})
		}
	}
	l.openAt(at, s)
	if len(l.barriers) < maxBarriers {
		l.barriers = append(l.barriers, at)
		l.begin(b.NextOffset())
	} else {
		l.dropped++
		s.table, s.open = newTable(), map[int64]openTxn{}
	}
	l.span().epoch = b.LeaderEpoch
}

func badEncoding(b *wirelog.Batch, c wirelog.Control) string {
	switch {
	case b.ProducerID != -1 || b.ProducerEpoch != -1:
		return fmt.Sprintf("with producer id %d and epoch %d, want -1 and -1", b.ProducerID, b.ProducerEpoch)
	case b.IsTransactional():
		return "that is transactional"
	case b.Count != 1 || b.LastOffsetDelta != 0:
		return fmt.Sprintf("of %d records and %d offsets, want one of each", b.Count, b.LastOffsetDelta+1)
	case c.KeyVersion != 0 || c.KeyRest != 0:
		return fmt.Sprintf("with key version %d and %d bytes behind the type, want 0 and none", c.KeyVersion, c.KeyRest)
	case c.ValueVersion != 0:
		return fmt.Sprintf("with Version %d, want 0", c.ValueVersion)
	case c.SourceClusterID == "":
		return "that names no source cluster"
	case c.ValueRest != 0:
		return fmt.Sprintf("with %d bytes behind the value", c.ValueRest)
	}
	return ""
}

// openAt reports transactions that the barrier at was written over.
func (l *line) openAt(at *barrier, s *span) {
	for id, o := range sortedOpen(s.open) {
		l.report(Finding{
			Kind: OpenAtBarrier, Sure: Certain, Requirements: []string{"PSM-8", "TXN-3", "TXN-1"}, Offset: o.first, LastOffset: o.last,
			What: fmt.Sprintf("producer %d, epoch %d has a transaction open since offset %d, and the barrier at %d was written over it", id, o.epoch, o.first, at.offset),
			Why:  "no marker of it lies between its first record and the barrier: the stop neither cut it off nor aborted it",
			Do:   "its records count as aborted; see whether consumers took them for committed, or stand before them", Affected: o.records, Records: o.keys,
		})
	}
}
