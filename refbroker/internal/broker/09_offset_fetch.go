package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// OffsetFetch (key 9), versions 1 to 10: from 2 on all offsets can be asked
// for, from 7 on only stable ones (KIP-447), from 8 on those of many groups
// (KIP-709), from 9 on the new group protocol's members say who they are, which
// classic groups pass over, in 10 topics are named by id.
func offsetFetch(e *env.Env, c *group.Coordinator) wire.API {
	return wire.Of("OffsetFetch", 1, 10, func(ctx context.Context, req *wire.Request, r *kmsg.OffsetFetchRequest) (wire.Response, error) {
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version = req.Version
		f := offsetFetcher{ctx: ctx, c: c, img: e.Quorum.Image(), version: req.Version, stable: r.RequireStable}
		if req.Version >= 8 {
			for _, g := range r.Groups {
				resp.Groups = append(resp.Groups, f.group(g.Group, g.Topics))
			}
			return resp, nil
		}
		var topics []kmsg.OffsetFetchRequestGroupTopic
		if r.Topics != nil || req.Version < 2 {
			topics = []kmsg.OffsetFetchRequestGroupTopic{}
		}
		for _, t := range r.Topics {
			topics = append(topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		g := f.group(r.Group, topics)
		resp.ErrorCode = g.ErrorCode
		if g.ErrorCode != 0 && req.Version < 2 {
			// Version 1 has errors for partitions only.
			g.Topics = nil
			for _, t := range r.Topics {
				out := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic}
				for _, p := range t.Partitions {
					none := noOffset(p)
					none.ErrorCode = g.ErrorCode
					out.Partitions = append(out.Partitions, none)
				}
				g.Topics = append(g.Topics, out)
			}
		}
		for _, t := range g.Topics {
			out := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
				})
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

// offsetFetcher answers one OffsetFetch.
type offsetFetcher struct {
	ctx     context.Context //nolint:containedctx // lives as long as the request
	c       *group.Coordinator
	img     *quorum.Image
	version int16
	stable  bool
}

func noOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	none := ""
	return kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: -1, LeaderEpoch: -1, Metadata: &none}
}

// group answers for one group; nil topics are all.
func (f offsetFetcher) group(id string, topics []kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = id
	if topics == nil {
		offsets, err := f.c.Fetch(f.ctx, id, nil, f.stable)
		resp.ErrorCode = codeOf(err)
		for _, o := range offsets { // in the order of topics
			n := len(resp.Topics)
			if n == 0 || resp.Topics[n-1].Topic != o.Partition.Topic {
				out := kmsg.OffsetFetchResponseGroupTopic{Topic: o.Partition.Topic}
				if t, ok := f.img.Topics[o.Partition.Topic]; ok {
					out.TopicID = t.ID
				}
				resp.Topics = append(resp.Topics, out)
				n++
			}
			resp.Topics[n-1].Partitions = append(resp.Topics[n-1].Partitions, answerOffset(o))
		}
		return resp
	}
	var names []string
	var errs []error
	want := []group.Partition{}
	for _, t := range topics {
		name, err := topicName(f.img, t.Topic, t.TopicID, f.version >= 10)
		names, errs = append(names, name), append(errs, err)
		for _, p := range t.Partitions {
			if err == nil {
				want = append(want, group.Partition{Topic: name, Index: p})
			}
		}
	}
	offsets, err := f.c.Fetch(f.ctx, id, want, f.stable)
	resp.ErrorCode = codeOf(err)
	if err != nil {
		return resp
	}
	for i, t := range topics {
		out := kmsg.OffsetFetchResponseGroupTopic{Topic: names[i], TopicID: t.TopicID}
		for _, p := range t.Partitions {
			if errs[i] != nil {
				none := noOffset(p)
				none.ErrorCode = codeOf(errs[i])
				out.Partitions = append(out.Partitions, none)
				continue
			}
			out.Partitions = append(out.Partitions, answerOffset(offsets[0]))
			offsets = offsets[1:]
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func answerOffset(o group.Offset) kmsg.OffsetFetchResponseGroupTopicPartition {
	out := noOffset(o.Partition.Index)
	out.Offset, out.LeaderEpoch, out.ErrorCode = o.Offset, o.LeaderEpoch, codeOf(o.Err)
	out.Metadata = &o.Metadata
	return out
}
