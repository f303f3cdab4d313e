package check

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// sampledIn says which episodes of which shape exercise what needs samples and
// probes: all of them where none is named.
var sampledIn = map[string]map[string][]int32{
	"LOG-5": {}, "BAR-7": {}, "RO-3": {}, "PSM-3": {}, "PSM-4": {}, "PSM-6": {}, "PSM-7": {},
	"RO-2":  {"failback": {2}, "resumed": {2}},
	"PSM-5": {"failback": {2, 3}, "chain": {2, 3}},
	"PSM-9": {"resumed": {2}},
}

func exercisedBy(id, shape string, episode int32) bool {
	of := sampledIn[id]
	return len(of) == 0 || slices.Contains(of[shape], episode)
}

// declareSamples makes every episode declare what it exercises of these.
func (s *saga) declareSamples(shape string) *saga {
	for i := range s.run.Episodes {
		e := &s.run.Episodes[i]
		for _, id := range slices.Sorted(maps.Keys(sampledIn)) {
			if exercisedBy(id, shape, e.Number) {
				e.Exercises = append(e.Exercises, id)
			}
		}
	}
	return s
}

func TestSamplesOfEveryShapeHold(t *testing.T) {
	for name, shape := range shapes {
		s := shape(nil).declareSamples(name)
		got := judged(s.evidence(t))
		for id := range sampledIn {
			v, judged := got[id]
			exercised := slices.ContainsFunc(s.run.Episodes, func(e Episode) bool { return exercisedBy(id, name, e.Number) })
			require.Equal(t, exercised, judged, "%s in %s", id, name)
			if judged {
				require.Equal(t, Held, v.Outcome, "%s in %s: %s %v", id, name, v.Reason, v.Findings)
			}
		}
	}
}

// What nobody sampled or probed is inconclusive.
func TestWithoutSamplesNothingIsShown(t *testing.T) {
	for name, shape := range shapes {
		s := shape(nil).declareSamples(name)
		s.dumps = nil
		s.events = slices.DeleteFunc(s.events, func(e history.Event) bool {
			return e.Producers != nil || e.Probe != nil || e.InitPID != nil || e.Offsets != nil
		})
		got := judged(s.evidence(t))
		for id := range sampledIn {
			if v, judged := got[id]; judged {
				require.Equal(t, Inconclusive, v.Outcome, "%s in %s: %s %v", id, name, v.Reason, v.Findings)
			}
		}
	}
}

