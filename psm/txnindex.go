package psm

import (
	"encoding/binary"
	"fmt"
)

// AbortedTxnSize is the size in bytes of an entry of the transaction index.
const AbortedTxnSize = 34

// AbortedTxn is an entry of the transaction index (.txnindex).
type AbortedTxn struct {
	ProducerID              int64
	FirstOffset, LastOffset int64
	// LSO as in [Completed].
	LSO int64
}

// IndexEntry is c's entry in the transaction index, if it was aborted.
func (c Completed) IndexEntry() AbortedTxn {
	return AbortedTxn{ProducerID: c.ProducerID, FirstOffset: c.FirstOffset, LastOffset: c.LastOffset, LSO: c.LSO}
}

// Append appends the entry in Kafka's file format to dst. Entries of one index
// must be appended in the order of their last offsets; several that one
// barrier ended share theirs.
func (a AbortedTxn) Append(dst []byte) []byte {
	dst = append(dst, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.FirstOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.LastOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(a.LSO))
}

// DecodeTxnIndex reads the content of a .txnindex file. Of a damaged one it
// gives the entries before the damage along with the error, which wraps
// [ErrCorrupt] or, for a torn last entry, [ErrShort].
func DecodeTxnIndex(p []byte) ([]AbortedTxn, error) {
	out := make([]AbortedTxn, 0, len(p)/AbortedTxnSize)
	for at := 0; at < len(p); at += AbortedTxnSize {
		e := p[at:]
		if len(e) < AbortedTxnSize {
			return out, fmt.Errorf("transaction index entry at byte %d: %w: %d of %d", at, ErrShort, len(e), AbortedTxnSize)
		}
		if v := int16(binary.BigEndian.Uint16(e)); v != 0 {
			return out, fmt.Errorf("transaction index entry at byte %d: %w: version %d", at, ErrCorrupt, v)
		}
		a := AbortedTxn{
			ProducerID:  int64(binary.BigEndian.Uint64(e[2:])),
			FirstOffset: int64(binary.BigEndian.Uint64(e[10:])),
			LastOffset:  int64(binary.BigEndian.Uint64(e[18:])),
			LSO:         int64(binary.BigEndian.Uint64(e[26:])),
		}
		if a.FirstOffset < 0 || a.LastOffset < a.FirstOffset || (len(out) > 0 && a.LastOffset < out[len(out)-1].LastOffset) {
			return out, fmt.Errorf("transaction index entry at byte %d: %w: offsets %d to %d", at, ErrCorrupt, a.FirstOffset, a.LastOffset)
		}
		out = append(out, a)
	}
	return out, nil
}

// CollectAborted appends to dst the transactions among entries (one segment's
// index) that a fetch of [from, to) needs. done says that later segments hold
// none; else the caller goes on with the next segment's index.
func CollectAborted(dst, entries []AbortedTxn, from, to int64) (_ []AbortedTxn, done bool) {
	for _, a := range entries {
		if a.LastOffset >= from && a.FirstOffset < to {
			dst = append(dst, a)
		}
		if a.LSO >= to {
			return dst, true
		}
	}
	return dst, false
}

// TruncateTxnIndex gives the entries that a truncation to offset leaves: those
// whose marker lies below.
func TruncateTxnIndex(entries []AbortedTxn, offset int64) []AbortedTxn {
	for i, a := range entries {
		if a.LastOffset >= offset {
			return entries[:i]
		}
	}
	return entries
}
