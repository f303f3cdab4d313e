package check

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// told are events of a run that mirrors nothing: what operators see.
type told struct{ events []history.Event }

func (o *told) add(e history.Event) { o.events = append(o.events, e) }

func (o *told) probe(p history.Probe) {
	p.Cluster, p.Mirror, p.Partition = "B", "ops", -1
	if p.Result == nil {
		p.Result = &ok
	}
	o.add(history.Event{Kind: history.KindProbe, Probe: &p})
}

func (o *told) state(topic, state, step, problem string, lag int64, after time.Duration) {
	m := &history.Mirror{Cluster: "B", Mirror: "ops", Topic: topic, State: state, Step: step, Error: problem, SourceOffset: -1, DestinationOffset: 3, Lag: lag}
	if lag >= 0 {
		m.SourceOffset = 3 + lag
	}
	o.add(history.Event{Kind: history.KindMirrorState, Mirror: m, At: o.now() + int64(after)})
}

func (o *told) now() int64 {
	if len(o.events) == 0 {
		return 1
	}
	return o.events[len(o.events)-1].At + 1
}

func (o *told) gate(point string, what history.GateEvent) {
	o.add(history.Event{Kind: history.KindGate, Gate: &history.Gate{Cluster: "B", Node: 1, Point: point, Partition: "t-0", What: what}})
}

func (o *told) write(cluster string, res history.Result) {
	o.add(history.Event{Kind: history.KindProduceAck, Op: int64(len(o.events)), Produce: &history.Produce{
		Writer: "w", Cluster: cluster, Topic: "stopped", Mode: history.Plain, Count: 1, Result: &res,
		Tag: history.Tag{Cluster: cluster, Writer: "w", Txn: history.NoTxn, Intent: history.IntentNone, Place: "stopped-0"},
	}})
}

// operated is a run in which all that operators do is tried, and all is well.
func operated() *told {
	o := &told{}
	for _, state := range []string{"MIRRORING", "PAUSED", "FAILED", "LOG_TRUNCATION", "STOPPED"} {
		o.probe(history.Probe{What: history.ProbeStop, Topic: "t", State: state, After: "STOPPED"})
	}
	o.probe(history.Probe{What: history.ProbeStop, Topic: "t", State: "STOPPING", After: "STOPPING"})
	refused := refusedBy(3)
	o.probe(history.Probe{What: history.ProbeStop, Topic: "nowhere", State: absent, After: absent, Result: &refused})

	o.state("t", "MIRRORING", "", "", 2, 0)
	o.gate("before:settled", history.GateHeld)
	o.state("t", "STOPPING", "settled", "", 2, time.Minute)
	o.gate("before:settled", history.GateReleased)
	o.gate(lastGate, history.GateHeld)
	o.state("t", "STOPPED", "", "", -1, 0)
	o.gate(lastGate, history.GateReleased)
	o.state("u", "LOG_TRUNCATION", "", "the source does not answer", -1, 0)
	o.state("u", "STOPPED", "", "", -1, time.Minute)

	other := refusedBy(104)
	o.probe(history.Probe{What: history.ProbeOtherCluster, Topic: "stranger", Result: &other})
	o.probe(history.Probe{What: history.ProbeOtherCluster, Topic: "stranger-2", After: "FAILED"})
	o.state("stranger-2", "FAILED", "", "another cluster", -1, 0)
	o.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "B", Topic: "stranger-2"}})
	taken := refusedBy(138)
	o.probe(history.Probe{What: history.ProbeSameTopic, Topic: "t", State: "MIRRORING", Result: &taken})

	o.probe(history.Probe{What: history.ProbeDeleteMirror, Topic: "stopped", State: "STOPPED"})
	o.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeStarted}})
	o.add(history.Event{Kind: history.KindProbe, Probe: &history.Probe{What: history.ProbeDeleteTopic, Cluster: "A", Topic: "stopped", Partition: -1, Result: &ok}})
	o.write("B", ok)
	return o
}

