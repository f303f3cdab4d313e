package mirror

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
)

// nodeRanges asks the leaders of partitions where their logs start and end.
type nodeRanges struct{ *env.Env }

// listOffsetsVersion is the version in which nodes ask each other.
const listOffsetsVersion = 7

// The timestamps that ListOffsets takes for the two ends of a log.
const (
	latest   = -1
	earliest = -2
)

// Ranges implements [Offsets]. What has no leader, or one that does not answer,
// is left out.
func (n nodeRanges) Ranges(ctx context.Context, partitions []group.Partition) map[group.Partition]Range {
	all := map[group.Partition]Range{}
	img := n.Quorum.Image()
	elsewhere := map[int32][]group.Partition{}
	for _, p := range partitions {
		_, q, err := img.Partition(p.Topic, p.Index)
		if err != nil || q.Leader < 0 {
			continue
		}
		if q.Leader != n.NodeID {
			elsewhere[q.Leader] = append(elsewhere[q.Leader], p)
			continue
		}
		if part, err := n.Replicas.Partition(p.Topic, p.Index); err == nil {
			o := part.Offsets()
			all[p] = Range{Start: o.LogStart, End: o.LogEnd}
		}
	}
	for leader, wanted := range elsewhere {
		starts, ends := n.list(ctx, leader, earliest, wanted), n.list(ctx, leader, latest, wanted)
		for _, p := range wanted {
			start, ok := starts[p]
			end, known := ends[p]
			if ok && known {
				all[p] = Range{Start: start, End: end}
			}
		}
	}
	return all
}

// list asks a node for one end of logs that it leads. What it tells of the later
// one is the high watermark, what a consumer may come to.
func (n nodeRanges) list(ctx context.Context, leader int32, at int64, partitions []group.Partition) map[group.Partition]int64 {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = listOffsetsVersion, -1
	index := map[string]int{}
	for _, p := range partitions {
		i, ok := index[p.Topic]
		if !ok {
			i = len(req.Topics)
			index[p.Topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		q := kmsg.NewListOffsetsRequestTopicPartition()
		q.Partition, q.Timestamp, q.CurrentLeaderEpoch = p.Index, at, -1
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = listOffsetsVersion
	all := map[group.Partition]int64{}
	if err := n.Peers.Request(ctx, leader, req, resp); err != nil {
		n.Log.Info("no offsets of another node's logs", "node", leader, "error", err)
		return all
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Offset >= 0 {
				all[group.Partition{Topic: t.Topic, Index: p.Partition}] = p.Offset
			}
		}
	}
	return all
}
