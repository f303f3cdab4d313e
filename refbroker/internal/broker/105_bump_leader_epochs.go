package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// maxBumpedEpoch leaves leader epochs room to grow: they are 32-bit numbers
// that only rise.
const maxBumpedEpoch = 1 << 30

// BumpLeaderEpochs (key 105), version 0: raises the leader epochs of partitions
// above the minimum given (LOG-5). The answer comes once that is recorded, and
// tells how each partition fared.
func bumpLeaderEpochs(e *env.Env) wire.API {
	return wire.Of("BumpLeaderEpochs", 0, 0, func(ctx context.Context, req *wire.Request, r *mirrorrpc.BumpLeaderEpochsRequest) (wire.Response, error) {
		resp, ok := req.Response().(*mirrorrpc.PartitionsResponse)
		if !ok {
			return nil, fmt.Errorf("response of BumpLeaderEpochs is %T", req.Response())
		}
		for _, want := range r.Topics {
			t, err := e.Quorum.Image().TopicByID(want.TopicID)
			out := mirrorrpc.PartitionResults{}
			if err == nil {
				out.Name = t.Name
			}
			for _, p := range want.Partitions {
				res := mirrorrpc.PartitionResult{PartitionIndex: p.PartitionIndex}
				failed := err
				if failed == nil {
					failed = bumpLeaderEpoch(ctx, e, t.Name, p)
				}
				res.ErrorCode, res.ErrorMessage = mirrorError(failed)
				out.Partitions = append(out.Partitions, res)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func bumpLeaderEpoch(ctx context.Context, e *env.Env, topic string, p mirrorrpc.BumpPartition) error {
	if p.MinLeaderEpoch < 0 || p.MinLeaderEpoch >= maxBumpedEpoch {
		return fmt.Errorf("partition %s-%d: leader epoch above %d: want 0 to %d: %w", topic, p.PartitionIndex, p.MinLeaderEpoch, maxBumpedEpoch-1, kerr.InvalidRequest)
	}
	_, err := e.Quorum.Apply(ctx, quorum.RaiseLeaderEpoch{Partitions: []quorum.MinLeaderEpoch{
		{Topic: topic, Partition: p.PartitionIndex, Min: p.MinLeaderEpoch + 1},
	}})
	return err
}