// vacuousSamples are runs in which all was sampled, and yet one thing was not there.
var vacuousSamples = []struct {
	id, shape, says string
	spoil           func(t *testing.T, s *saga)
}{
	{"LOG-5", "fan-out", "above 0", func(_ *testing.T, s *saga) {
		none := int32(0)
		for _, e := range s.events {
			if e.Offsets != nil {
				e.Offsets.LeaderEpoch, e.Offsets.EpochEnds = &none, nil
			}
		}
		for _, logs := range s.saved {
			for _, topics := range logs {
				for _, log := range topics {
					for i := range log {
						log[i].epoch = 0
					}
				}
			}
		}
	}},
	{"LOG-5", "fan-out", "while it mirrored held", func(_ *testing.T, s *saga) { // only after the stop, by the barrier, there is one
		high := int32(99)
		for _, e := range s.events {
			if e.Offsets != nil {
				e.Offsets.LeaderEpoch, e.Offsets.EpochEnds = &high, nil
			}
		}
		for _, logs := range s.saved {
			for cluster, topics := range logs {
				for _, log := range topics {
					for i := range log {
						log[i].epoch = 0
						if cluster != "A" && log[i].attributes&control != 0 && len(log[i].key) == 4 && log[i].key[3] == 7 {
							log[i].epoch = 3
						}
					}
				}
			}
		}
	}},
	{"LOG-5", "fan-out", "ends while it mirrored", func(_ *testing.T, s *saga) {
		for _, e := range s.events {
			if e.Offsets != nil && e.Seq < s.seqOf(1, history.StopRequested) {
				e.Offsets.EpochEnds = nil
			}
		}
	}},
	{"LOG-5", "fan-out", "ends after the stop", func(_ *testing.T, s *saga) {
		for _, e := range s.events {
			if e.Offsets != nil && e.Seq > s.seqOf(1, history.StopRequested) {
				e.Offsets.EpochEnds = nil
			}
		}
	}},
	// Of epochs above the last one in the log a leader need not know anything.
	{"LOG-5", "fan-out", "no leader told where an epoch of its log ends", func(_ *testing.T, s *saga) {
		for _, e := range s.events {
			if e.Offsets != nil && e.Offsets.EpochEnds != nil {
				e.Offsets.EpochEnds = []history.EpochEnd{{Asked: 1 << 20, Epoch: -1, End: -1}}
			}
		}
	}},
	{"LOG-5", "fan-out", "while it mirrored", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Offsets != nil && e.Seq < s.seqOf(1, history.StopRequested) })
	}},
	{"LOG-5", "fan-out", "after the stop", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Offsets != nil && e.Seq > s.seqOf(1, history.StopRequested) })
	}},
	{"BAR-7", "fan-out", "e-0 was not dumped", func(_ *testing.T, s *saga) {
		s.dumps = slices.DeleteFunc(s.dumps, func(d Dump) bool { return d.Episode == 2 && d.Topic == "e" })
	}},
	{"RO-2", "resumed", "was open on the destination", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Kind == history.KindTxnBegin })
	}},
	{"RO-2", "resumed", "used again", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.InitPID != nil })
	}},
	{"RO-3", "fan-out", "not tried", func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.Probe != nil {
				e.Probe.Result = &history.Result{Outcome: history.Refused, Code: 6}
			}
			return e.Probe != nil
		})
	}},
	{"PSM-3", "fan-out", "came back", func(_ *testing.T, s *saga) { s.without(func(e *history.Event) bool { return e.Node != nil }) }},
	{"PSM-3", "fan-out", "with the barrier in its log", func(t *testing.T, s *saga) { // killed before the barrier was written
		killed := slices.DeleteFunc(slices.Clone(s.events), func(e history.Event) bool { return e.Node == nil || e.Episode != 1 })[:2]
		s.drop(t, func(e *history.Event) bool { return e.Node != nil })
		i := slices.IndexFunc(s.events, func(e history.Event) bool {
			return e.Episode == 1 && e.Gate != nil
		})
		s.events = slices.Insert(s.events, i, killed...)
		for i := range s.events {
			s.events[i].Seq = int64(i + 1)
		}
	}},
	{"PSM-4", "fan-out", "the source's producers were never", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Producers != nil && e.Producers.Cluster == "A" })
	}},
	{"PSM-4", "fan-out", "the destination's producers were never", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool {
			return e.Producers != nil && e.Producers.Cluster != "A" && e.Producers.When == history.WhenMirroring
		})
	}},
	{"PSM-4", "fan-out", "open transaction", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool {
			return e.Producers != nil && e.Producers.Topic == "t" && e.Producers.When == history.WhenMirroring
		})
	}},
	{"PSM-4", "fan-out", "aborted transaction", func(_ *testing.T, s *saga) { s.without(func(e *history.Event) bool { return e.Fetch != nil }) }},
	{"PSM-4", "fan-out", "the source itself does not show", func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if d := e.Producers; d == nil || d.Cluster != "A" || len(d.Active) == 0 {
				return false
			}
			e.Producers.Active = e.Producers.Active[1:]
			return true
		})
	}},
	{"PSM-5", "failback", "inherited barrier", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Producers != nil && e.Producers.When == history.WhenMirroring })
	}},
	{"PSM-6", "fan-out", "after the barrier", func(_ *testing.T, s *saga) { s.without(func(e *history.Event) bool { return e.Node != nil }) }},
	{"PSM-7", "fan-out", "after a kill", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Node != nil && e.Node.What == history.NodeKilled })
	}},
	{"PSM-7", "fan-out", "after a kill", func(t *testing.T, s *saga) { // a clean close first: its snapshot lies after the barrier
		s.edit(t, func(e *history.Event) bool {
			if e.Node == nil || e.Node.What == history.NodeStarted {
				return false
			}
			e.Node.What = map[history.NodeEvent]history.NodeEvent{history.NodeKilled: history.NodeStopped, history.NodeStopped: history.NodeKilled}[e.Node.What]
			return true
		})
	}},
	{"PSM-7", "fan-out", "after a kill", func(t *testing.T, s *saga) { // a recovery before anything was written: its snapshot lies after the barrier
		s.recovered(t)
	}},
	{"PSM-9", "resumed", "was empty because", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Producers != nil && e.Producers.Topic == "q" })
	}},
	{"PSM-9", "resumed", "was cut away", func(_ *testing.T, s *saga) {
		s.without(func(e *history.Event) bool { return e.Producers != nil && e.Producers.When == history.WhenMirroring })
	}},
}

