package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

var (
	// errSourceStartsLater is a source whose retention has overtaken the mirror.
	errSourceStartsLater = errors.New("the source's log starts above the end of this one")
	// errLoop is a source that mirrors from this cluster, directly or not (CH-4).
	errLoop = errors.New("the source is mirrored from this cluster: a loop")
)

// align cuts the log to where it and the source's part (LOG_TRUNCATION), and
// goes on to mirroring. The record says so before the log is cut; whoever finds
// it finishes the cut before anything else is done to the log.
func (d *driver) align(ctx context.Context, v view, part replica.API) error {
	part.EndMirror()
	if v.part.Mirror.Aligned && !v.part.Mirror.Discard {
		return d.moveTo(ctx, v, quorum.Mirroring)
	}
	// The source is asked even for an empty log: its leader epoch is where
	// this partition's must be above, and its cluster id must be right.
	l := d.m.linkOf(d.fetchers, v.mirror)
	source, generation, err := d.leaderAtSource(ctx, l, l.fresh())
	if err != nil {
		return err
	}
	d.asked = generation
	if err := d.noLoop(source); err != nil {
		return err
	}
	// What this cluster still wrote while the quorum's word was on its way to
	// the log is in what the target is taken from.
	if err := readOnly(ctx, part); err != nil {
		return err
	}
	if err := inEpoch(ctx, part, v.part.LeaderEpoch); err != nil {
		return err
	}
	own, theirs := d.sides(v, part, source)
	to, err := alignment(own, theirs, v.part.Mirror.Discard)
	if err == nil && !to.anew && d.m.defects.Has(defect.AlignmentByEpochsAlone) {
		to.at = own.end
	}
	if err != nil {
		return fmt.Errorf("align %s, which ends at offset %d, with cluster %s: %w; mirror into an empty topic, or start with --discard, which cuts all that is here",
			d.key, own.end, v.mirror.SourceClusterID, err)
	}
	if !to.anew && to.at > own.start {
		at, err := d.agreeing(ctx, v, part, source, to.at)
		if err != nil {
			return err
		}
		to = keeping(at, own, theirs)
	}
	return d.cutTo(ctx, v, part, source, to)
}

// sides are the two logs as alignment sees them.
func (d *driver) sides(v view, part replica.API, source sourceLeader) (own side, theirs *side) {
	own, theirs = sides(v.name, v.part, part, source)
	if d.m.defects.Has(defect.CleanedLogTruncated) {
		own.cleaned = 0
	}
	return own, theirs
}

func sides(name string, p *quorum.Partition, part replica.API, source sourceLeader) (own side, theirs *side) {
	o := part.Offsets()
	own = side{name: name, history: p.Mirror.History, start: o.LogStart, end: o.LogEnd, barriers: part.Barriers(), cleaned: part.CleanedUpTo()}
	if l := source.lineage; l != nil {
		theirs = &side{name: l.name, history: l.history, start: l.logStart, barriers: l.barriers, forgotten: l.forgotten}
	}
	return own, theirs
}

// noLoop refuses a source that is mirrored from this cluster.
func (d *driver) noLoop(source sourceLeader) error {
	if source.lineage == nil || !slices.Contains(source.lineage.upstream, d.m.cluster) {
		return nil
	}
	return fmt.Errorf("%w: %s is mirrored from %s", errLoop, d.key, strings.Join(source.lineage.upstream, ", which is mirrored from "))
}

// agreeing asks the source where its leader epochs end (OffsetForLeaderEpoch).
func (d *driver) agreeing(ctx context.Context, v view, part replica.API, source sourceLeader, at int64) (int64, error) {
	c, _, err := dial(ctx, WayTo(d.m.host, v.mirror.Configs), source.addr, ExpectedCluster(d.m.defects, v.mirror.SourceClusterID))
	if err != nil {
		return at, err
	}
	defer func() { _ = c.Close() }()
	theirs := func(ctx context.Context, epoch int32) (int32, int64, error) {
		return c.epochEnd(ctx, d.key, source.epoch, epoch)
	}
	own := func(_ context.Context, epoch int32) (int32, int64, error) {
		e, end := part.EndOffsetForEpoch(epoch)
		return e, end, nil
	}
	return agreeing(ctx, at, part.Offsets().LogStart, own, theirs, func(offset int64) int32 { return epochBelow(part, offset) })
}

// epochEnd sends one OffsetForLeaderEpoch, in the source's leader epoch.
func (c *conn) epochEnd(ctx context.Context, key partitionKey, leader, epoch int32) (int32, int64, error) {
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = key.index, leader, epoch
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic, t.Partitions = key.topic, append(t.Partitions, p)
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -2 // a consumer
	req.Topics = append(req.Topics, t)
	resp, err := ask[*kmsg.OffsetForLeaderEpochResponse](ctx, c, req)
	if err != nil {
		return -1, -1, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, -1, fmt.Errorf("end of leader epoch %d of %s: %d topics in the answer", epoch, key, len(resp.Topics))
	}
	r := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return -1, -1, fmt.Errorf("end of leader epoch %d of %s on the source: %w", epoch, key, err)
	}
	return r.LeaderEpoch, r.EndOffset, nil
}

// cutTo records an alignment, and has the log follow it. It happens with every
// session ended, so that nothing is appended in between.
func (d *driver) cutTo(ctx context.Context, v view, part replica.API, source sourceLeader, to target) error {
	part.EndMirror()
	o := part.Offsets()
	c := quorum.AlignMirror{
		Topic: d.key.topic, Partition: d.key.index, LeaderEpoch: v.part.LeaderEpoch, Target: to.at, Anew: to.anew,
		LogEpoch: max(o.LogEpoch, source.epoch), History: historyOf(source), Upstream: upstreamOf(v, source),
	}
	from := to.at
	if to.anew {
		from = o.LogStart
	}
	if l := source.lineage; l != nil {
		for _, b := range l.barriers {
			if to.anew && b.Offset < to.at {
				c.Below = append(c.Below, quorum.Barrier{Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.SourceClusterID, Writer: b.Writer, Markers: b.Markers})
			}
		}
	}
	if from < o.LogEnd {
		records, err := part.CountRecords(from)
		if err != nil {
			return err
		}
		c.Cut = &quorum.CutReport{From: from, To: o.LogEnd, Records: records}
		d.log.Warn("cut: this log is not the source's there", "from", from, "to", o.LogEnd, "records", records, "anew", to.anew)
	}
	if d.m.defects.Has(defect.EpochBelowLog) {
		c.LogEpoch = -1
	}
	if err := d.record(ctx, c); err != nil {
		return fmt.Errorf("record the alignment at offset %d: %w", to.at, err)
	}
	v, err := d.view()
	if err != nil {
		return err
	}
	if v.part.Mirror.Cutting == nil {
		return errStateChanged
	}
	return d.finishCut(ctx, v, part)
}

// historyOf are the logs that are known to be in what comes from a source.
func historyOf(source sourceLeader) []string {
	if source.lineage == nil {
		return nil
	}
	return append([]string{source.lineage.name}, source.lineage.history...)
}

// upstreamOf is the way up that a source tells of: itself first.
func upstreamOf(v view, source sourceLeader) []string {
	up := []string{v.mirror.SourceClusterID}
	if source.lineage != nil {
		up = append(up, source.lineage.upstream...)
	}
	return up
}
