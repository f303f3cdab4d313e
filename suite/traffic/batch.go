package traffic

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/history"
)

const (
	// headerLen is the length of a record batch's header in bytes, magic 2.
	headerLen = 61
	// prefixLen is what comes before the bytes that a batch's length counts.
	prefixLen = 12

	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

// Batch is what a raw producer writes as one record batch.
type Batch struct {
	ID            history.BatchID // ProducerID -1, Epoch -1, BaseSequence -1 for plain records
	Transactional bool
	// Timestamp of all its records, in ms since 1970.
	Timestamp int64
	// First is the first record's tag; record i carries First.Add(i).
	First history.Tag
	Count int32
	// Payload follows the tag in every record's value.
	Payload []byte
}

// PlainID is the batch id of records without a producer id.
var PlainID = history.BatchID{ProducerID: -1, Epoch: -1, BaseSequence: -1}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the batch as it goes into a Produce request: magic 2,
// uncompressed, with base offset 0 and leader epoch -1.
func (b *Batch) Encode() []byte {
	var records []byte
	for i := range b.Count {
		tag := b.First.Add(int64(i))
		r := kmsg.Record{
			OffsetDelta: i,
			Key:         []byte(tag.Place),
			Value:       tag.Value(b.Payload),
			Headers:     []kmsg.Header{{Key: history.HeaderKey, Value: []byte(tag.String())}},
		}
		// A record's length counts what follows its own varint, which takes
		// one byte while it is 0.
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	rb := kmsg.RecordBatch{
		Length:               int32(headerLen - prefixLen + len(records)),
		PartitionLeaderEpoch: -1,
		Magic:                2,
		LastOffsetDelta:      b.Count - 1,
		FirstTimestamp:       b.Timestamp,
		MaxTimestamp:         b.Timestamp,
		ProducerID:           b.ID.ProducerID,
		ProducerEpoch:        b.ID.Epoch,
		FirstSequence:        b.ID.BaseSequence,
		NumRecords:           b.Count,
		Records:              records,
	}
	if b.Transactional {
		rb.Attributes |= attrTransactional
	}
	raw := rb.AppendTo(nil)
	// The checksum covers the attributes and all that follows.
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// Header is what the header of a stored batch says.
type Header struct {
	BaseOffset    int64
	LastOffset    int64
	LeaderEpoch   int32
	ID            history.BatchID
	Count         int32
	Transactional bool
	Control       bool
}

// Headers reads the headers of the whole batches in raw, the record set of a
// Fetch answer; a partial batch at the end is left out, as it is legal there.
func Headers(raw []byte) ([]Header, error) {
	var all []Header
	for len(raw) >= headerLen {
		n := int64(int32(binary.BigEndian.Uint32(raw[8:]))) + prefixLen
		if n < headerLen {
			return all, fmt.Errorf("batch at offset %d: length %d is shorter than a header",
				int64(binary.BigEndian.Uint64(raw)), n-prefixLen)
		}
		if n > int64(len(raw)) {
			break
		}
		var rb kmsg.RecordBatch
		if err := rb.ReadFrom(raw[:n]); err != nil {
			return all, fmt.Errorf("batch at offset %d: %w", int64(binary.BigEndian.Uint64(raw)), err)
		}
		if rb.Magic != 2 {
			return all, fmt.Errorf("batch at offset %d: magic %d, want 2", rb.FirstOffset, rb.Magic)
		}
		all = append(all, Header{
			BaseOffset:  rb.FirstOffset,
			LastOffset:  rb.FirstOffset + int64(rb.LastOffsetDelta),
			LeaderEpoch: rb.PartitionLeaderEpoch,
			ID: history.BatchID{
				ProducerID: rb.ProducerID, Epoch: rb.ProducerEpoch, BaseSequence: rb.FirstSequence,
			},
			Count:         rb.NumRecords,
			Transactional: rb.Attributes&attrTransactional != 0,
			Control:       rb.Attributes&attrControl != 0,
		})
		raw = raw[n:]
	}
	return all, nil
}
