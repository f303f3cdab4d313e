package wirelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes and places within a record batch of magic 2 (KIP-98), in bytes.
const (
	overhead  = 12 // base offset and length, which the length doesn't count
	headerLen = 61
	crcFrom   = 21 // the CRC covers everything from the attributes on
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one record batch as it lies in a segment.
type Batch struct {
	// Raw is the whole batch, from its base offset to its last record's end, but
	// of a large one that a [Stream] reads only the beginning. It refers to the
	// segment's bytes: don't change it.
	Raw []byte
	// Segment is the file's name, Position the batch's place in it in bytes.
	Segment  string
	Position int64

	BaseOffset      int64
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	CRCValid        bool
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // milliseconds since 1970
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32

	unheld int64  // bytes of the batch behind Raw
	rest   uint64 // stands for them
}

// Size is the batch's size in bytes, whether Raw holds them all or not.
func (b *Batch) Size() int64 { return int64(len(b.Raw)) + b.unheld }

// SameFrom says whether two batches are of one size, and the same bytes from a place
// in the header or at its end on. What is not held is compared by a hash of 64 bits.
func (b *Batch) SameFrom(other *Batch, from int) bool {
	return b.Size() == other.Size() && b.rest == other.rest && bytes.Equal(b.Raw[from:], other.Raw[from:])
}

// LastOffset is the offset of the batch's last record (also when that record
// was compacted away).
func (b *Batch) LastOffset() int64 { return b.BaseOffset + int64(b.LastOffsetDelta) }

// NextOffset is the offset after the batch.
func (b *Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// IsTransactional says whether the batch belongs to a transaction.
func (b *Batch) IsTransactional() bool { return b.Attributes&0x10 != 0 }

// IsControl says whether the batch is for brokers and clients, not applications.
func (b *Batch) IsControl() bool { return b.Attributes&0x20 != 0 }

// Codec is the compression of the records.
func (b *Batch) Codec() Codec { return Codec(b.Attributes & 7) }

// LastSequence is the sequence number of the last record; it wraps after 2147483647.
func (b *Batch) LastSequence() int32 {
	if b.BaseSequence < 0 {
		return b.BaseSequence
	}
	return int32((int64(b.BaseSequence) + int64(b.LastOffsetDelta)) % (1 << 31))
}

// Body returns the bytes that a leader never rewrites when it appends a batch:
// from the attributes on, which are those the CRC covers.
func (b *Batch) Body() []byte { return b.Raw[crcFrom:] }

// ParseBatch decodes the batch at the start of data. The error says why there
// is none; [ErrShort] when data ends before the batch does.
func ParseBatch(data []byte) (Batch, error) {
	var b Batch
	if len(data) < overhead {
		return b, fmt.Errorf("%w: %d bytes, a batch starts with %d", ErrShort, len(data), overhead)
	}
	length := int64(int32(binary.BigEndian.Uint32(data[8:])))
	if length < headerLen-overhead {
		return b, fmt.Errorf("batch length %d is less than a header's %d", length, headerLen-overhead)
	}
	size := overhead + length
	if int64(len(data)) < size {
		return b, fmt.Errorf("%w: batch of %d bytes, %d are left", ErrShort, size, len(data))
	}
	raw := data[:size:size]
	b, err := parseHeader(raw)
	if err == nil {
		b.CRCValid = crc32.Checksum(raw[crcFrom:], castagnoli) == b.CRC
	}
	return b, err
}

// parseHeader decodes all but the checksum, which takes the whole batch.
func parseHeader(raw []byte) (Batch, error) {
	b := Batch{
		Raw:         raw,
		BaseOffset:  int64(binary.BigEndian.Uint64(raw)),
		LeaderEpoch: int32(binary.BigEndian.Uint32(raw[12:])),
		Magic:       int8(raw[16]),
	}
	if b.Magic != 2 {
		return b, fmt.Errorf("batch of magic %d, only 2 is read", b.Magic)
	}
	b.CRC = binary.BigEndian.Uint32(raw[17:])
	b.Attributes = int16(binary.BigEndian.Uint16(raw[21:]))
	b.LastOffsetDelta = int32(binary.BigEndian.Uint32(raw[23:]))
	b.BaseTimestamp = int64(binary.BigEndian.Uint64(raw[27:]))
	b.MaxTimestamp = int64(binary.BigEndian.Uint64(raw[35:]))
	b.ProducerID = int64(binary.BigEndian.Uint64(raw[43:]))
	b.ProducerEpoch = int16(binary.BigEndian.Uint16(raw[51:]))
	b.BaseSequence = int32(binary.BigEndian.Uint32(raw[53:]))
	b.Count = int32(binary.BigEndian.Uint32(raw[57:]))
	if b.BaseOffset < 0 || b.LastOffsetDelta < 0 {
		return b, fmt.Errorf("batch with base offset %d and last offset delta %d", b.BaseOffset, b.LastOffsetDelta)
	}
	return b, nil
}

// ErrShort says that the bytes end before the batch does.
var ErrShort = errors.New("bytes end within a batch")
