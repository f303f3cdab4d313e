package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// world is a hand-made run of one failover that exercises everything: mirror m
// copies topics t (one partition) and e (one partition, empty) from A to B.
type world struct {
	run    Run
	a, b   []spec // t-0 on A and B
	be     []spec // e-0 on B
	events []history.Event
	op     int64
	next   map[string]int64 // the writers' record numbers
	// l is t-0's L on B.
	l       int64
	open    map[txnID][]int         // a transaction's batches, by their place in the log
	aborted map[string][]abortedTxn // by cluster
	// more writes random batches where it is set: before the mirror and after the stop.
	more func(w *world, log *[]spec, leader int32, cluster string)
}

type txnID struct {
	cluster string
	pid     int64
}

type abortedTxn struct {
	history.Aborted
	end int64
}

const (
	idA = "AbCdEfGhIjKlMnOpQrStUv"
	idB = "BbCdEfGhIjKlMnOpQrStUv"
)

func (w *world) tag(cluster, writer string, txn int64, intent history.Intent) history.Tag {
	key := cluster + writer
	t := history.Tag{Cluster: cluster, Writer: writer, Txn: txn, Intent: intent, Index: w.next[key], Place: "t-0"}
	w.next[key]++
	return t
}

func (w *world) add(e history.Event) *history.Event {
	w.events = append(w.events, e)
	return &w.events[len(w.events)-1]
}

func (w *world) phase(name history.PhaseName) {
	w.add(history.Event{Kind: history.KindPhase, Phase: &history.Phase{Name: name}})
}

// send records a produce with its answer.
func (w *world) send(s spec, mode history.Mode, offset int64, collision history.Collision, res history.Result) {
	w.op++
	p := history.Produce{
		Writer: s.tags[0].Writer, Cluster: s.tags[0].Cluster, Topic: "t", Mode: mode, Tag: s.tags[0],
		Count: int32(len(s.tags)), Offset: -1, Collision: collision,
		Batch: &history.BatchID{ProducerID: s.pid, Epoch: s.pepoch, BaseSequence: s.seq},
	}
	begin := p
	w.add(history.Event{Kind: history.KindProduceBegin, Op: w.op, Produce: &begin})
	p.Offset, p.Result = offset, &res
	w.add(history.Event{Kind: history.KindProduceAck, Op: w.op, Produce: &p})
}

var ok = history.Result{Outcome: history.OK}

// data makes a batch of one writer and appends it to log with its history.
func (w *world) data(log *[]spec, leader int32, cluster, writer string, mode history.Mode, pid int64, epoch int16, seq int32, n int, txn int64, intent history.Intent, c history.Collision) {
	s := spec{epoch: leader, pid: pid, pepoch: epoch, seq: seq, payload: "payload", time: 1000 + int64(len(w.events))}
	if len(*log) > 0 {
		last := (*log)[len(*log)-1]
		s.base = last.base + last.count()
	}
	if mode == history.Transactional {
		s.attributes = transactional
	}
	for range n {
		s.tags = append(s.tags, w.tag(cluster, writer, txn, intent))
	}
	*log = append(*log, s)
	if mode == history.Transactional {
		id := txnID{cluster, pid}
		w.open[id] = append(w.open[id], len(*log)-1)
	}
	w.send(s, mode, s.base, c, ok)
}

func (w *world) endTxn(log *[]spec, leader int32, cluster, writer string, pid int64, epoch int16, number int64, intent history.Intent) {
	kind := wirelog.Commit
	if intent == history.IntentAbort {
		kind = wirelog.Abort
	}
	last := (*log)[len(*log)-1]
	m := marker(last.base+last.count(), leader, pid, epoch, kind)
	batches := w.open[txnID{cluster, pid}]
	delete(w.open, txnID{cluster, pid})
	if intent == history.IntentAbort {
		w.aborted[cluster] = append(w.aborted[cluster], abortedTxn{history.Aborted{ProducerID: pid, FirstOffset: (*log)[batches[0]].base}, m.base})
		for _, i := range batches {
			(*log)[i].hidden = true
		}
	}
	*log = append(*log, m)
	w.op++
	w.add(history.Event{Kind: history.KindTxnEnd, Op: w.op, Txn: &history.Txn{Writer: writer, Cluster: cluster, Number: number, Intent: intent, Result: &ok}})
}

