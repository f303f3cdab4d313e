package check

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// saga is a hand-made run of several episodes on real shapes: logs are copied,
// cut and captured as mirrors do, so that what one episode leaves is what the
// next one finds. Topic t has traffic, topic e none, topic q that of sources only.
type saga struct {
	run    Run
	events []history.Event
	logs   map[string]map[string][]spec         // cluster, topic
	own    map[string]map[string]map[int64]bool // cluster, topic, offsets of its own barriers
	epoch  map[string]int32
	next   map[string]int64
	op     int64
	ep     int32
	saved  map[int32]map[string]map[string][]spec // episode: logs at its end
	legs   map[int32]*leg
	edges  map[string]Edge
	topic  string // that clients write to
	dumps  []Dump
	// keeps: in profile kip1279-latest inherited barriers do not expire producers.
	keeps bool
	// begun: half of each log was removed before it was sampled, as far as the samples tell.
	begun bool
	// before is called at each named moment, such as "stopped 1": there a test
	// spoils the run.
	before map[string]func(*saga)
}

var sagaTopics = []string{"t", "e", "q"}

// leg is one episode on its way.
type leg struct {
	n        int32
	mirror   string
	src, dst string
	pid      int64 // of the first producer of the source's that this leg knows of
	l        int64
}

var clusterIDs = map[string]string{"A": idA, "B": idB, "C": idC, "D": idD}

// newSaga makes a run with mirrors such as "a-to-b", one for each episode.
func newSaga(mirrors ...string) *saga {
	s := &saga{
		logs: map[string]map[string][]spec{}, own: map[string]map[string]map[int64]bool{}, epoch: map[string]int32{},
		next: map[string]int64{}, saved: map[int32]map[string]map[string][]spec{}, legs: map[int32]*leg{},
		edges: map[string]Edge{}, before: map[string]func(*saga){}, topic: "t",
	}
	s.run = Run{
		Version: RunVersion, Scenario: "hand-made", Seed: 7, Command: "go test", Profile: ProfileV42,
		Topics: []Topic{{Name: "t", Partitions: 1}, {Name: "e", Partitions: 1, Empty: []int32{0}}, {Name: "q", Partitions: 1}},
		Floors: Floors{Before: 5, During: 1, After: 5},
	}
	cluster := func(name string) {
		if s.logs[name] == nil {
			s.logs[name] = map[string][]spec{}
			s.own[name] = map[string]map[int64]bool{"t": {}, "e": {}, "q": {}}
			s.epoch[name] = int32(3 + len(s.logs))
			s.run.Clusters = append(s.run.Clusters, Cluster{Name: name, ID: clusterIDs[name], Nodes: []int32{1}})
		}
	}
	for i, m := range mirrors {
		src, dst := strings.ToUpper(m[:1]), strings.ToUpper(m[len(m)-1:])
		cluster(src)
		cluster(dst)
		if _, known := s.edges[m]; !known {
			s.edges[m] = Edge{Mirror: m, Source: src, Destination: dst, Topics: sagaTopics}
			s.run.Edges = append(s.run.Edges, s.edges[m])
		}
		n := int32(i + 1)
		logs := EpisodeDir(n)
		if i == len(mirrors)-1 {
			logs = LogsDir
		}
		s.run.Episodes = append(s.run.Episodes, Episode{Number: n, Mirror: m, Logs: logs, Exercises: everyEpisode()})
		s.run.Faults = append(s.run.Faults, PlannedFault{ID: fmt.Sprint("f", n), Episode: n, Name: "hold-and-release", Link: "mirror:" + src + "->" + dst, Phase: "before:fetchers-removed"})
		s.legs[n] = &leg{n: n, mirror: m, src: src, dst: dst}
	}
	return s
}

// everyEpisode is what each episode of a saga exercises.
func everyEpisode() []string {
	ids := []string{}
	for _, c := range checks {
		ids = append(ids, c.id)
	}
	return ids
}

func (s *saga) at(moment string, n int32) {
	if f := s.before[fmt.Sprint(moment, " ", n)]; f != nil {
		f(s)
		delete(s.before, fmt.Sprint(moment, " ", n))
	}
}

func (s *saga) add(e history.Event) {
	e.Episode, e.Seq = s.ep, int64(len(s.events)+1)
	e.At = e.Seq * 1_000_000
	s.events = append(s.events, e)
}

