package check

import (
	"cmp"
	"slices"
	"time"

	"watershed.example/suite/history"
)

// A reading is what a leader showed at once of a partition's ends.
type reading struct {
	event   int   // its index in the history
	at      int64 // its time, in nanoseconds
	hw, lso int64
}

// tears tells the readings of one partition that are torn from those that are wrong.
//
// Kafka reads the high watermark first and the last stable offset then, without the
// log's lock (Partition.readRecords), and an append moves the high watermark first and
// the last stable offset then (UnifiedLog.updateHighWatermarkMetadata). So the two of
// one answer can be from before and after the same marker:
//
//   - ahead: the last stable offset is that of a later high watermark, which may be
//     above the one that was shown;
//   - behind: it is that of an earlier high watermark, for as long as the thread that
//     appends is kept from its next instruction. On a busy machine several answers in
//     a row show that. It catches up without another append.
//
// Neither misleads a consumer. A partition is allowed [tearsAllowed] of each, where the
// log explains them and whoever asks next is shown what is right: more is no accident.
type tears struct {
	log           *side
	readings      []reading
	ahead, behind int
	caughtUp      int64 // the high watermark of the last that was behind
}

const (
	tearsAllowed = 2
	// A thread that is kept waiting for longer is no accident either.
	tearLasts = time.Second
)

// tearsOf collects the readings of a partition from the events of a history. shows
// returns what an event shows, and whether it shows anything.
func tearsOf(events []history.Event, log *side, shows func(*history.Event) (hw, lso int64, ok bool)) *tears {
	t := &tears{log: log, caughtUp: -1}
	for i := range events {
		if hw, lso, ok := shows(&events[i]); ok {
			t.readings = append(t.readings, reading{i, events[i].At, hw, lso})
		}
	}
	return t
}

// find returns where the reading in an event is, or would be.
func (t *tears) find(event int) (at int, found bool) {
	return slices.BinarySearchFunc(t.readings, event, func(r reading, event int) int { return cmp.Compare(r.event, event) })
}

// excuse says whether the reading in an event is torn, and is to be forgiven.
func (t *tears) excuse(event int) bool {
	at, found := t.find(event)
	if !found {
		return false
	}
	switch {
	case t.ahead < tearsAllowed && t.isAhead(at):
		t.ahead++
		return true
	case t.readings[at].hw == t.caughtUp || t.behind < tearsAllowed:
		if !t.isBehind(at) {
			return false
		}
		t.behind += b2i(t.readings[at].hw != t.caughtUp)
		t.caughtUp = t.readings[at].hw
		return true
	}
	return false
}

// excuseBatches says whether the batches in the answer of an event, up to next, were
// read at a later last stable offset than the one that stands beside them, which is
// read before them; somebody was shown that offset then.
func (t *tears) excuseBatches(event int, next int64) bool {
	after, _ := t.find(event + 1)
	torn := t.ahead < tearsAllowed && slices.ContainsFunc(t.readings[after:], func(r reading) bool {
		return r.lso >= next && r.lso == t.log.stableOffset(r.hw)
	})
	t.ahead += b2i(torn)
	return torn
}

// isAhead says whether the last stable offset is that of a later high watermark,
// and somebody was shown such a one then, with what belongs to it.
func (t *tears) isAhead(at int) bool {
	r := t.readings[at]
	hw, was := t.stableAt(r.lso)
	return was && hw > r.hw && slices.ContainsFunc(t.readings[at+1:], func(next reading) bool {
		return next.hw >= hw && next.lso == t.log.stableOffset(next.hw)
	})
}

// isBehind says whether the last stable offset is that of an earlier high watermark,
// nobody has seen a later one, and whoever asks next sees the right one. Where several
// see the earlier one, it has to be right soon, and with nothing appended since.
func (t *tears) isBehind(at int) bool {
	r := t.readings[at]
	want := t.log.stableOffset(r.hw)
	if hw, was := t.stableAt(r.lso); !was || hw >= r.hw || r.lso >= want {
		return false
	}
	if slices.ContainsFunc(t.readings[:at], func(before reading) bool { return before.lso >= want }) {
		return false // it went back
	}
	same := func(o reading) bool { return o.hw == r.hw && o.lso == r.lso }
	first, next := at, at+1
	for first > 0 && same(t.readings[first-1]) {
		first--
	}
	for next < len(t.readings) && same(t.readings[next]) {
		next++
	}
	if next == len(t.readings) {
		return false
	}
	then := t.readings[next]
	if next-first > 1 && (then.hw != r.hw || then.at-t.readings[first].at > tearLasts.Nanoseconds()) {
		return false
	}
	return then.lso >= want && then.lso == t.log.stableOffset(then.hw)
}

// stableAt finds the first high watermark between batches to which a last stable
// offset belonged. It never goes back, so that it can be searched for.
func (t *tears) stableAt(lso int64) (hw int64, was bool) {
	at, was := slices.BinarySearchFunc(t.log.entries, lso, func(e entry, lso int64) int {
		return cmp.Compare(t.log.stableOffset(e.NextOffset()), lso)
	})
	if !was {
		return 0, false
	}
	return t.log.entries[at].NextOffset(), true
}
