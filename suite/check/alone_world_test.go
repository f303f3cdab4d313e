package check

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// lone is a hand-made run of one cluster of three nodes without any mirror that
// exercises all of SC: topic t has the traffic, and idle begins with a marker.
type lone struct {
	run    Run
	events []history.Event
	logs   map[string][]spec
	op     int64
	index  map[string]int64 // the writers' record numbers
	coords map[int64]int32  // producer id to its newest coordinator's epoch
	seen   map[string]int   // by reader and topic: how many records it has
	leader int32
}

const tenth = int64(10)

func newLone() *lone {
	l := &lone{logs: map[string][]spec{"t": nil, "idle": nil}, index: map[string]int64{}, coords: map[int64]int32{}, seen: map[string]int{}, leader: 1, run: Run{
		Version: RunVersion, Scenario: "single/hand-made", Seed: 7, Command: "go test ./suite -seed 7", Profile: ProfileV42,
		Clusters:  []Cluster{{Name: "A", ID: idA, Nodes: []int32{1, 2, 3}}},
		Topics:    []Topic{{Name: "t", Partitions: 1}, {Name: "idle", Partitions: 1, Empty: []int32{0}}},
		Exercises: []string{"SC-1", "SC-2", "SC-3", "SC-4", "SC-5", "SC-6", "SC-7", "SC-8"},
	}}
	l.ids(1)
	l.sequences()
	l.epochs()
	l.transactions()
	l.markers()
	l.late()
	l.read()
	l.sample()
	l.befall(history.KillRestart, func() { l.node(history.NodeKilled); l.node(history.NodeStarted) })
	l.befall(history.LeaderChange, func() { l.leader++ })
	l.befall(history.Truncation, func() {
		l.try(history.TrialFirst, l.batch("t", "window", 1, 0, 12, 1), history.Idempotent, -1, history.Result{Outcome: history.Unknown, Code: 7})
	})
	l.befall(history.CoordinatorMove, func() { l.node(history.NodeKilled); l.node(history.NodeStarted) })
	l.ids(2)
	l.end("open", 12, 0, 1, history.IntentCommit)
	l.read()
	l.sample()
	l.plain("t")
	l.plain("idle")
	l.read()
	l.sample()
	for _, reader := range []string{"rc", "ru"} {
		for _, topic := range []string{"t", "idle"} {
			l.position(reader, topic, true)
		}
	}
	l.add(history.Event{Kind: history.KindPhase, Phase: &history.Phase{Name: history.Settled}})
	return l
}

func (l *lone) add(e history.Event) { l.events = append(l.events, e) }

func (l *lone) hw(topic string) int64 {
	log := l.logs[topic]
	if len(log) == 0 {
		return 0
	}
	last := log[len(log)-1]
	return last.base + last.count()
}

// openIn are the open transactions of a log, by producer id to first offset, and
// abortedIn those that were aborted.
func openIn(log []spec) (open map[int64]int64, aborted []abortedTxn) {
	open = map[int64]int64{}
	for _, s := range log {
		first, is := open[s.pid]
		switch {
		case s.attributes&transactional == 0:
		case s.attributes&control == 0 && !is:
			open[s.pid] = s.base
		case s.attributes&control != 0 && is:
			delete(open, s.pid)
			if s.key[3] == byte(wirelog.Abort) {
				aborted = append(aborted, abortedTxn{history.Aborted{ProducerID: s.pid, FirstOffset: first}, s.base})
			}
		}
	}
	return open, aborted
}

func (l *lone) lso(topic string) int64 {
	open, _ := openIn(l.logs[topic])
	at := l.hw(topic)
	for _, first := range open {
		at = min(at, first)
	}
	return at
}

// producers is what a broker has to know by a log.
func (l *lone) producers(topic string) []history.ProducerState {
	states := map[int64]history.ProducerState{}
	open, _ := openIn(l.logs[topic])
	for _, s := range l.logs[topic] {
		if s.pid < 0 {
			continue
		}
		now, known := states[s.pid]
		if !known || int32(s.pepoch) != now.Epoch {
			now = history.ProducerState{ProducerID: s.pid, Epoch: int32(s.pepoch), LastSequence: -1}
		}
		if s.attributes&control == 0 {
			now.LastSequence = follows(s.seq, int32(s.count())-1)
		}
		now.CoordinatorEpoch, now.CurrentTxnStart = l.coords[s.pid], -1
		if first, is := open[s.pid]; is {
			now.CurrentTxnStart = first
		}
		states[s.pid] = now
	}
	var all []history.ProducerState
	for _, state := range inOrder(states) {
		all = append(all, state)
	}
	return all
}