func (s *saga) phase(name history.PhaseName) {
	s.add(history.Event{Kind: history.KindPhase, Phase: &history.Phase{Name: name}})
}

func (s *saga) end(cluster, topic string) int64 { return endOf(s.logs[cluster][topic]) }

func endOf(log []spec) int64 {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].base + log[len(log)-1].count()
}

// send is a write with its answer; the log gets it where the answer is OK.
func (s *saga) send(cluster, writer string, mode history.Mode, pid int64, epoch int16, seq int32, n int, txn int64, intent history.Intent, c history.Collision, res history.Result) spec {
	b := spec{base: s.end(cluster, s.topic), epoch: s.epoch[cluster], pid: pid, pepoch: epoch, seq: seq, payload: "payload", time: 1000 + int64(len(s.events))}
	if mode == history.Transactional {
		b.attributes = transactional
	}
	for range n {
		key := cluster + "/" + writer
		b.tags = append(b.tags, history.Tag{Cluster: cluster, Writer: writer, Txn: txn, Intent: intent, Index: s.next[key], Place: s.topic + "-0"})
		s.next[key]++
	}
	s.op++
	p := history.Produce{
		Writer: writer, Cluster: cluster, Topic: s.topic, Mode: mode, Tag: b.tags[0], Count: int32(n), Offset: -1, Collision: c,
		Batch: &history.BatchID{ProducerID: pid, Epoch: epoch, BaseSequence: seq},
	}
	begin := p
	s.add(history.Event{Kind: history.KindProduceBegin, Op: s.op, Produce: &begin})
	p.Result = &res
	if res.Outcome == history.OK {
		p.Offset = b.base
		s.logs[cluster][s.topic] = append(s.logs[cluster][s.topic], b)
	}
	s.add(history.Event{Kind: history.KindProduceAck, Op: s.op, Produce: &p})
	return b
}

func (s *saga) idem(cluster, writer string, pid int64, epoch int16, seq int32, n int, c history.Collision) {
	s.send(cluster, writer, history.Idempotent, pid, epoch, seq, n, history.NoTxn, history.IntentNone, c, ok)
}

func (s *saga) plain(cluster, writer string, n int) {
	s.send(cluster, writer, history.Plain, -1, -1, -1, n, history.NoTxn, history.IntentNone, "", ok)
}

func (s *saga) txn(cluster, writer string, pid int64, epoch int16, number int64, intent history.Intent) {
	s.send(cluster, writer, history.Transactional, pid, epoch, 0, 1, number, intent, "", ok)
	if intent != history.IntentOpen {
		s.endTxn(cluster, writer, pid, epoch+1, number, intent)
	}
}

func (s *saga) endTxn(cluster, writer string, pid int64, epoch int16, number int64, intent history.Intent) {
	kind := wirelog.Commit
	if intent == history.IntentAbort {
		kind = wirelog.Abort
	}
	s.logs[cluster]["t"] = append(s.logs[cluster]["t"], marker(s.end(cluster, "t"), s.epoch[cluster], pid, epoch, kind))
	s.op++
	s.add(history.Event{Kind: history.KindTxnEnd, Op: s.op, Txn: &history.Txn{Writer: writer, Cluster: cluster, Number: number, Intent: intent, Result: &ok}})
}

// source is the traffic on the source before the mirror is stopped: commits and
// aborts, what the forged collisions are to meet, a plain record.
func (s *saga) source(n int32) {
	s.ep = n
	s.at("profile", 0)
	l := s.legs[n]
	l.pid = int64(n) * 100
	w := func(name string) string { return fmt.Sprint(strings.ToLower(l.src), n, "-", name) }
	s.phase(history.TrafficBefore)
	s.add(history.Event{Kind: history.KindConnection, Connection: &history.Connection{Client: w("txn"), Cluster: l.src, ClusterID: clusterIDs[l.src]}})
	s.txn(l.src, w("txn"), l.pid+1, 0, 0, history.IntentCommit)
	s.txn(l.src, w("txn"), l.pid+1, 1, 1, history.IntentAbort)
	s.idem(l.src, w("idem"), l.pid+2, 0, 0, 3, "")
	s.plain(l.src, w("plain"), 1)
	s.idem(l.src, w("raw"), l.pid+9, 3, 0, 2, "")
	s.idem(l.src, w("raw"), l.pid+10, 3, 0, 1, "")
	s.topic = "q"
	s.idem(l.src, w("quiet"), l.pid+20, 0, 0, 2, "")
	s.topic = "t"
}

