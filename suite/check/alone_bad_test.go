package check

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

func TestANewIDMayHaveSpentAnEpochOnAnAbort(t *testing.T) {
	l := newLone()
	l.newID(t, 1, false)
	got := judged(l.evidence(t))["SC-2"]
	require.NotEqual(t, Violated, got.Outcome, "%s %v", got.Reason, got.Findings)
}

// A batch that was refused before any append, as there were too few replicas, says nothing,
// and nothing of what comes after it is lost. Where nobody can know, the producer's rest is.
func TestWhatWasNeverAppendedTakesNoPartInANumbering(t *testing.T) {
	for code, want := range map[int16]Outcome{19: Held, 6: Inconclusive, 7: Inconclusive} {
		l := newLone()
		moved := l.acked(t, "window", history.TrialFirst, 0)
		s := l.batch("t", "window", moved.Batch.ProducerID, moved.Batch.Epoch, moved.Batch.BaseSequence, int(moved.Count))
		rest := l.events
		l.events = nil
		l.try(history.TrialFirst, s, history.Idempotent, -1, history.Result{Outcome: history.OutcomeOf(code), Code: code})
		l.events = append(l.events, rest...)
		got := judged(l.evidence(t))["SC-1"]
		require.Equal(t, want, got.Outcome, "code %d: %s %v", code, got.Reason, got.Findings)
	}
}

// Kafka reads and moves the two without a lock that they share: see [tears].
func TestHighWatermarkAndLastStableOffsetMayBeTorn(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask  func(*lone)
		want Outcome
	}{
		{"behind once", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, lagging, settled) }, Held},
		{"behind twice", func(l *lone) { l.behindAt(t, 0, 1) }, Held},
		{"behind each time", func(l *lone) { l.behindAt(t, 0, 1, 2) }, Violated},
		{"behind for two that asked in a row", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, lagging, lagging, settled) }, Held},
		{"behind for longer", func(l *lone) { l.askedAtAMarker(t, 0, time.Second, lagging, lagging, settled) }, Violated},
		{"behind until more was appended", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, lagging, lagging) }, Violated},
		{"gone back", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, settled, lagging, settled) }, Violated},
		{"ahead once", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, leading) }, Held},
		{"leading, and once more, by two that asked at once", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, leading, leading) }, Held},
		{"ahead each time", func(l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, leading, leading, leading) }, Violated},
		{"ahead of all that anybody saw later", func(l *lone) {
			l.askedAtAMarker(t, 0, time.Millisecond, leading)
			l.events = l.events[:1]
		}, Violated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLone()
			tc.ask(l)
			got := judged(l.evidence(t))["SC-3"]
			if tc.want == Held {
				require.Equal(t, Held, got.Outcome, "%s %v", got.Reason, got.Findings)
				return
			}
			require.Equal(t, Violated, got.Outcome)
			require.Equal(t, WrongLSO, got.Findings[0].Anomaly)
		})
	}
}

// Batches are read after both, and may be of a later last stable offset than is shown.
func TestBatchesMayBeReadAtALaterLastStableOffset(t *testing.T) {
	for n, want := range map[int]Outcome{1: Held, 2: Held, 3: Violated} {
		l := newLone()
		asked := 0
		aborted := map[history.Aborted]bool{}
		for i := range l.events {
			if f := l.events[i].Fetch; f != nil {
				for _, a := range f.Aborted {
					aborted[a] = true
				}
			}
		}
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Isolation != history.ReadCommitted || e.Fetch.LastStableOffset == e.Fetch.HighWatermark || asked == n {
				return false
			}
			e.Fetch.NextOffset, e.Fetch.Aborted = e.Fetch.HighWatermark, slices.Collect(maps.Keys(aborted))
			asked++
			return true
		})
		require.Equal(t, n, asked, "too few fetches while a transaction was open")
		got := judged(l.evidence(t))["SC-3"]
		require.Equal(t, want, got.Outcome, "%d: %s %v", n, got.Reason, got.Findings)
	}
}