// newWorld makes a run in which all is well. keep is the number of records
// that STOPPING wrongly leaves of the open transaction (0 in a good world);
// -1 leaves none and forgets t-0's barrier.
func newWorld(keep int) *world { return newWorldWith(keep, nil) }

func newWorldWith(keep int, more func(*world, *[]spec, int32, string)) *world {
	w := &world{next: map[string]int64{}, open: map[txnID][]int{}, aborted: map[string][]abortedTxn{}, more: more, run: Run{
		Version: RunVersion, Scenario: "active-passive/hand-made", Seed: 7, Command: "go test ./suite -seed 7", Profile: ProfileV42,
		Clusters:  []Cluster{{Name: "A", ID: idA, Nodes: []int32{1}}, {Name: "B", ID: idB, Nodes: []int32{1}}},
		Edges:     []Edge{{Mirror: "m", Source: "A", Destination: "B", Topics: []string{"t", "e"}, Stops: 1}},
		Topics:    []Topic{{Name: "t", Partitions: 1}, {Name: "e", Partitions: 1, Empty: []int32{0}}},
		Exercises: unprobed(),
		Faults:    []PlannedFault{{ID: "f1", Name: "hold-and-release", Link: "mirror:A->B", Phase: "before:fetchers-removed"}},
		Floors:    Floors{Before: 5, During: 1, After: 5},
	}}
	w.before()
	w.stop(keep)
	w.after()
	return w
}

func (w *world) before() {
	const plain, idem, txn = history.Plain, history.Idempotent, history.Transactional
	none := history.IntentNone
	w.phase(history.TrafficBefore)
	w.add(history.Event{Kind: history.KindConnection, Connection: &history.Connection{Client: "w1", Cluster: "A", ClusterID: idA}})
	if w.more != nil {
		w.more(w, &w.a, 3, "A")
	}
	w.data(&w.a, 3, "A", "w1", txn, 1, 0, 0, 1, 0, history.IntentCommit, "")  // 0
	w.endTxn(&w.a, 3, "A", "w1", 1, 1, 0, history.IntentCommit)               // 1
	w.data(&w.a, 3, "A", "w1", txn, 1, 1, 0, 1, 1, history.IntentAbort, "")   // 2
	w.endTxn(&w.a, 3, "A", "w1", 1, 2, 1, history.IntentAbort)                // 3
	w.data(&w.a, 3, "A", "w2", idem, 2, 0, 0, 3, history.NoTxn, none, "")     // 4..6
	w.data(&w.a, 3, "A", "w3", plain, -1, -1, -1, 1, history.NoTxn, none, "") // 7
	w.data(&w.a, 3, "A", "w4", idem, 9, 3, 0, 2, history.NoTxn, none, "")     // 8..9
	w.data(&w.a, 3, "A", "w4", idem, 10, 3, 0, 1, history.NoTxn, none, "")    // 10
	w.data(&w.a, 3, "A", "w1", txn, 1, 2, 0, 1, 2, history.IntentOpen, "")    // 11, open at STOPPING
	w.data(&w.a, 3, "A", "w2", idem, 2, 0, 3, 1, history.NoTxn, none, "")     // 12
	w.phase(history.Mirroring)
	for _, topic := range []string{"t", "e"} {
		end := int64(0)
		if topic == "t" {
			end = w.a[len(w.a)-1].base + 1
		}
		w.state(topic, "MIRRORING", end, -1, -1)
	}
	w.probes()
	w.phase(history.StopRequested)
}

// probes are refused writes to B.
func (w *world) probes() {
	refused := history.Result{Outcome: history.Refused, Code: 134, Message: "the topic is mirrored"}
	for _, mode := range []history.Mode{history.Plain, history.Idempotent, history.Transactional} {
		s := spec{pid: 40, tags: []history.Tag{w.tag("B", "probe-"+string(mode), history.NoTxn, history.IntentNone)}}
		w.send(s, mode, -1, "", refused)
	}
	w.add(history.Event{Kind: history.KindAddPartitions, AddPartitions: &history.AddPartitions{Cluster: "B", Topic: "t", TransactionalID: "x", Result: &refused}})
}

func (w *world) state(topic, state string, end, l, barrierAt int64) {
	w.add(history.Event{Kind: history.KindMirrorState, Mirror: &history.Mirror{
		Cluster: "B", Mirror: "m", Topic: topic, State: state, SourceOffset: end, DestinationOffset: end, LastMirrored: l, BarrierOffset: barrierAt,
	}})
}

