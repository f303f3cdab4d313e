package check

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// badRuns holds for each requirement runs that violate it, and nothing else
// unless also says so.
var badRuns = []struct {
	id, name string
	anomaly  Anomaly
	offset   int64
	also     []string
	keep     int
	spoil    func(t *testing.T, w *world)
}{
	{id: "LOG-1", name: "a record differs", anomaly: AlteredBatch, offset: 7, spoil: func(_ *testing.T, w *world) {
		at(w.b, 7).payload = "another"
	}},
	{id: "LOG-1", name: "the leader epoch was rewritten", anomaly: AlteredBatch, offset: 7, spoil: func(_ *testing.T, w *world) {
		for i := range w.b {
			if w.b[i].base >= 7 && w.b[i].epoch < 5 {
				w.b[i].epoch = 4
			}
		}
	}},
	// FA-12: a hole, such as retention at the source leaves when it overtakes a mirror.
	{id: "LOG-1", name: "a batch is missing", anomaly: MissingBatch, offset: 7, also: []string{"LOG-3"}, spoil: func(t *testing.T, w *world) {
		w.b = slices.DeleteFunc(w.b, func(s spec) bool { return s.base == 7 })
		w.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Offset == 7 })
	}},
	{id: "LOG-1", name: "ids rewritten as -(PID+2)", anomaly: AlteredBatch, offset: 0, also: []string{"LOG-2", "TXN-4"}, spoil: rewriteIDs},
	{id: "LOG-2", name: "a local batch has a negative id", anomaly: NegativeID, offset: 17, spoil: func(_ *testing.T, w *world) {
		at(w.b, 17).pid = -4
	}},
	{id: "LOG-3", name: "the leader epoch goes back", anomaly: BrokenOrder, offset: 22, spoil: func(_ *testing.T, w *world) {
		at(w.b, 22).epoch = 4
	}},
	{id: "LOG-3", name: "offsets jump", anomaly: BrokenOrder, offset: 25, spoil: func(_ *testing.T, w *world) {
		w.b = append(w.b, spec{base: 25, epoch: 5, pid: -1, pepoch: -1, seq: -1, tags: []history.Tag{w.tag("B", "z", history.NoTxn, history.IntentNone)}})
	}},
	{id: "BAR-1", name: "none on an empty partition", anomaly: MissingBarrier, offset: 0, spoil: func(_ *testing.T, w *world) {
		w.be = nil
	}},
	{id: "BAR-1", name: "none behind mirrored records", anomaly: MissingBarrier, offset: 11, keep: -1, spoil: func(*testing.T, *world) {}},
	{id: "PSM-1", name: "a mirrored producer is known, as there is no barrier", anomaly: BarrierResurrect, offset: 8, also: []string{"BAR-1"}, keep: -1, spoil: func(_ *testing.T, w *world) {
		w.describe("t", history.ProducerState{ProducerID: 9, Epoch: 3, LastSequence: 1, CurrentTxnStart: -1})
	}},
	{id: "IDEM-1", name: "deduplicated, as there is no barrier", anomaly: StaleDedupe, offset: 4, also: []string{"BAR-1"}, keep: -1, spoil: func(t *testing.T, w *world) {
		w.editAck(t, history.SameHeader, 4, ok)
	}},
	{id: "BAR-1", name: "two", anomaly: ExtraBarrier, offset: 1, spoil: func(_ *testing.T, w *world) {
		w.be = append(w.be, barrier(1, 5, idA))
	}},
	{id: "BAR-2", name: "transactional", anomaly: BadEncoding, offset: 11, spoil: func(_ *testing.T, w *world) {
		at(w.b, 11).attributes |= transactional
	}},
	{id: "BAR-2", name: "with a producer id", anomaly: BadEncoding, offset: 0, spoil: func(_ *testing.T, w *world) {
		w.be[0].pid = 8
	}},
	{id: "BAR-2", name: "value is torn", anomaly: BadEncoding, offset: 11, spoil: func(_ *testing.T, w *world) {
		b := at(w.b, 11)
		b.value = b.value[:10]
	}},
	{id: "BAR-2", name: "bytes after the record", anomaly: BadEncoding, offset: 11, spoil: func(_ *testing.T, w *world) {
		at(w.b, 11).value = append(barrier(11, 5, idA).value, 1, 2)
	}},
	{id: "BAR-2", name: "an unknown tagged field", anomaly: BadEncoding, offset: 11, spoil: func(_ *testing.T, w *world) {
		v := barrier(11, 5, idA).value
		at(w.b, 11).value = append(v[:len(v)-1], 1, 5, 1, 9)
	}},
	{id: "BAR-2", name: "one version too many", anomaly: BadEncoding, offset: 11, spoil: func(_ *testing.T, w *world) {
		at(w.b, 11).value = append([]byte{0, 0}, barrier(11, 5, idA).value...)
	}},
	{id: "BAR-3", name: "not at L", anomaly: MisplacedBarrier, offset: 11, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Mirror == nil || e.Mirror.LastMirrored != 11 {
				return false
			}
			e.Mirror.LastMirrored = 10
			return true
		})
	}},
	{id: "BAR-4", name: "names the destination", anomaly: WrongSource, offset: 11, spoil: func(_ *testing.T, w *world) {
		*at(w.b, 11) = barrier(11, 5, idB)
	}},
	{id: "BAR-6", name: "a reader was given the barrier", anomaly: VisibleBarrier, offset: 11, spoil: func(_ *testing.T, w *world) {
		w.read("rc", 11, "").Read.Key = []byte{0, 0, 0, 7}
	}},
	{id: "BAR-6", name: "a reader sticks to it", anomaly: StuckReader, offset: 11, spoil: func(t *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Reader == "third" })
		w.add(history.Event{Kind: history.KindReaderPosition, Reader: &history.Reader{Reader: "third", Cluster: "B", Topic: "t", Isolation: history.ReadUncommitted, Position: 11, Final: true}})
	}},
	{id: "BAR-6", name: "a reader asks without a pause", anomaly: StuckReader, offset: 12, spoil: func(_ *testing.T, w *world) {
		w.read("ru", 10, tagAt(w.b, 10)).At = int64(time.Hour)
		w.add(history.Event{Kind: history.KindReaderPosition, At: int64(time.Hour + time.Second), Reader: &history.Reader{Reader: "ru", Cluster: "B", Topic: "t", Isolation: history.ReadUncommitted, Position: 12, IdleFetches: 50000}})
	}},
	{id: "RO-1", name: "accepted while mirroring", anomaly: WriteInWindow, offset: 5, spoil: func(t *testing.T, w *world) {
		done := false
		w.edit(t, func(e *history.Event) bool {
			if done || e.Kind != history.KindProduceAck || e.Produce.Writer != "probe-plain" {
				return false
			}
			e.Produce.Result, e.Produce.Offset, done = &ok, 5, true
			return true
		})
	}},
	{id: "RO-1", name: "a batch of a client between mirrored ones", anomaly: WriteInWindow, offset: 7, spoil: func(t *testing.T, w *world) {
		b := at(w.b, 7)
		b.tags = []history.Tag{w.tag("B", "z", history.NoTxn, history.IntentNone)}
		w.edit(t, func(e *history.Event) bool {
			if e.Read == nil || e.Read.Offset != 7 {
				return false
			}
			e.Read.Tag = b.tags[0].String()
			return true
		})
	}},
	{id: "RO-1", name: "refused without a reason", anomaly: UnclearRefusal, offset: -1, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Kind != history.KindProduceAck || e.Produce.Writer != "probe-idempotent" {
				return false
			}
			e.Produce.Result = &history.Result{Outcome: history.Refused, Code: -1}
			return true
		})
	}},
	{id: "RO-4", name: "still read-only", anomaly: RefusedWrite, offset: -1, spoil: func(_ *testing.T, w *world) {
		s := spec{pid: 40, tags: []history.Tag{w.tag("B", "probe-idempotent", history.NoTxn, history.IntentNone)}}
		w.send(s, history.Idempotent, -1, "", history.Result{Outcome: history.Refused, Code: 134, Message: "read only"})
	}},
	{id: "RO-4", name: "read-only again", anomaly: RefusedWrite, offset: -1, spoil: func(_ *testing.T, w *world) {
		s := spec{pid: -1, tags: []history.Tag{w.tag("B", "probe-plain", history.NoTxn, history.IntentNone)}}
		w.send(s, history.Plain, -1, "", history.Result{Outcome: history.Refused, Code: 134, Message: "read only"})
	}},
	{id: "RO-5", name: "acknowledged below the barrier", anomaly: EarlyWrite, offset: 10, spoil: func(t *testing.T, w *world) {
		late := false
		w.edit(t, func(e *history.Event) bool {
			late = late || isPhase(history.StopRequested)(e)
			if !late || e.Kind != history.KindProduceAck || e.Produce.Writer != "probe-plain" || e.Produce.Result.Outcome == history.OK {
				return false
			}
			e.Produce.Result, e.Produce.Offset = &ok, 10
			return true
		})
	}},
	{id: "RO-5", name: "a batch of a client below the barrier", anomaly: EarlyWrite, offset: 0, spoil: func(t *testing.T, w *world) {
		w.be = []spec{{base: 0, epoch: 5, pid: -1, pepoch: -1, seq: -1, tags: []history.Tag{w.tag("B", "z", history.NoTxn, history.IntentNone)}}, barrier(1, 5, idA)}
		w.edit(t, func(e *history.Event) bool {
			if e.Mirror != nil && e.Mirror.Topic == "e" && e.Mirror.BarrierOffset == 0 {
				e.Mirror.BarrierOffset = 1
				return true
			}
			if e.Reader != nil && e.Reader.Topic == "e" {
				e.Reader.Position = 1
			}
			return false
		})
	}},
	{id: "RO-5", name: "accepted while held before the barrier", anomaly: EarlyWrite, offset: 12, spoil: func(_ *testing.T, w *world) {
		w.acceptAt("before:barrier-appended")
	}},
	{id: "RO-5", name: "accepted between the record of the cut and the cut", anomaly: EarlyWrite, offset: 12, spoil: func(_ *testing.T, w *world) {
		w.acceptAt("recorded:truncated")
	}},
	{id: "RO-1", name: "accepted while held after the barrier", anomaly: WriteInWindow, offset: 12, spoil: func(_ *testing.T, w *world) {
		w.acceptAt("before:stopped")
	}},
	{id: "TXN-2", name: "a marker of the source ends a local transaction", anomaly: ForeignMarker, offset: 24, also: []string{"LINK-1", "BAR-3"}, spoil: func(_ *testing.T, w *world) {
		foreign := *at(w.a, 14) // pid 1 epoch 3
		foreign.base, foreign.epoch = 24, 5
		own := history.Tag{Cluster: "B", Writer: "v1", Txn: 2, Intent: history.IntentAbort, Index: 90, Place: "t-0"}
		w.b = append(w.b, spec{base: 23, epoch: 5, pid: 1, pepoch: 2, attributes: transactional, tags: []history.Tag{own}}, foreign, marker(25, 5, 1, 3, 0))
	}},
	{id: "PSM-1", name: "a mirrored producer is known", anomaly: BarrierResurrect, offset: 8, spoil: func(_ *testing.T, w *world) {
		w.describe("t", history.ProducerState{ProducerID: 9, Epoch: 3, LastSequence: 1, CurrentTxnStart: -1})
	}},
	{id: "PSM-1", name: "nobody ever had the id", anomaly: BarrierResurrect, offset: -1, spoil: func(_ *testing.T, w *world) {
		w.describe("t", history.ProducerState{ProducerID: 77, LastSequence: 1, CurrentTxnStart: -1})
	}},
	{id: "IDEM-1", name: "acknowledged with the mirrored offset", anomaly: StaleDedupe, offset: 4, spoil: func(t *testing.T, w *world) {
		w.editAck(t, history.SameHeader, 4, ok)
	}},
	{id: "IDEM-1", name: "refused", anomaly: StaleFence, offset: -1, spoil: func(t *testing.T, w *world) {
		w.editAck(t, history.SameHeader, -1, history.Result{Outcome: history.Refused, Code: 45, Message: "out of order"})
	}},
	{id: "IDEM-1", name: "acknowledged where it is not", anomaly: PhantomAck, offset: 40, spoil: func(t *testing.T, w *world) {
		w.editAck(t, history.SameHeader, 40, ok)
	}},
	{id: "IDEM-2", name: "fenced", anomaly: StaleFence, offset: -1, spoil: func(t *testing.T, w *world) {
		w.editAck(t, history.LowerEpoch, -1, history.Result{Outcome: history.Refused, Code: 47, Message: "fenced"})
	}},
	{id: "IDEM-2", name: "out of order", anomaly: StaleFence, offset: -1, spoil: func(t *testing.T, w *world) {
		w.editAck(t, history.SequenceGap, -1, history.Result{Outcome: history.Refused, Code: 45, Message: "out of order"})
	}},
	{id: "IDEM-4", name: "acknowledged and lost", anomaly: LostWrite, offset: 23, spoil: func(_ *testing.T, w *world) {
		s := spec{pid: 3, seq: 1, tags: []history.Tag{w.tag("B", "v2", history.NoTxn, history.IntentNone)}}
		w.send(s, history.Idempotent, 23, "", ok)
	}},
	{id: "IDEM-4", name: "twice", anomaly: Duplicate, offset: 23, spoil: func(_ *testing.T, w *world) {
		again := *at(w.b, 22)
		again.base = 23
		w.b = append(w.b, again)
	}},
	{id: "IDEM-4", name: "out of order", anomaly: Reordered, offset: 24, spoil: func(_ *testing.T, w *world) {
		first, second := w.tag("B", "v2", history.NoTxn, history.IntentNone), w.tag("B", "v2", history.NoTxn, history.IntentNone)
		w.b = append(w.b, spec{base: 23, epoch: 5, pid: 3, seq: 1, tags: []history.Tag{second}}, spec{base: 24, epoch: 5, pid: 3, seq: 2, tags: []history.Tag{first}})
	}},
	{id: "TXN-1", name: "the last stable offset stays behind", anomaly: OrphanTransaction, offset: 11, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Offsets == nil || e.Offsets.Topic != "t" {
				return false
			}
			e.Offsets.LastStableOffset = 11
			return true
		})
	}},
	{id: "TXN-2", name: "an aborted record is shown", anomaly: AbortedRead, offset: 20, spoil: func(_ *testing.T, w *world) {
		w.read("rc", 20, tagAt(w.b, 20))
	}},
	{id: "TXN-2", name: "a committed record is not shown", anomaly: HiddenRead, offset: 18, spoil: func(_ *testing.T, w *world) {
		w.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Reader == "rc" && e.Read.Offset == 18 })
	}},
	{id: "TXN-2", name: "committed, the marker aborts", anomaly: TornOutcome, offset: 19, also: []string{"TXN-4"}, spoil: func(_ *testing.T, w *world) {
		m := at(w.b, 19)
		m.key = []byte{0, 0, 0, 0}
		w.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Reader == "rc" && e.Read.Offset == 18 })
	}},
	{id: "TXN-3", name: "an open transaction was kept", anomaly: OrphanTransaction, offset: 11, also: []string{"PSM-8"}, keep: 1, spoil: func(*testing.T, *world) {}},
	{id: "TXN-4", name: "a stale entry", anomaly: StaleAbort, offset: 2, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.FetchOffset != 12 {
				return false
			}
			e.Fetch.Aborted = append([]history.Aborted{{ProducerID: 1, FirstOffset: 2}}, e.Fetch.Aborted...)
			return true
		})
	}},
	// FA-14: a fetch that waited tells other aborted transactions than one at once.
	{id: "TXN-4", name: "an entry is missing after a long poll", anomaly: MissingAbort, offset: 2, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Served != history.LongPoll {
				return false
			}
			e.Fetch.Aborted = e.Fetch.Aborted[1:]
			return true
		})
	}},
	{id: "TXN-4", name: "a list for read_uncommitted", anomaly: StaleAbort, offset: 0, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Isolation != history.ReadUncommitted {
				return false
			}
			e.Fetch.Aborted = []history.Aborted{{ProducerID: 1, FirstOffset: 2}}
			return true
		})
	}},
	{id: "LINK-1", name: "an in-flight response was appended", anomaly: LateBytes, offset: 23, also: []string{"BAR-3"}, spoil: func(_ *testing.T, w *world) {
		late := *at(w.a, 12)
		late.base, late.epoch = 23, 5
		w.b = append(w.b, late)
	}},
	{id: "LINK-1", name: "an in-flight marker was appended", anomaly: LateBytes, offset: 23, also: []string{"BAR-3"}, spoil: func(_ *testing.T, w *world) {
		late := *at(w.a, 14)
		late.base, late.epoch = 23, 5
		w.b = append(w.b, late)
	}},
	{id: "LINK-2", name: "the stop is refused", anomaly: RefusedStop, offset: -1, spoil: func(_ *testing.T, w *world) {
		refused := refusedBy(42)
		w.insertBefore(func(e *history.Event) bool { return e.Gate != nil && e.Gate.Point == "after:barrier-appended" }, history.Event{Kind: history.KindMirrorRPC, Op: 999, MirrorRPC: &history.MirrorRPC{
			Cluster: "B", API: stopAPI, Mirror: "m", Topics: []string{"t"}, Result: &refused,
		}})
	}},
	{id: "LINK-2", name: "the stop took too long", anomaly: StuckStop, offset: -1, spoil: func(t *testing.T, w *world) {
		w.edit(t, func(e *history.Event) bool {
			if e.Mirror == nil || e.Mirror.State != "STOPPED" || e.Mirror.Topic != "e" {
				return false
			}
			e.At = int64(time.Minute)
			return true
		})
	}},
	{id: "LINK-3", name: "what the source wrote later was appended", anomaly: LateBytes, offset: 23, also: []string{"BAR-3"}, spoil: func(_ *testing.T, w *world) {
		late := *at(w.a, 13)
		late.base, late.epoch = 23, 5
		w.b = append(w.b, late)
	}},
}

