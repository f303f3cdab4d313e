package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// declare adds requirements to what the run exercises.
func (s *saga) declare(ids ...string) { s.run.Exercises = append(s.run.Exercises, ids...) }

// probedFailback is a failback in which zombies tried to go on at the old
// primary, which had elected the epochs that the new one uses.
func probedFailback(before map[string]func(*saga)) *saga {
	s := newSaga("a-to-b", "b-to-a", "a-to-b")
	s.before = before
	s.declare("FB-1", "FB-2", "FB-3", "FB-4", "AL-1")
	s.failover(1)
	s.ep = 2
	s.epoch["A"] = s.epoch["B"]
	s.idem("A", "zombie", 102, 0, 5, 2, "")
	s.add(history.Event{Kind: history.KindTxnBegin, Txn: &history.Txn{Writer: "zombie-txn", Cluster: "A", TransactionalID: "abandoned", Intent: history.IntentAbort}})
	s.txn("A", "zombie-txn", 101, 3, 0, history.IntentOpen)
	var ranges []history.EpochRange
	for _, b := range s.logs["A"]["t"] {
		ranges = append(ranges, history.EpochRange{Epoch: b.epoch, First: b.base, Last: b.base + b.count() - 1})
	}
	s.add(history.Event{Kind: history.KindLeaderEpochs, Epochs: &history.Epochs{Cluster: "A", Topic: "t", Ranges: ranges}})
	s.source(2)
	s.start(2)
	s.open(2)
	s.send("A", "zombie", history.Idempotent, 102, 0, 7, 1, history.NoTxn, history.IntentNone, "", refusedBy(134))
	s.add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{
		Writer: "zombie-txn", Cluster: "A", TransactionalID: "abandoned", ProducerID: 101, Epoch: 4, Result: &ok,
	}})
	s.request(2)
	s.stop(2)
	s.late(2)
	s.promoted(2)
	s.failover(3)
	return s
}

// A log that was cleaned past the place where it parted from the other is whole
// again once it was mirrored into, or it was truncated and lacks what was compacted
// away (AL-1).
func TestACleanedLogIsCopiedAnew(t *testing.T) {
	for _, tc := range []struct {
		name          string
		cleans, lacks bool
		outcome       Outcome
	}{
		{"cleaned, copied anew", true, false, Held},
		{"cleaned, truncated", true, true, Violated},
		{"never cleaned: for LOG-1 to say", false, true, Held},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := probedFailback(nil)
			if tc.cleans {
				i := slices.IndexFunc(s.events, func(e history.Event) bool { return e.Epochs != nil })
				s.events = slices.Insert(s.events, i, history.Event{
					Episode: 2, Kind: history.KindDisturbance, Disturbance: &history.Disturbance{What: history.Compaction, Cluster: "A", Over: true, Took: true},
				})
				for i := range s.events {
					s.events[i].Seq = int64(i + 1)
				}
			}
			if tc.lacks {
				log := s.saved[2]["A"]["t"]
				require.Less(t, log[1].base, int64(11), "below the parting")
				s.saved[2]["A"]["t"] = slices.Delete(slices.Clone(log), 1, 2)
			}
			v := judged(s.evidence(t))["AL-1"]
			require.Equal(t, tc.outcome, v.Outcome, "%s %v", v.Reason, v.Findings)
			if tc.outcome == Violated {
				require.Equal(t, MissingBatch, v.Findings[0].Anomaly)
			} else if tc.cleans {
				require.Contains(t, v.Reason, "3 logs had been cleaned past the parting, and are whole")
			}
		})
	}
}

// probedFanOut stops one mirror of two, and later the other one.
func probedFanOut(before map[string]func(*saga)) *saga {
	s := newSaga("a-to-b", "a-to-c")
	s.before = before
	s.declare("FO-1", "FO-2")
	s.source(1)
	s.start(1)
	s.source(2)
	s.start(2)
	s.open(1)
	s.copy(2)
	s.sample("C", 2, history.WhenMirroring)
	s.request(1)
	s.stop(1)
	s.runs(2)
	s.late(1)
	s.promoted(1)
	s.open(2)
	s.request(2)
	s.stop(2)
	s.late(2)
	s.promoted(2)
	return s
}

