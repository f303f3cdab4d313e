package txn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Tagged fields of ours in the flexible TransactionLogValue; Kafka skips tags
// that it does not know. The numbers are far from those that Kafka uses.
const (
	// tagLastEpoch holds Txn.LastEpoch, which Kafka forgets when a coordinator
	// moves (KAFKA-20357).
	tagLastEpoch uint32 = 1279
	// tagDebts holds Txn.Debts.
	tagDebts uint32 = 1280
)

const (
	keyVersion   int16 = 0
	valueVersion int16 = 1
)

// encodeKey is the key of a transactional id's records (TransactionLogKey).
func encodeKey(id string) []byte {
	k := kmsg.TxnMetadataKey{Version: keyVersion, TransactionalID: id}
	return k.AppendTo(nil)
}

// encodeValue is t as TransactionLogValue version 1; nil, a tombstone, for a
// transactional id that is dead.
func encodeValue(t Txn) []byte {
	if t.State == Dead {
		return nil
	}
	v := kmsg.NewTxnMetadataValue()
	v.Version = valueVersion
	v.ProducerID, v.ProducerEpoch = t.ProducerID, t.Epoch
	v.TimeoutMillis = t.TimeoutMillis
	v.State = kmsg.TransactionState(t.State)
	v.StartTimestamp, v.LastUpdateTimestamp = t.StartedAt, t.UpdatedAt
	v.PreviousProducerID, v.NextProducerID = t.PrevProducerID, t.NextProducerID
	v.ClientTransactionVersion = t.Version
	for _, p := range t.Partitions {
		if n := len(v.Topics); n > 0 && v.Topics[n-1].Topic == p.Topic {
			v.Topics[n-1].Partitions = append(v.Topics[n-1].Partitions, p.Index)
			continue
		}
		v.Topics = append(v.Topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic, Partitions: []int32{p.Index}})
	}
	if t.LastEpoch != noProducerEpoch {
		v.UnknownTags.Set(tagLastEpoch, kbin.AppendInt16(nil, t.LastEpoch))
	}
	if len(t.Debts) > 0 {
		v.UnknownTags.Set(tagDebts, encodeDebts(t.Debts))
	}
	return v.AppendTo(nil)
}

// decodeRecord reads one record of __transaction_state. ok is false for keys
// of a version that this coordinator does not know, which are skipped; a
// tombstone is a Txn in state Dead.
func decodeRecord(key, value []byte) (t Txn, ok bool, err error) {
	if len(key) < 2 {
		return Txn{}, false, fmt.Errorf("transaction state key of %d bytes is too short", len(key))
	}
	var k kmsg.TxnMetadataKey
	if version := (&kbin.Reader{Src: key}).Int16(); version != keyVersion {
		return Txn{}, false, nil
	}
	if err := k.ReadFrom(key); err != nil {
		return Txn{}, false, fmt.Errorf("transaction state key: %w", err)
	}
	if value == nil {
		return Txn{ID: k.TransactionalID, State: Dead}, true, nil
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return Txn{}, false, fmt.Errorf("transaction state value of %q: %w", k.TransactionalID, err)
	}
	t = Txn{
		ID: k.TransactionalID, ProducerID: v.ProducerID, Epoch: v.ProducerEpoch, LastEpoch: noProducerEpoch,
		PrevProducerID: v.PreviousProducerID, NextProducerID: v.NextProducerID, Version: v.ClientTransactionVersion,
		TimeoutMillis: v.TimeoutMillis, State: State(v.State), StartedAt: v.StartTimestamp, UpdatedAt: v.LastUpdateTimestamp,
	}
	if t.State < Empty || t.State > CompleteAbort {
		return Txn{}, false, fmt.Errorf("transaction state value of %q: state %s is never written", t.ID, t.State)
	}
	for _, topic := range v.Topics {
		for _, p := range topic.Partitions {
			t.Partitions = append(t.Partitions, Partition{topic.Topic, p})
		}
	}
	slices.SortFunc(t.Partitions, comparePartitions)
	t.Partitions = slices.Compact(t.Partitions)
	v.UnknownTags.Each(func(tag uint32, b []byte) {
		var tagErr error
		switch tag {
		case tagLastEpoch:
			r := kbin.Reader{Src: b}
			t.LastEpoch = r.Int16()
			tagErr = r.Complete()
		case tagDebts:
			t.Debts, tagErr = decodeDebts(b)
		}
		if tagErr != nil && err == nil {
			err = fmt.Errorf("transaction state value of %q, tag %d: %w", t.ID, tag, tagErr)
		}
	})
	return t, err == nil, err
}