func TestWhatWasNotSampledIsInconclusive(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range vacuousSamples {
		covered[tc.id] = true
		s := shapes[tc.shape](nil).declareSamples(tc.shape)
		tc.spoil(t, s)
		v := judged(s.evidence(t))[tc.id]
		require.Equal(t, Inconclusive, v.Outcome, "%s %s: %s %v", tc.id, tc.says, v.Reason, v.Findings)
		require.Contains(t, v.Reason, tc.says)
	}
	for id := range sampledIn {
		require.True(t, covered[id], "no vacuous run for %s", id)
	}
}

// TestEpochsGoWithTheirRecords: of what lies below the log's start a leader knows nothing, and
// an epoch that is gone ends where the others begin; later still where the start rises
// until it answers.
func TestEpochsGoWithTheirRecords(t *testing.T) {
	for name, rises := range map[string]int64{"": 0, ", and the start rises": 10} {
		s := newSaga("a-to-b", "b-to-a", "a-to-b")
		s.begun = true
		s.failover(1)
		s.ep = 2
		s.epoch["A"] += 2
		s.failover(2)
		s.failover(3)
		gone := 0
		for _, e := range s.events {
			if e.Offsets == nil {
				continue
			}
			for i := range e.Offsets.EpochEnds {
				if end := &e.Offsets.EpochEnds[i]; end.End == e.Offsets.LogStartOffset && end.End > 0 {
					gone++
					end.End += rises
				}
			}
		}
		require.Positive(t, gone)
		v := judged(s.declareSamples("failback").evidence(t))["LOG-5"]
		require.Equal(t, Held, v.Outcome, "LOG-5%s: %s", name, v.Reason)
	}
}

// lastEnd changes the answer for the latest epoch that was asked for.
func lastEnd(o *history.Offsets, change func(*history.EpochEnd)) bool {
	ends := slices.Clone(o.EpochEnds)
	if len(ends) == 0 {
		return false
	}
	change(&ends[len(ends)-1])
	o.EpochEnds = ends
	return true
}

