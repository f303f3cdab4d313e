package postmortem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"

	"watershed.example/suite/wirelog"
)

// Places within a batch of magic 2.
const (
	epochFrom = 12 // the leader epoch, which the checksum does not cover
	epochTo   = 16
)

// sameBatch says whether two batches are the same bytes but for the leader epoch.
func sameBatch(a, b *wirelog.Batch) bool {
	return a.SameFrom(b, epochTo) && bytes.Equal(a.Raw[:epochFrom], b.Raw[:epochFrom])
}

// thinned says whether a cleaner has been at the batch: it has fewer records
// than offsets, or a time from which on its tombstones may go.
func thinned(b *wirelog.Batch) bool {
	return int64(b.Count) < int64(b.LastOffsetDelta)+1 || b.Attributes&0x40 != 0
}

// sameRecords says whether every record that both batches have is the same, of
// which a cleaner has been at one. Where that could not be read to the end, unread
// says why, and the batches count as the same.
func sameRecords(a, b *wirelog.Batch) (same bool, unread error) {
	if a.ProducerID != b.ProducerID || a.ProducerEpoch != b.ProducerEpoch || a.IsControl() != b.IsControl() || !thinned(a) && !thinned(b) {
		return false, nil
	}
	s, t := a.Outlines(comparedBytes), b.Outlines(comparedBytes)
	defer s.Close()
	defer t.Close()
	more, other := s.Next(), t.Next()
	for more && other {
		switch {
		case s.Offset < t.Offset:
			more = s.Next()
		case s.Offset > t.Offset:
			other = t.Next()
		case (s.Key == nil) != (t.Key == nil) || s.KeySum != t.KeySum || s.Tombstone != t.Tombstone:
			return false, nil
		default:
			mine, theirs := s.ValueSum(), t.ValueSum()
			if s.Err() == nil && t.Err() == nil && mine != theirs {
				return false, nil
			}
			more, other = s.Next(), t.Next()
		}
	}
	for _, err := range []error{s.Err(), t.Err()} {
		switch {
		case errors.Is(err, wirelog.ErrBeyond):
			unread = err
		case err != nil:
			return false, nil
		}
	}
	return true, unread
}

// uncompared says that of a batch of a lane not all records were compared.
func (l *lane) uncompared(b *wirelog.Batch, with string, why error) {
	l.out.add(Finding{
		Kind: Unread, Sure: Measured, Side: l.name, Folder: l.folder, Offset: b.BaseOffset, LastOffset: b.LastOffset(), Affected: count(b),
		What: fmt.Sprintf("the batch differs from that of %s as a cleaner makes it, and not all of its records were compared", with),
		Why:  why.Error(), Do: "nothing, if the topic is compacted; else compare the two batches with a dump tool",
	})
}

// rewritten names what of a batch's header was changed while its records are the
// same, empty where the two are different batches.
func rewritten(a, b *wirelog.Batch) string {
	const records = 61
	if a.IsBarrier() || b.IsBarrier() || a.LastOffsetDelta != b.LastOffsetDelta || a.Count != b.Count ||
		a.BaseTimestamp != b.BaseTimestamp || a.MaxTimestamp != b.MaxTimestamp || !a.SameFrom(b, records) {
		return ""
	}
	switch {
	case a.ProducerID != b.ProducerID:
		return "producer id"
	case a.ProducerEpoch != b.ProducerEpoch:
		return "producer epoch"
	case a.BaseSequence != b.BaseSequence:
		return "base sequence"
	case a.Attributes != b.Attributes:
		return "attributes"
	}
	return ""
}

var seed = maphash.MakeSeed()

// fingerprint is what a batch is known by wherever it lies: all that a leader does not
// stamp. Its checksum stands for its records.
func fingerprint(b *wirelog.Batch) uint64 {
	var k [40]byte
	binary.BigEndian.PutUint32(k[0:], b.CRC)
	binary.BigEndian.PutUint32(k[4:], uint32(b.Size()))
	binary.BigEndian.PutUint64(k[8:], uint64(b.ProducerID))
	binary.BigEndian.PutUint64(k[16:], uint64(b.BaseTimestamp))
	binary.BigEndian.PutUint32(k[24:], uint32(b.BaseSequence))
	binary.BigEndian.PutUint32(k[28:], uint32(b.LastOffsetDelta))
	binary.BigEndian.PutUint16(k[32:], uint16(b.ProducerEpoch))
	return maphash.Bytes(seed, k[:])
}
