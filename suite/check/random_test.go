package check

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// scribble writes random traffic of interleaved transactional, idempotent and
// plain writers, and ends every transaction. Both clusters use the same
// producer ids and epochs, as clusters that count from zero do.
func scribble(t *rapid.T) func(*world, *[]spec, int32, string) {
	return func(w *world, log *[]spec, leader int32, cluster string) {
		type writer struct {
			number int64
			epoch  int16
			seq    int32
			intent history.Intent // of the open transaction, or none
		}
		writers := make([]writer, 4)
		names := []string{"x0", "x1", "x2", "x3"}
		end := func(i int) {
			wr := &writers[i]
			w.endTxn(log, leader, cluster, names[i], 100+int64(i), wr.epoch+1, wr.number, wr.intent)
			*wr = writer{number: wr.number + 1, epoch: wr.epoch + 1}
		}
		w.data(log, leader, cluster, "first", history.Plain, -1, -1, -1, 1, history.NoTxn, history.IntentNone, "")
		for range rapid.IntRange(0, 30).Draw(t, "steps "+cluster) {
			i := rapid.IntRange(0, 3).Draw(t, "writer")
			wr := &writers[i]
			n := rapid.IntRange(1, 3).Draw(t, "records")
			switch {
			case i == 3: // idempotent
				w.data(log, leader, cluster, names[i], history.Idempotent, 100+int64(i), 0, wr.seq, n, history.NoTxn, history.IntentNone, "")
				wr.seq += int32(n)
			case wr.intent != "" && rapid.Bool().Draw(t, "end"):
				end(i)
			default:
				if wr.intent == "" {
					wr.intent = rapid.SampledFrom([]history.Intent{history.IntentCommit, history.IntentAbort}).Draw(t, "intent")
				}
				w.data(log, leader, cluster, names[i], history.Transactional, 100+int64(i), wr.epoch, wr.seq, n, wr.number, wr.intent, "")
				wr.seq += int32(n)
			}
		}
		for i := range writers {
			if writers[i].intent != "" {
				end(i)
			}
		}
	}
}

func TestRandomGoodRunsHoldEverything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for id, v := range verdicts(t, newWorldWith(0, scribble(rt))) {
			require.Equal(rt, Held, v.Outcome, "%s: %s", id, v.Reason)
		}
	})
}

// A missing barrier is reported as that, not as what a reader of the log might
// make of it, wherever the source's batches lie beside the destination's.
func TestAMissingBarrierIsOneFinding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for id, v := range verdicts(t, newWorldWith(-1, scribble(rt))) {
			if v.Outcome == Violated {
				require.Contains(rt, []string{"BAR-1", "AP-1"}, id, v.Reason)
			}
		}
	})
}

// Whatever the traffic, a mirrored batch that lands after the barrier is seen.
func TestALateBatchIsSeenInRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldWith(0, scribble(rt))
		late := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(w.a), func(s spec) bool { return s.attributes&control != 0 })).Draw(rt, "late")
		last := w.b[len(w.b)-1]
		late.base, late.epoch = last.base+last.count(), 5
		w.b = append(w.b, late)
		got := verdicts(t, w)
		require.Equal(rt, Violated, got["BAR-3"].Outcome)
		require.True(rt, got["LINK-1"].Outcome == Violated || got["LINK-3"].Outcome == Violated)
	})
}

// Whatever the traffic, no record can be shown or hidden unnoticed.
func TestEachWrongViewIsSeenInRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldWith(0, scribble(rt))
		s := rapid.SampledFrom(slices.DeleteFunc(slices.Clone(w.b), func(s spec) bool { return len(s.tags) == 0 })).Draw(rt, "batch")
		i := rapid.IntRange(0, len(s.tags)-1).Draw(rt, "record")
		offset := s.base + int64(i)
		if s.hidden {
			w.read("rc", offset, s.tags[i].String())
		} else {
			w.drop(func(e *history.Event) bool { return e.Read != nil && e.Read.Reader == "rc" && e.Read.Offset == offset })
		}
		v := verdicts(t, w)["TXN-2"]
		require.Equal(rt, Violated, v.Outcome)
		require.Equal(rt, offset, v.Findings[0].Offset)
	})
}

// Whatever the traffic, each entry of each aborted list counts.
func TestEachMissingAbortIsSeenInRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldWith(0, scribble(rt))
		dropped := rapid.SampledFrom(w.aborted["B"]).Draw(rt, "entry").Aborted
		w.edit(t, func(e *history.Event) bool {
			if e.Fetch == nil || e.Fetch.Served != history.LongPoll {
				return false
			}
			e.Fetch.Aborted = slices.DeleteFunc(e.Fetch.Aborted, func(a history.Aborted) bool { return a == dropped })
			return true
		})
		v := verdicts(t, w)["TXN-4"]
		require.Equal(rt, Violated, v.Outcome)
		require.Equal(rt, dropped.FirstOffset, v.Findings[0].Offset)
	})
}