// badSamples are runs in which one requirement is violated.
var badSamples = []struct {
	id, name, shape string
	episode         int32
	anomaly         Anomaly
	offset          int64
	also            []string
	spoil           func(t *testing.T, s *saga)
}{
	// FA-11: a leader epoch below that of a mirrored batch, which followers skip.
	{id: "LOG-5", name: "behind while mirroring", shape: "failback", episode: 2, anomaly: EpochBehind, offset: 11, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			return e.Episode == 2 && e.Offsets != nil && e.Offsets.Cluster == "A" && e.Offsets.Topic == "t" && e.Seq < s.seqOf(2, history.StopRequested) && set(&e.Offsets.LeaderEpoch, 5)
		})
	}},
	{id: "LOG-5", name: "behind after the stop", shape: "chain", episode: 3, anomaly: EpochBehind, offset: 2, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			return e.Episode == 3 && e.Offsets != nil && e.Offsets.Topic == "e" && e.Seq > s.seqOf(3, history.Stopped) && set(&e.Offsets.LeaderEpoch, 0)
		})
	}},
	// As if an epoch of the destination's own had begun amid what is mirrored.
	{id: "LOG-5", name: "an epoch of leadership while mirroring", shape: "failback", episode: 2, anomaly: EpochsMisplaced, offset: 30, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			return e.Episode == 2 && e.Offsets != nil && e.Offsets.Cluster == "A" && e.Offsets.Topic == "t" && e.Seq < s.seqOf(2, history.StopRequested) &&
				lastEnd(e.Offsets, func(end *history.EpochEnd) { end.End = 30 })
		})
	}},
	{id: "LOG-5", name: "an epoch that ends too early", shape: "chain", episode: 3, anomaly: EpochsMisplaced, offset: 57, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			return e.Episode == 3 && e.Offsets != nil && e.Offsets.Topic == "t" && e.Seq > s.seqOf(3, history.Stopped) && lastEnd(e.Offsets, func(end *history.EpochEnd) { end.End-- })
		})
	}},
	{id: "LOG-5", name: "a later epoch than was asked for", shape: "chain", episode: 3, anomaly: EpochsMisplaced, offset: 58, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			return e.Episode == 3 && e.Offsets != nil && e.Offsets.Topic == "t" && e.Seq > s.seqOf(3, history.Stopped) && lastEnd(e.Offsets, func(end *history.EpochEnd) { end.Epoch++ })
		})
	}},
	{id: "LOG-5", name: "epochs that nobody knows", shape: "chain", episode: 3, anomaly: EpochsMisplaced, offset: 0, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			return e.Episode == 3 && e.Offsets != nil && e.Offsets.Topic == "t" && e.Seq > s.seqOf(3, history.Stopped) && lastEnd(e.Offsets, func(end *history.EpochEnd) { end.Epoch, end.End = -1, -1 })
		})
	}},
	{id: "LOG-5", name: "the barrier's own", shape: "fan-out", episode: 1, anomaly: EpochBehind, offset: 22, also: []string{"LOG-3"}, spoil: func(_ *testing.T, s *saga) {
		s.captured(1, "B", "t", s.legs[1].l).epoch = 0
	}},
	{id: "BAR-7", name: "the tool shows a number", shape: "fan-out", episode: 2, anomaly: UnnamedBarrier, offset: 0, spoil: func(_ *testing.T, s *saga) {
		s.redump(2, "e", "MirrorPidReset", "controlType: 7")
	}},
	{id: "BAR-7", name: "without the source", shape: "fan-out", episode: 2, anomaly: UnnamedBarrier, offset: 0, spoil: func(_ *testing.T, s *saga) {
		s.redump(2, "e", `"sourceClusterId":"`+idA+`"`, "")
	}},
	{id: "BAR-7", name: "without the version", shape: "fan-out", episode: 2, anomaly: UnnamedBarrier, offset: 0, spoil: func(_ *testing.T, s *saga) {
		s.redump(2, "e", `"version":0`, "")
	}},
	{id: "BAR-7", name: "no such record", shape: "fan-out", episode: 2, anomaly: UnnamedBarrier, offset: 0, spoil: func(_ *testing.T, s *saga) {
		s.redump(2, "e", "| offset: 0 ", "| offset: 01 ")
	}},
	{id: "RO-2", name: "the coordinator's marker among mirrored records", shape: "failback", episode: 2, anomaly: WriteInWindow, offset: 22, also: []string{"BAR-3"}, spoil: func(_ *testing.T, s *saga) {
		*s.captured(2, "A", "t", 22) = marker(22, s.captured(2, "A", "t", 22).epoch, 199, 4, 0)
		s.dropReads(2, 22)
	}},
	{id: "RO-2", name: "its marker where the source has one", shape: "failback", episode: 2, anomaly: WriteInWindow, offset: 21, also: []string{"LOG-1", "PSM-8", "TXN-3"}, spoil: func(_ *testing.T, s *saga) {
		*s.captured(2, "A", "t", 21) = marker(21, s.captured(2, "A", "t", 21).epoch, 199, 4, 0)
	}},
	{id: "RO-2", name: "the marker comes after the barrier", shape: "failback", episode: 2, anomaly: StaleMarker, offset: 46, spoil: func(_ *testing.T, s *saga) {
		m := marker(endOf(s.saved[2]["A"]["t"]), s.saved[2]["A"]["t"][len(s.saved[2]["A"]["t"])-1].epoch, 199, 4, 0)
		s.saved[2]["A"]["t"] = append(s.saved[2]["A"]["t"], m)
	}},
	{id: "RO-2", name: "the id is wedged", shape: "resumed", episode: 2, anomaly: WedgedId, offset: -1, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.InitPID == nil {
				return false
			}
			e.InitPID.Result = &history.Result{Outcome: history.Refused, Code: 51, Message: "concurrent transactions"}
			return true
		})
	}},
	{id: "RO-3", name: "accepted", shape: "chain", episode: 2, anomaly: Mutation, offset: -1, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.Episode == 2 && e.Probe != nil {
				e.Probe.Result = &ok
				return true
			}
			return false
		})
	}},
	{id: "RO-3", name: "refused, and done", shape: "chain", episode: 2, anomaly: Mutation, offset: 4, spoil: func(t *testing.T, s *saga) {
		probed := false
		s.edit(t, func(e *history.Event) bool {
			probed = probed || e.Episode == 2 && e.Probe != nil
			if !probed || e.Episode != 2 || e.Offsets == nil || e.Offsets.Topic != "t" {
				return false
			}
			e.Offsets.LogStartOffset = 4
			return true
		})
	}},
	{id: "PSM-3", name: "a mirrored producer is back", shape: "fan-out", episode: 1, anomaly: BarrierResurrect, offset: 19, also: []string{"PSM-7"}, spoil: func(t *testing.T, s *saga) {
		s.restarted(t, 1, "t", func(d *history.Producers) {
			d.Active = append(d.Active, history.ProducerState{ProducerID: 209, Epoch: 3, LastSequence: 1, CurrentTxnStart: -1})
		})
	}},
	{id: "PSM-6", name: "a local producer is lost", shape: "fan-out", episode: 1, anomaly: LostProducer, offset: 33, also: []string{"PSM-7"}, spoil: func(t *testing.T, s *saga) {
		s.restarted(t, 1, "t", func(d *history.Producers) {
			d.Active = slices.DeleteFunc(d.Active, func(a history.ProducerState) bool { return a.ProducerID == 103 })
		})
	}},
	{id: "PSM-6", name: "a local producer forgot its last batch", shape: "fan-out", episode: 1, anomaly: LostProducer, offset: 33, also: []string{"PSM-7", "PSM-3"}, spoil: func(t *testing.T, s *saga) {
		s.restarted(t, 1, "t", func(d *history.Producers) {
			for i := range d.Active {
				if d.Active[i].ProducerID == 103 {
					d.Active[i].LastSequence = -1
				}
			}
		})
	}},
	{id: "PSM-7", name: "nothing is left", shape: "resumed", episode: 2, anomaly: WrongState, offset: 26, also: []string{"PSM-6"}, spoil: func(t *testing.T, s *saga) {
		s.restarted(t, 2, "t", func(d *history.Producers) { d.Active = nil })
	}},
	{id: "PSM-4", name: "a producer is missing", shape: "fan-out", episode: 2, anomaly: WrongState, offset: 23, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "C", "t", func(d *history.Producers) {
			d.Active = slices.DeleteFunc(d.Active, func(a history.ProducerState) bool { return a.ProducerID == 102 })
		})
	}},
	{id: "PSM-4", name: "a producer is there that is not", shape: "fan-out", episode: 2, anomaly: WrongState, offset: -1, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "C", "e", func(d *history.Producers) {
			d.Active = append(d.Active, history.ProducerState{ProducerID: 5, CurrentTxnStart: -1})
		})
	}},
	{id: "PSM-4", name: "a transaction is not open", shape: "fan-out", episode: 2, anomaly: WrongState, offset: 22, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "C", "t", func(d *history.Producers) {
			for i := range d.Active {
				d.Active[i].CurrentTxnStart = -1
			}
			d.Active = append(d.Active, history.ProducerState{ProducerID: 1_000_000, CurrentTxnStart: 3})
		})
	}},
	{id: "PSM-4", name: "the last stable offset is too high", shape: "failback", episode: 3, anomaly: WrongLSO, offset: 59, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.Episode != 3 || e.Fetch == nil || e.Seq > s.seqOf(3, history.StopRequested) {
				return false
			}
			e.Fetch.LastStableOffset = e.Fetch.HighWatermark
			return true
		})
	}},
	{id: "PSM-4", name: "the last stable offset is too low", shape: "failback", episode: 3, anomaly: WrongLSO, offset: 11, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.Episode != 3 || e.Offsets == nil || e.Offsets.Cluster != "B" || e.Offsets.Topic != "t" || e.Seq > s.seqOf(3, history.StopRequested) {
				return false
			}
			e.Offsets.LastStableOffset = 11
			return true
		})
	}},
	{id: "PSM-4", name: "an aborted transaction is not listed", shape: "failback", episode: 3, anomaly: MissingAbort, offset: 2, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.Episode != 3 || e.Fetch == nil || e.Seq > s.seqOf(3, history.StopRequested) {
				return false
			}
			e.Fetch.Aborted = e.Fetch.Aborted[1:]
			return true
		})
	}},
	{id: "PSM-4", name: "an aborted transaction that is none", shape: "failback", episode: 3, anomaly: StaleAbort, offset: 0, spoil: func(t *testing.T, s *saga) {
		s.edit(t, func(e *history.Event) bool {
			if e.Episode != 3 || e.Fetch == nil || e.Seq > s.seqOf(3, history.StopRequested) {
				return false
			}
			e.Fetch.Aborted = append(e.Fetch.Aborted, history.Aborted{ProducerID: 101})
			return true
		})
	}},
	{id: "PSM-5", name: "an inherited barrier emptied the state", shape: "failback", episode: 2, anomaly: InheritedExpiry, offset: 2, also: []string{"PSM-4"}, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "A", "q", func(d *history.Producers) {
			d.Active = slices.DeleteFunc(d.Active, func(a history.ProducerState) bool { return a.ProducerID == 120 })
		})
	}},
	{id: "PSM-5", name: "in a chain", shape: "chain", episode: 3, anomaly: InheritedExpiry, offset: 5, also: []string{"PSM-4"}, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 3, "D", "q", func(d *history.Producers) {
			d.Active = slices.DeleteFunc(d.Active, func(a history.ProducerState) bool { return a.ProducerID == 120 })
		})
	}},
	{id: "PSM-9", name: "what was before is not back", shape: "resumed", episode: 2, anomaly: WrongState, offset: 8, also: []string{"PSM-4"}, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "B", "t", func(d *history.Producers) {
			d.Active = slices.DeleteFunc(d.Active, func(a history.ProducerState) bool { return a.ProducerID == 109 })
		})
	}},
	{id: "PSM-9", name: "the state stays empty", shape: "resumed", episode: 2, anomaly: WrongState, offset: 0, also: []string{"PSM-4"}, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "B", "q", func(d *history.Producers) {
			d.Active = slices.DeleteFunc(d.Active, func(a history.ProducerState) bool { return a.ProducerID == 120 })
		})
	}},
	{id: "PSM-9", name: "what was cut is still there", shape: "resumed", episode: 2, anomaly: WrongState, offset: -1, also: []string{"PSM-4"}, spoil: func(t *testing.T, s *saga) {
		s.mirroring(t, 2, "B", "t", func(d *history.Producers) {
			d.Active = append(d.Active, history.ProducerState{ProducerID: 103, CurrentTxnStart: -1})
		})
	}},
}

