package check

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// never is a place in the history after all events.
const never int64 = math.MaxInt64

// judge is what the checks of one stop share, the view of one episode: its
// moments, and each mirrored partition with its logs taken apart by provenance.
type judge struct {
	trial *trial
	// ev holds what belongs to the episode, and nothing else.
	ev      *Evidence
	run     *Run
	episode Episode
	// number and mirror tell the episode in findings: 0 and empty in a run that
	// tells none.
	number int32
	mirror string
	edge   *edge
	order  []*operation // the writes in the order in which they began
	bySpot map[spot][]*operation
	// streams are what readers saw, in the order of their first read.
	streams []*stream
	// end is the episode's last event.
	end moment
}

// spot is a partition of a cluster.
type spot struct {
	cluster, topic string
	index          int32
}

// edge is one mirror with its stop. Moments are numbers of events
// (history.Event.Seq), whose order is the order in which the runner saw things;
// never where it did not happen.
type edge struct {
	Edge
	src, dst *Cluster
	parts    []*part

	started       int64 // the mirror's start was asked for
	mirroring     int64 // every partition was seen MIRRORING
	stopRequested int64
	stopped       int64 // every partition was seen STOPPED
	trafficAfter  int64 // every node that was struck is back, and serves
	settled       int64
	stopAt        int64 // time of the request, nanoseconds since 1970
	stoppedAt     int64
}

// part is one mirrored partition.
type part struct {
	*edge
	topic  string
	index  int32
	source *side   // the source's longest replica; nil when its log is not there
	dests  []*side // every replica of the destination
	lead   *side   // the destination's longest replica; nil when there is none

	reportedL       int64 // what the destination said, -1 unknown
	reportedBarrier int64
	mirroring       int64 // when the partition was first seen MIRRORING
	stopped         int64 // when it was first seen STOPPED after the request
	maxEndSeen      int64 // the highest log end the destination showed while it mirrored
	// writable is since when clients' records at the source count: see
	// [judge.writableSince].
	writable int64
	// latest says that the run's profile is kip1279-latest.
	latest bool
}

// since is when the mirror was started: what began before belongs to an earlier
// period of the destination's. 0 where the history does not tell.
func (p *part) since() int64 {
	if p.started == never {
		return 0
	}
	return p.started
}

func (p *part) place() string { return history.Place(p.topic, p.index) }

func newView(t *trial, g *Edge, ep Episode, events []history.Event, end moment) *judge {
	j := &judge{
		trial: t, run: t.run, episode: ep, number: ep.Number, mirror: ep.Mirror, end: end,
		ev: &Evidence{Dir: t.ev.Dir, Run: t.ev.Run, Events: events, Replicas: t.logsOf(ep)},
		edge: &edge{
			Edge: *g, src: t.run.Cluster(g.Source), dst: t.run.Cluster(g.Destination),
			started: never, mirroring: never, stopRequested: never, stopped: never, trafficAfter: never, settled: never,
		},
	}
	for i := range events {
		j.event(&events[i])
	}
	j.takeWrites()
	j.streams = t.ledger.streamsOf(func(episode int32) bool { return ep.Number == 0 || episode == 0 || episode == ep.Number }, end.seq)
	return j
}

// takeWrites takes the writes that began in the view.
func (j *judge) takeWrites() {
	if j.end.seq >= j.trial.ledger.last.seq {
		j.order, j.bySpot = j.trial.ledger.writes, j.trial.ledger.bySpot()
		return
	}
	j.bySpot = map[spot][]*operation{}
	for _, o := range j.trial.ledger.writes {
		if o.began > j.end.seq {
			continue
		}
		o = o.answeredBy(j.end.seq)
		j.order = append(j.order, o)
		j.bySpot[o.spot()] = append(j.bySpot[o.spot()], o)
	}
}

// sentTo are the writes to a partition of a cluster, in the order in which they
// began.
func (j *judge) sentTo(cluster, topic string, index int32) []*operation {
	return j.bySpot[spot{cluster, topic, index}]
}

// local are the writes to the partition on the destination.
func (j *judge) local(p *part) []*operation { return j.sentTo(p.dst.Name, p.topic, p.index) }

// seenIn are what readers saw of the partition on the destination.
func (j *judge) seenIn(p *part) []*stream {
	var all []*stream
	for _, s := range j.streams {
		if p.of(p.Destination, s.Cluster, s.Topic, s.Partition) {
			own := *s
			all = append(all, &own)
		}
	}
	return all
}

// withAnswers iterates over the view's events and the answers to writes to a
// partition of a cluster, in their order.
func (j *judge) withAnswers(cluster, topic string, index int32) iter.Seq[*history.Event] {
	return withAnswers(j.ev.Events, j.sentTo(cluster, topic, index))
}

func withAnswers(events []history.Event, writes []*operation) iter.Seq[*history.Event] {
	return func(yield func(*history.Event) bool) {
		left := slices.DeleteFunc(slices.Clone(writes), func(o *operation) bool { return o.ended == never })
		slices.SortStableFunc(left, func(a, b *operation) int { return cmp.Compare(a.ended, b.ended) })
		answers := func(until int64) bool {
			for len(left) > 0 && left[0].ended < until {
				if e := left[0].answer(); !yield(&e) {
					return false
				}
				left = left[1:]
			}
			return true
		}
		for i := range events {
			if e := &events[i]; !answers(e.Seq) || !yield(e) {
				return
			}
		}
		answers(never)
	}
}