// runs lets a mirror go on with a new record, and describes it.
func (s *saga) runs(n int32) {
	s.ep = n
	l := s.legs[n]
	s.plain(l.src, "goes-on", 2)
	s.copy(n)
	s.state(l, "t", "MIRRORING", -1, -1)
	s.at("runs", n)
	s.sample(l.dst, n, history.WhenMirroring)
}

// probedChain is a chain of four whose middle clusters are promoted in turn,
// with a loop that was refused.
func probedChain(before map[string]func(*saga)) *saga {
	s := newSaga("a-to-b", "b-to-c", "c-to-d")
	s.before = before
	s.declare("CH-1", "CH-2", "CH-3", "CH-4")
	s.source(1)
	for _, n := range []int32{1, 2, 3} {
		s.start(n)
	}
	s.open(1)
	s.copy(2)
	s.copy(3)
	s.ep = 2
	s.state(s.legs[2], "t", "MIRRORING", -1, -1) // C holds what B is to cut
	s.request(1)
	s.stop(1)
	s.late(1)
	s.promoted(1)
	for _, n := range []int32{2, 3} {
		s.ep = n
		for running := n; running <= 3; running++ {
			s.copy(running)
			s.ep = running
			s.state(s.legs[running], "t", "MIRRORING", -1, -1)
			s.at("went on", running)
		}
		s.source(n)
		s.open(n)
		s.request(n)
		s.stop(n)
		s.late(n)
		s.promoted(n)
	}
	s.ep = 0
	s.loop(history.Probe{After: "FAILED", Result: &ok})
	return s
}

// loop is a probe of a loop and what became of its topic.
func (s *saga) loop(p history.Probe) {
	p.What, p.Cluster, p.Mirror, p.Topic, p.Partition = history.ProbeLoop, "A", "ring-4", "ring", -1
	tag := history.Tag{Cluster: "A", Writer: "ringer", Txn: history.NoTxn, Intent: history.IntentNone, Place: "ring-0"}
	s.add(history.Event{Kind: history.KindProduceAck, Op: 9999, Produce: &history.Produce{
		Writer: "ringer", Cluster: "A", Topic: "ring", Mode: history.Plain, Tag: tag, Count: 2, Result: &ok,
	}})
	s.add(history.Event{Kind: history.KindMirrorState, Mirror: &history.Mirror{Cluster: "A", Mirror: "ring-4", Topic: "ring", State: "FAILED", Error: "a loop"}})
	s.add(history.Event{Kind: history.KindProbe, Probe: &p})
	end := int64(2)
	s.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "A", Topic: "ring", HighWatermark: end}})
	for k := range end {
		s.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: "ring", Cluster: "A", Topic: "ring", Isolation: history.ReadUncommitted, Offset: k, Tag: tag.Add(k).String()}})
	}
	s.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "A", Topic: "ring", HighWatermark: end}})
}

// edit changes every event for which f is true.
func (s *saga) edit(t *testing.T, f func(e *history.Event) bool) {
	n := 0
	for i := range s.events {
		n += b2i(f(&s.events[i]))
	}
	require.Positive(t, n, "nothing was edited")
}

func (s *saga) drop(t *testing.T, f func(e *history.Event) bool) {
	before := len(s.events)
	s.events = slices.DeleteFunc(s.events, func(e history.Event) bool { return f(&e) })
	require.Less(t, len(s.events), before, "nothing was dropped")
}

var probedShapes = map[string]func(map[string]func(*saga)) *saga{
	"failback": probedFailback, "fan-out": probedFanOut, "chain": probedChain,
}

func TestProbedShapesHold(t *testing.T) {
	for name, shape := range probedShapes {
		s := shape(nil)
		got := judged(s.evidence(t))
		for _, id := range s.run.Exercises {
			require.Equal(t, Held, got[id].Outcome, "%s %s: %s %v", name, id, got[id].Reason, got[id].Findings)
			require.NotEmpty(t, got[id].Reason)
		}
	}
}

func isZombie(e *history.Event) bool {
	return e.Produce != nil && e.Produce.Writer == "zombie" && e.Produce.Result != nil
}

func TestSpansFindWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		shape, id, name string
		anomaly         Anomaly
		before          map[string]func(*saga)
		spoil           func(t *testing.T, s *saga)
	}{
		{shape: "failback", id: "FB-1", name: "the new primary's barrier was altered", anomaly: MissingBarrier, spoil: func(_ *testing.T, s *saga) {
			s.captured(2, "A", "t", 11).value = barrier(0, 0, idC).value
		}},
		{shape: "failback", id: "FB-1", name: "a record of the old primary's own was not cut", anomaly: UncutSuffix, spoil: func(_ *testing.T, s *saga) {
			*s.captured(2, "A", "t", 15) = s.zombie("A", 15)
		}},
		{shape: "failback", id: "FB-1", name: "the logs differ", anomaly: DivergedLogs, spoil: func(_ *testing.T, s *saga) {
			s.captured(2, "A", "t", 15).payload = "another"
		}},
		{shape: "failback", id: "FB-2", name: "an older barrier is gone at the end", anomaly: MissingBarrier, spoil: func(_ *testing.T, s *saga) {
			b := s.captured(3, "B", "t", 11)
			*b = spec{base: 11, epoch: b.epoch, pid: -1, pepoch: -1, seq: -1, tags: []history.Tag{{Cluster: "B", Writer: "x", Txn: -1, Intent: history.IntentNone, Place: "t-0"}}}
		}},
		{shape: "failback", id: "FB-2", name: "one stop left two", anomaly: ExtraBarrier, spoil: func(_ *testing.T, s *saga) {
			log := s.saved[3]["A"]["e"]
			s.saved[3]["A"]["e"] = append(log, barrier(endOf(log), 99, idB))
		}},
		{shape: "failback", id: "FB-3", name: "a record of the first period is gone at the end", anomaly: LostWrite, spoil: func(_ *testing.T, s *saga) {
			b := s.captured(3, "B", "t", 7)
			b.tags = []history.Tag{{Cluster: "A", Writer: "nobody", Txn: history.NoTxn, Intent: history.IntentNone, Place: "t-0"}}
		}},
		{shape: "failback", id: "FB-4", name: "a zombie is acknowledged", anomaly: ZombieAppend, spoil: func(t *testing.T, s *saga) {
			s.edit(t, func(e *history.Event) bool {
				if !isZombie(e) || e.Produce.Result.Outcome == history.OK {
					return false
				}
				e.Produce.Result, e.Produce.Offset = &ok, 70
				return true
			})
		}},
		{shape: "failback", id: "FB-4", name: "the old primary's coordinator wrote a marker", anomaly: ForeignMarker, spoil: func(_ *testing.T, s *saga) {
			b := s.captured(2, "A", "t", 15)
			*b = marker(15, b.epoch, 777, 0, wirelog.Abort)
		}},
		{shape: "failback", id: "AL-1", name: "a record under the same epoch stayed", anomaly: DivergedLogs, spoil: func(_ *testing.T, s *saga) {
			*s.captured(2, "A", "t", 15) = s.zombie("A", 15)
		}},

		{shape: "fan-out", id: "FO-1", name: "one has no barrier", anomaly: MissingBarrier, spoil: func(_ *testing.T, s *saga) {
			s.saved[2]["C"]["e"] = nil
		}},
		{shape: "fan-out", id: "FO-1", name: "one names another source", anomaly: WrongSource, spoil: func(_ *testing.T, s *saga) {
			s.captured(2, "C", "e", 0).value = barrier(0, 0, idB).value
		}},
		{shape: "fan-out", id: "FO-1", name: "one has two", anomaly: ExtraBarrier, spoil: func(_ *testing.T, s *saga) {
			s.saved[2]["C"]["e"] = append(s.saved[2]["C"]["e"], barrier(1, 50, idA))
		}},
		{shape: "fan-out", id: "FO-2", name: "the other one failed meanwhile", anomaly: DisturbedMirror, before: map[string]func(*saga){
			"runs 2": func(s *saga) {
				s.add(history.Event{Kind: history.KindMirrorState, Mirror: &history.Mirror{Cluster: "C", Mirror: "a-to-c", Topic: "t", State: "FAILED", Error: "why"}})
			},
		}},
		{shape: "fan-out", id: "FO-2", name: "the other one forgot its producers", anomaly: DisturbedMirror, spoil: func(t *testing.T, s *saga) {
			n := 0
			s.edit(t, func(e *history.Event) bool {
				if e.Producers == nil || e.Producers.Cluster != "C" || e.Producers.Topic != "t" {
					return false
				}
				n++
				if n == 2 { // the first sample within the other's stop
					e.Producers.Active = nil
				}
				return n == 2
			})
		}},

		// FA-08: negative ids, which nothing keeps state for.
		{shape: "chain", id: "CH-1", name: "an id was rewritten on the last hop", anomaly: NegativeID, spoil: func(_ *testing.T, s *saga) {
			b := s.captured(3, "D", "t", 4)
			b.pid = -(b.pid + 2)
		}},
		{shape: "chain", id: "CH-1", name: "an id was rewritten, and back again", anomaly: NegativeID, spoil: func(_ *testing.T, s *saga) {
			b := s.captured(1, "B", "t", 4) // on C it is the old one again
			b.pid = -(b.pid + 2)
		}},
		{shape: "chain", id: "CH-1", name: "a record was altered on the way", anomaly: AlteredBatch, spoil: func(_ *testing.T, s *saga) {
			s.captured(2, "C", "t", 4).payload = "another"
		}},
		{shape: "chain", id: "CH-2", name: "the promoted one has no barrier", anomaly: MissingBarrier, spoil: func(_ *testing.T, s *saga) {
			s.saved[1]["B"]["e"] = nil
		}},
		{shape: "chain", id: "CH-2", name: "the barrier did not come down", anomaly: MissingBarrier, spoil: func(_ *testing.T, s *saga) {
			s.saved[2]["C"]["e"] = s.saved[2]["C"]["e"][1:]
		}},
		{shape: "chain", id: "CH-2", name: "the downstream failed", anomaly: DisturbedMirror, before: map[string]func(*saga){
			"went on 2": func(s *saga) {
				s.add(history.Event{Kind: history.KindMirrorState, Mirror: &history.Mirror{Cluster: "C", Mirror: "b-to-c", Topic: "e", State: "FAILED", Error: "why"}})
			},
		}},
		{shape: "chain", id: "CH-3", name: "the downstream kept what was cut", anomaly: UncutSuffix, spoil: func(_ *testing.T, s *saga) {
			*s.captured(2, "C", "t", 11) = *s.captured(1, "A", "t", 11)
		}},
		{shape: "chain", id: "CH-4", name: "a barrier is missing further down", anomaly: MissingBarrier, spoil: func(_ *testing.T, s *saga) {
			s.saved[3]["D"]["e"] = s.saved[3]["D"]["e"][1:]
		}},
		{shape: "chain", id: "CH-4", name: "the loop lost a record", anomaly: LostWrite, spoil: func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.Read != nil && e.Read.Topic == "ring" && e.Read.Offset == 1 })
		}},
		{shape: "chain", id: "CH-4", name: "the loop feeds itself", anomaly: Duplicate, spoil: func(_ *testing.T, s *saga) {
			s.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{Cluster: "A", Topic: "ring", HighWatermark: 4}})
		}},
		{shape: "chain", id: "CH-4", name: "the loop failed with another cause", anomaly: UnclearRefusal, spoil: func(t *testing.T, s *saga) {
			s.edit(t, func(e *history.Event) bool {
				if e.Mirror == nil || e.Mirror.Topic != "ring" {
					return false
				}
				e.Mirror.Error = "the source does not answer"
				return true
			})
		}},
		{shape: "chain", id: "CH-4", name: "the loop failed without a word", anomaly: UnclearRefusal, spoil: func(t *testing.T, s *saga) {
			s.edit(t, func(e *history.Event) bool {
				if e.Mirror == nil || e.Mirror.Topic != "ring" {
					return false
				}
				e.Mirror.Error = ""
				return true
			})
		}},
	} {
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			s := probedShapes[tc.shape](tc.before)
			if tc.spoil != nil {
				tc.spoil(t, s)
			}
			v := judged(s.evidence(t))[tc.id]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly }), "%v", v.Findings)
		})
	}
}

