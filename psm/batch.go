package psm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// HeaderSize is the size in bytes of a record batch's header, version 2:
// what comes before the first record.
const HeaderSize = 61

// sizePrefix is what the batch length does not count: base offset and length.
const sizePrefix = 12

// Attributes are the attribute bits of a record batch.
type Attributes int16

// The attribute bits of a record batch, version 2.
const (
	compressionMask   Attributes = 0x07
	attrLogAppendTime Attributes = 0x08
	attrTransactional Attributes = 0x10
	attrControl       Attributes = 0x20
)

// Compression is the codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
func (a Attributes) Compression() int8 { return int8(a & compressionMask) }

// LogAppendTime says that the broker set the timestamps.
func (a Attributes) LogAppendTime() bool { return a&attrLogAppendTime != 0 }

// Transactional says that the batch belongs to a transaction.
func (a Attributes) Transactional() bool { return a&attrTransactional != 0 }

// Control says that the batch holds a control record.
func (a Attributes) Control() bool { return a&attrControl != 0 }

// Batch is the header of a record batch of version 2, with its control record
// if it has one. Producer id, epoch and base sequence are -1 where absent.
type Batch struct {
	BaseOffset, LastOffset int64
	// BaseTimestamp and MaxTimestamp are in ms.
	BaseTimestamp, MaxTimestamp int64
	ProducerID                  int64
	// Size is that of the whole batch in bytes.
	Size          int
	LeaderEpoch   int32
	CRC           uint32
	BaseSequence  int32
	Count         int32
	ProducerEpoch int16
	Attributes    Attributes
	Magic         int8
	// Control is the first record of a control batch; its Type is
	// [ControlNone] in any other batch and in an emptied control batch.
	Control Control
}

// Transactional says that the batch belongs to a transaction.
func (b *Batch) Transactional() bool { return b.Attributes.Transactional() }

// IsControl says that the batch is a control batch.
func (b *Batch) IsControl() bool { return b.Attributes.Control() }

// HasProducerID says that the batch has a producer id. Negative ids are none.
func (b *Batch) HasProducerID() bool { return b.ProducerID >= 0 }

// IsBarrier says that the batch is a MIRROR_PID_RESET.
func (b *Batch) IsBarrier() bool {
	return b.Attributes.Control() && b.Control.Type == ControlMirrorPIDReset
}

// LastSequence is the sequence of the last record, -1 without sequences.
func (b *Batch) LastSequence() int32 {
	if b.BaseSequence == -1 {
		return -1
	}
	return AddSequence(b.BaseSequence, int32(b.LastOffset-b.BaseOffset))
}

// AddSequence is seq moved on by n >= 0; after 2147483647 comes 0.
func AddSequence(seq, n int32) int32 {
	if seq > math.MaxInt32-n {
		return n - (math.MaxInt32 - seq) - 1
	}
	return seq + n
}

// SubSequence is seq moved back by n >= 0; before 0 comes 2147483647.
func SubSequence(seq, n int32) int32 {
	if seq < n {
		return math.MaxInt32 - (n - seq) + 1
	}
	return seq - n
}

// DecodeHeader reads the header of the batch that p begins with. It needs
// [HeaderSize] bytes, and does not read records: Control.Type is
// [ControlNone]. Errors wrap [ErrShort], [ErrMagic] or [ErrCorrupt].
func DecodeHeader(p []byte) (Batch, error) {
	var b Batch
	err := decodeHeader(&b, p)
	return b, err
}

func decodeHeader(b *Batch, p []byte) error {
	if len(p) > 16 && p[16] != 2 {
		return fmt.Errorf("record batch: %w %d", ErrMagic, int8(p[16]))
	}
	if len(p) < HeaderSize {
		return fmt.Errorf("record batch header: %w: %d of %d", ErrShort, len(p), HeaderSize)
	}
	p = p[:HeaderSize:HeaderSize]
	length := int32(binary.BigEndian.Uint32(p[8:]))
	delta := int32(binary.BigEndian.Uint32(p[23:]))
	base := int64(binary.BigEndian.Uint64(p))
	count := int32(binary.BigEndian.Uint32(p[57:]))
	if length < HeaderSize-sizePrefix || length > math.MaxInt32-sizePrefix || delta < 0 || base < 0 || base > math.MaxInt64-int64(delta)-1 || count < 0 {
		return fmt.Errorf("record batch at offset %d: %w: length %d, last offset delta %d, record count %d",
			base, ErrCorrupt, length, delta, count)
	}
	*b = Batch{
		BaseOffset:    base,
		LastOffset:    base + int64(delta),
		Size:          int(length) + sizePrefix,
		LeaderEpoch:   int32(binary.BigEndian.Uint32(p[12:])),
		Magic:         2,
		CRC:           binary.BigEndian.Uint32(p[17:]),
		Attributes:    Attributes(binary.BigEndian.Uint16(p[21:])),
		BaseTimestamp: int64(binary.BigEndian.Uint64(p[27:])),
		MaxTimestamp:  int64(binary.BigEndian.Uint64(p[35:])),
		ProducerID:    int64(binary.BigEndian.Uint64(p[43:])),
		ProducerEpoch: int16(binary.BigEndian.Uint16(p[51:])),
		BaseSequence:  int32(binary.BigEndian.Uint32(p[53:])),
		Count:         count,
		Control:       Control{Type: ControlNone},
	}
	return nil
}

// DecodeBatch reads the header of the batch that p begins with and, of a
// control batch, its first record. It allocates only for a barrier (the
// cluster id). It does not check the CRC: see [CheckCRC].
func DecodeBatch(p []byte) (Batch, error) {
	var b Batch
	if err := decodeHeader(&b, p); err != nil {
		return Batch{}, err
	}
	if len(p) < b.Size {
		return Batch{}, fmt.Errorf("record batch at offset %d: %w: %d of %d", b.BaseOffset, ErrShort, len(p), b.Size)
	}
	if b.Attributes.Control() {
		c, err := decodeControlBatch(&b, p[HeaderSize:b.Size])
		if err != nil {
			return Batch{}, fmt.Errorf("control batch at offset %d: %w", b.BaseOffset, err)
		}
		b.Control = c
	}
	return b, nil
}

// castagnoli is the polynomial of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckCRC says whether the batch that p begins with is whole and its
// checksum right. Errors wrap [ErrShort], [ErrMagic] or [ErrCorrupt].
func CheckCRC(p []byte) error {
	var b Batch
	if err := decodeHeader(&b, p); err != nil {
		return err
	}
	if len(p) < b.Size {
		return fmt.Errorf("record batch at offset %d: %w: %d of %d", b.BaseOffset, ErrShort, len(p), b.Size)
	}
	if got := crc32.Checksum(p[21:b.Size], castagnoli); got != b.CRC {
		return fmt.Errorf("record batch at offset %d: %w: crc %08x, content has %08x", b.BaseOffset, ErrCorrupt, b.CRC, got)
	}
	return nil
}

// SetOffsets writes base offset and leader epoch into the batch that p begins
// with, as a leader does on append. Both lie outside the CRC. p must hold a
// batch header.
func SetOffsets(p []byte, baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(p, uint64(baseOffset))
	binary.BigEndian.PutUint32(p[12:], uint32(leaderEpoch))
}
