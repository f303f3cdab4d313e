package check

import (
	"slices"

	"watershed.example/suite/history"
)

// ledger holds a history of any length. Writes and reads, which are nearly all of
// it, are kept as rows of some tens of bytes: 88 for a write with its answer, 72
// for the records that a reader saw one after the other with nothing but writes
// and reads of others between. All other events are kept as they are.
type ledger struct {
	stems *stems
	// events are those that are neither writes nor reads; before holds for each
	// the time of the event right before it.
	events []history.Event
	before []int64

	routes  map[route]*route
	results map[history.Result]*history.Result
	writes  []*operation // in the order in which they began
	byOp    opTable
	room    []operation
	spots   map[spot][]*operation // see bySpot

	streams []*stream // in the order of their first read
	byKey   map[streamKey]*stream
	// lastStream is the one of the last read.
	lastStream *stream

	last moment
	// lastOf is the last event of each episode.
	lastOf map[int32]moment
}

// moment is an event's number and time.
type moment struct{ seq, at int64 }

func newLedger(s *stems) *ledger {
	return &ledger{
		stems: s, routes: map[route]*route{}, results: map[history.Result]*history.Result{},
		byKey: map[streamKey]*stream{}, lastOf: map[int32]moment{},
	}
}

// add takes in the next event of a history, of which it keeps no pointer but
// those of events that are neither writes nor reads.
func (l *ledger) add(e *history.Event) {
	switch {
	case e.Kind == history.KindProduceBegin:
		l.began(e)
	case e.Kind == history.KindProduceAck:
		l.ended(e)
	case e.Kind == history.KindRead:
		l.read(e)
	default:
		l.events = append(l.events, *e)
		l.before = append(l.before, l.last.at)
		for _, s := range l.streams {
			s.open = false
		}
	}
	l.last = moment{e.Seq, e.At}
	if e.Episode != 0 {
		l.lastOf[e.Episode] = l.last
	}
}

// route is what many writes have in common.
type route struct {
	Writer, Cluster, Topic string
	Partition              int32
	Mode                   history.Mode
	Collision              history.Collision
	Trial                  history.Trial
	stem                   *stem // of its first record's tag
}

// written is what was sent: a [history.Produce].
type written struct {
	*route
	index int64 // of its first record's tag
	Batch *history.BatchID
	Count int32
}

// Tag is the first record's.
func (w *written) Tag() history.Tag { return w.stem.tag(w.index) }

// operation is one produce: what was sent, and what came back.
type operation struct {
	sent         written
	began, ended int64 // event numbers; ended is never without an answer
	offset       int64
	result       *history.Result
	// asked is what was sent as far as it was known when it began, where the
	// answer told more; else nil.
	asked   *written
	episode int32 // of its begin event
}

var unanswered = &history.Result{Outcome: history.Unknown}

// answeredBy is the operation as it stood right after an event: itself, or
// without its answer.
func (o *operation) answeredBy(seq int64) *operation {
	if o.ended <= seq || o.ended == never {
		return o
	}
	open := *o
	open.ended, open.offset, open.result = never, -1, unanswered
	if o.asked != nil {
		open.sent = *o.asked
	}
	return &open
}

// at says whether a client of the destination sent it to the partition.
func (o *operation) at(p *part) bool { return o.to(p.dst.Name, p.topic, p.index) }

// to says whether it was sent to the partition on the cluster.
func (o *operation) to(cluster, topic string, index int32) bool {
	return o.sent.Partition == index && o.sent.Cluster == cluster && o.sent.Topic == topic
}

// opTable finds an operation by its number: most count from 1 without a gap.
type opTable struct {
	dense []*operation
	other map[int64]*operation
}

func (t *opTable) get(op int64) *operation {
	if op > 0 && op <= int64(len(t.dense)) {
		return t.dense[op-1]
	}
	return t.other[op]
}

func (t *opTable) set(op int64, o *operation) {
	switch n := int64(len(t.dense)); {
	case op > 0 && op <= n:
		t.dense[op-1] = o
	case op > n && op <= n+1024: // other operations have numbers too
		for ; n+1 < op; n++ {
			t.dense = append(t.dense, t.other[n+1])
			delete(t.other, n+1)
		}
		t.dense = append(t.dense, o)
	default:
		if t.other == nil {
			t.other = map[int64]*operation{}
		}
		t.other[op] = o
	}
}

func (l *ledger) written(p *history.Produce) written {
	key := route{
		Writer: p.Writer, Cluster: p.Cluster, Topic: p.Topic, Partition: p.Partition,
		Mode: p.Mode, Collision: p.Collision, Trial: p.Trial, stem: l.stems.of(p.Tag),
	}
	known := l.routes[key]
	if known == nil {
		known = &key
		l.routes[key] = known
	}
	w := written{route: known, index: p.Tag.Index, Count: p.Count}
	if p.Batch != nil {
		b := *p.Batch
		w.Batch = &b
	}
	return w
}

