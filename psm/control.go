package psm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// ControlType is the type in a control record's key.
type ControlType int16

// The control records that producer state knows. Others exist (the quorum's)
// and are passed over.
const (
	ControlNone           ControlType = -1
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlMirrorPIDReset ControlType = 7
)

// String is the type's name in Kafka's dump format.
func (t ControlType) String() string {
	switch t {
	case ControlNone:
		return "NONE"
	case ControlAbort:
		return "ABORT"
	case ControlCommit:
		return "COMMIT"
	case ControlMirrorPIDReset:
		return "MIRROR_PID_RESET"
	}
	return fmt.Sprintf("UNKNOWN(%d)", int16(t))
}

// Control is the first record of a control batch.
type Control struct {
	Type ControlType
	// Version is the value's version field.
	Version int16
	// CoordinatorEpoch is set for ABORT and COMMIT.
	CoordinatorEpoch int32
	// Timestamp is the record's own, in ms.
	Timestamp int64
	// SourceClusterID is set for MIRROR_PID_RESET: the cluster that was
	// mirrored.
	SourceClusterID string
}

// uvarint reads an unsigned varint of at most 32 bits.
func uvarint(p []byte) (uint32, []byte, bool) {
	var v uint32
	for i := 0; i < len(p) && i < 5; i++ {
		c := p[i]
		if i == 4 && c > 0x0f {
			return 0, nil, false
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, p[i+1:], true
		}
	}
	return 0, nil, false
}

func varint(p []byte) (int32, []byte, bool) {
	u, rest, ok := uvarint(p)
	return int32(u>>1) ^ -int32(u&1), rest, ok
}

func varlong(p []byte) (int64, []byte, bool) {
	v, n := binary.Varint(p)
	if n <= 0 {
		return 0, nil, false
	}
	return v, p[n:], true
}

// field reads a record's key or value: a zigzag length (-1 for null), bytes.
func field(p []byte) (data, rest []byte, ok bool) {
	n, p, ok := varint(p)
	if !ok || n < -1 || int64(n) > int64(len(p)) {
		return nil, nil, false
	}
	if n == -1 {
		return nil, p, true
	}
	return p[:n], p[n:], true
}

// decodeControlBatch reads the first record among the records of control
// batch b. An emptied batch (by the log cleaner) has none.
func decodeControlBatch(b *Batch, records []byte) (Control, error) {
	none := Control{Type: ControlNone}
	if b.Count == 0 {
		return none, nil
	}
	if c := b.Attributes.Compression(); c != 0 {
		return none, fmt.Errorf("%w: compressed with codec %d", ErrCorrupt, c)
	}
	bad := func(what string) (Control, error) {
		return none, fmt.Errorf("%w: bad %s of the first record", ErrCorrupt, what)
	}
	n, p, ok := varint(records)
	if !ok || n < 0 || int64(n) > int64(len(p)) {
		return bad("length")
	}
	p = p[:n]
	if len(p) < 1 {
		return bad("attributes")
	}
	tsDelta, p, ok := varlong(p[1:])
	if !ok {
		return bad("timestamp delta")
	}
	_, p, ok = varint(p)
	if !ok {
		return bad("offset delta")
	}
	key, p, ok := field(p)
	if !ok {
		return bad("key")
	}
	value, _, ok := field(p)
	if !ok {
		return bad("value")
	}
	c, err := DecodeControlRecord(key, value)
	if err != nil {
		return none, err
	}
	c.Timestamp = b.BaseTimestamp + tsDelta
	if b.Attributes.LogAppendTime() {
		c.Timestamp = b.MaxTimestamp
	}
	return c, nil
}