func encodeDebts(debts []Debt) []byte {
	b := kbin.AppendUvarint(nil, uint32(len(debts)))
	for _, d := range debts {
		b = kbin.AppendCompactString(b, d.Partition.Topic)
		b = kbin.AppendInt32(b, d.Partition.Index)
		b = kbin.AppendInt64(b, d.ProducerID)
		b = kbin.AppendInt16(b, d.Epoch)
		b = kbin.AppendInt16(b, d.Version)
		b = kbin.AppendBool(b, d.Commit)
	}
	return b
}

func decodeDebts(b []byte) ([]Debt, error) {
	r := kbin.Reader{Src: b}
	var debts []Debt
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		debts = append(debts, Debt{
			Partition:  Partition{Topic: r.CompactString(), Index: r.Int32()},
			ProducerID: r.Int64(), Epoch: r.Int16(), Version: r.Int16(), Commit: r.Bool(),
		})
	}
	return debts, r.Complete()
}

// The fixed part of a batch header (message format v2).
const (
	batchHeader     = 61
	batchLengthAt   = 8
	batchCRCAt      = 17
	batchAttrsAt    = 21
	batchLengthBase = 12
)

// encodeBatch is a batch of one record, as a coordinator appends it: no
// producer id, offsets left to the log.
func encodeBatch(timestamp int64, key, value []byte) []byte {
	record := kmsg.Record{Key: key, Value: value}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: timestamp, MaxTimestamp: timestamp,
		ProducerID: noProducerID, ProducerEpoch: noProducerEpoch, FirstSequence: -1,
		NumRecords: 1, Records: record.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - batchLengthBase)
	batch.CRC = int32(castagnoli(raw[batchAttrsAt:]))
	return batch.AppendTo(nil)
}

var errCompressed = errors.New("compressed batches are not written by coordinators")

// decodeBatches calls visit for each record of the whole batches in raw, and
// returns the offset after the last of them, or -1 when there is none. Keys
// and values alias raw.
func decodeBatches(raw []byte, visit func(key, value []byte) error) (next int64, err error) {
	next = -1
	for len(raw) >= batchHeader {
		r := kbin.Reader{Src: raw}
		base := r.Int64()
		size := int(r.Int32()) + batchLengthBase
		if size < batchHeader || size > len(raw) {
			return next, fmt.Errorf("batch at offset %d: length %d does not fit into %d bytes", base, size, len(raw))
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(raw[:size]); err != nil {
			return next, fmt.Errorf("batch at offset %d: %w", base, err)
		}
		if got := castagnoli(raw[batchAttrsAt:size]); uint32(b.CRC) != got {
			return next, fmt.Errorf("batch at offset %d: CRC is %08x, header says %08x", base, got, uint32(b.CRC))
		}
		raw = raw[size:]
		next = base + int64(b.LastOffsetDelta) + 1
		const compression, control = 0x7, 0x20
		if b.Attributes&control != 0 {
			continue
		}
		if b.Attributes&compression != 0 {
			return next, fmt.Errorf("batch at offset %d: %w", base, errCompressed)
		}
		records := kbin.Reader{Src: b.Records}
		for range b.NumRecords {
			record := kbin.Reader{Src: records.Span(int(records.Varint()))}
			record.Int8()
			record.Varlong()
			record.Varint()
			key, value := record.VarintBytes(), record.VarintBytes()
			if !records.Ok() || !record.Ok() {
				return next, fmt.Errorf("batch at offset %d: %w", base, kbin.ErrNotEnoughData)
			}
			if err := visit(key, value); err != nil {
				return next, fmt.Errorf("batch at offset %d: %w", base, err)
			}
		}
	}
	return next, nil
}