var operations = []string{"LINK-4", "FI-2", "OPS-1", "OPS-2", "OPS-5"}

func (o *told) verdicts() map[string]Verdict {
	ev := &Evidence{Run: Run{Exercises: operations}, Events: slices.Clone(o.events)}
	for i := range ev.Events {
		e := &ev.Events[i]
		e.Seq = int64(i + 1)
		if e.At == 0 && i > 0 {
			e.At = ev.Events[i-1].At
		}
	}
	return judged(ev)
}

func (o *told) edit(f func(e *history.Event)) {
	for i := range o.events {
		f(&o.events[i])
	}
}

// change edits the probe of a kind in a state.
func (o *told) change(what history.ProbeName, state string, f func(p *history.Probe)) {
	o.edit(func(e *history.Event) {
		if e.Probe != nil && e.Probe.What == what && e.Probe.State == state {
			f(e.Probe)
		}
	})
}

func (o *told) drop(f func(e *history.Event) bool) {
	o.events = slices.DeleteFunc(o.events, func(e history.Event) bool { return f(&e) })
}

func TestOperationHolds(t *testing.T) {
	got := operated().verdicts()
	for _, id := range operations {
		require.Equal(t, Held, got[id].Outcome, "%s: %s %v", id, got[id].Reason, got[id].Findings)
	}
}

func TestOperationFindsWhatIsWrong(t *testing.T) {
	refused := refusedBy(145)
	dumb := history.Result{Outcome: history.Refused, Code: 42}
	for _, tc := range []struct {
		id, name string
		anomaly  Anomaly
		spoil    func(o *told)
	}{
		{"LINK-4", "the stranger is mirrored", AcceptedSource, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Probe != nil && e.Probe.Topic == "stranger-2" {
					e.Probe.After = "MIRRORING"
				}
			})
		}},
		{"LINK-4", "records of the stranger are there", AcceptedSource, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Offsets != nil {
					e.Offsets.HighWatermark = 3
				}
			})
		}},
		{"LINK-4", "refused without a word", UnclearRefusal, func(o *told) {
			o.change(history.ProbeOtherCluster, "", func(p *history.Probe) {
				if p.After == "" {
					p.Result = &dumb
				}
			})
		}},
		{"LINK-4", "failed without a cause", UnclearRefusal, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.State == "FAILED" {
					e.Mirror.Error = ""
				}
			})
		}},
		{"LINK-4", "failed with another cause", UnclearRefusal, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.State == "FAILED" {
					e.Mirror.Error = "the cluster mirror timed out"
				}
			})
		}},
		{"FI-2", "accepted", AcceptedSource, func(o *told) {
			o.change(history.ProbeSameTopic, "MIRRORING", func(p *history.Probe) { p.Result = &ok })
		}},
		{"OPS-1", "refused while paused", RefusedStop, func(o *told) {
			o.change(history.ProbeStop, "PAUSED", func(p *history.Probe) { p.Result = &refused })
		}},
		{"OPS-1", "refused the second time", RefusedStop, func(o *told) {
			o.change(history.ProbeStop, "STOPPED", func(p *history.Probe) { p.Result = &refused })
		}},
		{"OPS-1", "stuck after it had failed", StuckStop, func(o *told) {
			o.change(history.ProbeStop, "FAILED", func(p *history.Probe) { p.After = "STOPPING" })
		}},
		{"OPS-1", "success for a topic that is nowhere", RefusedStop, func(o *told) {
			o.change(history.ProbeStop, absent, func(p *history.Probe) { p.Result = &ok })
		}},
		{"OPS-2", "no step at a gate", UntoldState, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.Step != "" {
					e.Mirror.Step = ""
				}
			})
		}},
		{"OPS-2", "still MIRRORING at a gate", UntoldState, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.Step != "" {
					e.Mirror.State = "MIRRORING"
				}
			})
		}},
		{"OPS-2", "a lag that is not told", UntoldState, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.State == "MIRRORING" {
					e.Mirror.Lag = -1
				}
			})
		}},
		{"OPS-2", "a lag that is not true", UntoldState, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.State == "MIRRORING" {
					e.Mirror.Lag = 0
				}
			})
		}},
		{"OPS-2", "a lag that nobody knows, though no node is away", UntoldState, func(o *told) {
			o.mirroringUnknown("its leader, node 2, doesn't answer")
		}},
		{"OPS-2", "a lag that nobody knows since a node is away, without a word", UntoldState, func(o *told) {
			o.node(history.NodePaused)
			o.mirroringUnknown("")
		}},
		{"OPS-2", "a lag that nobody knows, though the node is back", UntoldState, func(o *told) {
			o.node(history.NodePaused)
			o.node(history.NodeResumed)
			o.mirroringUnknown("its leader, node 2, doesn't answer")
		}},
		{"OPS-2", "a lag that is not told in time before the stop", UntoldState, func(o *told) {
			o.state("v", "MIRRORING", "", "", -1, 0)
			o.stopAsked(2 * lagWithin)
			o.state("v", "STOPPED", "", "", -1, time.Second)
		}},
		{"OPS-2", "stuck without a cause", UntoldState, func(o *told) {
			o.edit(func(e *history.Event) {
				if e.Mirror != nil && e.Mirror.State == "LOG_TRUNCATION" {
					e.Mirror.Error = ""
				}
			})
		}},
		{"OPS-2", "stuck to the end without a cause", UntoldState, func(o *told) {
			o.state("v", "STOPPING", "settled", "", -1, 0)
			o.state("w", "MIRRORING", "", "", 0, time.Minute)
		}},
		{"OPS-2", "round and round", UntoldState, func(o *told) {
			for range 8 {
				o.state("v", "STOPPING", "settled", "", -1, time.Second)
				o.state("v", "STOPPING", "truncated", "", -1, time.Second)
			}
			o.state("v", "STOPPED", "", "", -1, time.Second)
		}},
		{"OPS-2", "failed without a cause when its mirror was deleted", UntoldState, func(o *told) {
			o.state("v", "FAILED", "", "", -1, 0)
			o.deleted()
		}},
		{"OPS-5", "read-only again", RefusedWrite, func(o *told) { o.write("B", refusedBy(134)) }},
	} {
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			o := operated()
			tc.spoil(o)
			v := o.verdicts()[tc.id]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly }), "%v", v.Findings)
		})
	}
}

