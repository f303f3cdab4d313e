package check

import (
	"fmt"

	"watershed.example/suite/wirelog"
)

// txn is one transaction in one partition's log, as its true writer made it.
type txn struct {
	writer     string // cluster/writer
	number     int64  // the transaction's number within its writer
	mirrored   bool
	producerID int64
	first      int64 // its first record's offset
	last       int64 // its last record's
	entry      int   // the batch it begins with
	// end is the offset of what ended it: its marker, or the own barrier (which
	// drops what is open as aborted); -1 while it is open.
	end       int64
	committed bool
	byBarrier bool
}

// ended says whether it had ended below offset.
func (t *txn) endedBelow(offset int64) bool { return t.end >= 0 && t.end < offset }

// oddity is a batch that meets a transaction of another writer.
type oddity struct {
	entry   int
	anomaly Anomaly
	says    string
}

// txnKey tells the transactions of the two sides of a barrier apart, though
// their producer ids collide.
type txnKey struct {
	mirrored bool
	id       int64
}

// replay finds the log's transactions by provenance. A marker ends the
// transaction of its producer id on its own side: a mirrored marker that of a
// mirrored producer, a local marker that of a local one. A broker knows only
// producer ids, so a marker that finds nothing on its own side, but an open
// transaction with that id on the other, is noted as an oddity.
func (s *side) replay() {
	open := map[txnKey]*txn{}
	dropped := map[int64]*txn{} // what a barrier found open, by producer id
	for i := range s.entries {
		e := &s.entries[i]
		key := txnKey{e.origin.mirrored() || e.origin == stopMarker, e.ProducerID}
		switch {
		case e.origin == ownBarrier, e.origin == fromSource && e.IsBarrier(), s.whole && e.IsBarrier():
			// What lies before a barrier is the upstream's, wherever the barrier
			// was written: none of it is open after it.
			for k, t := range open {
				if k.mirrored || s.whole {
					t.end, t.byBarrier = e.BaseOffset, true
					dropped[k.id] = t
					delete(open, k)
				}
			}
		case e.control != nil && (e.control.Type == wirelog.Commit || e.control.Type == wirelog.Abort):
			other := open[txnKey{!key.mirrored, e.ProducerID}]
			if other != nil {
				s.odd = append(s.odd, oddity{i, ForeignMarker, fmt.Sprintf(
					"a %s marker of a %s transaction, while producer id %d has the open transaction %d of %s from offset %d",
					e.control.Type, e.origin, e.ProducerID, other.number, other.writer, other.first)})
			}
			// Of ids as their clusters gave them a barrier parts the two.
			if d := dropped[e.ProducerID]; e.ProducerID < -1 && d != nil && open[key] != nil && open[key].writer != d.writer {
				s.odd = append(s.odd, oddity{i, ForeignMarker, fmt.Sprintf(
					"a %s marker of transaction %d of %s, while the log keeps transaction %d of %s from offset %d under the same producer id: it ends that too",
					e.control.Type, open[key].number, open[key].writer, d.number, d.writer, d.first)})
				delete(dropped, e.ProducerID)
			}
			if t := open[key]; t != nil {
				t.end, t.committed = e.BaseOffset, e.control.Type == wirelog.Commit
				delete(open, key)
			}
		case !e.IsControl() && e.IsTransactional():
			s.join(open, key, i)
		}
	}
}

// join adds a transactional data batch to its writer's transaction.
func (s *side) join(open map[txnKey]*txn, key txnKey, i int) {
	e := &s.entries[i]
	writer, number := "an unknown writer", int64(-1)
	if r := e.firstRun(); r != nil {
		writer, number = r.stem.writer, r.stem.Txn
	}
	t := open[key]
	if t != nil && len(e.runs) > 0 && (t.writer != writer || t.number != number) {
		s.odd = append(s.odd, oddity{i, ZombieAppend, fmt.Sprintf(
			"a batch of transaction %d of %s within the open transaction %d of %s", number, writer, t.number, t.writer)})
	}
	if t == nil {
		t = &txn{
			writer: writer, number: number, mirrored: key.mirrored, producerID: e.ProducerID,
			first: e.BaseOffset, entry: i, end: -1,
		}
		open[key] = t
		s.txns = append(s.txns, t)
	}
	t.last = e.LastOffset()
	e.txn = t
}

// stableOffset is the LSO at a high watermark: the first offset of the earliest
// transaction that has not ended below it, else the high watermark itself.
func (s *side) stableOffset(hw int64) int64 {
	lso := hw
	for _, t := range s.txns {
		if t.first < lso && !t.endedBelow(hw) {
			lso = t.first
		}
	}
	return lso
}