// batch makes a batch that is not in a log.
func (l *lone) batch(topic, writer string, pid int64, epoch int16, seq int32, n int) spec {
	return l.inTxn(topic, writer, pid, epoch, seq, n, history.NoTxn, history.IntentNone)
}

func (l *lone) inTxn(topic, writer string, pid int64, epoch int16, seq int32, n int, number int64, intent history.Intent) spec {
	s := spec{base: l.hw(topic), epoch: 1, pid: pid, pepoch: epoch, seq: seq, payload: "payload", time: 1000 + int64(len(l.events))}
	if number != history.NoTxn {
		s.attributes = transactional
	}
	for range n {
		s.tags = append(s.tags, history.Tag{Cluster: "A", Writer: writer, Txn: number, Intent: intent, Index: l.index[writer], Place: topic + "-0"})
		l.index[writer]++
	}
	return s
}

// send appends a batch, and tells so.
func (l *lone) send(t history.Trial, s spec, mode history.Mode) spec {
	topic := topicOf(s.tags[0].Place)
	l.logs[topic] = append(l.logs[topic], s)
	l.try(t, s, mode, s.base, ok)
	return s
}

func topicOf(place string) string { return strings.TrimSuffix(place, "-0") }

// try tells of a batch, whatever became of it.
func (l *lone) try(t history.Trial, s spec, mode history.Mode, offset int64, res history.Result) {
	l.op++
	topic := topicOf(s.tags[0].Place)
	p := history.Produce{
		Writer: s.tags[0].Writer, Cluster: "A", Topic: topic, Mode: mode, Tag: s.tags[0], Count: int32(len(s.tags)), Offset: -1, Trial: t,
		Batch: &history.BatchID{ProducerID: s.pid, Epoch: s.pepoch, BaseSequence: s.seq},
	}
	begin := p
	l.add(history.Event{Kind: history.KindProduceBegin, Op: l.op, Produce: &begin})
	p.Offset, p.Result = offset, &res
	l.add(history.Event{Kind: history.KindProduceAck, Op: l.op, Produce: &p})
}

func (l *lone) plain(topic string) {
	s := l.batch(topic, "plain-"+topic, -1, -1, -1, 1)
	l.send("", s, history.Plain)
}

func (l *lone) init(writer, txnID string, pid int64, epoch int16, node int32) {
	l.add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{
		Writer: writer, Cluster: "A", TransactionalID: txnID, ProducerID: pid, Epoch: epoch, Node: node, Result: &ok,
	}})
}

// ids has every broker, and two coordinators, give producer ids.
func (l *lone) ids(turn int64) {
	for node := range int32(3) {
		l.init("ids", "", 1000*turn+int64(node), 0, node+1)
	}
	l.init("ids", "moves", 900, int16(turn), int32(turn))
}

func (l *lone) sequences() {
	const idem = history.Idempotent
	var sent []spec
	for seq := range int32(6) {
		sent = append(sent, l.send(history.TrialFirst, l.batch("t", "window", 1, 0, seq, 1), idem))
	}
	for _, s := range sent[1:] {
		l.try(history.TrialRetry, s, idem, s.base, ok)
	}
	l.try(history.TrialRetry, sent[0], idem, -1, refusedBy(outOfOrder))
	l.try(history.TrialGap, l.batch("t", "window", 1, 0, 7, 1), idem, -1, refusedBy(outOfOrder))
	l.send(history.TrialFirst, l.batch("t", "wraps", 2, 0, math.MaxInt32-3, 2), idem)
	wraps := l.send(history.TrialFirst, l.batch("t", "wraps", 2, 0, math.MaxInt32-1, 4), idem)
	l.try(history.TrialRetry, wraps, idem, wraps.base, ok)
	l.send(history.TrialFirst, l.batch("t", "wraps", 2, 0, 2, 1), idem)
}