func at(log []spec, base int64) *spec {
	return &log[slices.IndexFunc(log, func(s spec) bool { return s.base == base })]
}

func tagAt(log []spec, base int64) string { return at(log, base).tags[0].String() }

func (w *world) editAck(t *testing.T, c history.Collision, offset int64, res history.Result) {
	w.edit(t, func(e *history.Event) bool {
		if e.Kind != history.KindProduceAck || e.Produce.Collision != c {
			return false
		}
		e.Produce.Offset, e.Produce.Result = offset, &res
		return true
	})
}

func rewriteIDs(_ *testing.T, w *world) {
	for i := range w.b {
		if s := &w.b[i]; s.base < w.l && s.pid >= 0 {
			s.pid = -(s.pid + 2)
		}
	}
}

func TestABadRunViolatesExactlyItsRequirement(t *testing.T) {
	covered := map[string]bool{}
	for _, tc := range badRuns {
		covered[tc.id] = true
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			w := newWorld(tc.keep)
			tc.spoil(t, w)
			got := verdicts(t, w)
			want := append([]string{tc.id, "AP-1"}, tc.also...)
			var violated []string
			for id, v := range got {
				if v.Outcome == Violated {
					violated = append(violated, id)
				}
			}
			require.ElementsMatch(t, want, violated, "%s: %s", tc.id, got[tc.id].Reason)
			v := got[tc.id]
			f := v.Findings[0]
			require.Equal(t, tc.anomaly, f.Anomaly, "%v", f)
			require.Equal(t, tc.offset, f.Offset, "%v", f)
			require.Equal(t, "B", f.Cluster)
			require.NotEmpty(t, f.Topic)
			require.NotEmpty(t, f.Expected)
			require.NotEmpty(t, f.Got)
			require.NotEmpty(t, f.Evidence)
			require.Equal(t, Violated, got["AP-1"].Outcome)
		})
	}
	for _, c := range checks {
		require.True(t, covered[c.id], "no bad run for %s", c.id)
	}
}