func (l *ledger) operation(e *history.Event) *operation {
	if len(l.room) == cap(l.room) {
		l.room = make([]operation, 0, 1024)
	}
	l.room = append(l.room, operation{sent: l.written(e.Produce), began: e.Seq, episode: e.Episode, ended: never, offset: -1, result: unanswered})
	o := &l.room[len(l.room)-1]
	l.writes = append(l.writes, o)
	l.byOp.set(e.Op, o)
	return o
}

// bySpot are the writes of each partition, once all are there.
func (l *ledger) bySpot() map[spot][]*operation {
	if l.spots == nil {
		l.spots = map[spot][]*operation{}
		for _, o := range l.writes {
			l.spots[o.spot()] = append(l.spots[o.spot()], o)
		}
	}
	return l.spots
}

func (o *operation) spot() spot { return spot{o.sent.Cluster, o.sent.Topic, o.sent.Partition} }

func (l *ledger) began(e *history.Event) { l.operation(e) }

func (l *ledger) ended(e *history.Event) {
	o := l.byOp.get(e.Op)
	switch p := e.Produce; {
	case o == nil: // an answer without its begin event: take it for both
		o = l.operation(e)
	case p.Batch != nil && (o.sent.Batch == nil || *o.sent.Batch != *p.Batch || o.sent.index != p.Tag.Index || o.sent.Count != p.Count || !o.sent.same(p)):
		asked := o.sent
		o.asked, o.sent = &asked, l.written(p)
	}
	o.ended, o.offset = e.Seq, e.Produce.Offset
	o.result = l.results[*e.Produce.Result]
	if o.result == nil {
		own := *e.Produce.Result
		o.result = &own
		l.results[own] = o.result
	}
}

func (r *route) same(p *history.Produce) bool {
	t := p.Tag
	t.Index = 0
	return r.Writer == p.Writer && r.Cluster == p.Cluster && r.Topic == p.Topic && r.Partition == p.Partition &&
		r.Mode == p.Mode && r.Collision == p.Collision && r.Trial == p.Trial && r.stem.Tag == t
}

// streamKey is a reader in a partition.
type streamKey struct {
	Reader, Cluster, Topic string
	Partition              int32
	Isolation              history.Isolation
}

// stream is what one reader saw of a partition, in its order.
type stream struct {
	streamKey
	runs []seenRun
	open bool // the last run may go on
}

// seenRun is records that reached an application, one offset after the other, of
// which the tags follow each other too. No event but reads and writes lies
// between the first and the last.
type seenRun struct {
	run
	first, last int64 // the events of its first and its last record
	when        int64 // the time of the last
	// odd is a read that is known by more, or by less, than a tag; else nil.
	odd     *history.Observed
	episode int32
}

func (l *ledger) read(e *history.Event) {
	o := e.Read
	s := l.stream(streamKey{o.Reader, o.Cluster, o.Topic, o.Partition, o.Isolation})
	next := seenRun{run: run{offset: o.Offset, n: int32(o.Records())}, first: e.Seq, last: e.Seq, when: e.At, episode: e.Episode}
	known := false
	if o.Tag != "" && len(o.Key) == 0 && len(o.Value) == 0 {
		next.stem, next.index, known, _ = parseTag(l.stems, o.Tag)
	}
	if !known { // nor does a text that is not a tag's own name a record
		own := e.Clone()
		next.stem, next.odd = nil, own.Read
	} else if n := len(s.runs); n > 0 && s.open {
		if last := &s.runs[n-1]; last.odd == nil && last.stem == next.stem && last.episode == e.Episode && last.end() == o.Offset && last.index+int64(last.n) == next.index {
			last.n += next.n
			last.last, last.when = e.Seq, e.At
			return
		}
	}
	s.open = true
	s.runs = append(s.runs, next)
}

func (l *ledger) stream(key streamKey) *stream {
	if s := l.lastStream; s != nil && s.streamKey == key {
		return s
	}
	s := l.byKey[key]
	if s == nil {
		s = &stream{streamKey: key}
		l.byKey[key] = s
		l.streams = append(l.streams, s)
	}
	l.lastStream = s
	return s
}

// seen is one record that reached an application.
type seen struct {
	record
	odd *history.Observed
	seq int64
}

// is says whether that record is the one that was seen.
func (r seen) is(other record) bool {
	return r.odd == nil && other.stem == r.stem && other.index == r.index
}

// tagText is the text of its tag, empty where it had none.
func (r seen) tagText() string {
	if r.odd != nil {
		return r.odd.Tag
	}
	return r.tag().String()
}

// one is the run's record with number k. All of a run are as old as its first as
// far as other events are concerned.
func (r *seenRun) one(k int64) seen { return seen{r.run.at(k), r.odd, r.first} }

// streamsOf returns the streams with what belongs to an episode, until an event.
func (l *ledger) streamsOf(keeps func(episode int32) bool, until int64) []*stream {
	var all []*stream
	for _, s := range l.streams {
		own := stream{streamKey: s.streamKey}
		for _, r := range s.runs {
			if r.first <= until && keeps(r.episode) {
				own.runs = append(own.runs, r)
			}
		}
		if len(own.runs) > 0 {
			all = append(all, &own)
		}
	}
	slices.SortStableFunc(all, func(a, b *stream) int { return int(min(max(a.runs[0].first-b.runs[0].first, -1), 1)) })
	return all
}
