package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

func TestEveryShapeHoldsEverything(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			got := judged(shape(nil).evidence(t))
			for _, c := range checks {
				v := got[c.id]
				require.Equal(t, Held, v.Outcome, "%s: %s %v", c.id, v.Reason, v.Findings)
			}
		})
	}
}

// badShape is a run of several episodes in which one thing is wrong.
type badShape struct {
	shape, name string
	before      map[string]func(*saga) // see saga.before
	spoil       func(s *saga)          // when all is played
	episode     int32
	violated    []string // the first with anomaly and offset
	anomaly     Anomaly
	offset      int64
}

// captured returns the batch at an offset in a log as it was captured.
func (s *saga) captured(n int32, cluster, topic string, offset int64) *spec {
	return at(s.saved[n][cluster][topic], offset)
}

var badShapes = []badShape{
	{
		shape: "failback", name: "a zombie's batch was not cut", episode: 2,
		violated: []string{"LOG-1", "BAR-3", "TXN-2"}, anomaly: UncutSuffix, offset: 15,
		spoil: func(s *saga) {
			*s.captured(2, "A", "t", 15) = s.zombie("A", 15)
			s.dropReads(2, 15)
		},
	},
	{
		shape: "failback", name: "an inherited barrier was altered", episode: 2,
		violated: []string{"LOG-1"}, anomaly: AlteredBatch, offset: 11,
		spoil: func(s *saga) { s.captured(2, "A", "t", 11).value = barrier(0, 0, idC).value },
	},
	{
		shape: "failback", name: "no barrier in the second stop", episode: 2,
		violated: []string{"BAR-1"}, anomaly: MissingBarrier, offset: 1,
		spoil: func(s *saga) { s.saved[2]["A"]["e"] = s.saved[2]["A"]["e"][:1] },
	},
	{
		shape: "failback", name: "a batch that was the destination's comes late", episode: 3,
		violated: []string{"LINK-1", "BAR-3"}, anomaly: LateBytes, offset: 69,
		spoil: func(s *saga) {
			late := *s.captured(3, "A", "t", 15) // B wrote it, and A mirrored it
			late.base, late.epoch = 69, s.epoch["B"]
			s.saved[3]["B"]["t"] = append(s.saved[3]["B"]["t"], late)
		},
	},
	{
		shape: "failback", name: "a record of the second period is lost on its own cluster", episode: 3,
		violated: []string{"IDEM-4"}, anomaly: LostWrite, offset: 45,
		before: map[string]func(*saga){"align 3": func(s *saga) {
			b := at(s.logs["A"]["t"], 45)
			b.tags = []history.Tag{{Cluster: "A", Writer: "nobody", Txn: history.NoTxn, Intent: history.IntentNone, Place: "t-0"}}
		}},
	},
	{
		shape: "resumed", name: "the barrier of the first stop was not cut", episode: 2,
		violated: []string{"LOG-1", "BAR-3", "LOG-3", "LOG-5"}, anomaly: UncutSuffix, offset: 11,
		spoil: func(s *saga) {
			old := *at(s.saved[1]["B"]["t"], 11)
			*s.captured(2, "B", "t", 11) = old
			s.dropReads(2, 11)
		},
	},
	{
		shape: "fan-out", name: "L from a stale high watermark", episode: 2,
		violated: []string{"BAR-3"}, anomaly: MisplacedBarrier, offset: 21,
		before: map[string]func(*saga){"stopped 2": func(s *saga) {
			s.cut("C", "t", 21)
			s.logs["C"]["t"] = append(s.logs["C"]["t"], barrier(21, s.epoch["C"], idA))
			s.own["C"]["t"][21], s.legs[2].l = true, 21
		}},
	},
	{
		shape: "chain", name: "the middle keeps what its upstream cut", episode: 2,
		violated: []string{"LOG-1", "LOG-5", "TXN-2"}, anomaly: AlteredBatch, offset: 11,
		spoil: func(s *saga) {
			*s.captured(2, "C", "t", 11) = *s.captured(1, "A", "t", 11)
		},
	},
	{
		shape: "chain", name: "the middle keeps a marker that its upstream cut", episode: 2,
		violated: []string{"LOG-1", "LOG-3", "LOG-5", "TXN-2"}, anomaly: AlteredBatch, offset: 12,
		spoil: func(s *saga) {
			log := s.saved[2]["C"]["t"]
			i := slices.IndexFunc(log, func(b spec) bool { return b.base == 12 }) // [12..14]
			s.saved[2]["C"]["t"] = slices.Replace(log, i, i+1, *s.captured(1, "A", "t", 12), *s.captured(1, "A", "t", 13), *s.captured(1, "A", "t", 14))
		},
	},
	{
		shape: "fan-out", name: "one of two has a foreign source id", episode: 2,
		violated: []string{"BAR-4", "BAR-7"}, anomaly: WrongSource, offset: 0,
		spoil: func(s *saga) { s.captured(2, "C", "e", 0).value = barrier(0, 0, idB).value },
	},
}