func TestARunThatBrokeOffHidesNothingFromAReaderThatHadNotComeThere(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(*lone)
		hidden bool
	}{
		{"not come there", func(*lone) {}, false},
		{"went on without it", func(l *lone) {
			l.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Reader == "ru" && e.Read.Offset == 1 })
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLone()
			l.drop(isPhase(history.Settled))
			l.readUpTo("ru", 4)
			tc.spoil(l)
			v := judged(l.evidence(t))["SC-3"]
			require.Equal(t, tc.hidden, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == HiddenRead }), "%v", v.Findings)
		})
	}
}

func TestANewIDStartsAtZeroWhereNoEpochsHaveEnded(t *testing.T) {
	require.Equal(t, int16(0), newest(&history.InitPID{}, highest-2))
	require.Equal(t, int16(1), newest(&history.InitPID{}, highest-1))
	require.Equal(t, int16(0), newest(&history.InitPID{ByEndTxn: true}, highest))
}

// badAlone holds for each requirement of a cluster by itself runs that violate it.
// Others may be violated with it: one answer may be wrong for two reasons.
var badAlone = []struct {
	id, name string
	anomaly  Anomaly
	spoil    func(t *testing.T, l *lone)
}{
	{"SC-1", "a retry is told another offset", PhantomAck, func(t *testing.T, l *lone) {
		l.answered(t, "window", history.TrialRetry, 1, 40, ok)
	}},
	{"SC-1", "a retry is refused", RefusedWrite, func(t *testing.T, l *lone) {
		l.answered(t, "window", history.TrialRetry, 0, -1, refusedBy(outOfOrder))
	}},
	{"SC-1", "a retry is appended again", Duplicate, func(t *testing.T, l *lone) {
		l.appended(t, "window", history.TrialRetry, 2)
	}},
	{"SC-1", "the oldest batch is acknowledged where it is not", PhantomAck, func(t *testing.T, l *lone) {
		l.answered(t, "window", history.TrialRetry, 5, 40, ok)
	}},
	{"SC-1", "a gap is accepted", AcceptedGap, func(t *testing.T, l *lone) {
		l.answered(t, "window", history.TrialGap, 0, 40, ok)
	}},
	{"SC-1", "a gap is appended", AcceptedGap, func(t *testing.T, l *lone) { l.appended(t, "window", history.TrialGap, 0) }},
	{"SC-1", "a gap is refused for another reason", UnclearRefusal, func(t *testing.T, l *lone) {
		l.answered(t, "window", history.TrialGap, 0, -1, refusedBy(42))
	}},
	{"SC-1", "what wraps is refused", RefusedWrite, func(t *testing.T, l *lone) {
		l.answered(t, "wraps", history.TrialFirst, 1, -1, refusedBy(outOfOrder))
	}},

	{"SC-2", "an older epoch is accepted", ZombieAppend, func(t *testing.T, l *lone) {
		l.answered(t, "epochs", history.TrialZombie, 0, 40, ok)
	}},
	{"SC-2", "an older epoch is appended", ZombieAppend, func(t *testing.T, l *lone) { l.appended(t, "epochs", history.TrialZombie, 0) }},
	{"SC-2", "an older epoch is told something else", UnclearRefusal, func(t *testing.T, l *lone) {
		l.answered(t, "epochs", history.TrialZombie, 0, -1, refusedBy(outOfOrder))
	}},
	{"SC-2", "a newer epoch begins in the middle", AcceptedGap, func(t *testing.T, l *lone) {
		l.answered(t, "epochs", history.TrialGap, 0, 40, ok)
	}},
	{"SC-2", "a newer epoch is refused", RefusedWrite, func(t *testing.T, l *lone) {
		l.answered(t, "epochs", history.TrialNewEpoch, 0, -1, refusedBy(outOfOrder))
	}},
	{"SC-2", "a negative epoch", NegativeEpoch, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.InitPID == nil || e.InitPID.ProducerID != 21 {
				return false
			}
			e.InitPID.ProducerID, e.InitPID.Epoch = 20, -32768
			return true
		})
	}},
	{"SC-2", "a new id in the middle of its epochs", NegativeEpoch, func(t *testing.T, l *lone) { l.newID(t, 2, false) }},
	{"SC-2", "a new id of EndTxn above epoch 0", NegativeEpoch, func(t *testing.T, l *lone) { l.newID(t, 1, true) }},
	{"SC-2", "the same epoch twice", NegativeEpoch, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.InitPID == nil || e.InitPID.TransactionalID != "moves" || e.InitPID.Epoch != 2 {
				return false
			}
			e.InitPID.Epoch = 1
			return true
		})
	}},
	{"SC-2", "a batch below epoch 0", NegativeEpoch, func(_ *testing.T, l *lone) { at(l.logs["t"], 0).pepoch = -1 }},

	{"SC-3", "an aborted transaction is not listed", MissingAbort, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Served != history.LongPoll || len(e.Fetch.Aborted) == 0 {
				return false
			}
			e.Fetch.Aborted = e.Fetch.Aborted[1:]
			return true
		})
	}},
	{"SC-3", "a committed one is listed", StaleAbort, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Isolation != history.ReadCommitted {
				return false
			}
			e.Fetch.Aborted = append(slices.Clone(e.Fetch.Aborted), history.Aborted{ProducerID: 21, FirstOffset: 0})
			return true
		})
	}},
	{"SC-3", "a list for read_uncommitted", StaleAbort, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Isolation != history.ReadUncommitted {
				return false
			}
			e.Fetch.Aborted = []history.Aborted{{ProducerID: tenth}}
			return true
		})
	}},
	{"SC-3", "the last stable offset ignores what is open", WrongLSO, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.LastStableOffset == e.Fetch.HighWatermark {
				return false
			}
			e.Fetch.LastStableOffset = e.Fetch.HighWatermark
			return true
		})
	}},
	{"SC-3", "the last stable offset stays behind a marker", WrongLSO, func(t *testing.T, l *lone) { l.askedAtAMarker(t, 0, time.Second, lagging, lagging, settled) }},
	{"SC-3", "the last stable offset goes back", WrongLSO, func(t *testing.T, l *lone) { l.askedAtAMarker(t, 0, time.Millisecond, settled, lagging, settled) }},
	{"SC-3", "batches above the last stable offset", AbortedRead, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Isolation != history.ReadCommitted || e.Fetch.LastStableOffset == e.Fetch.HighWatermark {
				return false
			}
			e.Fetch.NextOffset = e.Fetch.HighWatermark
			return true
		})
	}},
	{"SC-3", "an aborted record is shown", AbortedRead, func(_ *testing.T, l *lone) {
		s := l.of("ten", 0)
		l.events = slices.Insert(l.events, len(l.events)-5, history.Event{Kind: history.KindRead, Read: &history.Observed{
			Reader: "rc", Cluster: "A", Topic: "t", Isolation: history.ReadCommitted, Offset: s.base, Tag: s.tags[0].String(),
		}})
	}},
	{"SC-3", "a committed record is not", HiddenRead, func(_ *testing.T, l *lone) {
		s := l.of("ten", 1)
		l.drop(func(e *history.Event) bool {
			return e.Read != nil && e.Read.Reader == "rc" && e.Read.Topic == "t" && e.Read.Offset == s.base
		})
	}},
	{"SC-3", "the last records are not", HiddenRead, func(_ *testing.T, l *lone) { l.readUpTo("ru", 4) }},
	{"SC-3", "a record comes twice", Duplicate, func(_ *testing.T, l *lone) {
		i := slices.IndexFunc(l.events, func(e history.Event) bool { return e.Read != nil })
		l.events = slices.Insert(l.events, i, l.events[i])
	}},

	{"SC-4", "an application gets a marker", VisibleControl, func(_ *testing.T, l *lone) {
		l.events = slices.Insert(l.events, len(l.events)-5, history.Event{Kind: history.KindRead, Read: &history.Observed{
			Reader: "ru", Cluster: "A", Topic: "idle", Isolation: history.ReadUncommitted, Offset: 0, Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0},
		}})
	}},
	{"SC-4", "a fetch from a control batch brings none", StuckReader, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Topic != "idle" || e.Fetch.FetchOffset != 0 {
				return false
			}
			e.Fetch.NextOffset = 0
			return true
		})
	}},
	{"SC-4", "a reader asks without a pause", StuckReader, func(_ *testing.T, l *lone) {
		for n, idle := range []int64{0, 50000} {
			l.events = slices.Insert(l.events, len(l.events)-5+n, history.Event{
				Kind: history.KindReaderPosition, At: int64(time.Hour) + int64(n)*int64(time.Second),
				Reader: &history.Reader{Reader: "ru", Cluster: "A", Topic: "t", Isolation: history.ReadUncommitted, Position: l.hw("t"), IdleFetches: idle},
			})
		}
	}},

	{"SC-5", "an old coordinator is accepted", OldCoordinator, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Marker == nil || e.Marker.CoordinatorEpoch != 999 {
				return false
			}
			e.Marker.Result = &ok
			return true
		})
	}},
	{"SC-5", "an old coordinator's marker is appended", OldCoordinator, func(_ *testing.T, l *lone) {
		m := marker(l.hw("t"), 1, 90, 4, wirelog.Abort)
		m.value[4], m.value[5] = 999>>8, 999&0xff
		l.logs["t"] = append(l.logs["t"], m)
	}},
	{"SC-5", "an old coordinator is told something else", UnclearRefusal, func(t *testing.T, l *lone) {
		l.edit(t, func(e *history.Event) bool {
			if e.Marker == nil || e.Marker.CoordinatorEpoch != -1 {
				return false
			}
			*e.Marker.Result = refusedBy(42)
			return true
		})
	}},
	{"SC-5", "a marker that comes once more changes something", WrongState, func(t *testing.T, l *lone) {
		last := -1
		for i, e := range l.events {
			if e.Marker != nil && e.Marker.CoordinatorEpoch == 1000 {
				last = i
			}
		}
		states := l.events[last+1].Producers.Active
		i := slices.IndexFunc(states, func(s history.ProducerState) bool { return s.ProducerID == 90 })
		require.GreaterOrEqual(t, i, 0)
		states[i].Epoch++
	}},
	{"SC-5", "a late batch is appended", ZombieAppend, func(t *testing.T, l *lone) { l.appended(t, "late", history.TrialLate, 0) }},
	{"SC-5", "a late batch is acknowledged", ZombieAppend, func(t *testing.T, l *lone) {
		l.answered(t, "late", history.TrialLate, 0, 40, ok)
	}},
	{"SC-5", "a transaction is left open", OrphanTransaction, func(_ *testing.T, l *lone) {
		l.logs["t"] = append(l.logs["t"], l.inTxn("t", "nobody", 77, 0, 0, 1, 0, history.IntentCommit))
	}},
	{"SC-5", "a transaction ended otherwise than was told", TornOutcome, func(_ *testing.T, l *lone) { l.markerOf("ten", 1).key[3] = byte(wirelog.Abort) }},

	{"SC-6", "a late EndTxn ends the next transaction", ForeignMarker, func(_ *testing.T, l *lone) { l.markerOf("late", 1).key[3] = byte(wirelog.Abort) }},
	{"SC-6", "its writer can't end it, and it ended so", ForeignMarker, func(t *testing.T, l *lone) {
		l.markerOf("late", 1).key[3] = byte(wirelog.Abort)
		l.drop(func(e *history.Event) bool {
			return e.Txn != nil && e.Txn.Writer == "late" && e.Txn.Number == 1 && !e.Txn.Late && e.Kind != history.KindTxnBegin
		})
		l.edit(t, func(e *history.Event) bool {
			if e.Txn == nil || !e.Txn.Late || e.Txn.Number != 0 {
				return false
			}
			e.Txn.Result = &ok
			return true
		})
	}},
	{"SC-6", "a late batch is in the next transaction", ZombieAppend, func(t *testing.T, l *lone) { l.appended(t, "late", history.TrialLate, 1) }},

	{"SC-7", "a producer is not known after a kill", LostState, func(t *testing.T, l *lone) {
		l.forget(t, history.KillRestart, func(s *history.ProducerState) bool { return s.ProducerID != 1 })
	}},
	{"SC-7", "its sequence went back when the leader changed", LostState, func(t *testing.T, l *lone) {
		l.forget(t, history.LeaderChange, func(s *history.ProducerState) bool { s.LastSequence--; return true })
	}},
	{"SC-7", "a producer of the cut suffix is known", LostState, func(t *testing.T, l *lone) {
		l.since(t, history.Truncation, func(e *history.Event) bool {
			if e.Producers == nil {
				return false
			}
			e.Producers.Active = append(slices.Clone(e.Producers.Active), history.ProducerState{ProducerID: 500, CurrentTxnStart: -1})
			return true
		})
	}},
	{"SC-7", "the suffix was not cut", UncutSuffix, func(t *testing.T, l *lone) {
		l.since(t, history.Truncation, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Topic != "t" {
				return false
			}
			e.Fetch.HighWatermark++
			return true
		})
	}},
	{"SC-7", "the high watermark fell", LostState, func(t *testing.T, l *lone) {
		l.since(t, history.LeaderChange, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Topic != "t" {
				return false
			}
			e.Fetch.HighWatermark--
			return true
		})
	}},
	{"SC-7", "a transaction is no longer open", WrongLSO, func(t *testing.T, l *lone) {
		l.since(t, history.LeaderChange, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Topic != "t" {
				return false
			}
			e.Fetch.LastStableOffset = e.Fetch.HighWatermark
			return true
		})
	}},
	{"SC-7", "an aborted list is shorter", MissingAbort, func(t *testing.T, l *lone) {
		l.since(t, history.KillRestart, func(e *history.Event) bool {
			if e.Fetch == nil || len(e.Fetch.Aborted) == 0 {
				return false
			}
			e.Fetch.Aborted = nil
			return true
		})
	}},
	{"SC-7", "an aborted list is longer", StaleAbort, func(t *testing.T, l *lone) {
		l.since(t, history.KillRestart, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Isolation != history.ReadCommitted || e.Fetch.NextOffset == 0 {
				return false
			}
			e.Fetch.Aborted = append(slices.Clone(e.Fetch.Aborted), history.Aborted{ProducerID: 21})
			return true
		})
	}},

	{"SC-8", "two brokers give one id", TwiceGiven, func(t *testing.T, l *lone) { l.given(t, 1001, 1000, 0) }},
	{"SC-8", "an id is given again after a restart", TwiceGiven, func(t *testing.T, l *lone) { l.given(t, 2000, 1000, 0) }},
	{"SC-8", "a transactional id's goes to another", TwiceGiven, func(t *testing.T, l *lone) { l.given(t, 2001, 900, 0) }},
	{"SC-8", "the next coordinator gives the same epoch", TwiceGiven, func(t *testing.T, l *lone) { // its own, again
		l.edit(t, func(e *history.Event) bool {
			if e.InitPID == nil || e.InitPID.TransactionalID != "moves" || e.InitPID.Epoch != 2 {
				return false
			}
			e.InitPID.Epoch = 1
			return true
		})
	}},
}

