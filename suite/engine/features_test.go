package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
	"watershed.example/suite/history"
)

// events of a stop of a mirror from A to B, of one partition, where nothing goes wrong.
type told []history.Event

func inPhase(name history.PhaseName) history.Event {
	return history.Event{Kind: history.KindPhase, Episode: 1, Phase: &history.Phase{Name: name}}
}

func gateAt(node int32, point string) history.Event {
	return history.Event{Kind: history.KindGate, Episode: 1, Gate: &history.Gate{Cluster: "B", Node: node, Point: point, Partition: "t-0", What: history.GateArrived}}
}

func faulty(kind history.Kind, name, link string, bit int64) history.Event {
	return history.Event{Kind: kind, Episode: 1, Fault: &history.Fault{ID: name, Name: name, Link: link, Effects: bit}}
}

func wrote(cluster string, code int16) history.Event {
	r := &history.Result{Outcome: history.OutcomeOf(code), Code: code}
	return history.Event{Kind: history.KindProduceAck, Episode: 1, Produce: &history.Produce{Cluster: cluster, Result: r}}
}

func ends(node, inSync int32) history.Event {
	o := &history.Offsets{Cluster: "B", Node: node, Topic: "t"}
	for n := range inSync {
		o.InSync = append(o.InSync, n)
	}
	return history.Event{Kind: history.KindListOffsets, Episode: 1, Offsets: o}
}

func state(state, err string) history.Event {
	return history.Event{Kind: history.KindMirrorState, Episode: 1, Mirror: &history.Mirror{Cluster: "B", Mirror: "a-to-b", Topic: "t", State: state, Error: err}}
}

func TestFeaturesAreStepsStatesAndEvents(t *testing.T) {
	for _, k := range []struct {
		name   string
		events told
		want   []string
	}{
		{"nothing", nil, nil},
		{"a phase by itself", told{inPhase(history.Mirroring), inPhase(history.StopRequested)}, nil},
		{
			"steps, and either side of one",
			told{inPhase(history.StopRequested), gateAt(1, "before:settled"), gateAt(1, "after:settled"), gateAt(1, "before:truncated")},
			[]string{"settled | well | reached", "truncated | well | reached"},
		},
		{
			"an answer",
			told{inPhase(history.Mirroring), wrote("B", 134), wrote("B", 134), wrote("A", 0), gateAt(1, "after:settled"), wrote("A", 6)},
			[]string{"mirroring | well | write on destination answered 134", "settled | well | reached", "settled | well | write on source answered 6"},
		},
		{
			"no answer",
			told{inPhase(history.Stopped), {Kind: history.KindTxnEnd, Episode: 1, Txn: &history.Txn{Cluster: "C", Result: &history.Result{Outcome: history.Unknown}}}},
			[]string{"writable | well | end of a transaction on another not answered"},
		},
		{
			"a fault at work, and over",
			told{
				gateAt(1, "before:settled"), faulty(history.KindFaultStart, "kill", "node:B/2", 0), faulty(history.KindFaultProof, "kill", "node:B/2", 1),
				wrote("A", 7), faulty(history.KindFaultStop, "kill", "node:B/2", 1), wrote("A", 8),
			},
			[]string{"settled | node down | bites", "settled | node down | write on source answered 7", "settled | well | reached", "settled | well | write on source answered 8"},
		},
		{
			"one that does not bite", told{faulty(history.KindFaultStart, "latency", "mirror:A->B", 0), faulty(history.KindFaultStop, "latency", "mirror:A->B", 0)}, nil,
		},
		{
			"two of one kind, and of two",
			told{
				faulty(history.KindFaultStart, "partition", "mirror:A->B", 0), faulty(history.KindFaultStart, "hold-and-drop", "mirror:A->B", 0), gateAt(1, "before:settled"),
				faulty(history.KindFaultStart, "slow-sync", "node:B/1", 0), gateAt(1, "before:truncated"),
			},
			[]string{"settled | link cut | reached", "truncated | link cut, node ails | reached"},
		},
		{
			"a step again",
			told{gateAt(1, "before:settled"), gateAt(1, "before:truncated"), gateAt(1, "before:settled"), gateAt(2, "before:settled")},
			[]string{"settled | well | reached", "truncated | well | reached", "truncated | well | settled again", "truncated | well | settled again, on another node"},
		},
		{
			"what is said of a mirror",
			told{inPhase(history.Mirroring), state("MIRRORING", ""), state("MIRRORING", ""), state("MIRRORING", "source is away")},
			[]string{"mirroring | well | mirror is MIRRORING", "mirroring | well | mirror is MIRRORING with an error"},
		},
		{
			"a leader that moves",
			told{ends(1, 3), ends(1, 2), ends(2, 2), ends(2, 0), ends(2, 3)},
			[]string{"before | well | in-sync set of destination grew", "before | well | in-sync set of destination shrank", "before | well | leader of destination moved"},
		},
		{
			"after the stop",
			told{gateAt(1, "before:stopped"), inPhase(history.Stopped), gateAt(1, "after:stopped"), wrote("B", 45)},
			[]string{"stopped | well | reached", "writable | well | write on destination answered 45"},
		},
		{
			"a node, which belongs to the whole run",
			told{inPhase(history.Mirroring), {Kind: history.KindNode, Node: &history.Node{Cluster: "A", Node: 1, What: history.NodeKilled}}},
			[]string{"mirroring | well | node of source killed"},
		},
		{
			"a later stop",
			told{{Kind: history.KindPhase, Episode: 2, Phase: &history.Phase{Name: history.Mirroring}}, {
				Kind: history.KindMirrorRPC, Episode: 2, MirrorRPC: &history.MirrorRPC{Cluster: "A", API: "StopMirrorTopics", Result: &history.Result{Outcome: history.Refused, Code: 104}},
			}},
			[]string{"later mirroring | well | StopMirrorTopics on destination answered 104"},
		},
	} {
		run := &check.Run{
			Edges:    []check.Edge{{Mirror: "a-to-b", Source: "A", Destination: "B"}, {Mirror: "b-to-a", Source: "B", Destination: "A"}},
			Episodes: []check.Episode{{Number: 1, Mirror: "a-to-b"}, {Number: 2, Mirror: "b-to-a"}},
		}
		got, err := Features(run, func(yield func(*history.Event) error) error {
			for _, e := range k.events {
				if err := yield(&e); err != nil {
					return err
				}
			}
			return nil
		}, nil)
		require.NoError(t, err, k.name)
		require.Equal(t, k.want, got, k.name)
	}
}

func TestAViolationIsAFeature(t *testing.T) {
	got, err := Features(&check.Run{}, func(func(*history.Event) error) error { return nil }, []check.Verdict{
		{Requirement: "BAR-1", Outcome: check.Violated, Findings: []check.Finding{{Anomaly: check.MissingBarrier, Offset: 5}, {Anomaly: check.MissingBarrier, Offset: 9}}},
		{Requirement: "LOG-1", Outcome: check.Held},
		{Requirement: "LOG-2", Outcome: check.Inconclusive},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"violated BAR-1 | missing barrier"}, got)
	_, err = FeaturesOf(&Result{})
	require.ErrorContains(t, err, "was not judged")
}