// zombie is a batch of a client of the cluster's that had its answer before the
// mirror into it started.
func (s *saga) zombie(cluster string, base int64) spec {
	tag := history.Tag{Cluster: cluster, Writer: "zombie", Txn: history.NoTxn, Intent: history.IntentNone, Place: "t-0"}
	return spec{base: base, epoch: at(s.saved[2][cluster]["t"], base).epoch, pid: 102, seq: 5, payload: "payload", tags: []history.Tag{tag}}
}

// dropReads makes the readers of an episode see nothing at an offset.
func (s *saga) dropReads(n int32, offset int64) {
	s.events = slices.DeleteFunc(s.events, func(e history.Event) bool {
		return e.Episode == n && e.Read != nil && e.Read.Offset == offset
	})
}

func TestEachShapeShowsWhatIsWrongInIt(t *testing.T) {
	for _, tc := range badShapes {
		t.Run(tc.shape+"/"+tc.name, func(t *testing.T) {
			s := shapes[tc.shape](tc.before)
			if tc.spoil != nil {
				tc.spoil(s)
			}
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
			require.ElementsMatch(t, tc.violated, violated, "%v", got[tc.violated[0]].Reason)
			f := got[tc.violated[0]].Findings[0]
			require.Equal(t, tc.anomaly, f.Anomaly, "%v", f)
			require.Equal(t, tc.offset, f.Offset, "%v", f)
		})
	}
}

// A downstream that stops before it got its upstream's barrier writes its own at
// the very offset.
func TestADownstreamsBarrierMayLieWhereItsUpstreamsDoes(t *testing.T) {
	s := newSaga("a-to-b", "b-to-c")
	s.source(1)
	s.start(1)
	s.start(2)
	s.open(1)
	s.copy(2)
	s.request(1)
	s.stop(1)
	s.ep = 2
	s.phase(history.StopRequested)
	s.stop(2)
	s.promoted(1)
	s.promoted(2)
	require.Equal(t, at(s.logs["B"]["t"], 11).key, at(s.logs["C"]["t"], 11).key)
	got := judged(s.evidence(t))
	for _, id := range []string{"LOG-1", "LOG-2", "LOG-3", "BAR-1", "BAR-2", "BAR-3", "BAR-4", "PSM-1"} {
		require.NotEqual(t, Violated, got[id].Outcome, got[id].Reason)
	}
	tr := newTrial(s.evidence(t))
	require.Equal(t, int64(11), tr.views[1].part("t", 0).lead.barrierOffset())
	require.Equal(t, tr.views[1].part("t", 0).lead.entries[0].runs[0], tr.final("C", "t", 0).entries[0].runs[0])
}

// What a reader of a downstream saw before its upstream was stopped, and cut it,
// was right at that time; what no log upstream ever showed there was not.
func TestAReadFromBeforeAStopUpstreamIsNotHeldAgainstTheView(t *testing.T) {
	for name, tc := range map[string]struct {
		from int64 // the record that the reader was shown at offset 12
		want Outcome
	}{"cut since": {12, Held}, "never there": {7, Violated}} {
		s := shapes["chain"](map[string]func(*saga){"stopped 1": func(s *saga) {
			tag := at(s.logs["A"]["t"], tc.from).tags[0]
			for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
				s.ep = 2
				s.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: "across-" + string(level), Cluster: "C", Topic: "t", Isolation: level, Offset: 12, Tag: tag.String()}})
				s.add(history.Event{Kind: history.KindReaderPosition, Reader: &history.Reader{Reader: "across-" + string(level), Cluster: "C", Topic: "t", Isolation: level, Start: 12, Position: 13, Final: true}})
			}
			// Where the barrier lies now.
			s.add(history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: "across-ru", Cluster: "C", Topic: "t", Isolation: history.ReadUncommitted, Offset: 11, Tag: tagAt(s.logs["A"]["t"], 11)}})
			s.ep = 1
		}})
		got := judged(s.evidence(t))
		require.Equal(t, tc.want, got["TXN-2"].Outcome, "%s: %s", name, got["TXN-2"].Reason)
		require.Equal(t, Held, got["BAR-6"].Outcome, "%s: %s", name, got["BAR-6"].Reason)
	}
}

