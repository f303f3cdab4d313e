package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"watershed.example/suite/history"
)

// absent is what a probe calls the state of a topic that is in no mirror.
const absent = "absent"

// stopStates are the states in which a stop has to be accepted; those that
// stand for the same one are told apart by bars.
var stopStates = []string{"MIRRORING", "PAUSED", "FAILED", "LOG_TRUNCATION|EPOCH_FENCING", "STOPPING", "STOPPED"}

// ops1 holds that a stop is accepted in every state, may be repeated, leads to
// STOPPED, and tells the truth per topic.
func (t *trial) ops1(r *ruling) {
	met := map[string]int{}
	for _, e := range t.probes(history.ProbeStop) {
		p := e.Probe
		switch {
		case p.Result.Outcome == history.Unknown:
			continue
		case p.State == absent:
			if p.Result.Outcome == history.OK {
				r.findings = append(r.findings, t.about(e, RefusedStop, fmt.Sprintf("an error for topic %s, which is in no mirror", p.Topic), "success"))
			}
		case p.Result.Outcome == history.Refused:
			r.findings = append(r.findings, t.about(e, RefusedStop, "the stop accepted while the topic is "+p.State, answer(*p.Result)))
		case p.After != "STOPPED" && (p.State != "STOPPING" || p.After != "STOPPING"):
			r.findings = append(r.findings, t.about(e, StuckStop, fmt.Sprintf("STOPPED after a stop in %s", p.State), p.After))
		}
		for _, state := range append(stopStates, absent) {
			if slices.Contains(strings.Split(state, "|"), p.State) {
				met[state]++
			}
		}
	}
	for _, state := range append(stopStates, absent) {
		r.need(met[state] > 0, "no stop was tried in state %s", state)
	}
	nodes := 0
	for _, j := range t.views {
		if len(j.edge.dst.Nodes) > 1 {
			nodes++
			r.need(j.nodeBetween(j.edge.Destination, history.NodeKilled, j.edge.stopRequested, j.edge.stopped), "no broker of cluster %s was lost while it stopped", j.edge.Destination)
		}
	}
	lost := "no cluster has a second broker to lose one"
	if nodes > 0 {
		lost = fmt.Sprintf("%d stops survived the loss of a broker", nodes)
	}
	r.saw("stops accepted in %d states, one topic told that it is in no mirror; %s", len(stopStates), lost)
}

// mostRounds is how often a stop may come to the same step.
const mostRounds = 3

// stuckFor is how long a step that does not go on may keep its cause to itself.
const stuckFor = 8 * time.Second

// ops2 holds that states and lag are visible at every step, and that a stuck
// step names its cause.
func (t *trial) ops2(r *ruling) {
	steps := t.atGates(r)
	lag := t.lagSeen(r)
	causes := t.stuckSteps(r)
	r.need(len(steps) > 0, "no stop was held at a gate and described there")
	r.need(lag > 0, "no mirror was described while it mirrored")
	r.need(causes > 0, "no step was stuck, or had failed")
	r.saw("the step told at %d gates, the lag %d times, the cause of %d steps that did not go on", len(steps), lag, causes)
}

// heldGate is a partition that waits at a gate.
type heldGate struct {
	cluster, place, point string
}

// atGates holds that a partition which waits at a gate is described as STOPPING,
// or what it is by then, with its step. Each gate at which one waited has to be
// described.
func (t *trial) atGates(r *ruling) map[string]int {
	told := map[string]int{}
	held := map[string]bool{}
	var waiting []*heldGate
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		switch {
		case e.Gate != nil && e.Gate.What == history.GateHeld && e.Gate.Partition != "":
			held[e.Gate.Point] = true
			waiting = append(waiting, &heldGate{cluster: e.Gate.Cluster, place: e.Gate.Partition, point: e.Gate.Point})
		case e.Gate != nil && (e.Gate.What == history.GateReleased || e.Gate.What == history.GateCrashed):
			waiting = slices.DeleteFunc(waiting, func(h *heldGate) bool {
				return h.cluster == e.Gate.Cluster && h.point == e.Gate.Point && (e.Gate.Partition == "" || e.Gate.Partition == h.place)
			})
		case e.Mirror != nil:
			for _, h := range waiting {
				if h.cluster == e.Mirror.Cluster && h.place == history.Place(e.Mirror.Topic, e.Mirror.Partition) {
					t.atGate(r, h, e, told)
				}
			}
		}
	}
	for _, point := range slices.Sorted(maps.Keys(held)) {
		r.need(told[point] > 0, "no partition was described while it was held at %s", point)
	}
	return told
}

// lastGate is where the quorum says STOPPED already.
const lastGate = "after:stopped"

