package storage

import (
	"encoding/binary"
	"fmt"

	"watershed.example/psm"
)

// record is a record of a batch, as far as the broker looks into it.
type record struct {
	offset int64
	// timestamp is the record's own; with LogAppendTime the batch's counts.
	timestamp int64
	key       []byte // nil: none
	tombstone bool   // no value
	// raw is the whole record without its length; rest what follows the
	// timestamp delta.
	raw, rest []byte
}

// eachRecord goes through the records of batch b, whose records are
// decompressed. What it hands out is valid during the call.
func eachRecord(b *psm.Batch, records []byte, each func(*record) error) error {
	bad := func(what string) error {
		return fmt.Errorf("batch at offset %d: bad %s of a record", b.BaseOffset, what)
	}
	for range b.Count {
		size, n := binary.Varint(records)
		if n <= 0 || size < 1 || size > int64(len(records)-n) {
			return fmt.Errorf("batch at offset %d: record of %d bytes, %d left", b.BaseOffset, size, len(records))
		}
		r := record{raw: records[n : n+int(size)]}
		records = records[n+int(size):]
		delta, n := binary.Varint(r.raw[1:])
		if n <= 0 {
			return bad("timestamp")
		}
		r.timestamp, r.rest = b.BaseTimestamp+delta, r.raw[1+n:]
		offset, n := binary.Varint(r.rest)
		if n <= 0 || offset < 0 || offset > b.LastOffset-b.BaseOffset {
			return bad("offset")
		}
		r.offset = b.BaseOffset + offset
		key, rest, ok := recordField(r.rest[n:])
		if !ok {
			return bad("key")
		}
		r.key = key
		value, _, ok := recordField(rest)
		if !ok {
			return bad("value")
		}
		r.tombstone = value == nil
		if err := each(&r); err != nil {
			return err
		}
	}
	return nil
}

// recordField reads a key or value: its length, -1 for none, and its bytes.
func recordField(p []byte) (data, rest []byte, ok bool) {
	size, n := binary.Varint(p)
	switch {
	case n <= 0 || size < -1 || size > int64(len(p)-n):
		return nil, nil, false
	case size < 0:
		return nil, p[n:], true
	}
	end := n + int(size)
	return p[n:end:end], p[end:], true
}

// appendRecord appends a record with another timestamp delta.
func appendRecord(dst []byte, r *record, delta int64) []byte {
	var varint [binary.MaxVarintLen64]byte
	n := binary.PutVarint(varint[:], delta)
	dst = binary.AppendVarint(dst, int64(1+n+len(r.rest)))
	dst = append(dst, r.raw[0])
	dst = append(dst, varint[:n]...)
	return append(dst, r.rest...)
}

// Decompress undoes a batch's compression: codec as in its attributes.
type Decompress func(src []byte, codec int8) ([]byte, error)

// Compress compresses records with the codec of a batch's attributes.
type Compress func(src []byte, codec int8) ([]byte, error)

// recordsOf are a batch's records, decompressed.
func recordsOf(b *psm.Batch, raw []byte, decompress Decompress) ([]byte, error) {
	records := raw[psm.HeaderSize:b.Size]
	codec := b.Attributes.Compression()
	if codec == 0 || b.Count == 0 {
		return records, nil
	}
	out, err := decompress(records, codec)
	if err != nil {
		return nil, fmt.Errorf("batch at offset %d: decompress with codec %d: %w", b.BaseOffset, codec, err)
	}
	return out, nil
}

// Keyless lists the records of a batch that have no key, by their place in it.
func Keyless(raw []byte, decompress Decompress) (places []int32, err error) {
	b, err := psm.DecodeHeader(raw)
	if err != nil || b.IsControl() {
		return nil, err
	}
	if b.Size > len(raw) {
		return nil, psm.ErrShort
	}
	records, err := recordsOf(&b, raw, decompress)
	if err != nil {
		return nil, err
	}
	place := int32(0)
	err = eachRecord(&b, records, func(r *record) error {
		if r.key == nil {
			places = append(places, place)
		}
		place++
		return nil
	})
	return places, err
}