// What a reader saw before the stop, above what a stop upstream had cut, and is
// there still, it has seen: also where nobody asked how far the log went then.
func TestAReadFromBeforeTheStopThatIsThereStillWasSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		saw  int64 // how far below the last mirrored record
		want int
	}{"the last record": {0, 0}, "the one before": {1, 1}} {
		s := shapes["chain"](nil)
		first := newTrial(s.evidence(t)).views[1]
		lead, last, tags := first.part("t", 0).lead, int64(-1), map[int64]string{}
		for i := range lead.entries {
			for rec := range lead.entries[i].records() {
				if rec.tagged() && lead.entries[i].visible() && rec.offset < lead.cut {
					last = rec.offset
					tags[last] = rec.tag().String()
				}
			}
		}
		require.GreaterOrEqual(t, last-tc.saw, first.recut(first.part("t", 0)))
		stopped := slices.IndexFunc(s.events, func(e history.Event) bool { return e.Seq == first.part("t", 0).stopped })
		s.events = slices.Insert(s.events, stopped, history.Event{Seq: first.part("t", 0).stopped - 1, Kind: history.KindRead, Episode: 2, Read: &history.Observed{
			Reader: "early", Cluster: "C", Topic: "t", Isolation: history.ReadCommitted, Offset: last - tc.saw, Tag: tags[last-tc.saw],
		}})
		s.ep = 2
		s.add(history.Event{Kind: history.KindReaderPosition, Reader: &history.Reader{
			Reader: "early", Cluster: "C", Topic: "t", Isolation: history.ReadCommitted, Start: last - tc.saw, Position: last + 1, Final: true,
		}})
		j := newTrial(s.evidence(t)).views[1]
		p := j.part("t", 0)
		p.maxEndSeen = last
		r := &ruling{}
		j.views(r, p)
		require.Len(t, r.findings, tc.want, "%s: %v", name, r.findings)
		for _, f := range r.findings {
			require.Equal(t, last, f.Offset)
		}
	}
}

// A run that ends while it mirrors is judged as far as it went: by the logs of its
// end, and not at all for what never began.
func TestARunThatEndsEarlyIsJudgedAsFarAsItWent(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil    func(s *saga)
		violated []string
	}{
		"nothing is wrong": {func(*saga) {}, nil},
		"its coordinator's marker": {func(s *saga) {
			s.logs["A"]["t"] = append(s.logs["A"]["t"], marker(s.end("A", "t"), s.epoch["A"], 199, 4, 0))
		}, []string{"RO-2", "FB-4"}},
		"a client's batch": {func(s *saga) { s.plain("A", "a2-intruder", 1) }, []string{"RO-1"}},
	} {
		s := newSaga("a-to-b", "b-to-a", "a-to-b")
		s.failover(1)
		s.ep = 2
		s.abandon("A", "zombie-txn", 199, 3, 0)
		s.source(2)
		s.start(2)
		tc.spoil(s)
		got := judged(s.evidence(t))
		var violated []string
		for id, v := range got {
			if v.Outcome != Violated {
				continue
			}
			violated = append(violated, id)
			for _, f := range v.Findings {
				require.Equal(t, int32(2), f.Episode, "%s: %v", id, f)
			}
		}
		require.ElementsMatch(t, tc.violated, violated, name)
		require.Equal(t, Inconclusive, got["BAR-1"].Outcome)
		require.Contains(t, got["BAR-1"].Reason, "episode 3 (a-to-b) did not begin")
		require.Contains(t, got["BAR-1"].Reason, "never seen STOPPED")
	}
}

// An episode ends at the latest when a mirror into the same partitions starts:
// what is stamped with its number later does not stretch it.
func TestALateWordDoesNotStretchAnEpisode(t *testing.T) {
	s := shapes["resumed"](nil)
	s.ep = 1
	s.add(history.Event{Kind: history.KindNote, Note: "a reader of the first episode ended late"})
	got := judged(s.evidence(t))
	for _, c := range checks {
		require.Equal(t, Held, got[c.id].Outcome, "%s: %s", c.id, got[c.id].Reason)
	}
}