func TestAnUndeclaredViolationIsReportedAnyway(t *testing.T) {
	w := newWorld(0)
	w.run.Exercises = []string{"BAR-1"}
	at(w.b, 7).payload = "another"
	got := verdicts(t, w)
	require.Equal(t, Held, got["BAR-1"].Outcome)
	require.Equal(t, Violated, got["LOG-1"].Outcome)
	require.Len(t, got, 2)
}

func TestOnlyWithTheOptionMayALeaderEpochDiffer(t *testing.T) {
	w := newWorld(0)
	w.run.Options.AllowLeaderEpochRewrite = true
	for i := range w.b {
		if w.b[i].base < 11 {
			w.b[i].epoch = 5
		}
	}
	require.Equal(t, Held, verdicts(t, w)["LOG-1"].Outcome)
	w.run.Options.AllowLeaderEpochRewrite = false
	require.Equal(t, Violated, verdicts(t, w)["LOG-1"].Outcome)
}

// A client that sends its record again under a new epoch makes two of it; no
// broker can know (FA-16).
func TestCopiesUnderAnotherIdentityAreNotTheBrokers(t *testing.T) {
	w := newWorld(0)
	again := *at(w.b, 22)
	again.base, again.pepoch = 23, 1
	w.b = append(w.b, again)
	v := verdicts(t, w)["IDEM-4"]
	require.Equal(t, Held, v.Outcome, "%v", v.Findings)
	require.Contains(t, v.Reason, "1 copies made by clients")
}