func TestWhatIsWrongWithAClusterAloneIsFound(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range badAlone {
		covered[tc.id] = true
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			l := newLone()
			tc.spoil(t, l)
			v := judged(l.evidence(t))[tc.id]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly }), "%v", v.Findings)
		})
	}
	for _, id := range newLone().run.Exercises {
		require.True(t, covered[id], "no bad run for %s", id)
	}
}

// FA-15: the marker that ends one transaction of a producer ends no other one's
// place in the aborted list.
func TestTheAbortFilterEndsWithItsOwnTransaction(t *testing.T) {
	l := &lone{logs: map[string][]spec{}, index: map[string]int64{}, coords: map[int64]int32{}, run: newLone().run}
	l.plain("t") // offset 0
	for number, intent := range []history.Intent{history.IntentCommit, history.IntentAbort, history.IntentCommit} {
		l.txn("one", 1, int16(number), int64(number), intent) // data at 1, 3 and 5, markers behind
	}
	var visible []int64
	for _, p := range newTrial(l.evidence(t)).aloneOn(&l.run.Clusters[0]).parts {
		if p.topic != "t" {
			continue
		}
		for i := range p.lead.entries {
			for r := range p.lead.entries[i].records() {
				if p.lead.entries[i].visible() && r.offset > 0 {
					visible = append(visible, r.offset)
				}
			}
		}
		require.EqualValues(t, 7, end(p.lead.Replica))
	}
	require.Equal(t, []int64{1, 5}, visible)
}
