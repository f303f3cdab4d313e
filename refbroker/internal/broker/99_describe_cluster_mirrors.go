package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// DescribeClusterMirrors (key 99), version 0. Offsets are those of the leaders,
// which are asked. Lookups are for mirrors of this cluster's topics. STOPPED is
// said of a partition only once its leader's log takes writes (RO-4): the
// quorum's record comes a moment earlier.
func describeClusterMirrors(e *env.Env, m *mirror.Manager) wire.API {
	return wire.Of("DescribeClusterMirrors", 0, 0, func(ctx context.Context, _ *wire.Request, r *mirrorrpc.DescribeClusterMirrorsRequest) (wire.Response, error) {
		resp := &mirrorrpc.DescribeClusterMirrorsResponse{}
		img := e.Quorum.Image()
		if slices.ContainsFunc(r.MirrorNames, func(name string) bool { return img.Mirrors[name] == nil }) {
			// It may just have been made over another node.
			wait, cancel := context.WithTimeout(ctx, catchUpTimeout)
			defer cancel()
			_ = e.Quorum.CatchUp(wait) // what is known is told in any case
			img = e.Quorum.Image()
		}
		names := r.MirrorNames
		if len(names) == 0 && len(r.LastMirrorEpochLookups) == 0 { // a lookup alone describes nothing
			names = slices.Sorted(maps.Keys(img.Mirrors))
		}
		for _, name := range names {
			resp.Mirrors = append(resp.Mirrors, describeMirror(e, m, img, name))
		}
		askLeaders(ctx, e, img, resp.Mirrors)
		if r.ClusterID != nil {
			for _, l := range r.LastMirrorEpochLookups {
				resp.LookupResults = append(resp.LookupResults, lookUp(e, img, *r.ClusterID, l))
			}
		}
		return resp, nil
	})
}

func describeMirror(e *env.Env, m *mirror.Manager, img *quorum.Image, name string) mirrorrpc.DescribedMirror {
	d := mirrorrpc.DescribedMirror{MirrorName: name, AuthorizedOperations: mirrorrpc.NoOperations, Profile: string(cmp.Or(img.Profile, quorum.V42))}
	link, ok := img.Mirrors[name]
	if !ok {
		d.ErrorCode = quorum.ErrNoMirror.Code
		return d
	}
	d.Configs = settingsOf(link)
	if err := m.GroupsError(name); err != nil {
		d.GroupsError = err.Error()
	}
	for _, topic := range mirrorTopics(img, name) {
		d.Topics = append(d.Topics, describeMirrorTopic(e, m, img, img.Topics[topic]))
	}
	return d
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
	if c := p.Mirror.AlignCut; c != nil {
		d.AlignmentCut = mirrorrpc.CutReport{From: c.From, To: c.To, Records: c.Records}
	}
	if c := p.Mirror.StopCut; c != nil {
		d.StopCut = mirrorrpc.CutReport{From: c.From, To: c.To, Records: c.Records}
	}
	if p.Mirror.State != quorum.Stopped {
		d.UpstreamClusterIDs = p.Mirror.Upstream
	}
	problem := p.Mirror.Error
	var stopEpoch int32
	var barrier int64
	if n := len(p.Mirror.Stops); n > 0 {
		last := p.Mirror.Stops[n-1]
		d.StopOffset, barrier, stopEpoch = last.L, last.BarrierOffset, last.Epoch
	}
	if s, ok := m.Status(t.Name, t.ID, index); ok && p.Leader == e.NodeID {
		d.Phase, d.SourceOffset = s.Phase, s.SourceHighWatermark
		if problem == "" {
			problem = s.Error
		}
		d.RetryAttempt = max(d.RetryAttempt, s.Attempts)
	}
	if problem == "" && p.Mirror.State == quorum.Stopped {
		problem = mirror.NotLowered(img, p)
	}
	if p.Mirror.Attempts < 0 {
		d.RetryAttempt = p.Mirror.Attempts
	}
	if problem != "" && !e.Defects.Has(defect.DescribeHidesCause) {
		d.ErrorMessage = &problem
	}
	if part, err := e.Replicas.Partition(t.Name, index); err == nil && p.Leader == e.NodeID {
		if p.Mirror.State == quorum.Stopped {
			// The driver's phase was read before, and may be of the moment before.
			d.Phase = ""
			if part.ReadOnly() {
				d.StateValue, d.Phase = quorum.Stopping.String(), mirror.StepStopped
			}
		}
		o := part.Offsets()
		d.DestinationOffset, d.LastStableOffset, d.HighWatermark = o.LogEnd, o.LastStable, o.HighWatermark
		d.NonStable = o.LogEnd - o.LastStable
		if d.SourceOffset >= 0 {
			d.Lag = max(0, d.SourceOffset-o.LogEnd)
		}
		if s := p.Mirror.State; s != quorum.Stopped && s != quorum.Stopping && s != quorum.Unknown {
			previewStop(e, part, &d)
		}
		for _, b := range part.Barriers() {
			if b.Offset == barrier && d.StopOffset >= 0 && b.LeaderEpoch >= stopEpoch {
				d.BarrierOffset = b.Offset
			}
		}
	}
	return d
}