func TestAStoppedTopicThatARestartMadeReadOnlyIsFound(t *testing.T) {
	w := newWorld(0)
	w.insertBefore(isPhase(history.Settled), history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 1, What: history.NodeStarted}})
	require.NotEqual(t, Violated, verdicts(t, w)["OPS-5"].Outcome)
	after := *w
	after.send(spec{pid: -1, tags: []history.Tag{after.tag("B", "again", history.NoTxn, history.IntentNone)}}, history.Plain, -1, "", refusedBy(readOnly))
	v := verdicts(t, &after)["OPS-5"]
	require.Equal(t, Violated, v.Outcome)
	require.Equal(t, RefusedWrite, v.Findings[0].Anomaly)
}

// stopAsked is the request to stop the mirror.
func (o *told) stopAsked(after time.Duration) {
	o.add(history.Event{Kind: history.KindMirrorRPCBegin, Op: 98, MirrorRPC: &history.MirrorRPC{Cluster: "B", API: stopAPI, Mirror: "ops"}, At: o.now() + int64(after)})
}

// node is what befell a node of the destination.
func (o *told) node(what history.NodeEvent) {
	o.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: 2, What: what}})
}

// mirroringUnknown is a partition that mirrors, whose lag is not known for some reason, and
// that is stopped then.
func (o *told) mirroringUnknown(reason string) {
	o.state("v", "MIRRORING", "", "", 0, 0)
	o.state("v", "MIRRORING", "", reason, -1, time.Minute)
	o.state("v", "STOPPED", "", "", -1, time.Second)
}