func TestEachBadSampleIsSeen(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range badSamples {
		covered[tc.id] = true
		t.Run(tc.id+"/"+strings.ReplaceAll(tc.name, " ", "-"), func(t *testing.T) {
			s := shapes[tc.shape](nil).declareSamples(tc.shape)
			tc.spoil(t, s)
			got := judged(s.evidence(t))
			var violated []string
			for id, v := range got {
				if v.Outcome != Violated || overAll(id) {
					continue
				}
				violated = append(violated, id)
				for _, f := range v.Findings {
					require.Equal(t, tc.episode, f.Episode, "%s: %v", id, f)
				}
			}
			require.ElementsMatch(t, append([]string{tc.id}, tc.also...), violated, "%s %v", got[tc.id].Reason, got[tc.id].Findings)
			f := got[tc.id].Findings[0]
			require.Equal(t, tc.anomaly, f.Anomaly, "%v", f)
			require.Equal(t, tc.offset, f.Offset, "%v", f)
			require.NotEmpty(t, f.Evidence)
		})
	}
	for id := range sampledIn {
		require.True(t, covered[id], "no bad run for %s", id)
	}
}

func TestAnInheritedBarrierMayExpireInTheLaterText(t *testing.T) {
	s := shapes["failback"](nil).declareSamples("failback")
	s.run.Profile = ProfileLatest
	require.Equal(t, NotApplicable, judged(s.evidence(t))["PSM-5"].Outcome)
}