// DecodeControlRecord reads key and value of a control record. Types that
// producer state does not know are not an error, nor is data after the known
// fields (BAR-2). Errors wrap [ErrCorrupt].
func DecodeControlRecord(key, value []byte) (Control, error) {
	c := Control{Type: ControlNone}
	if len(key) < 4 {
		return c, fmt.Errorf("control record key: %w: %d bytes", ErrCorrupt, len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return c, fmt.Errorf("control record key: %w: version %d", ErrCorrupt, v)
	}
	t := ControlType(binary.BigEndian.Uint16(key[2:]))
	c.Type = t
	switch t {
	case ControlAbort, ControlCommit:
		if len(value) < 6 {
			return Control{Type: ControlNone}, fmt.Errorf("%s marker: %w: value of %d bytes", t, ErrCorrupt, len(value))
		}
		c.Version = int16(binary.BigEndian.Uint16(value))
		c.CoordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	case ControlMirrorPIDReset:
		if len(value) < 3 {
			return Control{Type: ControlNone}, fmt.Errorf("%s: %w: value of %d bytes", t, ErrCorrupt, len(value))
		}
		c.Version = int16(binary.BigEndian.Uint16(value))
		n, rest, ok := uvarint(value[2:])
		if !ok || n == 0 || int64(n)-1 > int64(len(rest)) {
			return Control{Type: ControlNone}, fmt.Errorf("%s: %w: bad source cluster id", t, ErrCorrupt)
		}
		c.SourceClusterID = string(rest[:n-1])
	default:
		return c, nil
	}
	if c.Version < 0 {
		return Control{Type: ControlNone}, fmt.Errorf("%s: %w: version %d", t, ErrCorrupt, c.Version)
	}
	return c, nil
}

// EndTxnMarker is what an end-transaction marker says.
type EndTxnMarker struct {
	BaseOffset       int64
	LeaderEpoch      int32
	Timestamp        int64 // ms
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Commit           bool
	// LogAppendTime marks the timestamp as the broker's (a topic with
	// message.timestamp.type=LogAppendTime).
	LogAppendTime bool
}

// Append appends the marker as a complete control batch to dst.
func (m EndTxnMarker) Append(dst []byte) []byte {
	t := ControlAbort
	if m.Commit {
		t = ControlCommit
	}
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch))
	attrs := attrControl | attrTransactional
	if m.LogAppendTime {
		attrs |= attrLogAppendTime
	}
	return appendControlBatch(dst, Batch{
		BaseOffset: m.BaseOffset, LeaderEpoch: m.LeaderEpoch, BaseTimestamp: m.Timestamp,
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, Attributes: attrs,
	}, t, value)
}

// Barrier is what a MIRROR_PID_RESET batch says (KIP-1279): the producers
// before it are no longer known.
type Barrier struct {
	BaseOffset      int64
	LeaderEpoch     int32
	Timestamp       int64 // ms
	SourceClusterID string
	// LogAppendTime as in [EndTxnMarker].
	LogAppendTime bool
}

// Append appends the barrier as a complete control batch to dst.
func (r Barrier) Append(dst []byte) []byte {
	value := binary.AppendUvarint([]byte{0, 0}, uint64(len(r.SourceClusterID))+1)
	value = append(value, r.SourceClusterID...)
	value = append(value, 0) // no tagged fields
	attrs := attrControl
	if r.LogAppendTime {
		attrs |= attrLogAppendTime
	}
	return appendControlBatch(dst, Batch{
		BaseOffset: r.BaseOffset, LeaderEpoch: r.LeaderEpoch, BaseTimestamp: r.Timestamp,
		ProducerID: -1, ProducerEpoch: -1, Attributes: attrs,
	}, ControlMirrorPIDReset, value)
}

// appendControlBatch appends a batch with h's header fields and one record.
func appendControlBatch(dst []byte, h Batch, t ControlType, value []byte) []byte {
	record := make([]byte, 0, 16+len(value))
	record = append(record, 0, 0, 0)             // attributes, timestamp delta, offset delta
	record = append(record, 8, 0, 0)             // key: 4 bytes; version 0
	record = append(record, byte(t>>8), byte(t)) // type
	record = binary.AppendVarint(record, int64(len(value)))
	record = append(record, value...)
	record = append(record, 0) // no headers
	length := binary.AppendVarint(nil, int64(len(record)))

	start := len(dst)
	be := binary.BigEndian
	dst = be.AppendUint64(dst, uint64(h.BaseOffset))
	dst = be.AppendUint32(dst, uint32(HeaderSize-sizePrefix+len(length)+len(record)))
	dst = be.AppendUint32(dst, uint32(h.LeaderEpoch))
	dst = append(dst, 2)
	dst = be.AppendUint32(dst, 0) // crc, below
	dst = be.AppendUint16(dst, uint16(h.Attributes))
	dst = be.AppendUint32(dst, 0) // last offset delta
	dst = be.AppendUint64(dst, uint64(h.BaseTimestamp))
	dst = be.AppendUint64(dst, uint64(h.BaseTimestamp))
	dst = be.AppendUint64(dst, uint64(h.ProducerID))
	dst = be.AppendUint16(dst, uint16(h.ProducerEpoch))
	dst = be.AppendUint32(dst, 0xffffffff) // base sequence
	dst = be.AppendUint32(dst, 1)
	dst = append(dst, length...)
	dst = append(dst, record...)
	be.PutUint32(dst[start+17:], crc32.Checksum(dst[start+21:], castagnoli))
	return dst
}