// abandon leaves a transaction open on a cluster that is to mirror soon.
func (s *saga) abandon(cluster, writer string, pid int64, epoch int16, number int64) {
	s.add(history.Event{Kind: history.KindTxnBegin, Txn: &history.Txn{Writer: writer, Cluster: cluster, TransactionalID: writer + "-id", Number: number, Intent: history.IntentAbort}})
	s.txn(cluster, writer, pid, epoch, number, history.IntentOpen)
}

// again takes up its transactional id while the cluster mirrors.
func (s *saga) again(n int32, writer string, res history.Result) {
	s.ep = n
	s.add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{Writer: writer, Cluster: s.legs[n].dst, TransactionalID: writer + "-id", Result: &res}})
}

// restart ends the promoted cluster's broker and starts it again.
func (s *saga) restart(n int32, how history.NodeEvent) {
	l := s.legs[n]
	for _, what := range []history.NodeEvent{how, history.NodeStarted} {
		s.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: l.dst, Node: 1, What: what}})
	}
	s.sample(l.dst, n, history.WhenAfterRestart)
}

// dump is what the dump tool prints of barriers.
func (s *saga) dump(l *leg) {
	for _, topic := range sagaTopics {
		d := Dump{Episode: l.n, Cluster: l.dst, Topic: topic, Path: DumpPath(l.n, l.dst, topic, 0)}
		for _, b := range s.logs[l.dst][topic] {
			d.Text += fmt.Sprintf("baseOffset: %d lastOffset: %d\n| offset: %d", b.base, b.base+b.count()-1, b.base)
			if len(b.key) == 4 && b.key[3] == 7 {
				d.Text += fmt.Sprintf(` headerKeys: [] MirrorPidReset {"version":0,"sourceClusterId":%q}`, b.value[3:len(b.value)-1])
			}
			d.Text += "\n"
		}
		s.dumps = append(s.dumps, d)
	}
}

// start starts the leg's mirror: the destination cuts where the logs part, and copies.
func (s *saga) start(n int32) {
	s.ep = n
	l := s.legs[n]
	s.op++
	rpc := history.MirrorRPC{Cluster: l.dst, API: startAPI, Mirror: l.mirror, Topics: sagaTopics}
	s.add(history.Event{Kind: history.KindMirrorRPCBegin, Op: s.op, MirrorRPC: &rpc})
	s.at("align", n)
	s.copy(n)
	for _, topic := range sagaTopics {
		s.state(l, topic, "MIRRORING", -1, -1)
	}
	s.phase(history.Mirroring)
}

// copy makes the destination hold what the source does.
func (s *saga) copy(n int32) {
	l := s.legs[n]
	for _, topic := range sagaTopics {
		src, dst := s.logs[l.src][topic], s.logs[l.dst][topic]
		common := 0
		for common < len(src) && common < len(dst) && bytes.Equal(src[common].encode(), dst[common].encode()) {
			common++
		}
		s.cut(l.dst, topic, endOf(dst[:common]))
		s.logs[l.dst][topic] = append(s.logs[l.dst][topic], slices.Clone(src[common:])...)
		for _, b := range src[common:] {
			if s.run.latest() && !s.keeps && len(b.key) == 4 && b.key[3] == 7 {
				s.own[l.dst][topic][b.base] = true // any barrier expires producers
			}
		}
	}
	s.epoch[l.dst] = max(s.epoch[l.dst], s.epoch[l.src])
}

// cut truncates a log to offset.
func (s *saga) cut(cluster, topic string, offset int64) {
	log := s.logs[cluster][topic]
	i := slices.IndexFunc(log, func(b spec) bool { return b.base >= offset })
	if i >= 0 {
		s.logs[cluster][topic] = slices.Clone(log[:i])
	}
	maps.DeleteFunc(s.own[cluster][topic], func(at int64, _ bool) bool { return at >= offset })
}

func (s *saga) state(l *leg, topic, state string, at, barrierAt int64) {
	end := s.end(l.dst, topic)
	s.add(history.Event{Kind: history.KindMirrorState, Mirror: &history.Mirror{
		Cluster: l.dst, Mirror: l.mirror, Topic: topic, State: state, SourceOffset: end, DestinationOffset: end, LastMirrored: at, BarrierOffset: barrierAt,
	}})
}