// What the seed calls silent corruption has names of its own once ids are
// rewritten: A's and B's producers are one on C.
func TestCollisionsOfRewrittenIDsAreNamed(t *testing.T) {
	rewrite := func(s *saga, spoil func(b *spec)) {
		for _, b := range []*spec{s.captured(2, "C", "t", 4), s.captured(2, "C", "t", 12)} {
			b.pid = -104 // A's idempotent producer 102, and what B forged under its id
			if b.base == 12 {
				spoil(b)
			}
		}
	}
	for _, tc := range []struct {
		id      string
		anomaly Anomaly
		offset  int64
		spoil   func(s *saga)
	}{
		{"LOG-2", CollidingSequence, 12, func(s *saga) { rewrite(s, func(b *spec) { b.seq = 9 }) }},
		{"LOG-2", CollidingEpoch, 12, func(s *saga) {
			s.captured(2, "C", "t", 4).pepoch = 3
			rewrite(s, func(*spec) {})
		}},
		{"LOG-2", NegativeID, 4, func(s *saga) { rewrite(s, func(b *spec) { b.seq = 3 }) }},
		{"TXN-2", ForeignMarker, 19, func(s *saga) { // B's transaction begins at 18: what A left open under its id was not cut
			for _, b := range s.saved[2]["C"]["t"] {
				if b.base == 18 || b.base == 19 {
					s.captured(2, "C", "t", b.base).pid = -103
				}
			}
			b := s.captured(2, "C", "t", 10)
			b.pid, b.attributes = -103, transactional
			b.tags = []history.Tag{{Cluster: "A", Writer: "left-open", Txn: 7, Intent: history.IntentOpen, Place: "t-0"}}
		}},
		{"CH-1", RestoredID, 4, func(s *saga) {
			s.captured(2, "B", "t", 4).pid = -104 // and on C it is 102 again
		}},
	} {
		t.Run(tc.id+"/"+string(tc.anomaly), func(t *testing.T) {
			s := probedChain(nil)
			tc.spoil(s)
			v := judged(s.evidence(t))[tc.id]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly && f.Offset == tc.offset && f.Episode == 2 }), "%v", v.Findings)
		})
	}
}

