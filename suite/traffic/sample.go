package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/history"
)

// Fetched is what a raw fetch of one partition found.
type Fetched struct {
	history.Fetch
	Headers []Header
}

// FetchOptions ask for a raw fetch.
type FetchOptions struct {
	Offset    int64
	Isolation history.Isolation
	// LongPoll makes the request wait at the broker, by asking for more bytes
	// than there are; the broker answers with what it has after Wait.
	LongPoll bool
	Wait     time.Duration
}

const (
	fetchMaxBytes = 32 << 20
	maxPages      = 1000
)

// Fetch fetches once and records the answer.
func (r *Raw) Fetch(ctx context.Context, p Partition, o FetchOptions) (*Fetched, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxBytes = fetchMaxBytes
	req.SessionEpoch = -1
	if o.Isolation == history.ReadCommitted {
		req.IsolationLevel = 1
	}
	served := history.AtOnce
	req.MinBytes = 0
	req.MaxWaitMillis = 0
	if o.LongPoll {
		served = history.LongPoll
		req.MinBytes = fetchMaxBytes
		req.MaxWaitMillis = int32(o.Wait.Milliseconds())
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.Index, o.Offset, fetchMaxBytes
	part.CurrentLeaderEpoch, part.LastFetchedEpoch, part.LogStartOffset = -1, -1, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = p.Topic
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, node, err := r.ask(ctx, p, req)
	if err != nil {
		return nil, err
	}
	topics := resp.(*kmsg.FetchResponse).Topics
	if len(topics) == 0 || len(topics[0].Partitions) == 0 {
		return nil, fmt.Errorf("raw client %s: fetch %s at %d: the answer holds no partition", r.name, p, o.Offset)
	}
	got := topics[0].Partitions[0]
	f := &Fetched{Fetch: history.Fetch{
		Cluster: r.cluster.Name, Node: node, Topic: p.Topic, Partition: p.Index,
		Isolation: o.Isolation, Served: served, FetchOffset: o.Offset, NextOffset: o.Offset,
		HighWatermark: got.HighWatermark, LastStableOffset: got.LastStableOffset,
		LogStartOffset: got.LogStartOffset, AbortedNull: got.AbortedTransactions == nil,
		Code: got.ErrorCode,
	}}
	if f.Headers, err = Headers(got.RecordBatches); err != nil {
		return nil, fmt.Errorf("raw client %s: fetch %s at %d: %w", r.name, p, o.Offset, err)
	}
	if n := len(f.Headers); n > 0 {
		f.NextOffset = f.Headers[n-1].LastOffset + 1
	}
	for _, a := range got.AbortedTransactions {
		f.Aborted = append(f.Aborted, history.Aborted{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	r.rec.Add(history.Event{Kind: history.KindFetch, Fetch: &f.Fetch})
	if got.ErrorCode != 0 {
		r.forget(p)
		return f, fmt.Errorf("raw client %s: fetch %s at %d: %w", r.name, p, o.Offset, kerr.ErrorForCode(got.ErrorCode))
	}
	return f, nil
}

// FetchAgain is Fetch, repeated while the partition's leader changes. Refusals are
// recorded too.
func (r *Raw) FetchAgain(ctx context.Context, p Partition, o FetchOptions) (f *Fetched, err error) {
	err = again(ctx, func() error {
		f, err = r.Fetch(ctx, p, o)
		return err
	})
	return f, err
}

// HeadersFrom reads the headers of all batches from offset to the high
// watermark by raw fetches.
func (r *Raw) HeadersFrom(ctx context.Context, p Partition, offset int64) ([]Header, error) {
	var all []Header
	for range maxPages {
		f, err := r.FetchAgain(ctx, p, FetchOptions{Offset: offset, Isolation: history.ReadUncommitted})
		if err != nil {
			return nil, err
		}
		if len(f.Headers) == 0 {
			return all, nil
		}
		all = append(all, f.Headers...)
		offset = f.NextOffset
	}
	return nil, fmt.Errorf("raw client %s: %s did not end within %d fetches", r.name, p, maxPages)
}

// The timestamps by which ListOffsets asks for a log's ends.
const (
	latest   = -1
	earliest = -2
)

// listOffset asks the leader of a partition for one of its offsets, and records
// nothing. It returns the node that answered.
func (r *Raw) listOffset(ctx context.Context, p Partition, isolation int8, timestamp int64) (offset int64, node int32, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp, part.CurrentLeaderEpoch = p.Index, timestamp, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = p.Topic
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, node, err := r.ask(ctx, p, req)
	if err != nil {
		return -1, node, err
	}
	topics := resp.(*kmsg.ListOffsetsResponse).Topics
	if len(topics) == 0 || len(topics[0].Partitions) == 0 {
		return -1, node, fmt.Errorf("raw client %s: list offsets of %s: the answer holds no partition", r.name, p)
	}
	got := topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		r.forget(p)
		return -1, node, fmt.Errorf("raw client %s: list offsets of %s: %w", r.name, p, err)
	}
	return got.Offset, node, nil
}

// listOffsetAgain is listOffset, repeated while the partition's leader changes.
func (r *Raw) listOffsetAgain(ctx context.Context, p Partition, isolation int8, timestamp int64) (offset int64, node int32, err error) {
	err = again(ctx, func() error {
		offset, node, err = r.listOffset(ctx, p, isolation, timestamp)
		return err
	})
	return offset, node, err
}

// Offsets samples a partition's ends with ListOffsets: the last stable offset
// first, then the high watermark, then the log start. The leader epoch is that
// of metadata.
func (r *Raw) Offsets(ctx context.Context, p Partition) (history.Offsets, error) {
	s, err := r.offsets(ctx, p)
	if err == nil {
		r.rec.Add(history.Event{Kind: history.KindListOffsets, Offsets: &s})
	}
	return s, err
}

func (r *Raw) offsets(ctx context.Context, p Partition) (history.Offsets, error) {
	s := history.Offsets{Cluster: r.cluster.Name, Topic: p.Topic, Partition: p.Index, LogEndOffset: -1}
	for _, q := range []struct {
		to        *int64
		isolation int8
		timestamp int64
	}{{&s.LastStableOffset, 1, latest}, {&s.HighWatermark, 0, latest}, {&s.LogStartOffset, 0, earliest}} {
		var err error
		if *q.to, s.Node, err = r.listOffsetAgain(ctx, p, q.isolation, q.timestamp); err != nil {
			return s, err
		}
	}
	// Asked for last: a leader epoch is raised before anything is appended in it.
	meta, err := r.metadata(ctx)
	if err != nil {
		return s, err
	}
	for _, t := range meta.Topics {
		if t.Topic == nil || *t.Topic != p.Topic {
			continue
		}
		for _, got := range t.Partitions {
			if epoch := got.LeaderEpoch; got.Partition == p.Index && epoch >= 0 {
				s.LeaderEpoch, s.InSync = &epoch, got.ISR
			}
		}
	}
	return s, nil
}

// Producers samples the producer state that the leader of p shows, and asks again while
// that changes. Refusals are recorded too.
func (r *Raw) Producers(ctx context.Context, p Partition, when history.When) (s history.Producers, err error) {
	err = again(ctx, func() error {
		s, err = r.producers(ctx, p, when)
		return err
	})
	return s, err
}

func (r *Raw) producers(ctx context.Context, p Partition, when history.When) (history.Producers, error) {
	s := history.Producers{Cluster: r.cluster.Name, Topic: p.Topic, Partition: p.Index, When: when}
	req := kmsg.NewPtrDescribeProducersRequest()
	topic := kmsg.NewDescribeProducersRequestTopic()
	topic.Topic, topic.Partitions = p.Topic, []int32{p.Index}
	req.Topics = append(req.Topics, topic)
	resp, node, err := r.ask(ctx, p, req)
	if err != nil {
		return s, err
	}
	s.Node = node
	topics := resp.(*kmsg.DescribeProducersResponse).Topics
	if len(topics) == 0 || len(topics[0].Partitions) == 0 {
		return s, fmt.Errorf("raw client %s: describe producers of %s: the answer holds no partition", r.name, p)
	}
	got := topics[0].Partitions[0]
	s.Code = got.ErrorCode
	for _, a := range got.ActiveProducers {
		s.Active = append(s.Active, history.ProducerState{
			ProducerID: a.ProducerID, Epoch: a.ProducerEpoch, LastSequence: a.LastSequence,
			LastTimestamp: a.LastTimestamp, CoordinatorEpoch: a.CoordinatorEpoch,
			CurrentTxnStart: a.CurrentTxnStartOffset,
		})
	}
	r.rec.Add(history.Event{Kind: history.KindDescribeProducers, Producers: &s})
	if err := kerr.ErrorForCode(s.Code); err != nil {
		r.forget(p)
		return s, fmt.Errorf("raw client %s: describe producers of %s: %w", r.name, p, err)
	}
	return s, nil
}