func (w *world) fault(kind history.Kind, f history.Fault) {
	f.ID, f.Name, f.Link = "f1", "hold-and-release", "mirror:A->B"
	w.add(history.Event{Kind: kind, Fault: &f})
}

func (w *world) stop(keep int) {
	w.fault(history.KindFaultStart, history.Fault{})
	w.gate("before:fetchers-removed")
	w.fault(history.KindFaultProof, history.Fault{HeldBefore: 200, BytesHeld: 200})
	w.data(&w.a, 3, "A", "w2", history.Idempotent, 2, 0, 4, 1, history.NoTxn, history.IntentNone, "") // 13
	w.probes()
	w.gate("after:barrier-appended")
	w.l = w.a[w.open[txnID{"A", 1}][0]].base + int64(max(keep, 0))
	for _, s := range w.a {
		if s.base < w.l {
			s.hidden = s.hidden || s.base == w.l-int64(keep) && keep > 0
			w.b = append(w.b, s)
		}
	}
	w.aborted["B"] = append(w.aborted["B"], w.aborted["A"]...)
	if keep > 0 { // the barrier drops it
		w.aborted["B"] = append(w.aborted["B"], abortedTxn{history.Aborted{ProducerID: 1, FirstOffset: w.l - int64(keep)}, w.l})
	}
	barrierAt := int64(-1)
	if keep >= 0 {
		barrierAt = w.l
		w.b = append(w.b, barrier(w.l, 5, idA))
	}
	w.be = append(w.be, barrier(0, 5, idA))
	w.state("t", "STOPPED", w.l+1, w.l, barrierAt)
	w.state("e", "STOPPED", 1, 0, 0)
	w.phase(history.Stopped)
	w.describe("t")
	for _, r := range []string{"rc", "ru"} {
		w.position(r, "e", 0, false)
	}
	w.fault(history.KindFaultStop, history.Fault{HeldBefore: 200, BytesHeld: 200, BytesReleased: 200})
	w.endTxn(&w.a, 3, "A", "w1", 1, 3, 2, history.IntentCommit) // 14, on A alone
}

func (w *world) gate(point string) {
	w.add(history.Event{Kind: history.KindGate, Gate: &history.Gate{Cluster: "B", Node: 1, Point: point, What: history.GateArrived}})
}

func (w *world) describe(topic string, active ...history.ProducerState) {
	w.add(history.Event{Kind: history.KindDescribeProducers, Producers: &history.Producers{Cluster: "B", Node: 1, Topic: topic, When: history.WhenAfterStop, Active: active}})
}

func isolation(reader string) history.Isolation {
	if reader == "rc" {
		return history.ReadCommitted
	}
	return history.ReadUncommitted
}

func (w *world) position(reader, topic string, at int64, final bool) {
	w.add(history.Event{Kind: history.KindReaderPosition, Reader: &history.Reader{Reader: reader, Cluster: "B", Topic: topic, Isolation: isolation(reader), Position: at, Final: final}})
}

