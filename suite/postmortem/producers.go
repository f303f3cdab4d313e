package postmortem

import "math"

// producer is what a log says of a producer id since the last barrier.
type producer struct {
	epoch       int16
	lastSeq     int32 // -1: nothing of this epoch
	coordinator int32 // of the last marker, -1 without one
	firstOffset int64 // of its first data, -1 without any
	lastOffset  int64 // of its last data or marker
	lastTime    int64
}

// nextSequence is what follows a sequence number; it wraps after 2147483647.
func nextSequence(s int32) int32 {
	if s == math.MaxInt32 {
		return 0
	}
	return s + 1
}

// perGeneration bounds a table of producers: it holds twice as many at the most.
const perGeneration = 100_000

// table is a map from producer ids that forgets those which have been silent
// while many others wrote: two generations of which the older one is dropped.
type table struct {
	young, old map[int64]producer
	forgotten  int64
}

func newTable() *table { return &table{young: map[int64]producer{}} }

func (t *table) get(id int64) (producer, bool) {
	if p, ok := t.young[id]; ok {
		return p, true
	}
	p, ok := t.old[id]
	return p, ok
}

func (t *table) put(id int64, p producer) {
	if _, ok := t.young[id]; !ok {
		if len(t.young) >= perGeneration {
			t.forgotten += int64(len(t.old))
			t.old, t.young = t.young, make(map[int64]producer, perGeneration)
		}
		delete(t.old, id)
	}
	t.young[id] = p
}

// openTxn is a transaction without its marker.
type openTxn struct {
	first   int64
	last    int64
	epoch   int16
	records int64
	since   int64 // milliseconds since 1970
	keys    []Record
}

// maxOpen bounds the open transactions that a log's state holds.
const maxOpen = 100_000

// txn is a transaction that ended.
type txn struct {
	id     int64
	epoch  int16 // of its data
	marker int16 // of its marker: higher by one with transactions version 2
	first  int64
	last   int64 // of the marker
	ended  int64 // milliseconds since 1970
	commit bool
	count  int64
}
