package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// OffsetCommit (key 8), versions 2 to 10: up to 4 clients may say how long an
// offset is kept, from 6 on they say a leader epoch, from 7 on static members
// are known (KIP-345), from 9 on GROUP_ID_NOT_FOUND is, in 10 topics are named
// by id.
func offsetCommit(e *env.Env, c *group.Coordinator) wire.API {
	return wire.Of("OffsetCommit", 2, 10, func(ctx context.Context, req *wire.Request, r *kmsg.OffsetCommitRequest) (wire.Response, error) {
		by := group.Committer{MemberID: r.MemberID, InstanceID: textOf(r.InstanceID), Generation: r.Generation}
		retention := time.Duration(-1)
		if req.Version <= 4 && r.RetentionTimeMillis >= 0 {
			retention = time.Duration(r.RetentionTimeMillis) * time.Millisecond
		}
		asked := commits{coordinator: c, img: e.Quorum.Image(), byID: req.Version >= 10}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				asked.add(t.Topic, t.TopicID, group.Offset{
					Partition: group.Partition{Index: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				}, p.Metadata)
			}
		}
		err := forMember(c.Commit(ctx, r.Group, by, retention, asked.offsets), req.Version < 9)
		resp := kmsg.NewPtrOffsetCommitResponse()
		resp.Version = req.Version
		for _, t := range r.Topics {
			out := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: asked.code(err)})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}
