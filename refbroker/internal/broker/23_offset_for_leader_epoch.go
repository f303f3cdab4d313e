package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/wire"
)

// OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch, or the
// latest one before it, ends in the leader's log (KIP-320).
func offsetForLeaderEpoch(e *env.Env) wire.API {
	return wire.Of("OffsetForLeaderEpoch", 2, 4, func(_ context.Context, req *wire.Request, r *kmsg.OffsetForLeaderEpochRequest) (wire.Response, error) {
		resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
		resp.Version = req.Version
		for _, t := range r.Topics {
			out := kmsg.NewOffsetForLeaderEpochResponseTopic()
			out.Topic = t.Topic
			for _, want := range t.Partitions {
				op := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				op.Partition, op.LeaderEpoch, op.EndOffset = want.Partition, -1, -1
				p, err := e.Replicas.Partition(t.Topic, want.Partition)
				if err == nil {
					err = p.CheckLeader(want.CurrentLeaderEpoch)
				}
				if err == nil {
					op.LeaderEpoch, op.EndOffset = p.EndOffsetForEpoch(want.LeaderEpoch)
					epochOfLeadership(e, p, want.LeaderEpoch, &op)
				}
				op.ErrorCode = codeOf(err)
				out.Partitions = append(out.Partitions, op)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}