// open leaves a transaction open at the source, which the destination holds, and
// tries to write to the destination.
func (s *saga) open(n int32) {
	s.ep = n
	l := s.legs[n]
	src := strings.ToLower(l.src)
	s.txn(l.src, fmt.Sprint(src, n, "-txn"), l.pid+1, 2, 2, history.IntentOpen)
	s.idem(l.src, fmt.Sprint(src, n, "-idem"), l.pid+2, 0, 3, 1, "")
	s.copy(n)
	s.state(l, "t", "MIRRORING", -1, -1)
	s.probes(l)
	if slices.ContainsFunc(s.events, func(e history.Event) bool { return e.Kind == history.KindTxnBegin && e.Txn.Cluster == l.dst }) {
		s.again(n, "zombie-txn", ok)
	}
	s.sample(l.src, n, history.WhenMirroring)
	s.sample(l.dst, n, history.WhenMirroring)
	s.fetch(l, history.Fetch{Served: history.AtOnce, Isolation: history.ReadCommitted})
	refused := history.Result{Outcome: history.Refused, Code: 44, Message: "the topic is mirrored"}
	s.add(history.Event{Kind: history.KindProbe, Probe: &history.Probe{What: history.ProbeDeleteRecords, Cluster: l.dst, Topic: "t", State: "MIRRORING", Result: &refused}})
	s.sample(l.dst, n, history.WhenMirroring)
}

func (s *saga) probes(l *leg) {
	refused := history.Result{Outcome: history.Refused, Code: 134, Message: "the topic is mirrored"}
	for _, mode := range []history.Mode{history.Plain, history.Idempotent, history.Transactional} {
		s.send(l.dst, fmt.Sprint(strings.ToLower(l.dst), l.n, "-probe-", mode), mode, 40, 0, 0, 1, history.NoTxn, history.IntentNone, "", refused)
	}
	s.add(history.Event{Kind: history.KindAddPartitions, AddPartitions: &history.AddPartitions{Cluster: l.dst, Topic: "t", TransactionalID: "x", Result: &refused}})
}

func (s *saga) fault(l *leg, kind history.Kind, f history.Fault) {
	f.ID, f.Name, f.Link = fmt.Sprint("f", l.n), "hold-and-release", "mirror:"+l.src+"->"+l.dst
	s.add(history.Event{Kind: kind, Fault: &f})
}

// request asks for the stop; more is written to the source, which the cut link holds.
func (s *saga) request(n int32) {
	s.ep = n
	l := s.legs[n]
	s.phase(history.StopRequested)
	s.fault(l, history.KindFaultStart, history.Fault{})
	s.add(history.Event{Kind: history.KindGate, Gate: &history.Gate{Cluster: l.dst, Node: 1, Point: "before:fetchers-removed", What: history.GateArrived}})
	s.fault(l, history.KindFaultProof, history.Fault{HeldBefore: 200, BytesHeld: 200})
	s.idem(l.src, fmt.Sprint(strings.ToLower(l.src), n, "-idem"), l.pid+2, 0, 4, 1, "")
	s.probes(l)
}

// inLatest are the moments of a saga in profile kip1279-latest.
func inLatest() map[string]func(*saga) {
	return map[string]func(*saga){"profile 0": func(s *saga) { s.run.Profile = ProfileLatest }}
}

// abortOpen is what STOPPING does in profile kip1279-latest instead of the cut: it
// ends what is open by markers from the log's end on.
func (s *saga) abortOpen(l *leg, topic string) (lowest int64) {
	lowest = s.end(l.dst, topic)
	known := modelOf(s.logs[l.dst][topic], s.own[l.dst][topic]).producers
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if p := known[id]; p.CurrentTxnStart >= 0 {
			s.logs[l.dst][topic] = append(s.logs[l.dst][topic], marker(s.end(l.dst, topic), s.epoch[l.dst], id, int16(p.Epoch), wirelog.Abort))
		}
	}
	return lowest
}