func TestAMissingLastLogIsInconclusive(t *testing.T) {
	s := probedFailback(nil)
	ev := s.evidence(t)
	before := len(ev.Replicas)
	ev.Replicas = slices.DeleteFunc(ev.Replicas, func(r *Replica) bool { return r.Cluster == "A" && r.Topic == "t" })
	require.Less(t, len(ev.Replicas), before)
	v := judged(ev)["FB-3"]
	require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
	require.Contains(t, v.Reason, "the last log of t-0 on cluster A is missing")
}

func TestSpansThatWereNotExercisedAreInconclusive(t *testing.T) {
	for _, tc := range []struct {
		shape, id, says string
		spoil           func(t *testing.T, s *saga)
	}{
		{"failback", "FB-1", "had nothing above", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.Produce != nil && strings.HasPrefix(e.Produce.Writer, "zombie") })
			for i := range s.events { // what came late is not above the parting either
				if p := s.events[i].Produce; p != nil && p.Result != nil {
					p.Offset = min(p.Offset, 10)
				}
			}
		}},
		{"failback", "FB-4", "tried to go on", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return isZombie(e) && e.Produce.Result.Outcome == history.Refused })
		}},
		{"failback", "FB-4", "whose time was up", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.InitPID != nil })
		}},
		{"failback", "AL-1", "leader epoch that the new one uses too", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.Epochs != nil })
		}},
		{"failback", "AL-1", "leader epoch that the new one uses too", func(t *testing.T, s *saga) { // it kept to its old epoch
			s.edit(t, func(e *history.Event) bool {
				if e.Epochs == nil {
					return false
				}
				for i := range e.Epochs.Ranges {
					e.Epochs.Ranges[i].Epoch = 1
				}
				return true
			})
		}},
		{"failback", "AL-1", "at the same offsets", func(t *testing.T, s *saga) { // the same epoch, far behind the new one's end
			s.edit(t, func(e *history.Event) bool {
				if e.Epochs == nil {
					return false
				}
				r := e.Epochs.Ranges[len(e.Epochs.Ranges)-1]
				e.Epochs.Ranges = []history.EpochRange{{Epoch: r.Epoch, First: 5000, Last: 5001}}
				return true
			})
		}},
		{"fan-out", "FO-2", "was not seen to mirror", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.Produce != nil && e.Produce.Writer == "goes-on" })
			s.edit(t, func(e *history.Event) bool { // nothing else was seen to arrive
				if e.Mirror == nil || e.Mirror.Cluster != "C" {
					return false
				}
				e.Mirror.DestinationOffset = 0
				return true
			})
		}},
		{"fan-out", "FO-2", "were not described", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.Producers != nil && e.Producers.Cluster == "C" })
		}},
		{"fan-out", "FO-2", "never described", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool {
				return e.Mirror != nil && e.Mirror.Cluster == "C" && e.Mirror.State == "MIRRORING"
			})
		}},
		{"chain", "CH-2", "came down the chain", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool {
				return e.Produce != nil && e.Produce.Result != nil && (e.Produce.Cluster == "B" || e.Produce.Cluster == "C")
			})
		}},
		{"chain", "CH-3", "held a record that its upstream cut", func(t *testing.T, s *saga) {
			s.edit(t, func(e *history.Event) bool {
				if e.Mirror == nil || e.Mirror.State != "MIRRORING" {
					return false
				}
				e.Mirror.DestinationOffset = 0
				return true
			})
		}},
		{"chain", "CH-3", "held a record that its upstream cut", func(t *testing.T, s *saga) { // no more than the barrier came, during the stop
			for i := range s.events {
				if m := s.events[i].Mirror; m != nil && m.State == "MIRRORING" {
					m.DestinationOffset = 0
				}
			}
			for i := len(s.events) - 1; i >= 0; i-- {
				e := s.events[i]
				if e.Mirror == nil || e.Mirror.State != "STOPPED" {
					continue
				}
				for n, l := range s.legs {
					if l.src == e.Mirror.Cluster {
						m := *e.Mirror
						m.Cluster, m.Mirror, m.State, m.DestinationOffset = l.dst, l.mirror, "MIRRORING", m.BarrierOffset+1
						s.events = slices.Insert(s.events, i, history.Event{Episode: n, Kind: history.KindMirrorState, Mirror: &m})
					}
				}
			}
			for i := range s.events {
				s.events[i].Seq = int64(i + 1)
			}
		}},
		{"chain", "CH-4", "close a loop", func(t *testing.T, s *saga) {
			later := refusedBy(7)
			s.edit(t, func(e *history.Event) bool {
				if e.Probe == nil || e.Probe.What != history.ProbeLoop {
					return false
				}
				e.Probe.Result, e.Probe.After = &later, ""
				return true
			})
		}},
		{"chain", "CH-4", "close a loop", func(t *testing.T, s *saga) {
			s.drop(t, func(e *history.Event) bool { return e.Probe != nil })
		}},
	} {
		t.Run(tc.id+"/"+tc.says, func(t *testing.T) {
			s := probedShapes[tc.shape](nil)
			tc.spoil(t, s)
			v := judged(s.evidence(t))[tc.id]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
	// Other shapes exercise none of it.
	for _, shape := range []struct{ name, not string }{{"resumed", ""}, {"fan-out", "FO-1"}, {"chain", "CH-1 CH-2"}, {"failback", "FB-1 FB-2 FB-3"}} {
		s := shapes[shape.name](nil)
		for _, c := range spans {
			s.declare(c.id)
		}
		got := judged(s.evidence(t))
		for _, c := range spans {
			want := Inconclusive
			if slices.Contains(strings.Fields(shape.not), c.id) {
				want = Held
			}
			require.Equal(t, want, got[c.id].Outcome, fmt.Sprint(shape.name, " ", c.id, ": ", got[c.id].Reason))
		}
	}
}
