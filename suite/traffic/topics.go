package traffic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
)

// CreateTopics creates topics, by name and partition count, with as many
// replicas as the cluster gives by default, and waits until their leaders serve
// them.
func (r *Raw) CreateTopics(ctx context.Context, topics map[string]int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	var parts []Partition
	for name, n := range topics {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, n, -1
		req.Topics = append(req.Topics, t)
		for p := range n {
			parts = append(parts, Partition{name, p})
		}
	}
	answered := ctx
	if r.cluster.Asked != nil {
		var done context.CancelFunc
		answered, done = r.cluster.Asked(ctx, slices.Sorted(maps.Keys(topics))...)
		defer done()
	}
	asked := false
	err := again(ctx, func() error {
		err := r.createTopics(answered, req, asked)
		asked = true
		return err
	})
	if err != nil {
		return err
	}
	return r.awaitServed(ctx, parts)
}

// createTopics asks once. Asked before, what is there by now is no error.
func (r *Raw) createTopics(ctx context.Context, req *kmsg.CreateTopicsRequest, asked bool) error {
	// A cluster of several may be electing a controller: any broker finds it.
	resp, err := req.RequestWith(ctx, r.firstBroker())
	if err != nil {
		return fmt.Errorf("create topics on cluster %s: %w", r.cluster.Name, err)
	}
	for _, t := range resp.Topics {
		err := mirrorrpc.ErrorForCode(resp.Key(), t.ErrorCode)
		if err == nil || asked && errors.Is(err, kerr.TopicAlreadyExists) {
			continue
		}
		why := ""
		if t.ErrorMessage != nil {
			why = ": " + *t.ErrorMessage
		}
		return fmt.Errorf("create topic %q on cluster %s: %w%s", t.Topic, r.cluster.Name, err, why)
	}
	return nil
}

// Grow gives topics as many partitions as are told, and waits until their leaders
// serve them.
func (r *Raw) Grow(ctx context.Context, topics map[string]int32) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	var parts []Partition
	for name, n := range topics {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, n
		req.Topics = append(req.Topics, t)
		for p := range n {
			parts = append(parts, Partition{name, p})
		}
	}
	asked := false
	if err := again(ctx, func() error {
		resp, err := req.RequestWith(ctx, r.firstBroker())
		if err != nil {
			return fmt.Errorf("more partitions on cluster %s: %w", r.cluster.Name, err)
		}
		for _, t := range resp.Topics {
			err := mirrorrpc.ErrorForCode(resp.Key(), t.ErrorCode)
			if err == nil || asked && errors.Is(err, kerr.InvalidPartitions) { // it has as many by now
				continue
			}
			asked = true
			return fmt.Errorf("%d partitions of topic %q on cluster %s: %w", topics[t.Topic], t.Topic, r.cluster.Name, err)
		}
		return nil
	}); err != nil {
		return err
	}
	return r.awaitServed(ctx, parts)
}

// awaitServed waits until the leaders of new partitions serve them.
func (r *Raw) awaitServed(ctx context.Context, parts []Partition) error {
	for _, p := range parts {
		for {
			_, err := r.end(ctx, p)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait until %s is served on cluster %s: %w; at last: %w", p, r.cluster.Name, context.Cause(ctx), err)
			case <-time.After(servesPause):
			}
		}
	}
	return nil
}

// servesPause is how often a new partition's leader is asked.
const servesPause = 10 * time.Millisecond

// end asks the leader of a partition for its high watermark, and records
// nothing. The broker that answered a topic's creation may know of the topic
// before its leader does.
func (r *Raw) end(ctx context.Context, p Partition) (int64, error) {
	end, _, err := r.listOffset(ctx, p, 0, latest)
	return end, err
}

// awaitEnd waits until a partition's high watermark is at least end: what a
// leader has appended, readers see once its followers have it. It gives up after
// probeLimit.
func (r *Raw) awaitEnd(ctx context.Context, p Partition, end int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("it took longer than %s", probeLimit))
	defer cancel()
	for {
		got, err := r.end(ctx, p)
		if err == nil && got >= end {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until the high watermark of %s on cluster %s is %d, now %d: %w", p, r.cluster.Name, end, got, context.Cause(ctx)), err)
		case <-time.After(servesPause):
		}
	}
}
