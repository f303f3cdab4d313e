package broker

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// whole is the response with the records in it.
func (r *fetchResponse) whole(t testing.TB) *kmsg.FetchResponse {
	place := 0
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if s := r.sections[place]; s != nil {
				var b bytes.Buffer
				_, err := s.WriteTo(&b)
				require.NoError(t, err)
				r.Topics[i].Partitions[j].RecordBatches = b.Bytes()
				s.Release()
			}
			place++
		}
	}
	return r.FetchResponse
}

// The pieces of a response are what kmsg makes of it, in every version.
func TestPiecesOfAFetchResponseAreItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var made []byte // what the records are cut from
		records := func() []byte {
			switch n := rapid.SampledFrom([]int{-1, 0, 1, 100, inline, inline + 1, 70_000}).Draw(t, "records"); {
			case n < 0:
				return []byte{}
			default:
				if len(made) == 0 {
					made = make([]byte, 100_000)
					for i := range made {
						made[i] = byte(i*7 + i/256)
					}
				}
				return made[:n]
			}
		}
		small := rapid.Int64Range(-1, 1<<40)
		r := kmsg.NewPtrFetchResponse()
		r.Version = int16(rapid.IntRange(4, 18).Draw(t, "version"))
		r.ErrorCode, r.SessionID = int16(rapid.IntRange(0, 90).Draw(t, "code")), int32(rapid.IntRange(0, 9).Draw(t, "session"))
		for range rapid.IntRange(0, 3).Draw(t, "topics") {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic = rapid.StringN(0, 200, 400).Draw(t, "topic")
			topic.TopicID[3] = rapid.Byte().Draw(t, "id")
			for range rapid.IntRange(0, 3).Draw(t, "partitions") {
				p := emptyFetch(int32(rapid.IntRange(0, 300).Draw(t, "partition")))
				p.ErrorCode = int16(rapid.IntRange(0, 90).Draw(t, "code"))
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset = small.Draw(t, "high"), small.Draw(t, "stable"), small.Draw(t, "start")
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = int32(rapid.IntRange(-1, 2).Draw(t, "epoch")), rapid.Int64Range(-1, 2).Draw(t, "end")
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(rapid.IntRange(-1, 2).Draw(t, "leader")), int32(rapid.IntRange(-1, 2).Draw(t, "of"))
				p.RecordBatches = records()
				if rapid.Bool().Draw(t, "committed") {
					p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
					for range rapid.IntRange(0, 3).Draw(t, "aborted") {
						a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
						a.ProducerID, a.FirstOffset = small.Draw(t, "producer"), small.Draw(t, "first")
						p.AbortedTransactions = append(p.AbortedTransactions, a)
					}
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			r.Topics = append(r.Topics, topic)
		}
		for range rapid.IntRange(0, 3).Draw(t, "brokers") {
			b := kmsg.NewFetchResponseBroker()
			b.NodeID, b.Port = int32(rapid.IntRange(0, 300).Draw(t, "node")), int32(rapid.IntRange(0, 65535).Draw(t, "port"))
			b.Host = rapid.StringN(0, 200, 400).Draw(t, "host")
			if rapid.Bool().Draw(t, "racked") {
				rack := rapid.StringN(0, 9, 20).Draw(t, "rack")
				b.Rack = &rack
			}
			r.Brokers = append(r.Brokers, b)
		}
		begun := []byte("begun")
		var got []byte
		all := (&fetchResponse{FetchResponse: r}).Pieces(begun)
		for _, p := range all {
			require.Nil(t, p.Lent)
			got = append(got, p.Bytes...)
		}
		require.NotEmpty(t, all)
		require.Equal(t, r.AppendTo(begun), got, "version %d", r.Version)
	})
}
