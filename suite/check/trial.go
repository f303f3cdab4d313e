package check

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"watershed.example/suite/history"
)

// trial is a whole run before the judge. Checks of one stop look at one view;
// checks that span episodes look at all of them.
type trial struct {
	ev    *Evidence
	run   *Run
	views []*judge // one for each episode that began, in their order
	// idle are the episodes of which nothing was seen: the run ended before.
	idle []Episode

	ledger *ledger
	// contents and lines hold the logs that were read already: views share
	// logs, and both sides of one.
	decoder  decoder
	contents map[*Replica]*content
	lines    map[*Replica]*side
	// alone are the clusters of a run without mirrors, by name.
	alone map[string]*alone
}

func newTrial(ev *Evidence) *trial {
	t := &trial{ev: ev, run: &ev.Run, ledger: ev.ledger, contents: map[*Replica]*content{}, lines: map[*Replica]*side{}}
	if t.ledger == nil {
		t.ledger = newLedger(newStems())
		for i := range ev.Events {
			t.ledger.add(&ev.Events[i])
		}
	}
	t.decoder.stems = t.ledger.stems
	if len(ev.Run.Edges) > 0 { // else writes and reads are looked at where they stand
		own := *ev
		own.Events = t.ledger.events
		t.ev, ev = &own, &own
	}
	if len(ev.Run.Episodes) == 0 {
		for i := range ev.Run.Edges {
			t.views = append(t.views, newView(t, &ev.Run.Edges[i], Episode{Logs: LogsDir, Exercises: ev.Run.Exercises}, ev.Events, t.ledger.last))
		}
	}
	for _, e := range ev.Run.Episodes {
		if len(ev.Run.Episodes) > 1 && !t.begun(e) {
			t.idle = append(t.idle, e)
			continue
		}
		edge := &ev.Run.Edges[slices.IndexFunc(ev.Run.Edges, func(g Edge) bool { return g.Mirror == e.Mirror })]
		end := t.endOf(e, edge)
		t.views = append(t.views, newView(t, edge, e, t.eventsOf(e, end.seq), end))
	}
	for _, j := range t.views {
		for _, name := range j.edge.Topics {
			for p := range ev.Run.Topic(name).Partitions {
				j.edge.parts = append(j.edge.parts, j.newPart(name, p))
			}
		}
	}
	return t
}

// begun says whether an episode's mirror was asked to start, or did. What was written to
// its source before that makes no episode: its logs are not the mirror's yet.
func (t *trial) begun(ep Episode) bool {
	return slices.ContainsFunc(t.ev.Events, func(e history.Event) bool {
		return e.Episode == ep.Number && (e.Phase != nil && e.Phase.Name != history.TrafficBefore ||
			e.Kind == history.KindMirrorRPCBegin && e.MirrorRPC.API == startAPI)
	})
}

// eventsOf returns what belongs to an episode: what its requests were and what
// was seen of it until its end. Writes are kept whichever episode they were made
// in, since a log holds what came from upstream before; so is what befell
// brokers.
func (t *trial) eventsOf(ep Episode, end int64) []history.Event {
	var kept []history.Event
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		switch {
		case e.Seq > end:
			return kept
		case e.Episode == ep.Number, e.Episode == 0, e.Txn != nil, e.InitPID != nil, e.Node != nil:
			kept = append(kept, *e)
		}
	}
	return kept
}

// endOf is the number of the episode's last event: the one that says that it
// settled, or what was stamped as its own later. It ends at the latest when a
// mirror into the same partitions starts again.
func (t *trial) endOf(ep Episode, edge *Edge) moment {
	end, seen := t.ledger.lastOf[ep.Number]
	if !seen {
		return moment{math.MaxInt64, t.ledger.last.at}
	}
	stop := never
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		if e.Episode == ep.Number && e.Phase != nil && e.Phase.Name == history.StopRequested {
			stop = min(stop, e.Seq)
		}
		if e.Seq > stop && e.Seq <= end.seq && e.Episode != ep.Number && e.Episode != 0 && startsInto(e, edge) {
			return moment{e.Seq - 1, t.ledger.before[i]}
		}
	}
	return end
}