func (t *trial) atGate(r *ruling, h *heldGate, e *history.Event, told map[string]int) {
	m := e.Mirror
	step := h.point[strings.Index(h.point, ":")+1:]
	switch {
	case h.point == lastGate && (m.State == "STOPPED" || m.State == "STOPPING"):
	case m.State != "STOPPING":
		r.findings = append(r.findings, t.told(e, fmt.Sprintf("STOPPING of %s, which is held at %s", h.place, h.point), m.State))
		return
	case m.Step != step:
		r.findings = append(r.findings, t.told(e, fmt.Sprintf("the step %q of %s, which is held at %s", step, h.place, h.point), fmt.Sprintf("%q", m.Step)))
		return
	}
	told[h.point]++
}

// told makes a finding about what describe said.
func (t *trial) told(e *history.Event, expected, got string) Finding {
	m := e.Mirror
	return Finding{
		Anomaly: UntoldState, Cluster: m.Cluster, Topic: m.Topic, Partition: m.Partition, Offset: -1, Episode: e.Episode, Mirror: m.Mirror,
		Expected: expected, Got: fmt.Sprintf("%s (event %d)", got, e.Seq), Evidence: t.ev.where(HistoryFile),
	}
}

// lagWithin is by when a mirror that runs has to know its lag.
const lagWithin = 2 * time.Second

// lagSeen holds that a mirror which runs shows its lag: at the latest when it is
// described for the last time before something else becomes of it. Where a node of its
// cluster is away, that nobody knows is an answer, if its cause is told and it was known
// before.
func (t *trial) lagSeen(r *ruling) (seen int) {
	type stay struct {
		last  *history.Event
		since int64
	}
	running := map[string]*stay{}
	away := map[string]map[int32]bool{} // nodes, by cluster
	asked := map[string]int64{}         // when a mirror was to stop, by cluster and name
	judge := func(e *history.Event) {
		m := e.Mirror
		if m.Lag < 0 || m.SourceOffset < 0 || m.DestinationOffset < 0 {
			r.findings = append(r.findings, t.told(e, "the lag of a partition that mirrors", fmt.Sprintf("source offset %d, own offset %d, lag %d", m.SourceOffset, m.DestinationOffset, m.Lag)))
			return
		}
		if want := max(0, m.SourceOffset-m.DestinationOffset); m.Lag != want {
			r.findings = append(r.findings, t.told(e, fmt.Sprintf("a lag of %d, from %d to %d", want, m.DestinationOffset, m.SourceOffset), fmt.Sprintf("%d", m.Lag)))
			return
		}
		seen++
	}
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		if n := e.Node; n != nil {
			if away[n.Cluster] == nil {
				away[n.Cluster] = map[int32]bool{}
			}
			if delete(away[n.Cluster], n.Node); isAway(n.What) {
				away[n.Cluster][n.Node] = true
			}
		}
		if q := e.MirrorRPC; q != nil && e.Kind == history.KindMirrorRPCBegin && q.API == stopAPI {
			asked[q.Cluster+"/"+q.Mirror] = e.At
		}
		m := e.Mirror
		if m == nil {
			continue
		}
		key := m.Cluster + "/" + history.Place(m.Topic, m.Partition)
		s := running[key]
		if m.State == "MIRRORING" && m.Lag < 0 && m.Error != "" && len(away[m.Cluster]) > 0 && s != nil && s.last.Mirror.Lag >= 0 {
			continue
		}
		switch {
		case e.Mirror.State == "MIRRORING" && s == nil:
			running[key] = &stay{e, e.At}
		case e.Mirror.State == "MIRRORING":
			s.last = e
		case s != nil:
			// One that was stopped at once may not have heard of the source yet, however long
			// nobody described it afterwards.
			until := e.At
			if at := asked[m.Cluster+"/"+m.Mirror]; at > s.since {
				until = at
			}
			if s.last.Mirror.SourceOffset >= 0 || time.Duration(until-s.since) > lagWithin {
				judge(s.last)
			}
			delete(running, key)
		}
	}
	return seen
}

// isAway says whether a node can't answer after what became of it.
func isAway(what history.NodeEvent) bool {
	return what == history.NodeKilled || what == history.NodeStopped || what == history.NodePaused
}

// transient are states that a partition is to leave by itself.
var transient = []string{"LOG_TRUNCATION", "EPOCH_FENCING", "PAUSING", "STOPPING"}

// deleteAPI ends a mirror, and the states of its partitions with it.
const deleteAPI = "DeleteClusterMirror"

