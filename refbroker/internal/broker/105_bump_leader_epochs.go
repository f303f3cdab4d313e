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

// BumpLeaderEpochs (key 105), version 0: raises the leader epochs of partitions
// above a value each, as an election would. One that is above already stays.
func bumpLeaderEpochs(e *env.Env) wire.API {
	return wire.Of("BumpLeaderEpochs", 0, 0, func(ctx context.Context, req *wire.Request, r *mirrorrpc.BumpLeaderEpochsRequest) (wire.Response, error) {
		resp, ok := req.Response().(*mirrorrpc.PartitionsResponse)
		if !ok {
			return nil, fmt.Errorf("response of BumpLeaderEpochs is %T", req.Response())
		}
		img := e.Quorum.Image()
		for _, t := range r.Topics {
			topic, err := img.TopicByID(t.TopicID)
			out := mirrorrpc.PartitionResults{}
			if err == nil {
				out.Name = topic.Name
			}
			for _, p := range t.Partitions {
				perr := err
				switch {
				case perr != nil:
				case p.MinLeaderEpoch < 0 || p.MinLeaderEpoch > maxBump:
					perr = fmt.Errorf("partition %s-%d: minimum %d: %w", topic.Name, p.PartitionIndex, p.MinLeaderEpoch, kerr.InvalidRequest)
				default:
					_, perr = e.Quorum.Apply(ctx, quorum.RaiseLeaderEpoch{Partitions: []quorum.MinLeaderEpoch{
						{Topic: topic.Name, Partition: p.PartitionIndex, Min: p.MinLeaderEpoch + 1},
					}})
				}
				res := mirrorrpc.PartitionResult{PartitionIndex: p.PartitionIndex}
				res.ErrorCode, res.ErrorMessage = mirrorError(perr)
				out.Partitions = append(out.Partitions, res)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

// maxBump leaves room for elections above what a request can ask for.
const maxBump = 1 << 30