func TestAFindingShowsTheBatchesAround(t *testing.T) {
	w := newWorld(0)
	at(w.b, 7).payload = "another"
	f := verdicts(t, w)["LOG-1"].Findings[0]
	require.Len(t, f.Around, 7)
	require.Contains(t, f.Around[3], "> [7..7] data")
	require.Contains(t, f.Around[3], "written by A/w3 record 0")
	require.Contains(t, f.Around[6], "MIRROR_PID_RESET")
	require.Contains(t, f.Got, "first difference at byte 17")
}

// acceptAt lets a write succeed while the suite holds the partition at a gate.
func (w *world) acceptAt(point string) {
	held := len(w.events)
	gate := func(what history.GateEvent) {
		w.add(history.Event{Kind: history.KindGate, Gate: &history.Gate{Cluster: "B", Node: 1, Point: point, Partition: "t-0", What: what}})
	}
	gate(history.GateHeld)
	s := spec{pid: -1, tags: []history.Tag{{Cluster: "B", Writer: "early", Txn: history.NoTxn, Intent: history.IntentNone, Place: "t-0"}}}
	w.send(s, history.Plain, 12, "", ok)
	gate(history.GateReleased)
	added := slices.Clone(w.events[held:])
	w.events = w.events[:held]
	w.insertBefore(func(e *history.Event) bool { return e.Mirror != nil && e.Mirror.State == "STOPPED" }, added...)
}

