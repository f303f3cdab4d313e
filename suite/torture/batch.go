package torture

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/wirelog"
)

const (
	headerLen         = 61 // of a record batch, magic 2, in bytes
	prefixLen         = 12 // what comes before the bytes that its length counts
	attrTransactional = 1 << 4
)

// producer is who a batch is of; id -1 for nobody.
type producer struct {
	id       int64
	epoch    int16
	sequence int32
}

var nobody = producer{-1, -1, -1}

// encode makes a batch of records whose values begin with their names.
func encode(names []string, p producer, transactional bool, padding int, timestamp int64) []byte {
	return encodeKeyed(names, "", p, transactional, padding, timestamp)
}

// encodeKeyed makes a batch whose records have one key, or, where that is "",
// each its name.
func encodeKeyed(names []string, key string, p producer, transactional bool, padding int, timestamp int64) []byte {
	var records []byte
	for i, name := range names {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte(cmp.Or(key, name)), Value: []byte(name + " " + strings.Repeat("-", padding))}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // of what follows its own varint
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{
		Length: int32(headerLen - prefixLen + len(records)), PartitionLeaderEpoch: -1, Magic: 2,
		LastOffsetDelta: int32(len(names) - 1), FirstTimestamp: timestamp, MaxTimestamp: timestamp,
		ProducerID: p.id, ProducerEpoch: p.epoch, FirstSequence: p.sequence, NumRecords: int32(len(names)), Records: records,
	}
	if transactional {
		b.Attributes |= attrTransactional
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// entriesOf reads what batches hold, from offset on. A torn batch at the end is
// left out where a fetch may leave one.
func entriesOf(raw []byte, from int64) ([]entry, error) {
	var out []entry
	for len(raw) > 0 {
		b, err := wirelog.ParseBatch(raw)
		if err != nil {
			return out, err
		}
		raw = raw[len(b.Raw):]
		if !b.CRCValid {
			return out, fmt.Errorf("batch at offset %d: wrong checksum", b.BaseOffset)
		}
		these, err := entriesIn(&b)
		if err != nil {
			return out, err
		}
		for _, e := range these {
			if e.Offset >= from {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

func entriesIn(b *wirelog.Batch) ([]entry, error) {
	if b.IsControl() {
		c, err := b.Control()
		if err != nil {
			return nil, err
		}
		e := entry{
			Offset: b.BaseOffset, Text: fmt.Sprintf("!%s of %d/%d at %d", c.Type, b.ProducerID, b.ProducerEpoch, b.BaseOffset),
			producer: b.ProducerID, epoch: b.ProducerEpoch, marker: true, commit: c.Type == wirelog.Commit,
		}
		return []entry{e}, nil
	}
	records, err := b.Records()
	if err != nil {
		return nil, err
	}
	out := make([]entry, 0, len(records))
	for _, r := range records {
		name, _, _ := strings.Cut(string(r.Value), " ")
		out = append(out, entry{
			Offset: r.Offset, Text: name, producer: b.ProducerID, epoch: b.ProducerEpoch, transactional: b.IsTransactional(),
		})
	}
	return out, nil
}
