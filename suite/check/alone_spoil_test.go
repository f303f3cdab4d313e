package check

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// acked finds the nth answer to a trial of a writer.
func (l *lone) acked(t testing.TB, writer string, trial history.Trial, n int) *history.Produce {
	for i := range l.events {
		e := &l.events[i]
		if e.Kind == history.KindProduceAck && e.Produce.Writer == writer && e.Produce.Trial == trial {
			if n--; n < 0 {
				return e.Produce
			}
		}
	}
	require.Fail(t, "no such trial", "%s of %s", trial, writer)
	return nil
}

// answered changes the answer to a trial.
func (l *lone) answered(t testing.TB, writer string, trial history.Trial, n int, offset int64, res history.Result) {
	p := l.acked(t, writer, trial, n)
	p.Offset, p.Result = offset, &res
}

// appended puts the batch of a trial at the end of the log.
func (l *lone) appended(t testing.TB, writer string, trial history.Trial, n int) {
	p := l.acked(t, writer, trial, n)
	s := spec{base: l.hw("t"), epoch: 1, pid: p.Batch.ProducerID, pepoch: p.Batch.Epoch, seq: p.Batch.BaseSequence, payload: "payload"}
	if p.Mode == history.Transactional {
		s.attributes = transactional
	}
	for k := range p.Count {
		s.tags = append(s.tags, p.Tag.Add(int64(k)))
	}
	l.logs["t"] = append(l.logs["t"], s)
}

// What a fetch shows of high watermark and last stable offset when a marker has just
// been appended.
type shown struct{ hw, lso bool } // whether each is that from after the marker

var (
	settled = shown{hw: true, lso: true}
	lagging = shown{hw: true}
	leading = shown{lso: true}
)

// askedAtAMarker has somebody ask, before all else, when a marker had just been
// appended, after so long each time. skip passes over so many markers.
func (l *lone) askedAtAMarker(t testing.TB, skip int, every time.Duration, answers ...shown) {
	log := l.logs["t"]
	lso := func(n int) int64 { return (&lone{logs: map[string][]spec{"t": log[:n]}}).lso("t") }
	i := -1
	for k, s := range log {
		if s.attributes&control != 0 && s.base > 0 && lso(k) != lso(k+1) {
			if i = k; skip == 0 {
				break
			}
			skip--
		}
	}
	require.Positive(t, i, "no marker")
	before, after := log[i].base, log[i].base+1
	require.NotEqual(t, lso(i), lso(i+1), "the marker moves nothing")
	var asked []history.Event
	for n, is := range answers {
		f := history.Fetch{
			Cluster: "A", Node: l.leader, Topic: "t", Isolation: history.ReadUncommitted, Served: history.AtOnce,
			FetchOffset: before, NextOffset: before, HighWatermark: before, LastStableOffset: lso(i), AbortedNull: true,
		}
		if is.hw {
			f.FetchOffset, f.NextOffset, f.HighWatermark = after, after, after
		}
		if is.lso {
			f.LastStableOffset = lso(i + 1)
		}
		asked = append(asked, history.Event{Kind: history.KindFetch, Fetch: &f, At: int64(n) * every.Nanoseconds()})
	}
	l.events = append(asked, l.events...)
}

// behindAt has somebody ask at each of these markers, and be shown the last stable
// offset from before it first.
func (l *lone) behindAt(t testing.TB, markers ...int) {
	for _, skip := range slices.Backward(markers) {
		l.askedAtAMarker(t, skip, time.Millisecond, lagging, settled)
	}
}

// newID changes the epoch at which somebody went over to a new id, and who said so.
func (l *lone) newID(t testing.TB, epoch int16, byEndTxn bool) {
	l.edit(t, func(e *history.Event) bool {
		if e.InitPID == nil || e.InitPID.ProducerID != 21 || e.InitPID.Epoch != 0 {
			return false
		}
		e.InitPID.Epoch, e.InitPID.ByEndTxn = epoch, byEndTxn
		return true
	})
}

// edit changes the events for which f returns true: one of them at least.
func (l *lone) edit(t testing.TB, f func(e *history.Event) bool) {
	changed := false
	for i := range l.events {
		changed = f(&l.events[i]) || changed
	}
	require.True(t, changed, "nothing was edited")
}

func (l *lone) drop(f func(e *history.Event) bool) {
	l.events = slices.DeleteFunc(l.events, func(e history.Event) bool { return f(&e) })
}

// readUpTo has a reader of topic t end at an offset.
func (l *lone) readUpTo(reader string, position int64) {
	l.drop(func(e *history.Event) bool {
		return e.Read != nil && e.Read.Reader == reader && e.Read.Topic == "t" && e.Read.Offset >= position
	})
	for _, e := range l.events {
		if e.Reader != nil && e.Reader.Reader == reader && e.Reader.Topic == "t" {
			e.Reader.Position = position
		}
	}
}

// since calls f for the events after the end of a disturbance.
func (l *lone) since(t testing.TB, what history.DisturbanceName, f func(e *history.Event) bool) {
	over := false
	l.edit(t, func(e *history.Event) bool {
		if d := e.Disturbance; d != nil {
			over = d.What == what && d.Over
		}
		return over && f(e)
	})
}

// forget has no producer known, or known otherwise, after something.
func (l *lone) forget(t testing.TB, what history.DisturbanceName, f func(s *history.ProducerState) (keep bool)) {
	l.since(t, what, func(e *history.Event) bool {
		if e.Producers == nil || e.Producers.Topic != "t" {
			return false
		}
		var kept []history.ProducerState
		for _, s := range e.Producers.Active {
			if f(&s) {
				kept = append(kept, s)
			}
		}
		e.Producers.Active = kept
		return true
	})
}

// of is the first batch of a transaction, and markerOf the marker behind it.
func (l *lone) of(writer string, number int64) *spec {
	for i := range l.logs["t"] {
		if s := &l.logs["t"][i]; len(s.tags) > 0 && s.tags[0].Writer == writer && s.tags[0].Txn == number {
			return s
		}
	}
	return nil
}

func (l *lone) markerOf(writer string, number int64) *spec {
	s := l.of(writer, number)
	for i := range l.logs["t"] {
		if m := &l.logs["t"][i]; m.base > s.base && m.pid == s.pid && m.attributes&control != 0 {
			return m
		}
	}
	return nil
}

// given has one producer id given in another's place.
func (l *lone) given(t testing.TB, instead, id int64, epoch int16) {
	l.edit(t, func(e *history.Event) bool {
		if e.InitPID == nil || e.InitPID.ProducerID != instead {
			return false
		}
		e.InitPID.ProducerID, e.InitPID.Epoch = id, epoch
		return true
	})
}
