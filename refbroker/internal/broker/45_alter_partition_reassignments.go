package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// AlterPartitionReassignments (key 45), versions 0 to 1: from 1 on a change of
// the number of replicas can be refused. Null replicas cancel the reassignment
// in progress. A topic that mirrors can be reassigned too: what its log holds
// stays the source's. The answer says that the reassignment has begun.
func alterPartitionReassignments(e *env.Env) wire.API {
	return wire.Of("AlterPartitionReassignments", 0, 1, func(ctx context.Context, req *wire.Request, r *kmsg.AlterPartitionAssignmentsRequest) (wire.Response, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, millis(r.TimeoutMillis), kerr.RequestTimedOut)
		defer cancel()
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.Version = req.Version
		if req.Version >= 1 {
			resp.AllowReplicationFactorChange = r.AllowReplicationFactorChange
		}
		for _, t := range r.Topics {
			out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			out.Topic = t.Topic
			for _, want := range t.Partitions {
				_, err := e.Quorum.Apply(ctx, quorum.Reassign{
					Topic: t.Topic, Partition: want.Partition, Replicas: want.Replicas,
					SameFactor: req.Version >= 1 && !r.AllowReplicationFactorChange && want.Replicas != nil,
				})
				p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				p.Partition = want.Partition
				p.ErrorCode, p.ErrorMessage = errorOf(err)
				out.Partitions = append(out.Partitions, p)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}