// stop does what STOPPING does: cut, barrier, STOPPED.
func (s *saga) stop(n int32) {
	s.ep = n
	l := s.legs[n]
	s.epoch[l.dst]++
	lowest := map[string]int64{}
	for _, topic := range sagaTopics {
		at := modelOf(s.logs[l.dst][topic], s.own[l.dst][topic]).lso
		if lowest[topic] = at; s.run.latest() {
			lowest[topic] = s.abortOpen(l, topic)
			at = s.end(l.dst, topic)
		}
		s.cut(l.dst, topic, at)
		if topic == "t" {
			l.l = at
		}
		s.logs[l.dst][topic] = append(s.logs[l.dst][topic], barrier(at, s.epoch[l.dst], clusterIDs[l.src]))
		s.own[l.dst][topic][at] = true
	}
	s.at("stopped", n)
	for _, topic := range sagaTopics {
		at := endOf(s.logs[l.dst][topic]) - 1
		if !s.run.latest() {
			lowest[topic] = at // a hook may have moved it
		}
		s.state(l, topic, "STOPPED", lowest[topic], at)
	}
	s.phase(history.Stopped)
	s.sample(l.dst, n, history.WhenAfterStop)
	for _, r := range []string{"rc", "ru"} {
		s.position(l, r, "e", 0, false)
	}
	s.fault(l, history.KindFaultStop, history.Fault{HeldBefore: 200, BytesHeld: 200, BytesReleased: 200})
}

// late ends at the source what was open when its mirror was stopped.
func (s *saga) late(n int32) {
	s.ep = n
	l := s.legs[n]
	s.endTxn(l.src, fmt.Sprint(strings.ToLower(l.src), n, "-txn"), l.pid+1, 3, 2, history.IntentCommit)
}

// sample asks a cluster for ends and producers of both topics.
func (s *saga) sample(cluster string, n int32, when history.When) {
	s.ep = n
	for _, topic := range sagaTopics {
		m := modelOf(s.logs[cluster][topic], s.own[cluster][topic])
		end, epoch := s.end(cluster, topic), s.epoch[cluster]
		s.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: cluster, Node: 1, Topic: topic, HighWatermark: end, LastStableOffset: m.lso, LogEndOffset: end, LeaderEpoch: &epoch, LogStartOffset: s.startOf(end), EpochEnds: epochEndsOf(s.logs[cluster][topic], s.startOf(end), epoch)}})
		d := &history.Producers{Cluster: cluster, Node: 1, Topic: topic, When: when}
		for _, id := range slices.Sorted(maps.Keys(m.producers)) {
			d.Active = append(d.Active, m.producers[id])
		}
		s.add(history.Event{Kind: history.KindDescribeProducers, Producers: d})
	}
}

// startOf is where a log of that end begins.
func (s *saga) startOf(end int64) int64 {
	if s.begun {
		return end / 2
	}
	return 0
}

// epochEndsOf is what a leader answers where epochs up to the given one end, as Kafka's
// epoch cache does.
func epochEndsOf(log []spec, start int64, epoch int32) (all []history.EpochEnd) {
	log = slices.DeleteFunc(slices.Clone(log), func(b spec) bool { return b.base+b.count() <= start })
	for asked := range epoch + 1 {
		e := history.EpochEnd{Asked: asked, Epoch: -1, End: -1}
		latest := int32(-1)
		for _, b := range log {
			latest = b.epoch
			if b.epoch > asked {
				break
			}
			e.Epoch, e.End = b.epoch, b.base+b.count()
		}
		switch {
		case e.Epoch < 0 && latest > asked:
			e.Epoch, e.End = asked, max(start, log[0].base)
		case e.Epoch >= 0 && e.Epoch < asked && latest < asked: // later than the last one
			e.Epoch, e.End = -1, -1
		}
		all = append(all, e)
	}
	return all
}

// promoted is the traffic on the promoted cluster, and what readers see of it.
func (s *saga) promoted(n int32) {
	s.ep = n
	l := s.legs[n]
	w := func(name string) string { return fmt.Sprint(strings.ToLower(l.dst), n, "-", name) }
	s.phase(history.TrafficAfter)
	s.idem(l.dst, w("raw"), l.pid+2, 0, 0, 3, history.SameHeader)
	s.idem(l.dst, w("raw"), l.pid+9, 2, 0, 1, history.LowerEpoch)
	s.idem(l.dst, w("raw"), l.pid+10, 3, 7, 1, history.SequenceGap)
	s.plain(l.dst, w("probe-plain"), 1)
	s.txn(l.dst, w("txn"), l.pid+1, 0, 0, history.IntentCommit)
	s.txn(l.dst, w("txn"), l.pid+1, 1, 1, history.IntentAbort)
	s.idem(l.dst, w("idem"), l.pid+3, 0, 0, 1, "")
	s.at("settled", n)
	s.phase(history.Settled)
	s.sample(l.dst, n, history.WhenAfterStop)
	s.views(l)
	s.restart(n, history.NodeKilled)
	s.restart(n, history.NodeStopped)
	s.dump(l)
	s.saved[n] = map[string]map[string][]spec{}
	for _, cluster := range []string{l.src, l.dst} {
		s.saved[n][cluster] = map[string][]spec{}
		for topic, log := range s.logs[cluster] {
			s.saved[n][cluster][topic] = slices.Clone(log)
		}
	}
}

