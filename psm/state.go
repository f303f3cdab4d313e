package psm

import (
	"cmp"
	"math"
	"slices"
)

// State is the producer state of one partition, as of [State.End]. It is not
// safe for concurrent use: the partition's lock covers it.
//
// Batches come in by [State.Begin], [State.Add] for each batch, the write of
// the log, and [State.Commit]; or [State.Discard] if the write failed. Until
// Commit everything else shows the state from before the append.
type State struct {
	cfg          Config
	table        table
	unreplicated unreplicated
	end          int64

	stops []Stop
	// nextStop is the lowest barrier offset of stops at or above end.
	nextStop int64
	// late is the lowest barrier offset of stops that came when the state was
	// past them: snapshots above it were taken without knowing.
	late int64

	verifying map[int64]verification
	lastGuard Guard

	stale *table // see [Faults.StaleDuplicates]

	app       pending
	completed []Completed
}

// New gives the state of an empty log that begins at offset 0.
func New(cfg Config) *State {
	return &State{cfg: cfg.withDefaults(), table: newTable(), nextStop: math.MaxInt64, late: math.MaxInt64}
}

// End is the offset after the last batch: the state covers all below.
func (s *State) End() int64 { return s.end }

// Len is the number of known producers.
func (s *State) Len() int { return s.table.n }

// SetStops gives the partition's stops, any order. It must come before the
// first append in a new stop's epoch. reload says that the state already went
// past a stop that it did not know: it must be rebuilt ([State.Reload], which
// then uses no snapshot from beyond that stop).
// Use [CutStops] after a truncation.
func (s *State) SetStops(stops []Stop) (reload bool) {
	for _, n := range stops {
		if n.BarrierOffset < s.end && !slices.Contains(s.stops, n) {
			reload = true
			s.late = min(s.late, n.BarrierOffset)
		}
	}
	s.stops = slices.Clone(stops)
	s.setEnd(s.end)
	return reload
}

// Stops gives the partition's stops as set.
func (s *State) Stops() []Stop { return slices.Clone(s.stops) }

// setEnd moves the end without looking at stops in between.
func (s *State) setEnd(end int64) {
	s.end = end
	s.nextStop = nextStop(s.stops, end)
}

// nextStop is the lowest barrier offset at or above offset.
func nextStop(stops []Stop, offset int64) int64 {
	next := int64(math.MaxInt64)
	for i := range stops {
		if b := stops[i].BarrierOffset; b >= offset && b < next {
			next = b
		}
	}
	return next
}

// Lookup gives what is known of producerID.
func (s *State) Lookup(producerID int64) (Producer, bool) {
	if i := s.table.find(producerID); i != none {
		return s.table.at(i).export(), true
	}
	return Producer{}, false
}

// Producers gives the known producers, sorted by id.
func (s *State) Producers() []Producer {
	out := make([]Producer, 0, s.table.n)
	s.table.each(func(_ uint32, p *slot) { out = append(out, p.export()) })
	slices.SortFunc(out, func(a, b Producer) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return out
}

// OpenTransactions gives the transactions without a marker, by first offset.
func (s *State) OpenTransactions() []OpenTxn {
	var out []OpenTxn
	for i := s.table.first; i != none; i = s.table.at(i).after {
		p := s.table.at(i)
		out = append(out, OpenTxn{ProducerID: p.pid, Epoch: p.epoch, FirstOffset: p.txnFirst, LastTimestamp: p.lastTs})
	}
	return out
}

// LateTransactions gives the open transactions whose producer has been silent
// for longer than the longest transaction timeout and a buffer
// ([LateTransactionBufferMs]): nobody will end them.
func (s *State) LateTransactions(nowMs int64) []OpenTxn {
	return slices.DeleteFunc(s.OpenTransactions(), func(t OpenTxn) bool {
		return t.LastTimestamp <= 0 || nowMs-t.LastTimestamp <= s.cfg.MaxTransactionTimeoutMs+LateTransactionBufferMs
	})
}

// FirstUndecided is the first offset of the earliest open transaction.
func (s *State) FirstUndecided() (int64, bool) { return s.table.firstOpen() }

// FirstUnstable is the first offset of the earliest transaction that is open,
// or whose end the high watermark has not passed.
func (s *State) FirstUnstable() (int64, bool) {
	a, okA := s.table.firstOpen()
	b, okB := s.unreplicated.min()
	if okA && (!okB || a < b) {
		return a, true
	}
	return b, okB
}

// LSO is the last stable offset at a high watermark: what read_committed
// readers may see ends there. Below the log's start it means the log's start.
func (s *State) LSO(highWatermark int64) int64 {
	lso := highWatermark
	if f, ok := s.table.firstOpen(); ok {
		lso = min(lso, f)
	}
	if f, ok := s.unreplicated.minAt(highWatermark); ok {
		lso = min(lso, f)
	}
	return lso
}

// OnHighWatermark forgets completed transactions that lie below highWatermark.
func (s *State) OnHighWatermark(highWatermark int64) { s.unreplicated.passed(highWatermark) }

// OnLogStart forgets completed transactions that lie below the log's start.
// Producers stay known when their records are deleted.
func (s *State) OnLogStart(logStart int64) {
	s.unreplicated.passed(logStart)
	if s.cfg.Faults.ForgetDeleted {
		s.forgetDeleted(logStart)
	}
}

// Expire forgets producers without an open transaction that have written
// nothing, marker included, for the time of [Config.ExpirationMs], and
// verifications as old. It returns how many producers went.
func (s *State) Expire(nowMs int64) int {
	before := s.table.n
	s.table.each(func(i uint32, p *slot) {
		if s.expired(&p.producer, nowMs) {
			s.table.remove(i)
		}
	})
	for pid, v := range s.verifying {
		if nowMs-v.ts >= s.cfg.ExpirationMs {
			delete(s.verifying, pid)
		}
	}
	if s.table.n < before {
		s.table.shrink()
	}
	return before - s.table.n
}

func (s *State) expired(p *producer, nowMs int64) bool {
	return p.txnFirst < 0 && nowMs-p.lastTs >= s.cfg.ExpirationMs
}

// TruncateFully makes it the state of an empty log that begins at start.
// Verifications stay, as in Kafka. Snapshots must be deleted along with it
// ([Snapshots.DeleteAll]), stops cut ([CutStops]).
func (s *State) TruncateFully(start int64) {
	s.Discard()
	s.table = newTable()
	s.unreplicated = unreplicated{}
	s.setEnd(start)
}