// stuckSteps holds that a partition which does not leave a transient state, or
// has failed, says why. It returns how many did.
func (t *trial) stuckSteps(r *ruling) (causes int) {
	type stay struct {
		e     *history.Event
		since int64
		cause string
		held  bool // at a gate by the suite itself
		steps map[string]int
	}
	now := map[string]*stay{}
	gates := map[string]int{} // points held, by cluster
	end := func(s *stay, at int64) {
		m := s.e.Mirror
		switch {
		case s.cause != "":
			causes++
		case s.held:
		case m.State == "FAILED", slices.Contains(transient, m.State) && time.Duration(at-s.since) > stuckFor:
			r.findings = append(r.findings, t.told(s.e, fmt.Sprintf("the cause why %s-%d is still %s", m.Topic, m.Partition, m.State),
				fmt.Sprintf("no word for %s", time.Duration(at-s.since).Round(time.Millisecond))))
		}
	}
	for i := range t.ev.Events {
		e := &t.ev.Events[i]
		if g := e.Gate; g != nil {
			switch g.What {
			case history.GateHeld:
				gates[g.Cluster]++
				for _, s := range now {
					s.held = s.held || s.e.Mirror.Cluster == g.Cluster
				}
			case history.GateReleased, history.GateCrashed:
				gates[g.Cluster] = 0
			}
		}
		if d := e.MirrorRPC; e.Kind == history.KindMirrorRPCBegin && d.API == deleteAPI {
			for key, s := range now { // what is in no mirror is in no state
				if s.e.Mirror.Cluster == d.Cluster && s.e.Mirror.Mirror == d.Mirror {
					end(s, e.At)
					delete(now, key)
				}
			}
		}
		m := e.Mirror
		if m == nil {
			continue
		}
		key := m.Cluster + "/" + history.Place(m.Topic, m.Partition)
		s := now[key]
		// One that goes from step to step is slow, not stuck, and so is one that
		// begins anew where its leader was lost; one that goes round and round is.
		steps := map[string]int{}
		if s != nil && s.e.Mirror.State == m.State {
			steps = s.steps
		}
		if s != nil && (s.e.Mirror.State != m.State || s.e.Mirror.Step != m.Step && steps[m.Step] < mostRounds) {
			end(s, e.At)
			s = nil
		}
		if s == nil {
			steps[m.Step]++
			s = &stay{e: e, since: e.At, held: gates[m.Cluster] > 0, steps: steps}
			now[key] = s
		}
		if m.State == "FAILED" || slices.Contains(transient, m.State) {
			s.cause = m.Error
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) { // stuck to the end
		end(now[key], t.ledger.last.at)
	}
	return causes
}

// ops5 holds that a stopped topic stays writable, whatever becomes of its
// mirror, its source, and the brokers of its cluster.
func (t *trial) ops5(r *ruling) {
	kept := 0
	for _, j := range t.views {
		j.readOnlyAgain(r)
	}
	for _, e := range t.probes(history.ProbeDeleteMirror) {
		p := e.Probe
		if p.Result.Outcome != history.OK {
			r.need(false, "the mirror of topic %s was not deleted: %s", p.Topic, answer(*p.Result))
			continue
		}
		gone, restarted := never, never
		for _, d := range t.probes(history.ProbeDeleteTopic) {
			if d.Probe.Topic == p.Topic && d.Probe.Result.Outcome == history.OK && d.Seq > e.Seq {
				gone = min(gone, d.Seq)
			}
		}
		for i := range t.ev.Events {
			if n := t.ev.Events[i].Node; n != nil && n.Cluster == p.Cluster && n.What == history.NodeStarted && t.ev.Events[i].Seq > e.Seq {
				restarted = min(restarted, t.ev.Events[i].Seq)
			}
		}
		r.need(gone != never, "the source of topic %s was not deleted", p.Topic)
		r.need(restarted != never, "no broker of cluster %s was started again after the mirror was deleted", p.Cluster)
		kept += t.stillWritable(r, e, max(gone, restarted))
	}
	r.need(kept > 0, "no write to a stopped topic was tried after its mirror and its source had been deleted and its brokers restarted")
	r.saw("%d writes accepted after mirror and source were deleted and brokers restarted", kept)
}

// readOnlyAgain finds writes to a stopped partition that were refused as to a
// read-only one after a broker of its cluster had been started again.
func (j *judge) readOnlyAgain(r *ruling) {
	for _, p := range j.parts() {
		for _, o := range j.local(p) {
			if o.began > p.stopped && o.result.Outcome == history.Refused && o.result.Code == readOnly &&
				j.nodeBetween(p.Destination, history.NodeStarted, p.stopped, o.began) {
				r.findings = append(r.findings, j.told(p, RefusedWrite, -1, fmt.Sprintf("the write of %s accepted: the partition is stopped, whatever was restarted", who(o.sent.Tag())), answer(*o.result)))
			}
		}
	}
}

func (t *trial) stillWritable(r *ruling, probe *history.Event, after int64) (accepted int) {
	for _, o := range t.ledger.writes {
		if o.ended == never || o.ended < probe.Seq || o.sent.Cluster != probe.Probe.Cluster || o.sent.Topic != probe.Probe.Topic {
			continue
		}
		switch res := o.result; {
		case res.Outcome == history.OK && o.ended > after:
			accepted++
		case res.Outcome == history.Refused && !retriable[res.Code]:
			r.findings = append(r.findings, t.about(probe, RefusedWrite, fmt.Sprintf("the write of %s accepted: the topic is stopped", who(o.sent.Tag())), answer(*res)))
		}
	}
	return accepted
}