func set(p **int32, to int32) bool { *p = &to; return true }

func (s *saga) without(f func(e *history.Event) bool) {
	s.events = slices.DeleteFunc(s.events, func(e history.Event) bool { return f(&e) })
}

// seqOf is when a phase of an episode began.
func (s *saga) seqOf(episode int32, name history.PhaseName) int64 {
	i := slices.IndexFunc(s.events, func(e history.Event) bool {
		return e.Episode == episode && e.Phase != nil && e.Phase.Name == name
	})
	return s.events[i].Seq
}

func (s *saga) redump(episode int32, topic, from, to string) {
	for i := range s.dumps {
		if d := &s.dumps[i]; d.Episode == episode && d.Topic == topic {
			d.Text = strings.ReplaceAll(d.Text, from, to)
		}
	}
}

// restarted changes what the broker described after its first restart.
func (s *saga) restarted(t *testing.T, episode int32, topic string, change func(*history.Producers)) {
	done := false
	s.edit(t, func(e *history.Event) bool {
		d := e.Producers
		if done || e.Episode != episode || d == nil || d.When != history.WhenAfterRestart || d.Topic != topic {
			return false
		}
		change(d)
		done = true
		return true
	})
}

// recovered kills every destination's broker, and starts it, right after each stop.
func (s *saga) recovered(t *testing.T, more ...history.NodeEvent) {
	for n, l := range s.legs {
		i := slices.IndexFunc(s.events, func(e history.Event) bool {
			return e.Episode == n && e.Phase != nil && e.Phase.Name == history.TrafficAfter
		})
		require.Positive(t, i)
		for _, what := range []history.NodeEvent{history.NodeStarted, history.NodeKilled} {
			s.events = slices.Insert(s.events, i, history.Event{Episode: n, Kind: history.KindNode, Node: &history.Node{Cluster: l.dst, Node: 1, What: what}})
		}
	}
	for i := 0; i < len(s.events); i++ { // what becomes of a broker that is killed again
		if e := s.events[i]; len(more) > 0 && e.Node != nil && e.Node.What == history.NodeKilled {
			for k, what := range more {
				s.events = slices.Insert(s.events, i+1+k, history.Event{Episode: e.Episode, Kind: history.KindNode, Node: &history.Node{Cluster: e.Node.Cluster, Node: 1, What: what}})
			}
		}
	}
	for i := range s.events {
		s.events[i].Seq = int64(i + 1)
	}
}

