package postmortem

import (
	"bytes"
	"encoding/binary"
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
	return len(a.Raw) == len(b.Raw) && bytes.Equal(a.Raw[epochTo:], b.Raw[epochTo:]) && bytes.Equal(a.Raw[:epochFrom], b.Raw[:epochFrom])
}

// thinned says whether a cleaner has been at the batch: it has fewer records
// than offsets, or a time from which on its tombstones may go.
func thinned(b *wirelog.Batch) bool {
	return int64(b.Count) < int64(b.LastOffsetDelta)+1 || b.Attributes&0x40 != 0
}

// sameRecords says whether every record that both batches have is the same, of
// which a cleaner has been at one.
func sameRecords(a, b *wirelog.Batch) bool {
	if a.ProducerID != b.ProducerID || a.ProducerEpoch != b.ProducerEpoch || a.IsControl() != b.IsControl() || !thinned(a) && !thinned(b) {
		return false
	}
	if len(a.Raw) > maxDecoded || len(b.Raw) > maxDecoded {
		return true // too large to be opened for that
	}
	var s, t wirelog.RecordScanner
	s.Start(a)
	t.Start(b)
	more, other := s.Next(), t.Next()
	for more && other {
		switch {
		case s.Record.Offset < t.Record.Offset:
			more = s.Next()
		case s.Record.Offset > t.Record.Offset:
			other = t.Next()
		case !bytes.Equal(s.Record.Key, t.Record.Key) || !bytes.Equal(s.Record.Value, t.Record.Value):
			return false
		default:
			more, other = s.Next(), t.Next()
		}
	}
	return s.Err() == nil && t.Err() == nil
}

// rewritten names what of a batch's header was changed while its records are the
// same, empty where the two are different batches.
func rewritten(a, b *wirelog.Batch) string {
	const records = 61
	if len(a.Raw) != len(b.Raw) || a.IsBarrier() || b.IsBarrier() || a.LastOffsetDelta != b.LastOffsetDelta || a.Count != b.Count ||
		a.BaseTimestamp != b.BaseTimestamp || a.MaxTimestamp != b.MaxTimestamp || !bytes.Equal(a.Raw[records:], b.Raw[records:]) {
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
	binary.BigEndian.PutUint32(k[4:], uint32(len(b.Raw)))
	binary.BigEndian.PutUint64(k[8:], uint64(b.ProducerID))
	binary.BigEndian.PutUint64(k[16:], uint64(b.BaseTimestamp))
	binary.BigEndian.PutUint32(k[24:], uint32(b.BaseSequence))
	binary.BigEndian.PutUint32(k[28:], uint32(b.LastOffsetDelta))
	binary.BigEndian.PutUint16(k[32:], uint16(b.ProducerEpoch))
	return maphash.Bytes(seed, k[:])
}
