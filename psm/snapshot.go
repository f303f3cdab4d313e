package psm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// Sizes of a producer snapshot, in bytes.
const (
	snapshotHeader = 10
	snapshotEntry  = 46
)

// SnapshotEntry is a producer in a snapshot file. Of the batches, only the
// newest is in it: LastSequence and LastOffset are -1 without one.
type SnapshotEntry struct {
	ProducerID            int64
	Epoch                 int16
	LastSequence          int32
	LastOffset            int64
	OffsetDelta           int32
	Timestamp             int64 // ms
	CoordinatorEpoch      int32
	CurrentTxnFirstOffset int64 // -1: none
}

func (p *producer) snapshot() SnapshotEntry {
	e := SnapshotEntry{
		ProducerID: p.pid, Epoch: p.epoch, LastSequence: -1, LastOffset: -1, Timestamp: p.lastTs,
		CoordinatorEpoch: p.coordEpoch, CurrentTxnFirstOffset: p.txnFirst,
	}
	if p.n > 0 {
		i := p.newest()
		e.LastSequence, e.LastOffset, e.OffsetDelta = p.lastSeq[i], p.at[i].last, p.delta[i]
	}
	return e
}

// SnapshotEntries gives what a snapshot of the state holds, sorted by id.
func (s *State) SnapshotEntries() []SnapshotEntry {
	out := make([]SnapshotEntry, 0, s.table.n)
	sorted := true
	s.table.each(func(_ uint32, p *slot) {
		if len(out) > 0 && out[len(out)-1].ProducerID > p.pid {
			sorted = false
		}
		out = append(out, p.snapshot())
	})
	if !sorted {
		slices.SortFunc(out, func(a, b SnapshotEntry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	}
	return out
}

// EncodeSnapshot gives the content of a snapshot file, in Kafka's format.
func EncodeSnapshot(entries []SnapshotEntry) []byte {
	be := binary.BigEndian
	out := make([]byte, snapshotHeader+snapshotEntry*len(entries))
	be.PutUint16(out, 1)
	be.PutUint32(out[6:], uint32(len(entries)))
	p := out[snapshotHeader:]
	for i := range entries {
		e := &entries[i]
		_ = p[snapshotEntry-1]
		be.PutUint64(p, uint64(e.ProducerID))
		be.PutUint16(p[8:], uint16(e.Epoch))
		be.PutUint32(p[10:], uint32(e.LastSequence))
		be.PutUint64(p[14:], uint64(e.LastOffset))
		be.PutUint32(p[22:], uint32(e.OffsetDelta))
		be.PutUint64(p[26:], uint64(e.Timestamp))
		be.PutUint32(p[34:], uint32(e.CoordinatorEpoch))
		be.PutUint64(p[38:], uint64(e.CurrentTxnFirstOffset))
		p = p[snapshotEntry:]
	}
	be.PutUint32(out[2:], crc32.Checksum(out[6:], castagnoli))
	return out
}

// DecodeSnapshot reads the content of a snapshot file. Errors wrap [ErrShort]
// or [ErrCorrupt].
func DecodeSnapshot(p []byte) ([]SnapshotEntry, error) {
	n, err := checkSnapshot(p)
	if err != nil {
		return nil, err
	}
	out := make([]SnapshotEntry, n)
	for i := range out {
		if err := out[i].decode(p, i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkSnapshot gives the number of entries of a snapshot that is whole.
func checkSnapshot(p []byte) (int, error) {
	be := binary.BigEndian
	if len(p) < snapshotHeader {
		return 0, fmt.Errorf("producer snapshot: %w: %d bytes", ErrShort, len(p))
	}
	if v := int16(be.Uint16(p)); v != 1 {
		return 0, fmt.Errorf("producer snapshot: %w: version %d", ErrCorrupt, v)
	}
	if want, got := be.Uint32(p[2:]), crc32.Checksum(p[6:], castagnoli); want != got {
		return 0, fmt.Errorf("producer snapshot: %w: crc %08x, content has %08x", ErrCorrupt, want, got)
	}
	n := int32(be.Uint32(p[6:]))
	if n < 0 || int64(n)*snapshotEntry != int64(len(p)-snapshotHeader) {
		return 0, fmt.Errorf("producer snapshot: %w: %d entries in %d bytes", ErrCorrupt, n, len(p)-snapshotHeader)
	}
	return int(n), nil
}

// decode reads entry i of snapshot p, which is whole.
func (e *SnapshotEntry) decode(p []byte, i int) error {
	be := binary.BigEndian
	p = p[snapshotHeader+i*snapshotEntry:][:snapshotEntry]
	e.ProducerID = int64(be.Uint64(p))
	e.Epoch = int16(be.Uint16(p[8:]))
	e.LastSequence = int32(be.Uint32(p[10:]))
	e.LastOffset = int64(be.Uint64(p[14:]))
	e.OffsetDelta = int32(be.Uint32(p[22:]))
	e.Timestamp = int64(be.Uint64(p[26:]))
	e.CoordinatorEpoch = int32(be.Uint32(p[34:]))
	e.CurrentTxnFirstOffset = int64(be.Uint64(p[38:]))
	if e.ProducerID == -1 || e.OffsetDelta < 0 || e.LastOffset < -1 || e.CurrentTxnFirstOffset < -1 {
		return fmt.Errorf("producer snapshot: %w: entry %d of producer %d, last offset %d, delta %d, transaction at %d",
			ErrCorrupt, i, e.ProducerID, e.LastOffset, e.OffsetDelta, e.CurrentTxnFirstOffset)
	}
	return nil
}

// load makes s, which is new, the state that a snapshot at offset end holds.
// Producers idle for too long are left out.
func (s *State) load(snapshot []byte, end, nowMs int64) error {
	n, err := checkSnapshot(snapshot)
	if err != nil {
		return err
	}
	var open []uint32
	s.table.reserve(n)
	// While the ids rise, none can be there twice: the index then learns of them
	// many at a time, so that its cache misses overlap.
	rising, highest := true, int64(-1)
	var late [64]uint32 // slots that the index does not know yet
	waiting := 0
	know := func() {
		for _, at := range late[:waiting] {
			s.table.link(s.table.hash(s.table.at(at).pid), at)
		}
		waiting = 0
	}
	var e SnapshotEntry
	for i := range n {
		if err := e.decode(snapshot, i); err != nil {
			return err
		}
		if e.ProducerID < 0 && !s.keeps(e.ProducerID) {
			return fmt.Errorf("producer snapshot at %d: %w: producer %d", end, ErrCorrupt, e.ProducerID)
		}
		if e.CurrentTxnFirstOffset < 0 && nowMs-e.Timestamp >= s.cfg.ExpirationMs {
			continue
		}
		if e.LastOffset >= end || e.CurrentTxnFirstOffset >= end {
			return fmt.Errorf("producer snapshot at %d: %w: producer %d beyond it", end, ErrCorrupt, e.ProducerID)
		}
		if rising && e.ProducerID <= highest {
			rising = false
			know()
		}
		if !rising && s.table.find(e.ProducerID) != none {
			return fmt.Errorf("producer snapshot at %d: %w: producer %d twice", end, ErrCorrupt, e.ProducerID)
		}
		highest = e.ProducerID
		at := s.table.take(e.ProducerID)
		late[waiting] = at
		if waiting++; waiting == len(late) || !rising {
			know()
		}
		p := &s.table.at(at).producer
		p.epoch, p.coordEpoch, p.lastTs, p.txnFirst = e.Epoch, e.CoordinatorEpoch, e.Timestamp, e.CurrentTxnFirstOffset
		if e.LastOffset >= 0 {
			p.push(e.Epoch, e.LastSequence, e.OffsetDelta, e.LastOffset, e.Timestamp)
		}
		if p.txnFirst >= 0 {
			open = append(open, at)
		}
	}
	know()
	slices.SortFunc(open, func(a, b uint32) int { return cmp.Compare(s.table.at(a).txnFirst, s.table.at(b).txnFirst) })
	for _, i := range open {
		s.table.openTxn(i)
	}
	s.setEnd(end)
	return nil
}