// previewStop says what a stop now would cut, and what holds it up (OPS-4).
func previewStop(e *env.Env, part replica.API, d *mirrorrpc.DescribedPartition) {
	if e.Defects.Has(defect.DescribeHidesCut) {
		return
	}
	v, err := part.Preview()
	if err != nil {
		e.Log.Warn("no preview of a stop", "topic", part.Topic(), "partition", part.Index(), "error", err)
		return
	}
	if v.At < v.End {
		d.WouldCut = mirrorrpc.CutReport{From: v.At, To: v.End, Records: v.Records}
	}
	if o := v.Oldest; o != nil {
		d.OldestOpen = mirrorrpc.OpenTransaction{
			ProducerID: o.ProducerID, ProducerEpoch: o.Epoch, FirstOffset: o.FirstOffset, StartMs: v.Since,
		}
	}
}

// lookUp answers a mirror that aligns its log with one of this cluster's
// (failback, and every other mirror start): the barriers of the log, and for
// partitions that were mirrored from the requester's cluster the latest epoch
// that came from there.
func lookUp(e *env.Env, img *quorum.Image, requester string, l mirrorrpc.EpochLookup) mirrorrpc.LookupResult {
	res := mirrorrpc.LookupResult{TopicID: l.TopicID}
	t, err := img.TopicByID(l.TopicID)
	for _, index := range l.Partitions {
		r := mirrorrpc.NewEpochResult()
		r.PartitionIndex = index
		switch {
		case err != nil:
			r.ErrorCode = kerr.UnknownTopicID.Code
		case index < 0 || int(index) >= len(t.Partitions):
			r.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			lookUpPartition(e, img, requester, t, &r)
		}
		res.Partitions = append(res.Partitions, r)
	}
	return res
}

func lookUpPartition(e *env.Env, img *quorum.Image, requester string, t *quorum.Topic, r *mirrorrpc.EpochResult) {
	m := t.Partitions[r.PartitionIndex].Mirror
	if link, ok := img.Mirrors[t.Mirror]; ok && link.SourceClusterID == requester {
		r.LastMirrorEpoch = m.LastMirroredEpoch
	}
	r.LogName, r.History = img.LogName(t.Partitions[r.PartitionIndex]), m.History
	if m.State != quorum.Stopped {
		r.UpstreamClusterIDs = m.Upstream
	}
	var lineage replica.Lineage
	part, err := e.Replicas.Partition(t.Name, r.PartitionIndex)
	if err == nil {
		lineage, err = part.Lineage()
	}
	if err != nil {
		r.ErrorCode, _ = errorOf(err)
		return
	}
	r.LeaderEpoch, r.LogStartOffset, r.ForgottenUpTo = lineage.LeaderEpoch, lineage.LogStart, lineage.ForgottenUpTo
	for _, b := range lineage.Barriers {
		r.Barriers = append(r.Barriers, mirrorrpc.Barrier{
			Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.SourceClusterID, WriterClusterID: b.Writer, Markers: b.Markers,
		})
	}
}