func (w *world) after() {
	const plain, idem, txn = history.Plain, history.Idempotent, history.Transactional
	none := history.IntentNone
	w.phase(history.TrafficAfter)
	w.data(&w.b, 5, "B", "raw", idem, 2, 0, 0, 3, history.NoTxn, none, history.SameHeader)   // 12..14
	w.data(&w.b, 5, "B", "raw", idem, 9, 2, 0, 1, history.NoTxn, none, history.LowerEpoch)   // 15
	w.data(&w.b, 5, "B", "raw", idem, 10, 3, 7, 1, history.NoTxn, none, history.SequenceGap) // 16
	w.data(&w.b, 5, "B", "probe-plain", plain, -1, -1, -1, 1, history.NoTxn, none, "")       // 17
	w.data(&w.b, 5, "B", "v1", txn, 1, 0, 0, 1, 0, history.IntentCommit, "")                 // 18
	w.endTxn(&w.b, 5, "B", "v1", 1, 1, 0, history.IntentCommit)                              // 19
	w.data(&w.b, 5, "B", "v1", txn, 1, 1, 0, 1, 1, history.IntentAbort, "")                  // 20
	w.endTxn(&w.b, 5, "B", "v1", 1, 2, 1, history.IntentAbort)                               // 21
	w.data(&w.b, 5, "B", "v2", idem, 3, 0, 0, 1, history.NoTxn, none, "")                    // 22
	if w.more != nil {
		w.more(w, &w.b, 5, "B")
	}
	w.phase(history.Settled)
	w.describe("t", history.ProducerState{ProducerID: 2, LastSequence: 2, CurrentTxnStart: -1}, history.ProducerState{ProducerID: 1, Epoch: 2, LastSequence: -1, CurrentTxnStart: -1})
	last := w.b[len(w.b)-1]
	hw := last.base + last.count()
	w.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "B", Node: 1, Topic: "t", HighWatermark: hw, LastStableOffset: hw, LogEndOffset: hw}})
	w.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "B", Node: 1, Topic: "e", HighWatermark: 1, LastStableOffset: 1, LogEndOffset: 1}})
	for _, f := range []history.Fetch{
		{FetchOffset: 0, Served: history.AtOnce, Isolation: history.ReadCommitted},
		{FetchOffset: 0, Served: history.LongPoll, Isolation: history.ReadCommitted},
		{FetchOffset: w.l + 1, Served: history.AtOnce, Isolation: history.ReadCommitted},
		{FetchOffset: 0, Served: history.AtOnce, Isolation: history.ReadUncommitted, AbortedNull: true},
	} {
		f.Cluster, f.Node, f.Topic, f.NextOffset, f.HighWatermark, f.LastStableOffset = "B", 1, "t", hw, hw, hw
		for _, t := range w.aborted["B"] {
			if f.Isolation == history.ReadCommitted && t.end >= f.FetchOffset {
				f.Aborted = append(f.Aborted, t.Aborted)
			}
		}
		w.add(history.Event{Kind: history.KindFetch, Fetch: &f})
	}
	for _, r := range []string{"rc", "ru"} {
		for _, s := range w.b {
			for i, tag := range s.tags {
				if r == "ru" || !s.hidden {
					w.read(r, s.base+int64(i), tag.String())
				}
			}
		}
		w.position(r, "t", hw, true)
	}
}

func (w *world) read(reader string, offset int64, tag string) *history.Event {
	return w.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: reader, Cluster: "B", Topic: "t", Isolation: isolation(reader), Offset: offset, Tag: tag}})
}

func (w *world) evidence(t testing.TB) *Evidence {
	ev := &Evidence{Run: w.run}
	require.NoError(t, w.run.Validate())
	for i, e := range w.events {
		e.Seq = int64(i + 1)
		if e.At == 0 {
			e.At = e.Seq * 1_000_000
		}
		ev.Events = append(ev.Events, e)
	}
	for _, l := range []struct {
		cluster, topic string
		log            []spec
	}{{"A", "t", w.a}, {"A", "e", nil}, {"B", "t", w.b}, {"B", "e", w.be}} {
		r := &Replica{Cluster: l.cluster, Node: 1, Topic: l.topic, Dir: LogDir(l.cluster, 1, l.topic, 0)}
		var data []byte
		for _, s := range l.log {
			data = append(data, s.encode()...)
		}
		for b, err := range wirelog.Segment("00000000000000000000.log", data) {
			require.NoError(t, err)
			r.Batches = append(r.Batches, b)
		}
		ev.Replicas = append(ev.Replicas, r)
	}
	return ev
}

// drop removes the events for which f is true.
func (w *world) drop(f func(e *history.Event) bool) {
	w.events = slices.DeleteFunc(w.events, func(e history.Event) bool { return f(&e) })
}

// edit changes every event for which f returns true at least once.
func (w *world) edit(t testing.TB, f func(e *history.Event) bool) {
	changed := false
	for i := range w.events {
		changed = f(&w.events[i]) || changed
	}
	require.True(t, changed, "nothing was edited")
}

// insertBefore puts an event before the first one for which f is true.
func (w *world) insertBefore(f func(e *history.Event) bool, events ...history.Event) {
	i := slices.IndexFunc(w.events, func(e history.Event) bool { return f(&e) })
	w.events = slices.Insert(w.events, i, events...)
}

func isPhase(name history.PhaseName) func(*history.Event) bool {
	return func(e *history.Event) bool { return e.Phase != nil && e.Phase.Name == name }
}