// With clocks that stand still and ids that collide, a marker of the
// destination's can equal one of the source's to the byte.
func TestAnOwnMarkerMayEqualOneOfTheSource(t *testing.T) {
	w := newWorld(0)
	twin := *at(w.a, 14)
	twin.base, twin.epoch = 24, 5
	own := history.Tag{Cluster: "B", Writer: "v1", Txn: 2, Intent: history.IntentCommit, Index: 90, Place: "t-0"}
	w.b = append(w.b, spec{base: 23, epoch: 5, pid: 1, pepoch: 2, attributes: transactional, tags: []history.Tag{own}}, twin)
	for _, v := range verdicts(t, w) {
		require.Equal(t, Held, v.Outcome, "%s: %s", v.Requirement, v.Reason)
	}
}

func TestAMovingLeaderIsNoRefusal(t *testing.T) {
	w := newWorld(0)
	w.edit(t, func(e *history.Event) bool {
		if e.Kind != history.KindProduceAck || e.Produce.Writer != "probe-idempotent" {
			return false
		}
		e.Produce.Result = &history.Result{Outcome: history.Refused, Code: 6}
		return true
	})
	v := verdicts(t, w)["RO-1"]
	require.Equal(t, Inconclusive, v.Outcome)
	require.Contains(t, v.Reason, "no idempotent write")
}