// startsInto says whether the event asks for the start of a mirror into the
// edge's partitions.
func startsInto(e *history.Event, edge *Edge) bool {
	return e.Kind == history.KindMirrorRPCBegin && e.MirrorRPC.API == startAPI && e.MirrorRPC.Cluster == edge.Destination &&
		slices.ContainsFunc(e.MirrorRPC.Topics, func(topic string) bool { return slices.Contains(edge.Topics, topic) })
}

// startAPI is the request that starts a mirror's topics.
const startAPI = "StartMirrorTopics"

// logsOf returns the logs at an episode's end. Those of an episode that never
// settled were not captured: the run ended in it, and its logs with it.
func (t *trial) logsOf(ep Episode) []*Replica {
	settled := slices.ContainsFunc(t.ev.Events, func(e history.Event) bool {
		return e.Episode == ep.Number && e.Phase != nil && e.Phase.Name == history.Settled
	})
	if captured := t.ev.Captured[ep.Number]; len(captured) > 0 || settled && filepath.Clean(ep.Logs) != LogsDir {
		return captured
	}
	return t.ev.Replicas
}

// notBegun names the episodes that never began.
func (t *trial) notBegun() []string {
	var all []string
	for _, e := range t.idle {
		all = append(all, fmt.Sprintf("episode %d (%s) did not begin", e.Number, e.Mirror))
	}
	return all
}

// read takes a log's batches apart, once.
func (t *trial) read(r *Replica) *content {
	known, ok := t.contents[r]
	if !ok {
		known = t.decoder.decode(r)
		r.release()
		t.contents[r] = known
	}
	return known
}

// final returns a partition's longest log on a cluster as it was when the last
// episode had ended, with its transactions; nil when it is not there. What came
// after that may have taken records away (BAR-8).
func (t *trial) final(cluster, topic string, partition int32) *side {
	if n := len(t.run.Episodes); n > 0 {
		captured := Evidence{Replicas: t.ev.Captured[t.run.Episodes[n-1].Number]}
		if r := longest(captured.replicasOf(cluster, topic, partition)); r != nil {
			return t.line(r)
		}
	}
	return t.atEnd(cluster, topic, partition)
}

// atEnd is [trial.final] at the run's end, whatever came after the last episode.
func (t *trial) atEnd(cluster, topic string, partition int32) *side {
	r := longest(t.ev.replicasOf(cluster, topic, partition))
	if r == nil {
		return nil
	}
	return t.line(r)
}

// line takes a log apart as one line of history, whoever wrote its parts. It is
// for all who ask.
func (t *trial) line(r *Replica) *side {
	if known := t.lines[r]; known != nil {
		return known
	}
	s := newSide(r, t.read(r))
	s.cut, s.whole = end(r), true
	for i := range s.entries {
		s.entries[i].origin = asIs
	}
	s.replay()
	t.lines[r] = s
	return s
}

func longest(replicas []*Replica) *Replica {
	var most *Replica
	for _, r := range replicas {
		if most == nil || end(r) > end(most) {
			most = r
		}
	}
	return most
}

// part returns the view's part of a partition; nil when it mirrors none such.
func (j *judge) part(topic string, index int32) *part {
	for _, p := range j.edge.parts {
		if p.topic == topic && p.index == index {
			return p
		}
	}
	return nil
}

// writableSince is when the writable period of a partition on the view's source
// began that the view's stop found there: records that clients wrote to it
// before are what it was mirrored, or cut. 0 where the source never was a
// destination, never where it mirrored itself at the stop.
func (j *judge) writableSince(topic string, index int32) int64 {
	since := int64(0)
	var started int64
	for _, other := range j.trial.views {
		e := other.edge
		if other == j || e.Destination != j.edge.Source || !slices.Contains(e.Topics, topic) {
			continue
		}
		stopped := e.stopped
		if p := other.part(topic, index); p != nil {
			stopped = p.stopped
		}
		if e.started < j.edge.stopRequested {
			started = max(started, e.started, 1)
		}
		if stopped < j.edge.stopRequested {
			since = max(since, stopped)
		}
	}
	if started > since {
		return never
	}
	return since
}