func (l *lone) epochs() {
	const idem = history.Idempotent
	l.send(history.TrialFirst, l.batch("t", "epochs", 3, 5, 0, 2), idem)
	l.try(history.TrialZombie, l.batch("t", "epochs", 3, 4, 0, 1), idem, -1, refusedBy(oldEpoch))
	l.try(history.TrialGap, l.batch("t", "epochs", 3, 6, 2, 1), idem, -1, refusedBy(outOfOrder))
	l.send(history.TrialNewEpoch, l.batch("t", "epochs", 3, 6, 0, 3), idem)
	l.init("rolls", "rolls", 20, highest, 1)
	l.init("rolls", "rolls", 21, 0, 1)
	l.txn("rolls", 21, 0, 0, history.IntentCommit)
}

// begin opens a transaction with one record, and end ends it.
func (l *lone) begin(writer string, pid int64, epoch int16, number int64, intent history.Intent) {
	l.add(history.Event{Kind: history.KindTxnBegin, Txn: l.told(writer, number, intent, nil)})
	l.send(history.TrialFirst, l.inTxn("t", writer, pid, epoch, 0, 1, number, intent), history.Transactional)
}

func (l *lone) told(writer string, number int64, intent history.Intent, res *history.Result) *history.Txn {
	return &history.Txn{Writer: writer, Cluster: "A", TransactionalID: writer, Number: number, Intent: intent, Result: res, Version: 2}
}

func (l *lone) end(writer string, pid, number int64, epoch int16, intent history.Intent) {
	l.op++
	l.add(history.Event{Kind: history.KindTxnEndBegin, Op: l.op, Txn: l.told(writer, number, intent, nil)})
	l.marker("t", pid, epoch, intent == history.IntentCommit)
	l.add(history.Event{Kind: history.KindTxnEnd, Op: l.op, Txn: l.told(writer, number, intent, &ok)})
}

func (l *lone) marker(topic string, pid int64, epoch int16, commit bool) {
	kind := wirelog.Abort
	if commit {
		kind = wirelog.Commit
	}
	m := marker(l.hw(topic), 1, pid, epoch, kind)
	m.value[2], m.value[3], m.value[4], m.value[5] = 0, 0, byte(l.coords[pid]>>8), byte(l.coords[pid])
	l.logs[topic] = append(l.logs[topic], m)
}

func (l *lone) txn(writer string, pid int64, epoch int16, number int64, intent history.Intent) {
	l.begin(writer, pid, epoch, number, intent)
	l.end(writer, pid, number, epoch+1, intent)
}

func (l *lone) transactions() {
	l.init("ten", "ten", tenth, 0, 1)
	l.txn("ten", tenth, 0, 0, history.IntentAbort)
	l.txn("ten", tenth, 1, 1, history.IntentCommit)
	l.marker("idle", 13, 0, true)
	l.init("open", "open", 12, 0, 1)
	l.begin("open", 12, 0, 0, history.IntentCommit) // it stays open
}

func (l *lone) byHand(pid int64, epoch int16, coordinator int32, res history.Result) {
	l.add(history.Event{Kind: history.KindMarker, Marker: &history.Marker{
		Cluster: "A", Topic: "t", ProducerID: pid, Epoch: epoch, CoordinatorEpoch: coordinator, Result: &res,
	}})
}

func (l *lone) markers() {
	l.coords[90] = 1000
	l.marker("t", 90, 4, false)
	l.byHand(90, 4, 1000, ok)
	l.describe("t")
	l.byHand(90, 4, 999, refusedBy(coordinatorFenced))
	l.marker("t", 90, 4, false)
	l.byHand(90, 4, 1000, ok) // once more
	l.describe("t")
	l.offsets("t")
	l.byHand(12, 1, -1, refusedBy(coordinatorFenced)) // while its transaction is open
}

func (l *lone) late() {
	for n, intent := range []history.Intent{history.IntentCommit, history.IntentAbort} {
		other := history.IntentAbort
		if intent == history.IntentAbort {
			other = history.IntentCommit
		}
		first := int64(2 * n)
		l.txn("late", 11, int16(first), first, intent)
		l.begin("late", 11, int16(first+1), first+1, intent)
		l.try(history.TrialLate, l.inTxn("t", "late", 11, int16(first), 1, 1, first, intent), history.Transactional, -1, refusedBy(oldEpoch))
		fenced := refusedBy(oldEpoch)
		late := l.told("late", first, other, &fenced)
		late.Late = true
		l.op++
		l.add(history.Event{Kind: history.KindTxnEnd, Op: l.op, Txn: late})
		l.end("late", 11, first+1, int16(first+2), intent)
	}
}

