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
	l.bytes += int64(len(b.Raw))
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

// data takes a batch of a producer with an id.
func (l *line) data(b *wirelog.Batch) {
	s := l.span()
	p, known := s.table.get(b.ProducerID)
	if !known {
		s.Producers++
		l.firstOf(b, s)
		p = producer{coordinator: -1, firstOffset: b.BaseOffset}
	} else {
		l.sequence(b, p, s)
		if p.firstOffset < 0 {
			p.firstOffset = b.BaseOffset
		}
	}
	p.epoch, p.lastSeq, p.lastOffset, p.lastTime = b.ProducerEpoch, b.LastSequence(), b.LastOffset(), b.MaxTimestamp
	s.table.put(b.ProducerID, p)
	if !b.IsTransactional() {
		return
	}
	o, ok := s.open[b.ProducerID]
	if !ok {
		if len(s.open) >= maxOpen {
			s.table.forgotten++
			return
		}
		o = openTxn{first: b.BaseOffset, epoch: b.ProducerEpoch, since: b.BaseTimestamp, keys: records(b, 1)}
	}
	o.last, o.records = b.LastOffset(), o.records+count(b)
	s.open[b.ProducerID] = o
}

// firstOf looks at the first batch of a producer in a span.
func (l *line) firstOf(b *wirelog.Batch, s *span) {
	if s.prior == nil {
		return
	}
	mirrored, both := s.prior.get(b.ProducerID)
	if both {
		s.collisions++
		if len(s.collided) < maxNamed {
			s.collided = append(s.collided, collision{id: b.ProducerID, offset: b.BaseOffset, sequence: b.BaseSequence, epoch: b.ProducerEpoch, mirrored: mirrored})
		}
	}
	if b.BaseSequence == 0 || l.lastGap >= s.First {
		return
	}
	f := Finding{
		Kind: StaleProducer, Sure: Possible, Requirements: []string{"IDEM-1"}, Offset: b.BaseOffset, LastOffset: b.LastOffset(),
		What:     fmt.Sprintf("the first batch of producer %d, epoch %d behind the barrier begins at sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence),
		Why:      "what has been numbered before it is not here; a broker that knows nothing of a producer takes any number, so it may never have come",
		Do:       "ask the application that wrote these keys whether its first records after the failover were acknowledged, and write them again",
		Affected: count(b), Records: records(b, maxRecords),
	}
	if both && mirrored.epoch == b.ProducerEpoch && mirrored.lastSeq >= 0 && nextSequence(mirrored.lastSeq) == b.BaseSequence {
		f.Sure = Likely
		f.What += fmt.Sprintf(": just where the mirrored producer of that id and epoch ended (offset %d)", mirrored.lastOffset)
		f.Why = "either the broker still knew the mirrored producer, and answered this one's first records as repeated ones of that (they are lost), or the batch is the source's"
	}
	l.report(f)
}

// sequence looks at a batch of a producer that the span knows.
func (l *line) sequence(b *wirelog.Batch, p producer, s *span) {
	if l.lastGap > p.lastOffset {
		return // what lay between is not here
	}
	f := Finding{Sure: Certain, Offset: b.BaseOffset, LastOffset: b.LastOffset(), Affected: count(b)}
	if b.BaseTimestamp-p.lastTime >= expiry {
		f.Sure, f.Why = Possible, "the producer had been silent for so long that the broker may have forgotten it"
	}
	want := nextSequence(p.lastSeq)
	switch {
	case b.ProducerEpoch < p.epoch:
		f.Kind, f.Requirements = EpochBack, ids(s, "SC-2", "IDEM-3")
		f.What = fmt.Sprintf("producer %d writes with epoch %d behind its epoch %d (offset %d)", b.ProducerID, b.ProducerEpoch, p.epoch, p.lastOffset)
		f.Do = "find out which producer it is: one that was fenced has written, or two clusters' producers share the id"
	case b.ProducerEpoch > p.epoch || p.lastSeq < 0:
		if p.firstOffset < 0 && (l.first > 0 || l.gaps > 0) {
			return // known by a marker only, and what was before is gone
		}
		if b.BaseSequence == 0 {
			return
		}
		f.Kind, f.Requirements = SequenceGap, ids(s, "SC-1", "IDEM-3")
		f.What = fmt.Sprintf("producer %d begins its epoch %d at sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
		f.Do = "ask the application whether the records before it were acknowledged"
	case b.BaseSequence == want:
		return
	default:
		f.Kind, f.Requirements = SequenceGap, ids(s, "SC-1", "IDEM-3")
		f.What = fmt.Sprintf("producer %d, epoch %d goes from sequence %d (offset %d) to %d", b.ProducerID, b.ProducerEpoch, p.lastSeq, p.lastOffset, b.BaseSequence)
		f.Do = "ask the application whether the records between were acknowledged"
		if b.BaseSequence <= p.lastSeq {
			f.What += ": a batch that came twice"
			f.Do = "look for the records twice by their keys, and take one of each out downstream"
		}
	}
	if f.Why == "" {
		f.Why = "the log between is whole, and a broker that knows the producer refuses this"
	}
	f.Records = records(b, maxRecords)
	l.report(f)
}

// ids are the requirement's of a single cluster, and behind a barrier that of the
// destination too.
func ids(s *span, alone, behind string) []string {
	if s.prior == nil {
		return []string{alone}
	}
	return []string{behind, alone}
}

// marker takes the end of a transaction.
func (l *line) marker(b *wirelog.Batch, c wirelog.Control) {
	s := l.span()
	id := b.ProducerID
	p, known := s.table.get(id)
	if known && b.ProducerEpoch < p.epoch && l.lastGap <= p.lastOffset {
		l.report(Finding{
			Kind: OldMarker, Sure: Certain, Requirements: []string{"TXN-2", "SC-5"}, Offset: b.BaseOffset,
			What: fmt.Sprintf("a %s marker of producer %d, epoch %d behind its epoch %d (offset %d)", c.Type, id, b.ProducerEpoch, p.epoch, p.lastOffset),
			Why:  "a coordinator's marker has the producer's epoch, or a higher one: this is another's, or one that came late",
			Do:   "look at the transaction before it: it may have been ended by a marker that was not its own", Affected: 1, Records: records(b, 1),
		})
	}
	if known && c.CoordinatorEpoch < p.coordinator && l.lastGap <= p.lastOffset {
		l.report(Finding{
			Kind: OldCoordinator, Sure: Certain, Requirements: []string{"SC-5"}, Offset: b.BaseOffset,
			What: fmt.Sprintf("a %s marker of producer %d with coordinator epoch %d behind one of epoch %d", c.Type, id, c.CoordinatorEpoch, p.coordinator),
			Why:  "markers of an older coordinator are refused", Do: "look at the transaction before it: it may have been ended twice, or wrongly", Affected: 1, Records: records(b, 1),
		})
	}
	o, open := s.open[id]
	switch {
	case open:
		delete(s.open, id)
		if int(b.ProducerEpoch) > int(o.epoch)+2 && b.ProducerEpoch >= 0 {
			l.foreign(b, c, o, Likely, fmt.Sprintf("a %s marker of producer %d, epoch %d ends a transaction of epoch %d", c.Type, id, b.ProducerEpoch, o.epoch))
		}
		t := txn{id: id, epoch: o.epoch, marker: b.ProducerEpoch, first: o.first, last: b.BaseOffset, ended: b.MaxTimestamp, commit: c.Type == wirelog.Commit, count: o.records}
		l.end(t, s)
		if l.stopFrom >= 0 && len(l.stopped) < maxRecent {
			l.stopped = append(l.stopped, t)
		}
	case !known && s.priorOpen != nil:
		if o, ok := s.priorOpen[id]; ok {
			l.foreign(b, c, o, Likely, fmt.Sprintf("a %s marker of producer %d behind the barrier: here that producer has written nothing, and a transaction of that id was open below the barrier", c.Type, id))
		}
		fallthrough
	default:
		s.unopened++
	}
	if !known {
		p = producer{firstOffset: -1, lastSeq: -1, epoch: b.ProducerEpoch, coordinator: -1}
	}
	if b.ProducerEpoch != p.epoch {
		p.epoch, p.lastSeq = b.ProducerEpoch, -1
	}
	p.coordinator, p.lastOffset, p.lastTime = c.CoordinatorEpoch, b.BaseOffset, b.MaxTimestamp
	s.table.put(id, p)
}

func (l *line) end(t txn, s *span) {
	if t.commit {
		s.Committed++
	} else {
		s.Aborted++
		if l.index != nil {
			l.index.aborted(l, t)
		}
	}
	if len(l.recent) < maxRecent {
		l.recent = append(l.recent, t)
	} else {
		l.recent[l.at] = t
		l.at = (l.at + 1) % maxRecent
	}
	for _, f := range l.ended {
		f(t)
	}
}

func (l *line) foreign(b *wirelog.Batch, c wirelog.Control, o openTxn, sure Sureness, what string) {
	l.report(Finding{
		Kind: ForeignMarker, Sure: sure, Requirements: []string{"TXN-2", "TXN-1"}, Offset: b.BaseOffset, What: what,
		Why: "two producers share the id, and the marker of one meets the transaction of the other; a coordinator that fences a producer several times leaves nearly the same bytes",
		Do:  fmt.Sprintf("look at the transaction's records from offset %d on: whether they are to count (%s) is the application's word", o.first, c.Type), Affected: o.records, Records: o.keys,
	})
}

// old is the age in milliseconds, in the log's own time, from which on a
// transaction that is open will hardly be ended: transaction.max.timeout.ms is 15
// minutes unless set.
const old = 20 * 60_000

// close says what is left at the log's end.
func (l *line) close() {
	if l.index != nil {
		l.index.leave(l)
	}
	for id, o := range sortedOpen(l.span().open) {
		f := Finding{
			Kind: OpenAtEnd, Sure: Measured, Offset: o.first, LastOffset: o.last, Affected: o.records, Records: o.keys,
			What: fmt.Sprintf("producer %d, epoch %d has a transaction open at the log's end: readers of committed records stand before offset %d", id, o.epoch, o.first),
			Why:  "it is young: its producer or its coordinator may yet end it",
			Do:   "nothing if it has ended since; else have it aborted (kafka-transactions.sh, or the producer's InitProducerId)",
		}
		if l.lastTime-o.since > old {
			f.Sure, f.Requirements = Possible, []string{"TXN-6"}
			f.Why = "what lies behind it is more than 20 minutes younger, and coordinators end what is older than their limit"
		}
		l.report(f)
	}
	if n := l.span().table.forgotten; n > 0 {
		l.report(Finding{
			Kind: Forgotten, Sure: Measured, Offset: -1, What: fmt.Sprintf("%d producers were forgotten while many others wrote", n),
			Why: fmt.Sprintf("the last %d are kept at least", perGeneration), Do: "nothing: gaps of producers that were silent for so long are not seen",
		})
	}
}