// answer is the event of the operation's answer, as far as it is kept.
func (o *operation) answer() history.Event {
	return history.Event{Seq: o.ended, Kind: history.KindProduceAck, Produce: &history.Produce{
		Writer: o.sent.Writer, Cluster: o.sent.Cluster, Topic: o.sent.Topic, Partition: o.sent.Partition,
		Mode: o.sent.Mode, Tag: o.sent.Tag(), Count: o.sent.Count, Collision: o.sent.Collision, Trial: o.sent.Trial,
		Batch: o.sent.Batch, Offset: o.offset, Result: o.result,
	}}
}

func (j *judge) event(e *history.Event) {
	edge := j.edge
	switch e.Kind {
	case history.KindMirrorRPCBegin:
		if e.MirrorRPC.API == startAPI && e.MirrorRPC.Mirror == edge.Mirror {
			edge.started = min(edge.started, e.Seq)
		}
	case history.KindPhase:
		if e.Phase.Mirror != "" && e.Phase.Mirror != edge.Mirror {
			return
		}
		switch e.Phase.Name {
		case history.Mirroring:
			edge.mirroring = min(edge.mirroring, e.Seq)
		case history.StopRequested:
			if e.Seq < edge.stopRequested {
				edge.stopRequested, edge.stopAt = e.Seq, e.At
			}
		case history.Stopped:
			if e.Seq < edge.stopped {
				edge.stopped, edge.stoppedAt = e.Seq, e.At
			}
		case history.TrafficAfter:
			edge.trafficAfter = min(edge.trafficAfter, e.Seq)
		case history.Settled:
			edge.settled = min(edge.settled, e.Seq)
		}
	}
}

func (j *judge) newPart(topic string, index int32) *part {
	e := j.edge
	p := &part{
		edge: e, topic: topic, index: index, latest: j.run.latest(), reportedL: -1, reportedBarrier: -1,
		mirroring: e.mirroring, stopped: e.stopped, maxEndSeen: -1,
	}
	for i := range j.ev.Events {
		p.observe(&j.ev.Events[i])
	}
	p.writable = j.writableSince(topic, index)
	if r := longest(j.ev.replicasOf(e.Source, topic, index)); r != nil {
		p.source = j.trial.line(r)
	}
	older := j.olderBarriers(topic, index)
	for _, r := range j.ev.replicasOf(e.Destination, topic, index) {
		s := newDestination(j, p, r, older)
		p.dests = append(p.dests, s)
		if p.lead == nil || end(r) > end(p.lead.Replica) {
			p.lead = s
		}
		r.release()
	}
	if p.source != nil {
		p.source.release()
	}
	return p
}

// olderBarriers are those that the view's destination wrote in earlier
// episodes.
func (j *judge) olderBarriers(topic string, index int32) []*wirelog.Batch {
	var all []*wirelog.Batch
	for _, other := range j.trial.views {
		if other == j {
			break
		}
		if p := other.part(topic, index); p != nil && other.edge.Destination == j.edge.Destination {
			for _, s := range p.dests {
				for _, i := range s.barriers() {
					all = append(all, s.entries[i].Batch)
				}
			}
		}
	}
	return all
}

// observe takes from the history what the destination said about the partition.
func (p *part) observe(e *history.Event) {
	switch {
	case e.Mirror != nil && e.Mirror.Cluster == p.dst.Name && e.Mirror.Topic == p.topic && e.Mirror.Partition == p.index:
		m := e.Mirror
		if m.State == "MIRRORING" {
			p.mirroring = min(p.mirroring, e.Seq)
		}
		if m.State == "STOPPED" && e.Seq > p.stopRequested {
			p.edge.noteStopped(p, e.Seq)
		}
		if e.Seq > p.stopRequested {
			if m.LastMirrored >= 0 {
				p.reportedL = m.LastMirrored
			}
			if m.BarrierOffset >= 0 {
				p.reportedBarrier = m.BarrierOffset
			}
		}
		if e.Seq < p.stopped && m.State != "STOPPED" && e.Seq >= p.mirroring {
			p.maxEndSeen = max(p.maxEndSeen, m.DestinationOffset)
		}
	case e.Offsets != nil && e.Offsets.Cluster == p.dst.Name && e.Offsets.Topic == p.topic && e.Offsets.Partition == p.index:
		if e.Seq < p.stopRequested && e.Seq >= p.mirroring {
			p.maxEndSeen = max(p.maxEndSeen, e.Offsets.HighWatermark, e.Offsets.LogEndOffset)
		}
	case e.Fetch != nil && e.Fetch.Cluster == p.dst.Name && e.Fetch.Topic == p.topic && e.Fetch.Partition == p.index:
		if e.Seq < p.stopRequested && e.Seq >= p.mirroring && e.Fetch.Code == 0 {
			p.maxEndSeen = max(p.maxEndSeen, e.Fetch.HighWatermark)
		}
	}
}

func (e *edge) noteStopped(p *part, seq int64) { p.stopped = min(p.stopped, seq) }

func end(r *Replica) int64 {
	if len(r.Batches) == 0 {
		return 0
	}
	return r.Batches[len(r.Batches)-1].NextOffset()
}

// parts returns every mirrored partition of the episode.
func (j *judge) parts() []*part { return j.edge.parts }

// needStop notes on r that the failover has to be complete and its logs there.
func (j *judge) needStop(r *ruling) {
	for _, p := range j.parts() {
		if p.stopped == never {
			r.need(false, "%s was never seen STOPPED", p.place())
		}
		if p.lead == nil {
			r.need(false, "the log of %s on cluster %s is missing", p.place(), p.Destination)
		}
		if p.source == nil {
			r.need(false, "the log of %s on cluster %s is missing", p.place(), p.Source)
		}
	}
	r.need(len(j.parts()) > 0, "the run mirrors no partition")
}