// A broker that lost its snapshots reads the log across the barrier again.
func TestWithoutSnapshotsRecoveryReadsEverything(t *testing.T) {
	s := shapes["fan-out"](nil).declareSamples("fan-out")
	s.recovered(t, history.NodeLostSnapshots)
	v := judged(s.evidence(t))["PSM-7"]
	require.Equal(t, Held, v.Outcome, "%s %v", v.Reason, v.Findings)
}

// mirroring changes what a cluster described while it mirrored.
func (s *saga) mirroring(t *testing.T, episode int32, cluster, topic string, change func(*history.Producers)) {
	s.edit(t, func(e *history.Event) bool {
		d := e.Producers
		if e.Episode != episode || d == nil || d.When != history.WhenMirroring || d.Cluster != cluster || d.Topic != topic {
			return false
		}
		change(d)
		return true
	})
}

// What a downstream showed before its upstream was stopped is not held to the log
// that the upstream has since: it was cut.
func TestASampleFromBeforeAStopUpstreamIsLeftOut(t *testing.T) {
	s := shapes["chain"](map[string]func(*saga){"stopped 1": func(s *saga) {
		s.sample("C", 2, history.WhenMirroring)
		s.ep = 1
	}}).declareSamples("chain")
	v := judged(s.evidence(t))["PSM-4"]
	require.Equal(t, Held, v.Outcome, "%s", v.Reason)
}
