package wirelog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// SnapshotEntry is what a producer snapshot holds of one producer.
type SnapshotEntry struct {
	ProducerID            int64
	Epoch                 int16
	LastSequence          int32
	LastOffset            int64 // -1: only a marker
	OffsetDelta           int32
	Timestamp             int64
	CoordinatorEpoch      int32
	CurrentTxnFirstOffset int64 // -1: no open transaction
}

const snapshotEntryLen = 46

// ReadSnapshot decodes the bytes of a .snapshot file.
func ReadSnapshot(data []byte) ([]SnapshotEntry, error) {
	const head = 10
	if len(data) < head {
		return nil, fmt.Errorf("producer snapshot of %d bytes, one has at least %d", len(data), head)
	}
	if v := int16(binary.BigEndian.Uint16(data)); v != 1 {
		return nil, fmt.Errorf("producer snapshot of version %d, only 1 is read", v)
	}
	if want, got := binary.BigEndian.Uint32(data[2:]), crc32.Checksum(data[6:], castagnoli); got != want {
		return nil, fmt.Errorf("producer snapshot: checksum is %d, and %d of its bytes", want, got)
	}
	n, rest := int64(int32(binary.BigEndian.Uint32(data[6:]))), data[head:]
	if n < 0 || n*snapshotEntryLen != int64(len(rest)) {
		return nil, fmt.Errorf("producer snapshot: %d entries in %d bytes", n, len(rest))
	}
	all := make([]SnapshotEntry, 0, n)
	for ; len(rest) > 0; rest = rest[snapshotEntryLen:] {
		all = append(all, SnapshotEntry{
			ProducerID:            int64(binary.BigEndian.Uint64(rest)),
			Epoch:                 int16(binary.BigEndian.Uint16(rest[8:])),
			LastSequence:          int32(binary.BigEndian.Uint32(rest[10:])),
			LastOffset:            int64(binary.BigEndian.Uint64(rest[14:])),
			OffsetDelta:           int32(binary.BigEndian.Uint32(rest[22:])),
			Timestamp:             int64(binary.BigEndian.Uint64(rest[26:])),
			CoordinatorEpoch:      int32(binary.BigEndian.Uint32(rest[34:])),
			CurrentTxnFirstOffset: int64(binary.BigEndian.Uint64(rest[38:])),
		})
	}
	return all, nil
}