func (l *lone) describe(topic string) {
	l.add(history.Event{Kind: history.KindDescribeProducers, Producers: &history.Producers{Cluster: "A", Node: l.leader, Topic: topic, When: history.WhenAlone, Active: l.producers(topic)}})
}

func (l *lone) offsets(topic string) {
	l.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "A", Node: l.leader, Topic: topic, HighWatermark: l.hw(topic), LastStableOffset: l.lso(topic), LogEndOffset: -1}})
}

// sample asks for everything at every offset.
func (l *lone) sample() {
	for _, topic := range []string{"t", "idle"} {
		l.offsets(topic)
		l.describe(topic)
		_, aborted := openIn(l.logs[topic])
		hw, lso := l.hw(topic), l.lso(topic)
		for at := int64(0); at <= hw; at++ {
			for _, served := range []history.Served{history.AtOnce, history.LongPoll} {
				for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
					f := history.Fetch{
						Cluster: "A", Node: l.leader, Topic: topic, Isolation: level, Served: served, FetchOffset: at,
						NextOffset: hw, HighWatermark: hw, LastStableOffset: lso, AbortedNull: level == history.ReadUncommitted,
					}
					if level == history.ReadCommitted {
						f.NextOffset = max(at, lso)
						for _, a := range aborted {
							if a.end >= at && a.FirstOffset < f.NextOffset {
								f.Aborted = append(f.Aborted, a.Aborted)
							}
						}
					}
					l.add(history.Event{Kind: history.KindFetch, Fetch: &f})
				}
			}
		}
	}
	for _, reader := range []string{"rc", "ru"} {
		for _, topic := range []string{"t", "idle"} {
			l.position(reader, topic, false)
		}
	}
}

// read has both readers see what there is to see.
func (l *lone) read() {
	for _, reader := range []string{"rc", "ru"} {
		for _, topic := range []string{"t", "idle"} {
			_, aborted := openIn(l.logs[topic])
			limit, n := l.hw(topic), 0
			if reader == "rc" {
				limit = l.lso(topic)
			}
			for _, s := range l.logs[topic] {
				hidden := reader == "rc" && slices.ContainsFunc(aborted, func(a abortedTxn) bool {
					return s.attributes&transactional != 0 && a.ProducerID == s.pid && a.FirstOffset <= s.base && s.base < a.end
				})
				if s.base >= limit || hidden {
					continue
				}
				for i, tag := range s.tags {
					if n++; n > l.seen[reader+topic] {
						l.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: reader, Cluster: "A", Topic: topic, Isolation: isolation(reader), Offset: s.base + int64(i), Tag: tag.String()}})
					}
				}
			}
			l.seen[reader+topic] = n
		}
	}
}

func (l *lone) position(reader, topic string, final bool) {
	at := l.hw(topic)
	if reader == "rc" {
		at = l.lso(topic)
	}
	l.add(history.Event{Kind: history.KindReaderPosition, Reader: &history.Reader{Reader: reader, Cluster: "A", Topic: topic, Isolation: isolation(reader), Position: at, Final: final}})
}

func (l *lone) node(what history.NodeEvent) {
	l.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "A", Node: 2, What: what}})
}

// befall has something befall the cluster between two samples.
func (l *lone) befall(what history.DisturbanceName, do func()) {
	l.add(history.Event{Kind: history.KindDisturbance, Disturbance: &history.Disturbance{What: what, Cluster: "A"}})
	do()
	l.add(history.Event{Kind: history.KindDisturbance, Disturbance: &history.Disturbance{What: what, Cluster: "A", Over: true, Took: true, Says: "done"}})
	l.sample()
}

func (l *lone) evidence(t testing.TB) *Evidence {
	ev := &Evidence{Run: l.run}
	require.NoError(t, l.run.Validate())
	for i, e := range l.events {
		e.Seq = int64(i + 1)
		if e.At == 0 {
			e.At = e.Seq * 1_000_000
		}
		ev.Events = append(ev.Events, e)
	}
	for _, topic := range []string{"t", "idle"} {
		r := &Replica{Cluster: "A", Node: 1, Topic: topic, Dir: LogDir("A", 1, topic, 0)}
		var data []byte
		for _, s := range l.logs[topic] {
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

func TestAClusterAloneHoldsEverything(t *testing.T) {
	l := newLone()
	got := judged(l.evidence(t))
	for _, id := range l.run.Exercises {
		require.Equal(t, Held, got[id].Outcome, "%s: %s %v", id, got[id].Reason, got[id].Findings)
	}
}
