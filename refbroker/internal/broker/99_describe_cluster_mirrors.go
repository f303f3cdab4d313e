package broker

import (
	"context"
	"maps"
	"slices"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// DescribeClusterMirrors (key 99), version 0. Offsets are those of the leader:
// of partitions that another node leads this one knows the quorum's word only.
// Last mirror epoch lookups are answered from the quorum. STOPPED is said of a
// partition of this node's only once its log takes writes (RO-4): the quorum's
// record comes a moment earlier.
func describeClusterMirrors(e *env.Env, m *mirror.Manager) wire.API {
	return wire.Of("DescribeClusterMirrors", 0, 0, func(_ context.Context, _ *wire.Request, r *mirrorrpc.DescribeClusterMirrorsRequest) (wire.Response, error) {
		resp := &mirrorrpc.DescribeClusterMirrorsResponse{}
		img := e.Quorum.Image()
		names := r.MirrorNames
		if len(names) == 0 {
			names = slices.Sorted(maps.Keys(img.Mirrors))
		}
		for _, name := range names {
			d := mirrorrpc.DescribedMirror{MirrorName: name, AuthorizedOperations: mirrorrpc.NoOperations}
			if _, ok := img.Mirrors[name]; !ok {
				d.ErrorCode = quorum.ErrNoMirror.Code
			}
			for _, topic := range mirrorTopics(img, name) {
				d.Topics = append(d.Topics, describeMirrorTopic(e, m, img, img.Topics[topic]))
			}
			resp.Mirrors = append(resp.Mirrors, d)
		}
		if r.ClusterID != nil {
			for _, l := range r.LastMirrorEpochLookups {
				resp.LookupResults = append(resp.LookupResults, lookUpEpochs(img, *r.ClusterID, l))
			}
		}
		return resp, nil
	})
}

func describeMirrorTopic(e *env.Env, m *mirror.Manager, img *quorum.Image, t *quorum.Topic) mirrorrpc.DescribedTopic {
	d := mirrorrpc.DescribedTopic{TopicName: t.Name}
	for i, p := range t.Partitions {
		d.Partitions = append(d.Partitions, describeMirrorPartition(e, m, img, t, int32(i), p))
	}
	return d
}

func describeMirrorPartition(e *env.Env, m *mirror.Manager, img *quorum.Image, t *quorum.Topic, index int32, p *quorum.Partition) mirrorrpc.DescribedPartition {
	d := mirrorrpc.NewDescribedPartition()
	d.PartitionIndex, d.LeaderEpoch = index, p.LeaderEpoch
	d.StateValue, d.RetryAttempt = p.Mirror.State.String(), p.Mirror.Attempts
	d.LastMirroredOffset = p.Mirror.LastMirroredOffset
	if link, ok := img.Mirrors[t.Mirror]; ok {
		d.SourceClusterID = link.SourceClusterID
	}
	if p.Mirror.Aligned {
		d.AlignedAt = p.Mirror.AlignedAt
	}
	problem := p.Mirror.Error
	var stopEpoch int32
	if n := len(p.Mirror.Stops); n > 0 {
		last := p.Mirror.Stops[n-1]
		d.StopOffset, stopEpoch = last.L, last.Epoch
	}
	if s, ok := m.Status(t.Name, t.ID, index); ok && p.Leader == e.NodeID {
		d.Phase, d.SourceOffset = s.Phase, s.SourceHighWatermark
		if problem == "" {
			problem = s.Error
		}
		d.RetryAttempt = max(d.RetryAttempt, s.Attempts)
	}
	if p.Mirror.Attempts < 0 {
		d.RetryAttempt = p.Mirror.Attempts
	}
	if problem != "" {
		d.ErrorMessage = &problem
	}
	if part, err := e.Replicas.Partition(t.Name, index); err == nil && p.Leader == e.NodeID {
		if p.Mirror.State == quorum.Stopped && part.ReadOnly() {
			d.StateValue, d.Phase = quorum.Stopping.String(), mirror.StepStopped
		}
		o := part.Offsets()
		d.DestinationOffset, d.LastStableOffset, d.HighWatermark = o.LogEnd, o.LastStable, o.HighWatermark
		d.NonStable = o.LogEnd - o.LastStable
		if d.SourceOffset >= 0 {
			d.Lag = max(0, d.SourceOffset-o.LogEnd)
		}
		for _, b := range part.Barriers() {
			if b.Offset == d.StopOffset && b.LeaderEpoch >= stopEpoch {
				d.BarrierOffset = b.Offset
			}
		}
	}
	return d
}

// lookUpEpochs answers the failback lookup: for partitions that were mirrored
// from the requester's cluster, the latest epoch that came from there.
func lookUpEpochs(img *quorum.Image, requester string, l mirrorrpc.EpochLookup) mirrorrpc.LookupResult {
	res := mirrorrpc.LookupResult{TopicID: l.TopicID}
	t, err := img.TopicByID(l.TopicID)
	for _, index := range l.Partitions {
		r := mirrorrpc.EpochResult{PartitionIndex: index, LastMirrorEpoch: -1}
		if err == nil && index >= 0 && int(index) < len(t.Partitions) {
			if link, ok := img.Mirrors[t.Mirror]; ok && link.SourceClusterID == requester {
				r.LastMirrorEpoch = t.Partitions[index].Mirror.LastMirroredEpoch
			}
		}
		res.Partitions = append(res.Partitions, r)
	}
	return res
}