// No log, however damaged, makes the judge panic.
func FuzzDamagedLog(f *testing.F) {
	w := newWorld(0)
	var whole []byte
	for _, s := range w.b {
		whole = append(whole, s.encode()...)
	}
	f.Add(whole, whole)
	f.Add(whole[:len(whole)/2], whole)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ev := w.evidence(t)
		for _, r := range ev.Replicas {
			data := a
			if r.Cluster == "B" {
				data = b
			}
			r.Batches, r.Problems = nil, nil
			for batch, err := range wirelog.Segment("s.log", data) {
				var problem *wirelog.Problem
				if errors.As(err, &problem) {
					r.Problems = append(r.Problems, problem)
					continue
				}
				r.Batches = append(r.Batches, batch)
			}
		}
		for _, v := range All(ev) {
			if v.Outcome == "" || v.Outcome == Violated && len(v.Findings) == 0 {
				t.Fatalf("%s: outcome %q with %d findings", v.Requirement, v.Outcome, len(v.Findings))
			}
		}
	})
}

// A transaction that began before the one left open and ended after it is cut
// too. What a reader was shown of it before the stop was right at that time.
func TestAReadFromBeforeTheCutIsNotHeldAgainstTheView(t *testing.T) {
	w := newWorld(0)
	read := func(offset int64, tag string) history.Event {
		return history.Event{Kind: history.KindRead, Read: &history.Observed{Reader: "early", Cluster: "B", Topic: "t", Isolation: history.ReadCommitted, Offset: offset, Tag: tag}}
	}
	w.insertBefore(isPhase(history.StopRequested), read(12, tagAt(w.a, 12)))
	require.Equal(t, Held, verdicts(t, w)["TXN-2"].Outcome)
	w.insertBefore(isPhase(history.StopRequested), read(12, tagAt(w.a, 7)))
	require.Equal(t, Violated, verdicts(t, w)["TXN-2"].Outcome)
}

// What a source acknowledged, and cut before its log was saved, its readers and
// those of its mirrors may have seen: the writer's history is the witness.
func TestAReadOfWhatTheSourceCutSinceNeedsItsAcknowledgement(t *testing.T) {
	const sent, ended, read = "sent", "ended", "read"
	for name, tc := range map[string]struct {
		txn    int64
		intent history.Intent
		answer history.Result
		at     int64
		order  []string
		want   bool
	}{
		"acknowledged there":      {history.NoTxn, history.IntentNone, ok, 40, []string{sent, read}, true},
		"acknowledged elsewhere":  {history.NoTxn, history.IntentNone, ok, 39, []string{sent, read}, false},
		"refused by the producer": {history.NoTxn, history.IntentNone, refusedBy(readOnly), 40, []string{sent, read}, false},
		"sent later":              {history.NoTxn, history.IntentNone, ok, 40, []string{read, sent}, false},
		"committed there":         {5, history.IntentCommit, ok, 40, []string{sent, ended, read}, true},
		"committed later":         {5, history.IntentCommit, ok, 40, []string{sent, read, ended}, false},
		"aborted there":           {5, history.IntentAbort, ok, 40, []string{sent, ended, read}, false},
		"left open there":         {5, history.IntentOpen, ok, 40, []string{sent, read}, false},
	} {
		w := newWorld(0)
		tag := w.tag("A", "cut-since", tc.txn, tc.intent)
		n := len(w.events)
		w.send(spec{pid: 70, tags: []history.Tag{tag}}, history.Idempotent, tc.at, "", tc.answer)
		parts := map[string][]history.Event{
			sent:  slices.Clone(w.events[n:]),
			ended: {{Kind: history.KindTxnEndBegin, Op: 900, Txn: &history.Txn{Cluster: "A", Writer: "cut-since", Number: tc.txn, Intent: tc.intent}}},
			read: {{Kind: history.KindRead, Read: &history.Observed{
				Reader: "early", Cluster: "B", Topic: "t", Isolation: history.ReadCommitted, Offset: 40, Tag: tag.String(),
			}}},
		}
		w.events = w.events[:n]
		var all []history.Event
		for _, part := range tc.order {
			all = append(all, parts[part]...)
		}
		w.insertBefore(isPhase(history.StopRequested), all...)
		j := newTrial(w.evidence(t)).views[0]
		streams := j.seenIn(j.part("t", 0))
		k := slices.IndexFunc(streams, func(s *stream) bool { return s.Reader == "early" })
		require.Equal(t, tc.want, j.tookThere(j.part("t", 0), streams[k].runs[0].one(0)), name)
	}
}
