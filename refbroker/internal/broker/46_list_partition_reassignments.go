package broker

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// ListPartitionReassignments (key 46), version 0: the reassignments in progress,
// of all topics when none are named. Partitions without one, and those that are
// not known, are left out.
func listPartitionReassignments(e *env.Env) wire.API {
	return wire.Of("ListPartitionReassignments", 0, 0, func(_ context.Context, req *wire.Request, r *kmsg.ListPartitionReassignmentsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.Version = req.Version
		img := e.Quorum.Image()
		if r.Topics == nil {
			for _, name := range slices.Sorted(maps.Keys(img.Topics)) {
				listReassignments(resp, img.Topics[name], nil)
			}
			return resp, nil
		}
		for _, want := range r.Topics {
			if t, ok := img.Topics[want.Topic]; ok {
				listReassignments(resp, t, want.Partitions)
			}
		}
		return resp, nil
	})
}

// listReassignments adds those of a topic's partitions, of all for nil.
func listReassignments(resp *kmsg.ListPartitionReassignmentsResponse, t *quorum.Topic, only []int32) {
	out := kmsg.NewListPartitionReassignmentsResponseTopic()
	out.Topic = t.Name
	for i, p := range t.Partitions {
		if !p.Reassigning() || only != nil && !slices.Contains(only, int32(i)) {
			continue
		}
		res := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		res.Partition = int32(i)
		res.Replicas, res.AddingReplicas, res.RemovingReplicas = p.Replicas, p.AddingReplicas, p.RemovingReplicas
		out.Partitions = append(out.Partitions, res)
	}
	if len(out.Partitions) > 0 {
		resp.Topics = append(resp.Topics, out)
	}
}
