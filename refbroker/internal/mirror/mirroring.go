package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// epochSlack is how far the destination's leader epoch is raised above the
// source's, so that not every election there needs a quorum record here.
const epochSlack = 10

// fence raises the partition's leader epoch above the source's, so that no
// batch in its log is ever above it (LOG-5), and goes back to mirroring.
func (d *driver) fence(ctx context.Context, v view, part replica.API) error {
	if err := d.raise(ctx, v, part, d.fenceTo); err != nil {
		return err
	}
	v, err := d.view()
	if err != nil {
		return err
	}
	return d.moveTo(ctx, v, quorum.Mirroring)
}

func (d *driver) raise(ctx context.Context, v view, part replica.API, source int32) error {
	if v.part.LeaderEpoch >= source {
		return nil
	}
	epoch := source + epochSlack
	_, err := d.m.quorum.Apply(ctx, quorum.RaiseLeaderEpoch{Partitions: []quorum.MinLeaderEpoch{
		{Topic: d.key.topic, Partition: d.key.index, Min: epoch},
	}})
	if err != nil {
		return fmt.Errorf("raise the leader epoch to %d, above the source's: %w", epoch, err)
	}
	return inEpoch(ctx, part, epoch)
}

// mirror fetches the partition from the source's leader until ctx ends. The
// fetcher stays when it returns: the next state removes it, a stop behind its
// first gate.
func (d *driver) mirror(ctx context.Context, v view, part replica.API) error {
	d.removeFetcher()
	l := d.m.linkOf(d.fetchers, v.mirror)
	retry := newBackoff()
	stale := l.fresh()
	if d.asked > 0 {
		stale = d.asked - 1 // what alignment heard will do
	}
	for {
		leader, generation, err := d.leaderAtSource(ctx, l, stale)
		d.asked = 0
		if err != nil {
			return err
		}
		v, err = d.view()
		if err != nil {
			return err
		}
		if v.part.Mirror.State != quorum.Mirroring {
			return errStateChanged
		}
		d.grow(ctx, v, l)
		if leader.epoch > v.part.LeaderEpoch && !d.m.defects.Has(defect.EpochBelowLog) {
			d.fenceTo = leader.epoch
			d.asked = generation
			return d.moveTo(ctx, v, quorum.EpochFencing)
		}
		if done, err := d.follow(ctx, v, part, leader); err != nil {
			return err
		} else if !done {
			continue
		}
		out, err := d.fetch(ctx, v, l, leader, part)
		if err != nil {
			return err
		}
		var above *replica.EpochAboveError
		switch {
		case errors.As(out.err, &above):
			d.removeFetcher()
			d.fenceTo = above.Batch
			return d.moveTo(ctx, v, quorum.EpochFencing)
		case out.diverged:
			d.removeFetcher()
			before := part.Offsets().LogEnd
			if err := d.realign(ctx, part, leader, out); err != nil {
				return err
			}
			stale = generation
			if part.Offsets().LogEnd == before && !retry.wait(ctx) { // the source says otherwise, but there is nothing to cut
				return context.Cause(ctx)
			}
			continue
		case out.unlisted:
			d.removeFetcher()
			stale = generation
			continue
		case errors.Is(out.err, errLinkEnded):
			d.removeFetcher()
			if v, err = d.view(); err != nil {
				return err
			}
			l = d.m.linkOf(d.fetchers, v.mirror)
			stale = l.fresh()
			continue
		case permanent(out.err):
			return out.err
		}
		d.removeFetcher()
		stale = generation
		if !errors.Is(out.err, replica.ErrSessionEnded) {
			d.m.setStatus(d.key, func(s *Status) {
				s.Error = out.err.Error()
				s.Attempts++
			})
		}
		if !retry.wait(ctx) {
			return context.Cause(ctx)
		}
	}
}

// fetch has a fetcher fetch in a new session until it gives the partition back.
func (d *driver) fetch(ctx context.Context, v view, l *link, leader sourceLeader, part replica.API) (outcome, error) {
	session, err := part.BeginMirror()
	if err != nil {
		return outcome{}, err
	}
	reg := &registration{
		topic: d.key.topic, id: d.key.id, index: d.key.index, part: part, session: session, epoch: leader.epoch, lineage: leader.lineage,
		waiting: d.waiting,
		seen: func(highWatermark int64, err error) {
			d.m.setStatus(d.key, func(s *Status) {
				if err != nil {
					s.Error = err.Error()
					s.Attempts++
					return
				}
				s.SourceHighWatermark, s.Error, s.Attempts = highWatermark, "", 0
			})
		},
	}
	reg.from, d.oldEnd = d.oldEnd, 0
	d.reg = reg
	l.fetcherTo(leader.addr).add(reg)
	every := cmp.Or(d.m.lookEvery, refreshOf(v.mirror))
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case out := <-reg.out:
			return out, nil
		case <-l.ended:
			return outcome{err: errLinkEnded}, nil
		case <-look.C:
			if err := d.lookUp(ctx, l, part, every); err != nil {
				return outcome{}, err
			}
		case <-ctx.Done():
			return outcome{}, context.Cause(ctx)
		}
	}
}

// refreshOf is how often a mirror asks its source for its partitions, and where
// it is mirrored from. Of what changes there a fetch tells nothing, unless it
// comes with a new leader epoch; and a loop can only be refused by who knows
// (CH-4).
func refreshOf(m *quorum.Mirror) time.Duration {
	if s, err := ReadSettings(m.Configs); err == nil {
		return s.Refresh
	}
	return defaultRefresh
}

