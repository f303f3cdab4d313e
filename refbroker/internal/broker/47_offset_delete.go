package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// OffsetDelete (key 47), version 0 (KIP-496).
func offsetDelete(e *env.Env, c *group.Coordinator) wire.API {
	return wire.Of("OffsetDelete", 0, 0, func(ctx context.Context, req *wire.Request, r *kmsg.OffsetDeleteRequest) (wire.Response, error) {
		img := e.Quorum.Image()
		var partitions []group.Partition
		var errs []error
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				_, err := committed(img, t.Topic, [16]byte{}, false, p.Partition)
				errs = append(errs, err)
				if err == nil {
					partitions = append(partitions, group.Partition{Topic: t.Topic, Index: p.Partition})
				}
			}
		}
		each, err := c.DeleteOffsets(ctx, r.Group, partitions)
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.Version = req.Version
		if resp.ErrorCode = codeOf(err); err != nil {
			return resp, nil
		}
		for _, t := range r.Topics {
			out := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				err := errs[0]
				errs = errs[1:]
				if err == nil {
					err, each = each[0], each[1:]
				}
				out.Partitions = append(out.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: codeOf(err)})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}
