package traffic

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopics creates topics, by name and partition count, with as many
// replicas as the cluster gives by default, and waits until they have leaders.
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
	// A cluster of several may be electing a controller: any broker finds it.
	resp, err := req.RequestWith(ctx, r.issuing(""))
	if err != nil {
		return fmt.Errorf("create topics on cluster %s: %w", r.cluster.Name, err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			why := ""
			if t.ErrorMessage != nil {
				why = ": " + *t.ErrorMessage
			}
			return fmt.Errorf("create topic %q on cluster %s: %w%s", t.Topic, r.cluster.Name, err, why)
		}
	}
	for _, p := range parts {
		for {
			if _, err := r.leader(ctx, p); err == nil {
				break
			} else if ended(ctx) {
				return err
			}
		}
	}
	return nil
}
