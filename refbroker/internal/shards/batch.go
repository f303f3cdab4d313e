package shards

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
)

// The fixed part of a batch header (message format v2).
const (
	batchHeader     = 61
	batchLengthAt   = 8
	batchLengthBase = 12
	batchCRCAt      = 17
	batchAttrsAt    = 21
)

// The attributes of a batch.
const (
	attrCompression   = 0x7
	attrTransactional = 0x10
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Producer is who writes a batch in a transaction.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer writes outside of transactions.
func NoProducer() Producer { return Producer{-1, -1} }

// Record is one record of a coordinator's log; a nil Value is a tombstone.
type Record struct{ Key, Value []byte }

// EncodeBatch is a batch of records, as a coordinator appends it: no sequence,
// offsets left to the log. With a producer it is transactional.
func EncodeBatch(timestamp int64, by Producer, records ...Record) []byte {
	var body []byte
	for i, r := range records {
		record := kmsg.Record{OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // less the varint of a length of 0
		body = record.AppendTo(body)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: timestamp, MaxTimestamp: timestamp, LastOffsetDelta: int32(len(records) - 1),
		ProducerID: by.ID, ProducerEpoch: by.Epoch, FirstSequence: -1, NumRecords: int32(len(records)), Records: body,
	}
	if by.ID >= 0 {
		batch.Attributes = attrTransactional
	}
	raw := batch.AppendTo(nil)
	SealBatch(raw)
	return raw
}

// SealBatch writes the length and the checksum of a batch, which is all of raw,
// into its header. What is shorter than a header is left alone.
func SealBatch(raw []byte) {
	if len(raw) < batchHeader {
		return
	}
	binary.BigEndian.PutUint32(raw[batchLengthAt:], uint32(len(raw)-batchLengthBase))
	binary.BigEndian.PutUint32(raw[batchCRCAt:], crc32.Checksum(raw[batchAttrsAt:], castagnoli))
}

// Visitor takes what a log holds, in its order.
type Visitor struct {
	// Record is one record; producer is -1 outside a transaction.
	Record func(offset, producer int64, key, value []byte) error
	// Marker ends a producer's transaction; without it control batches are
	// passed over.
	Marker func(producer int64, commit bool)
}

var errCompressed = errors.New("compressed batches are not written by coordinators")

// DecodeBatches visits the whole batches in raw, and returns the offset after
// the last of them, or -1 when there is none. Keys and values alias raw.
// Batches below from were visited before.
func DecodeBatches(raw []byte, from int64, v Visitor) (next int64, err error) {
	next = -1
	for len(raw) >= batchHeader {
		r := kbin.Reader{Src: raw}
		base := r.Int64()
		size := int64(r.Int32()) + batchLengthBase
		if size < batchHeader || size > int64(len(raw)) {
			return next, fmt.Errorf("batch at offset %d: length %d does not fit into %d bytes", base, size, len(raw))
		}
		one := raw[:size]
		var b kmsg.RecordBatch
		if err := b.ReadFrom(one); err != nil {
			return next, fmt.Errorf("batch at offset %d: %w", base, err)
		}
		if got := crc32.Checksum(one[batchAttrsAt:], castagnoli); uint32(b.CRC) != got {
			return next, fmt.Errorf("batch at offset %d: CRC is %08x, header says %08x", base, got, uint32(b.CRC))
		}
		raw = raw[size:]
		after := base + int64(b.LastOffsetDelta) + 1
		if after > from {
			if err := v.batch(one, &b, base); err != nil {
				return next, fmt.Errorf("batch at offset %d: %w", base, err)
			}
		}
		next = after
	}
	return next, nil
}

func (v Visitor) batch(raw []byte, b *kmsg.RecordBatch, base int64) error {
	if b.Attributes&attrControl != 0 {
		if v.Marker == nil {
			return nil
		}
		got, err := psm.DecodeBatch(raw)
		if err != nil {
			return err
		}
		switch got.Control.Type {
		case psm.ControlCommit, psm.ControlAbort:
			v.Marker(got.ProducerID, got.Control.Type == psm.ControlCommit)
		}
		return nil
	}
	if b.Attributes&attrCompression != 0 {
		return errCompressed
	}
	producer := int64(-1)
	if b.Attributes&attrTransactional != 0 {
		producer = b.ProducerID
	}
	records := kbin.Reader{Src: b.Records}
	for range b.NumRecords {
		record := kbin.Reader{Src: records.Span(int(records.Varint()))}
		record.Int8()
		record.Varlong()
		delta := record.Varint()
		key, value := record.VarintBytes(), record.VarintBytes()
		if !records.Ok() || !record.Ok() {
			return kbin.ErrNotEnoughData
		}
		if err := v.Record(base+int64(delta), producer, key, value); err != nil {
			return err
		}
	}
	return nil
}
