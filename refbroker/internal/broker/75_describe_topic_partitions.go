package broker

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// maxDescribed bounds the partitions of one answer, as Kafka's
// max.request.partition.size.limit does.
const maxDescribed = 2000

// DescribeTopicPartitions (key 75), version 0: Metadata for topics of many
// partitions, in pages (KIP-966). Eligible leader replicas are not kept here:
// their lists are empty, not null, which the Java client can't read.
func describeTopicPartitions(e *env.Env) wire.API {
	return wire.Of("DescribeTopicPartitions", 0, 0, func(_ context.Context, req *wire.Request, r *kmsg.DescribeTopicPartitionsRequest) (wire.Response, error) {
		img := e.Quorum.Image()
		resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
		resp.Version = req.Version
		names := slices.Sorted(maps.Keys(img.Topics))
		if len(r.Topics) > 0 {
			names = nil
			for _, t := range r.Topics {
				names = append(names, t.Topic)
			}
			slices.Sort(names)
			names = slices.Compact(names)
		}
		left := maxDescribed
		if r.ResponsePartitionLimit > 0 {
			left = min(left, int(r.ResponsePartitionLimit))
		}
		for _, name := range names {
			from := 0
			if c := r.Cursor; c != nil {
				switch strings.Compare(name, c.Topic) {
				case -1:
					continue
				case 0:
					from = int(max(c.Partition, 0))
				}
			}
			t := describedTopic(img, name)
			from = min(from, len(t.Partitions))
			if left == 0 || len(t.Partitions)-from > left {
				next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
				next.Topic, next.Partition = name, int32(from+left)
				resp.NextCursor = &next
			}
			t.Partitions = t.Partitions[from:min(from+left, len(t.Partitions))]
			if left > 0 {
				resp.Topics = append(resp.Topics, t)
			}
			if left -= len(t.Partitions); resp.NextCursor != nil {
				break
			}
		}
		return resp, nil
	})
}

func describedTopic(img *quorum.Image, name string) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic = &name
	t, err := img.Topic(name)
	if err != nil {
		out.ErrorCode = codeOf(err)
		if invalid := quorum.ValidTopicName(name); invalid != nil {
			out.ErrorCode = codeOf(invalid)
		}
		return out
	}
	out.TopicID, out.IsInternal = t.ID, t.Internal
	for _, m := range metadataTopic(img, t).Partitions {
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.LeaderEpoch = m.Partition, m.Leader, m.LeaderEpoch
		p.Replicas, p.ISR, p.OfflineReplicas = m.Replicas, m.ISR, m.OfflineReplicas
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
		if m.Leader < 0 {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out
}
