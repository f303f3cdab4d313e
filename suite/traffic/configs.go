package traffic

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

// AlterTopics sets configs of topics. To set them twice is to set them once.
func (r *Raw) AlterTopics(ctx context.Context, configs map[string]string, topics ...string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, topic := range topics {
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		for _, name := range slices.Sorted(maps.Keys(configs)) {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(configs[name])
			resource.Configs = append(resource.Configs, c)
		}
		req.Resources = append(req.Resources, resource)
	}
	return again(ctx, func() error {
		resp, err := req.RequestWith(ctx, r.client())
		if err != nil {
			return fmt.Errorf("raw client %s: alter configs on cluster %s: %w", r.name, r.cluster.Name, err)
		}
		for _, got := range resp.Resources {
			if err := mirrorrpc.ErrorForCode(resp.Key(), got.ErrorCode); err != nil {
				return fmt.Errorf("raw client %s: alter configs of %s on cluster %s: %w", r.name, got.ResourceName, r.cluster.Name, err)
			}
		}
		return nil
	})
}

// DeleteBelow deletes the records of p below offset, and waits until the log
// says that it starts there. Nothing of it is recorded but the samples.
func (r *Raw) DeleteBelow(ctx context.Context, p Partition, offset int64) error {
	if err := again(ctx, func() error {
		resp, _, err := r.ask(ctx, p, deleteRecords(p, offset))
		if err != nil {
			return err
		}
		for _, t := range resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, got := range t.Partitions {
				if err := mirrorrpc.ErrorForCode(resp.Key(), got.ErrorCode); err != nil {
					r.forget(p)
					return fmt.Errorf("raw client %s: delete records of %s below %d: %w", r.name, p, offset, err)
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return r.AwaitStart(ctx, p, offset)
}

// AwaitStart waits until p's log starts at offset or above.
func (r *Raw) AwaitStart(ctx context.Context, p Partition, offset int64) error {
	for {
		o, err := r.Offsets(ctx, p)
		if err != nil {
			return err
		}
		if o.LogStartOffset >= offset {
			return nil
		}
		if !pause(ctx, describeEvery) {
			return fmt.Errorf("raw client %s: the log of %s starts at %d, not at %d: %w", r.name, p, o.LogStartOffset, offset, context.Cause(ctx))
		}
	}
}

func deleteRecords(p Partition, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = p.Index, offset
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = p.Topic
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	return req
}

// AwaitCompaction waits until fewer batches with data than before lie below an
// offset of p's log, as a fetch of all of it shows.
func (r *Raw) AwaitCompaction(ctx context.Context, p Partition, below int64, before int) error {
	for {
		n, err := r.Records(ctx, p, below)
		if err != nil {
			return err
		}
		if n < before {
			return nil
		}
		if !pause(ctx, describeEvery) {
			return fmt.Errorf("raw client %s: %s still holds %d records below %d: %w", r.name, p, n, below, context.Cause(ctx))
		}
	}
}

// Records counts the data records of p's log below an offset.
func (r *Raw) Records(ctx context.Context, p Partition, below int64) (int, error) {
	o, err := r.Offsets(ctx, p)
	if err != nil {
		return 0, err
	}
	headers, err := r.HeadersFrom(ctx, p, o.LogStartOffset)
	n := 0
	for _, h := range headers {
		if !h.Control && h.LastOffset < below {
			n += int(h.Count)
		}
	}
	return n, err
}