func (s *saga) position(l *leg, reader, topic string, at int64, final bool) {
	s.add(history.Event{Kind: history.KindReaderPosition, Reader: &history.Reader{Reader: fmt.Sprint(reader, l.n), Cluster: l.dst, Topic: topic, Isolation: isolation(reader), Position: at, Final: final}})
}

// views fetches and reads the destination's topic t.
func (s *saga) views(l *leg) {
	for _, f := range []history.Fetch{
		{FetchOffset: 0, Served: history.AtOnce, Isolation: history.ReadCommitted},
		{FetchOffset: 0, Served: history.LongPoll, Isolation: history.ReadCommitted},
		{FetchOffset: l.l + 1, Served: history.AtOnce, Isolation: history.ReadCommitted},
		{FetchOffset: 0, Served: history.AtOnce, Isolation: history.ReadUncommitted, AbortedNull: true},
	} {
		s.fetch(l, f)
	}
	log := s.logs[l.dst]["t"]
	m := modelOf(log, s.own[l.dst]["t"])
	hw := endOf(log)
	for _, reader := range []string{"rc", "ru"} {
		for _, b := range log {
			for i, tag := range b.tags {
				if reader == "ru" || !m.hidden[b.base] {
					s.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: fmt.Sprint(reader, l.n), Cluster: l.dst, Topic: "t", Isolation: isolation(reader), Offset: b.base + int64(i), Tag: tag.String()}})
				}
			}
		}
		s.position(l, reader, "t", hw, true)
	}
}

// fetch fetches from the destination's topic t as far as readers may.
func (s *saga) fetch(l *leg, f history.Fetch) {
	m := modelOf(s.logs[l.dst]["t"], s.own[l.dst]["t"])
	f.Cluster, f.Node, f.Topic = l.dst, 1, "t"
	f.HighWatermark, f.LastStableOffset = s.end(l.dst, "t"), m.lso
	f.NextOffset = f.HighWatermark
	if f.Isolation == history.ReadCommitted {
		f.NextOffset = f.LastStableOffset
		for _, a := range m.aborted {
			if a.end >= f.FetchOffset {
				f.Aborted = append(f.Aborted, a.Aborted)
			}
		}
	}
	s.add(history.Event{Kind: history.KindFetch, Fetch: &f})
}

// truth is what a broker has to make of a log.
type truth struct {
	producers map[int64]history.ProducerState
	aborted   []abortedTxn
	hidden    map[int64]bool // batches that read_committed readers don't see
	lso       int64
}

// modelOf replays a log whose own barriers lie at the offsets in own.
func modelOf(log []spec, own map[int64]bool) truth {
	m := truth{producers: map[int64]history.ProducerState{}, hidden: map[int64]bool{}, lso: endOf(log)}
	open := map[int64][]int64{}
	for _, b := range log {
		if own[b.base] && b.attributes&control != 0 && len(b.key) == 4 && b.key[3] == 7 {
			m.producers, open = map[int64]history.ProducerState{}, map[int64][]int64{}
		}
		if b.pid < 0 {
			continue
		}
		p, known := m.producers[b.pid]
		if !known || p.Epoch != int32(b.pepoch) {
			start := int64(-1)
			if known {
				start = p.CurrentTxnStart
			}
			p = history.ProducerState{ProducerID: b.pid, Epoch: int32(b.pepoch), LastSequence: -1, CurrentTxnStart: start, CoordinatorEpoch: -1}
		}
		switch {
		case b.attributes&control != 0:
			p.CurrentTxnStart, p.CoordinatorEpoch = -1, 0
			if batches := open[b.pid]; len(batches) > 0 && b.key[3] == 0 {
				m.aborted = append(m.aborted, abortedTxn{history.Aborted{ProducerID: b.pid, FirstOffset: batches[0]}, b.base})
				for _, at := range batches {
					m.hidden[at] = true
				}
			}
			delete(open, b.pid)
		default:
			p.LastSequence = b.seq + int32(len(b.tags)) - 1
			if b.attributes&transactional != 0 {
				open[b.pid] = append(open[b.pid], b.base)
				if p.CurrentTxnStart < 0 {
					p.CurrentTxnStart = b.base
				}
			}
		}
		p.LastTimestamp = b.time
		m.producers[b.pid] = p
	}
	for _, batches := range open {
		m.lso = min(m.lso, batches[0])
	}
	return m
}