func isProbe(what history.ProbeName, state string) func(*history.Event) bool {
	return func(e *history.Event) bool { return e.Probe != nil && e.Probe.What == what && e.Probe.State == state }
}

// deleted is the request to delete the mirror.
func (o *told) deleted() {
	o.add(history.Event{Kind: history.KindMirrorRPCBegin, Op: 99, MirrorRPC: &history.MirrorRPC{Cluster: "B", API: deleteAPI, Mirror: "ops"}})
}

// A stop that can't go on may say why, and a mirror that is deleted has no state.
func TestAStuckStopMayNameItsCause(t *testing.T) {
	for name, spoil := range map[string]func(o *told){
		"a cause while STOPPING": func(o *told) {
			o.state("v", "STOPPING", "settled", "the source does not answer", -1, 0)
			o.state("v", "STOPPED", "", "", -1, time.Minute)
		},
		"slow, and goes on from step to step": func(o *told) {
			o.state("v", "STOPPING", "settled", "", -1, 0)
			o.state("v", "STOPPING", "truncated", "", -1, stuckFor-time.Second)
			o.state("v", "STOPPING", "stopped", "", -1, stuckFor-time.Second)
			o.state("v", "STOPPED", "", "", -1, stuckFor-time.Second)
		},
		"a lag that nobody knows while a node is away, and why": func(o *told) {
			o.node(history.NodePaused)
			o.mirroringUnknown("its leader, node 2, doesn't answer")
		},
		"stopped before the source was heard of, and described long after": func(o *told) {
			o.state("v", "MIRRORING", "", "", -1, 0)
			o.stopAsked(lagWithin / 2)
			o.state("v", "STOPPED", "", "", -1, time.Minute)
		},
		"deleted meanwhile": func(o *told) {
			o.state("v", "STOPPING", "settled", "", -1, 0)
			o.deleted()
			o.add(history.Event{Kind: history.KindNote, Note: "later", At: o.now() + int64(time.Minute)})
		},
	} {
		o := operated()
		spoil(o)
		v := o.verdicts()["OPS-2"]
		require.Equal(t, Held, v.Outcome, "%s: %s %v", name, v.Reason, v.Findings)
	}
}

// A refusal that asks to try again says nothing about what was asked for.
func TestARetriableRefusalTurnsNothingDown(t *testing.T) {
	for _, code := range []int16{7, 14, 15, 16} {
		for id, what := range map[string]history.ProbeName{"LINK-4": history.ProbeOtherCluster, "FI-2": history.ProbeSameTopic} {
			o := operated()
			later := refusedBy(code)
			o.edit(func(e *history.Event) {
				if e.Probe != nil && e.Probe.What == what {
					e.Probe.Result, e.Probe.After = &later, ""
				}
			})
			v := o.verdicts()[id]
			require.Equal(t, Inconclusive, v.Outcome, "%s, code %d: %s %v", id, code, v.Reason, v.Findings)
		}
	}
}

