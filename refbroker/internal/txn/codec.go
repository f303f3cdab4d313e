package txn

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/shards"
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

// encode is the batch that records t.
func encode(t Txn) []byte {
	return shards.EncodeBatch(t.UpdatedAt, shards.NoProducer(), shards.Record{Key: encodeKey(t.ID), Value: encodeValue(t)})
}