func (s *saga) evidence(t testing.TB) *Evidence {
	require.Empty(t, s.before, "moments that never came")
	ev := &Evidence{Run: s.run, Events: s.events, Captured: map[int32][]*Replica{}, Dumps: s.dumps}
	require.NoError(t, s.run.Validate())
	for _, e := range s.run.Episodes {
		if e.Logs == LogsDir {
			ends := maps.Clone(s.logs) // of clusters that the last episode is not about
			maps.Copy(ends, s.saved[e.Number])
			ev.Replicas = replicas(t, LogsDir, ends)
			continue
		}
		ev.Captured[e.Number] = replicas(t, e.Logs, s.saved[e.Number])
	}
	return ev
}

func replicas(t testing.TB, dir string, logs map[string]map[string][]spec) []*Replica {
	return replicasOf(t, dir, logs, sagaTopics...)
}

func replicasOf(t testing.TB, dir string, logs map[string]map[string][]spec, topics ...string) []*Replica {
	var all []*Replica
	for _, cluster := range slices.Sorted(maps.Keys(logs)) {
		for _, topic := range topics {
			r := &Replica{Cluster: cluster, Node: 1, Topic: topic, Dir: LogDirIn(dir, cluster, 1, topic, 0)}
			var data []byte
			for _, b := range logs[cluster][topic] {
				data = append(data, b.encode()...)
			}
			for b, err := range wirelog.Segment("00000000000000000000.log", data) {
				require.NoError(t, err)
				r.Batches = append(r.Batches, b)
			}
			all = append(all, r)
		}
	}
	return all
}

// failover plays one whole leg, from traffic to promotion.
func (s *saga) failover(n int32) {
	s.source(n)
	s.start(n)
	s.open(n)
	s.request(n)
	s.stop(n)
	s.late(n)
	s.promoted(n)
}

// The shapes, each with what it calls at its moments.
var shapes = map[string]func(before map[string]func(*saga)) *saga{
	"failback": func(before map[string]func(*saga)) *saga {
		s := newSaga("a-to-b", "b-to-a", "a-to-b")
		s.before = before
		s.failover(1)
		s.ep = 2 // A lives on, and elects the epochs that B uses
		s.epoch["A"] += 2
		s.idem("A", "zombie", 102, 0, 5, 2, "")
		s.abandon("A", "zombie-txn", 199, 3, 0)
		s.failover(2)
		s.failover(3)
		return s
	},
	"resumed": func(before map[string]func(*saga)) *saga {
		s := newSaga("a-to-b", "a-to-b")
		s.before = before
		s.failover(1)
		s.ep = 2
		s.abandon("B", "zombie-txn", 199, 3, 0)
		s.failover(2)
		return s
	},
	"chain": func(before map[string]func(*saga)) *saga {
		s := newSaga("a-to-b", "b-to-c", "c-to-d")
		s.before = before
		s.source(1)
		for _, n := range []int32{1, 2, 3} {
			s.start(n)
		}
		s.open(1)
		s.copy(2)
		s.copy(3)
		s.request(1)
		s.stop(1)
		s.late(1)
		s.promoted(1)
		for _, n := range []int32{2, 3} {
			s.ep = n
			for running := n; running <= 3; running++ {
				s.copy(running)
			}
			s.source(n)
			s.open(n)
			s.request(n)
			s.stop(n)
			s.late(n)
			s.promoted(n)
		}
		return s
	},
	"fan-out": func(before map[string]func(*saga)) *saga {
		s := newSaga("a-to-b", "a-to-c")
		s.before = before
		s.source(1)
		s.start(1)
		s.source(2)
		s.start(2)
		s.open(1)
		s.open(2)
		s.copy(1)
		s.ep = 1
		s.state(s.legs[1], "t", "MIRRORING", -1, -1)
		s.request(1)
		s.request(2)
		s.stop(1)
		s.stop(2)
		s.late(1)
		s.late(2)
		s.promoted(2)
		s.promoted(1)
		return s
	},
}