// A refusal is held against STOPPED from the moment that it was seen; one whose
// request began before that may have been on its way.
func TestARefusalCountsFromTheMomentThatStoppedWasSeen(t *testing.T) {
	stopped := func(e *history.Event) bool {
		return e.Mirror != nil && e.Mirror.State == "STOPPED" && e.Mirror.Topic == "t"
	}
	refusal := func(w *world) (began, refused history.Event) {
		s := spec{pid: -1, tags: []history.Tag{w.tag("B", "probe-plain", history.NoTxn, history.IntentNone)}}
		w.send(s, history.Plain, -1, "", history.Result{Outcome: history.Refused, Code: 134, Message: "read only"})
		n := len(w.events) - 2
		began, refused = w.events[n], w.events[n+1]
		w.events = w.events[:n]
		return began, refused
	}
	after := func(w *world, added ...history.Event) {
		i := slices.IndexFunc(w.events, func(e history.Event) bool { return stopped(&e) })
		require.GreaterOrEqual(t, i, 0)
		w.events = slices.Insert(w.events, i+1, added...)
	}

	w := newWorld(0)
	began, refused := refusal(w)
	after(w, began, refused)
	v := verdicts(t, w)["RO-4"]
	require.Equal(t, Violated, v.Outcome, v.Reason)

	// A node that was paused comes back, and has yet to hear of it.
	w = newWorld(0)
	began, refused = refusal(w)
	after(w, history.Event{Kind: history.KindFaultStart, Fault: &history.Fault{ID: "n", Name: "pause", Link: "node:leader of t-0 on B"}}, began, refused)
	v = verdicts(t, w)["RO-4"]
	require.Equal(t, Held, v.Outcome, v.Reason)

	// Once all nodes serve again it may not.
	w = newWorld(0)
	began, refused = refusal(w)
	after(w, history.Event{Kind: history.KindFaultStart, Fault: &history.Fault{ID: "n", Name: "pause", Link: "node:leader of t-0 on B"}})
	i := slices.IndexFunc(w.events, func(e history.Event) bool { return isPhase(history.TrafficAfter)(&e) })
	w.events = slices.Insert(w.events, i+1, began, refused)
	v = verdicts(t, w)["RO-4"]
	require.Equal(t, Violated, v.Outcome, v.Reason)

	w = newWorld(0)
	began, refused = refusal(w)
	after(w, refused)
	w.insertBefore(stopped, began)
	v = verdicts(t, w)["RO-4"]
	require.Equal(t, Held, v.Outcome, v.Reason)
}
