package broker

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/storage"
	"watershed.example/refbroker/internal/wire"
)

// fetchResponse is a FetchResponse whose records are not copied: they lie in
// buffers of their own, or are still in the log's files.
type fetchResponse struct {
	*kmsg.FetchResponse
	// sections has those of partitions that have no RecordBatches, by their
	// place among all partitions.
	sections map[int]*storage.Section
}

// inline is how many bytes of records are rather copied than sent from a buffer
// of their own.
const inline = 8 << 10

// Pieces implements [wire.PiecedResponse].
func (r *fetchResponse) Pieces(b []byte) []wire.Piece {
	var all []wire.Piece
	flexible := r.Version >= 12
	array := func(n int) {
		if flexible {
			b = kbin.AppendCompactArrayLen(b, n)
			return
		}
		b = kbin.AppendArrayLen(b, n)
	}
	b = kbin.AppendInt32(b, r.ThrottleMillis)
	if r.Version >= 7 {
		b = kbin.AppendInt16(b, r.ErrorCode)
		b = kbin.AppendInt32(b, r.SessionID)
	}
	array(len(r.Topics))
	place := 0
	for i := range r.Topics {
		t := &r.Topics[i]
		switch {
		case r.Version >= 13:
			b = kbin.AppendUuid(b, t.TopicID)
		case flexible:
			b = kbin.AppendCompactString(b, t.Topic)
		default:
			b = kbin.AppendString(b, t.Topic)
		}
		array(len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			section := r.sections[place]
			place++
			size := len(p.RecordBatches)
			if section != nil {
				size = int(section.Size())
			}
			b = r.appendHead(b, p, size)
			switch {
			case section != nil:
				all = append(all, wire.Piece{Bytes: b}, wire.Piece{Lent: section})
				b = nil
			case size <= inline:
				b = append(b, p.RecordBatches...)
			default:
				all = append(all, wire.Piece{Bytes: b}, wire.Piece{Bytes: p.RecordBatches})
				b = nil
			}
			if flexible {
				b = appendFetchTags(b, p)
			}
		}
		if flexible {
			b = t.UnknownTags.AppendEach(kbin.AppendUvarint(b, uint32(t.UnknownTags.Len())))
		}
	}
	if flexible {
		b = r.appendTags(b)
	}
	return append(all, wire.Piece{Bytes: b})
}

// appendTags is the response's tagged fields: where the leaders are that it names
// (KIP-951).
func (r *fetchResponse) appendTags(b []byte) []byte {
	if len(r.Brokers) == 0 {
		return r.UnknownTags.AppendEach(kbin.AppendUvarint(b, uint32(r.UnknownTags.Len())))
	}
	b = kbin.AppendUvarint(b, uint32(r.UnknownTags.Len()+1))
	brokers := kbin.AppendCompactArrayLen(nil, len(r.Brokers))
	for _, n := range r.Brokers {
		brokers = kbin.AppendCompactString(kbin.AppendInt32(brokers, n.NodeID), n.Host)
		brokers = append(kbin.AppendCompactNullableString(kbin.AppendInt32(brokers, n.Port), n.Rack), 0)
	}
	b = kbin.AppendUvarint(append(b, 0), uint32(len(brokers)))
	return r.UnknownTags.AppendEach(append(b, brokers...))
}

// appendHead is a partition up to and with the length of its records.
func (r *fetchResponse) appendHead(b []byte, p *kmsg.FetchResponseTopicPartition, size int) []byte {
	flexible := r.Version >= 12
	b = kbin.AppendInt32(b, p.Partition)
	b = kbin.AppendInt16(b, p.ErrorCode)
	b = kbin.AppendInt64(b, p.HighWatermark)
	b = kbin.AppendInt64(b, p.LastStableOffset)
	if r.Version >= 5 {
		b = kbin.AppendInt64(b, p.LogStartOffset)
	}
	if flexible {
		b = kbin.AppendCompactNullableArrayLen(b, len(p.AbortedTransactions), p.AbortedTransactions == nil)
	} else {
		b = kbin.AppendNullableArrayLen(b, len(p.AbortedTransactions), p.AbortedTransactions == nil)
	}
	for _, a := range p.AbortedTransactions {
		b = kbin.AppendInt64(b, a.ProducerID)
		b = kbin.AppendInt64(b, a.FirstOffset)
		if flexible {
			b = append(b, 0)
		}
	}
	if r.Version >= 11 {
		b = kbin.AppendInt32(b, p.PreferredReadReplica)
	}
	if flexible {
		return kbin.AppendUvarint(b, uint32(size+1))
	}
	return kbin.AppendInt32(b, int32(size))
}

// appendFetchTags is a partition's tagged fields: the diverging epoch (KIP-595)
// and the leader (KIP-951), where they are set.
func appendFetchTags(b []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	diverges := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	leader := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	count := p.UnknownTags.Len()
	for _, set := range []bool{diverges, leader} {
		if set {
			count++
		}
	}
	b = kbin.AppendUvarint(b, uint32(count))
	if diverges {
		b = append(b, 0, 4+8+1)
		b = kbin.AppendInt32(b, p.DivergingEpoch.Epoch)
		b = append(kbin.AppendInt64(b, p.DivergingEpoch.EndOffset), 0)
	}
	if leader {
		b = append(b, 1, 4+4+1)
		b = kbin.AppendInt32(b, p.CurrentLeader.LeaderID)
		b = append(kbin.AppendInt32(b, p.CurrentLeader.LeaderEpoch), 0)
	}
	return p.UnknownTags.AppendEach(b)
}