// lookUp notes where the source is mirrored from now, and gives the topic the
// partitions that it has there. That the source can't be asked is for the
// fetcher to tell. What is known is good enough for a while.
func (d *driver) lookUp(ctx context.Context, l *link, part replica.API, every time.Duration) error {
	source, _, err := l.leader(ctx, d.key.topic, d.key.id, d.key.index, l.older(every))
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	v, err := d.view()
	if err != nil {
		return err
	}
	d.grow(ctx, v, l)
	if source.lineage == nil {
		return nil
	}
	if v.part.Mirror.State != quorum.Mirroring {
		return errStateChanged
	}
	if err := d.sameLog(v, part, source); err != nil {
		return err
	}
	return d.noteUpstream(ctx, v, source)
}

// grow gives the topic as many partitions as the source has by now; they are
// mirrored from the start. It is the affair of who drives the first one. That it
// fails keeps nothing else from being mirrored: the next look tries again.
func (d *driver) grow(ctx context.Context, v view, l *link) {
	if d.key.index != 0 || d.m.topics == nil {
		return
	}
	there := l.partitions(d.key.topic, d.key.id)
	if there <= len(v.topic.Partitions) {
		return
	}
	d.log.Info("the source's topic has grown", "from", len(v.topic.Partitions), "to", there)
	if err := d.m.topics.GrowMirrored(ctx, v.mirror.Name, d.key.topic, there); err != nil {
		d.log.Warn("the topic can't follow its source's growth", "error", err)
	}
}

// sameLog refuses a source that is mirrored from this cluster, or whose log is
// no longer the one that is mirrored.
func (d *driver) sameLog(v view, part replica.API, source sourceLeader) error {
	if err := d.noLoop(source); err != nil {
		return err
	}
	if own, theirs := d.sides(v, part, source); own.end > own.start && !related(own, *theirs) {
		return fmt.Errorf("mirror %s: %w: the source's log was begun anew since", d.key, errNoCommonHistory)
	}
	return nil
}

// follow compares the barriers of this log with those of the source's, as the
// source is now: it may have been cut since, in a stop or an alignment of its
// own. Leader epochs alone would not always tell: a source that was promoted,
// and then mirrors from its own source again, may have other records in the
// very epochs that this log has of it (CH-3). It returns false when the log was
// cut, and the source is to be looked at again.
func (d *driver) follow(ctx context.Context, v view, part replica.API, source sourceLeader) (bool, error) {
	if source.lineage == nil {
		return true, nil
	}
	if err := d.sameLog(v, part, source); err != nil {
		return false, err
	}
	if err := d.noteUpstream(ctx, v, source); err != nil {
		return false, err
	}
	if err := part.NoteBarriers(source.lineage.barriers); err != nil {
		return false, err
	}
	if err := part.NoteForgotten(source.lineage.forgotten); err != nil {
		return false, err
	}
	if d.m.defects.Has(defect.AlignmentByEpochsAlone, defect.DownstreamNotRealigned) {
		return true, nil
	}
	o := part.Offsets()
	own, theirs := d.sides(v, part, source)
	at, ok := firstDifference(part.Barriers(), source.lineage.barriers)
	if !ok || at >= o.LogEnd {
		if to := keeping(o.LogEnd, own, theirs); theirs.forgotten > o.LogEnd && to.anew {
			d.log.Warn("the source's cleaner has forgotten more than this log holds", "up_to", theirs.forgotten, "log_end", o.LogEnd)
			return false, d.cutTo(ctx, v, part, source, to)
		}
		return true, nil
	}
	d.log.Warn("the source's barriers part from this log's", "at", at, "log_end", o.LogEnd)
	return false, d.cutTo(ctx, v, part, source, keeping(at, own, theirs))
}

// noteUpstream records where the source is and was mirrored from, if that is
// news.
func (d *driver) noteUpstream(ctx context.Context, v view, source sourceLeader) error {
	up, history := upstreamOf(v, source), historyOf(source)
	known := func(name string) bool { return slices.Contains(v.part.Mirror.History, name) }
	if slices.Equal(up, v.part.Mirror.Upstream) && !slices.ContainsFunc(history, func(n string) bool { return !known(n) }) {
		return nil
	}
	err := d.record(ctx, quorum.SetUpstream{
		Topic: d.key.topic, Partition: d.key.index, LeaderEpoch: v.part.LeaderEpoch, Upstream: up, History: history,
	})
	if err != nil {
		return fmt.Errorf("record where the source is mirrored from: %w", err)
	}
	return nil
}

// realign follows a source whose log parts from this one below its end: the
// source was cut itself, in a stop of its own or an unclean election (CH-3).
func (d *driver) realign(ctx context.Context, part replica.API, source sourceLeader, out outcome) error {
	v, err := d.view()
	if err != nil {
		return err
	}
	o := part.Offsets()
	at := max(out.end, 0)
	if epoch, end := part.EndOffsetForEpoch(out.epoch); epoch >= 0 {
		at = min(at, end)
	}
	own, theirs := d.sides(v, part, source)
	to := keeping(min(at, o.LogEnd), own, theirs)
	d.log.Warn("the source's log parts from this one", "source_epoch", out.epoch, "source_end", out.end,
		"cut_to", to.at, "anew", to.anew, "log_start", o.LogStart, "log_end", o.LogEnd)
	return d.cutTo(ctx, v, part, source, to)
}