func TestOperationThatWasNotTriedIsInconclusive(t *testing.T) {
	for _, tc := range []struct {
		id, says string
		drop     func(e *history.Event) bool
	}{
		{"LINK-4", "no mirror was made", isProbe(history.ProbeOtherCluster, "")},
		{"LINK-4", "was not looked at", func(e *history.Event) bool { return e.Offsets != nil }},
		{"FI-2", "second source", isProbe(history.ProbeSameTopic, "MIRRORING")},
		{"OPS-1", "in state PAUSED", isProbe(history.ProbeStop, "PAUSED")},
		{"OPS-1", "in state STOPPING", isProbe(history.ProbeStop, "STOPPING")},
		{"OPS-1", "in state LOG_TRUNCATION", isProbe(history.ProbeStop, "LOG_TRUNCATION")},
		{"OPS-1", "in state absent", isProbe(history.ProbeStop, absent)},
		{"OPS-2", "held at a gate", func(e *history.Event) bool { return e.Gate != nil }},
		{"OPS-2", "while it was held at before:settled", func(e *history.Event) bool { return e.Mirror != nil && e.Mirror.Step == "settled" }},
		{"OPS-2", "while it mirrored", func(e *history.Event) bool { return e.Mirror != nil && e.Mirror.State == "MIRRORING" }},
		{"OPS-2", "no step was stuck", func(e *history.Event) bool { return e.Mirror != nil && e.Mirror.Error != "" }},
		{"OPS-5", "no write to a stopped topic", func(e *history.Event) bool { return e.Produce != nil }},
		{"OPS-5", "was not deleted", isProbe(history.ProbeDeleteTopic, "")},
		{"OPS-5", "no broker of cluster B", func(e *history.Event) bool { return e.Node != nil }},
		{"OPS-5", "no write to a stopped topic", isProbe(history.ProbeDeleteMirror, "STOPPED")},
	} {
		t.Run(tc.id+"/"+tc.says, func(t *testing.T) {
			o := operated()
			o.drop(tc.drop)
			v := o.verdicts()[tc.id]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
}

// into makes a world's mirror lead from C to B, with topics of its own.
var into = strings.NewReplacer(
	`"cluster":"A"`, `"cluster":"C"`, `"source":"A"`, `"source":"C"`, `"name":"A"`, `"name":"C"`,
	`"mirror":"m"`, `"mirror":"n"`, "ws1/A/", "ws1/C/", `A->B`, `C->B`, `A-\u003eB`, `C-\u003eB`, idA, idC, `"id":"f1"`, `"id":"f2"`,
	`"topic":"t"`, `"topic":"u"`, `"topic":"e"`, `"topic":"f"`, `"name":"t"`, `"name":"u"`, `"name":"e"`, `"name":"f"`,
	`["t","e"]`, `["u","f"]`, `"t-0"`, `"u-0"`, `/t-0"`, `/u-0"`,
)

func intoB[T any](t testing.TB, v T) (out T) {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(into.Replace(string(data))), &out))
	return out
}

// fanIn is topic t from A and topic u from C, both to B: the first mirror is
// stopped while the other one goes on.
func fanIn(t testing.TB) (ev *Evidence, second []*history.Event) {
	one, two := newWorld(0), newWorld(0)
	run := intoB(t, two.run)
	for _, log := range [][]spec{two.a, two.b} {
		for i := range log {
			log[i].tags = slices.Clone(log[i].tags)
			for k := range log[i].tags {
				log[i].tags[k] = intoB(t, log[i].tags[k])
			}
			log[i].value = bytes.ReplaceAll(log[i].value, []byte(idA), []byte(idC))
		}
	}
	two.be = []spec{barrier(0, 5, idC)}
	for i := range two.events {
		two.events[i] = intoB(t, two.events[i])
	}
	// A record of the other source, what is seen of it, and the refused writes
	// come when the first mirror has been stopped.
	mirrors := slices.IndexFunc(two.events, func(e history.Event) bool { return isPhase(history.Mirroring)(&e) })
	stop := slices.IndexFunc(two.events, func(e history.Event) bool { return isPhase(history.StopRequested)(&e) })
	ops := map[int32]int64{1: 0, 2: 100_000}
	ev = &Evidence{Run: one.run, Captured: map[int32][]*Replica{1: one.evidence(t).Replicas}}
	add := func(episode int32, events ...history.Event) {
		for _, e := range events {
			e.Episode, e.Seq = episode, int64(len(ev.Events)+1)
			e.At = e.Seq * 1_000_000
			if e.Op > 0 {
				e.Op += ops[episode]
			}
			ev.Events = append(ev.Events, e)
		}
	}
	half := slices.IndexFunc(one.events, func(e history.Event) bool { return isPhase(history.StopRequested)(&e) })
	add(1, one.events[:half]...)
	// The newest record that is below L.
	record := slices.IndexFunc(two.events, func(e history.Event) bool { return e.Produce != nil && e.Produce.Batch.ProducerID == 10 })
	add(2, two.events[:record]...)
	add(2, two.events[record+2:mirrors+1]...)
	add(1, one.events[half:]...)
	at := len(ev.Events)
	add(2, two.events[record:record+2]...)
	add(2, two.events[mirrors+1:stop]...)
	for i := at; i < len(ev.Events); i++ {
		second = append(second, &ev.Events[i])
	}
	add(2, two.events[stop:]...)
	for i := range second { // the slice may have moved
		second[i] = &ev.Events[at+i]
	}
	ev.Run.Clusters = append(slices.Clone(one.run.Clusters), Cluster{Name: "C", ID: idC, Nodes: []int32{1}})
	ev.Run.Edges = append(slices.Clone(one.run.Edges), run.Edges...)
	ev.Run.Topics = append(slices.Clone(one.run.Topics), run.Topics...)
	ev.Run.Faults = nil
	ev.Run.Floors = Floors{}
	ev.Run.Exercises = []string{"FI-1"}
	ev.Run.Episodes = []Episode{{Number: 1, Mirror: "m", Logs: EpisodeDir(1)}, {Number: 2, Mirror: "n", Logs: EpisodeDir(2)}}
	logs := map[string]map[string][]spec{"C": {"u": two.a}, "B": {"u": two.b, "f": two.be}}
	ev.Captured[2] = replicasOf(t, EpisodeDir(2), logs, "u", "f")
	require.NoError(t, ev.Run.Validate())
	return ev, second
}

func TestFanIn(t *testing.T) {
	ev, _ := fanIn(t)
	v := judged(ev)["FI-1"]
	require.Equal(t, Held, v.Outcome, "%s %v", v.Reason, v.Findings)
	for _, tc := range []struct {
		name    string
		outcome Outcome
		says    string
		spoil   func(second []*history.Event)
	}{
		{"the other mirror failed", Violated, string(DisturbedMirror), func(second []*history.Event) {
			for _, e := range second {
				if e.Mirror != nil {
					e.Mirror.State, e.Mirror.Error = "FAILED", "why"
				}
			}
		}},
		{"the other topic was writable", Violated, string(WriteInWindow), func(second []*history.Event) {
			for _, e := range second {
				if e.Kind == history.KindProduceAck && e.Produce.Cluster == "B" {
					e.Produce.Result, e.Produce.Offset = &ok, 50
				}
			}
		}},
		{"nothing new came", Inconclusive, "was not seen to mirror", func(second []*history.Event) {
			for _, e := range second {
				if e.Mirror != nil {
					e.Mirror.DestinationOffset = 1
				}
			}
		}},
		{"nobody tried to write", Inconclusive, "no write to a topic that still mirrors", func(second []*history.Event) {
			for _, e := range second {
				if e.Produce != nil && e.Produce.Cluster == "B" {
					e.Produce.Cluster = "X"
				}
			}
		}},
		{"nobody looked", Inconclusive, "never described", func(second []*history.Event) {
			for _, e := range second {
				if e.Mirror != nil {
					e.Mirror.Mirror = "another"
				}
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev, second := fanIn(t)
			tc.spoil(second)
			v := judged(ev)["FI-1"]
			require.Equal(t, tc.outcome, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
}

// A stop that met a quorum without a leader, and was asked for again and accepted, was not
// refused; one that never was is.
func TestAMovingQuorumRefusesNoStop(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		w := newWorld(0)
		said := func(res history.Result) {
			w.insertBefore(func(e *history.Event) bool { return e.Gate != nil && e.Gate.Point == "after:barrier-appended" }, history.Event{Kind: history.KindMirrorRPC, Op: 999, MirrorRPC: &history.MirrorRPC{
				Cluster: "B", API: stopAPI, Mirror: "m", Topics: []string{"t"}, Result: &res,
			}})
		}
		said(refusedBy(notController))
		if accepted {
			said(ok)
		}
		v := verdicts(t, w)["LINK-2"]
		require.Equal(t, map[bool]Outcome{true: Held, false: Violated}[accepted], v.Outcome, "%s %v", v.Reason, v.Findings)
	}
}
