package engine

import (
	"context"
	"errors"
	"maps"

	"watershed.example/mirrorrpc"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// Consumer groups of an episode, by what they have committed (GRP-1). All but the
// last do so on the source, and their offsets are mirrored.
const (
	groupAhead  = "ahead"  // above the log's end
	groupEnd    = "end"    // at the log's end, which is above L where a transaction is open
	groupWithin = "within" // in the middle
	groupOwn    = "own"    // on the destination itself, at its end
)

// aheadBy is how far the group that is ahead is so.
const aheadBy = 1000

// refreshMs is how often the mirrors of such episodes look for offsets, and for
// partitions.
const refreshMs = "150"

// groups says whether the scenario has traffic of consumer groups: where whole
// nodes die, or nothing does. Links don't matter to them.
func (s Scenario) groups() bool {
	return len(s.links()) == 0 && !s.EveryGate && s.Vanish == "" && !isAlone(s.Topology) && !s.ungrouped
}

// grouped says whether this episode has traffic of consumer groups.
func (e *episode) grouped() bool { return e.struck() && e.story.scenario.groups() }

func (e *episode) group(name string) string { return prefix(e.Mirror.From, e.Number) + name }

// mirrorConfigs are those of the mirror beside its source.
func (e *episode) mirrorConfigs() map[string]string {
	for _, other := range e.story.episodes {
		if other.Mirror.Name == e.Mirror.Name && (other.grouped() || e.story.scenario.Grows) {
			return map[string]string{mirrorrpc.ConfigRefresh: refreshMs}
		}
	}
	return nil
}

// allConfigs adds how the mirror makes itself known to its source.
func (e *episode) allConfigs() map[string]string {
	all := map[string]string{}
	maps.Copy(all, e.story.world.env.Cluster(e.Mirror.From).SourceConfig())
	if !e.story.outside() { // a target says itself how its mirrors are configured
		maps.Copy(all, e.mirrorConfigs())
	}
	return all
}

// commitGroups commits on both clusters, in a moment in which nothing is written,
// and waits until the destination has what the source's groups have committed.
func (e *episode) commitGroups(ctx context.Context) error {
	if !e.grouped() {
		return nil
	}
	ahead, at, within, own := map[traffic.Partition]int64{}, map[traffic.Partition]int64{}, map[traffic.Partition]int64{}, map[traffic.Partition]int64{}
	for _, p := range e.layout.Written {
		theirs, err := e.source.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		ours, err := e.promoted.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		ahead[p], at[p], within[p], own[p] = theirs.HighWatermark+aheadBy, theirs.HighWatermark, theirs.HighWatermark/2, ours.HighWatermark
	}
	err := errors.Join(
		e.source.raw.CommitGroup(ctx, e.group(groupAhead), ahead),
		e.source.raw.CommitGroup(ctx, e.group(groupEnd), at),
		e.source.raw.CommitGroup(ctx, e.group(groupWithin), within),
		e.promoted.raw.CommitGroup(ctx, e.group(groupOwn), own),
	)
	if err != nil {
		return err
	}
	for _, name := range []string{groupAhead, groupEnd, groupWithin} {
		if err := e.promoted.raw.AwaitGroup(ctx, e.group(name), e.layout.Written); err != nil {
			return err
		}
	}
	return e.sampleGroups(ctx, history.WhenMirroring)
}

// sampleGroups records what the groups have committed on the destination.
func (e *episode) sampleGroups(ctx context.Context, when history.When) error {
	if !e.grouped() {
		return nil
	}
	for _, name := range []string{groupAhead, groupEnd, groupWithin, groupOwn} {
		if _, err := e.promoted.raw.SampleGroup(ctx, e.group(name), e.layout.Written, when); err != nil {
			return err
		}
	}
	return nil
}

// resumeGroups starts a reader of each group, one in each isolation level, where
// the group has committed on the destination.
func (e *episode) resumeGroups(ctx context.Context) error {
	if !e.grouped() {
		return nil
	}
	for name, level := range map[string]history.Isolation{
		groupAhead: history.ReadCommitted, groupEnd: history.ReadUncommitted, groupOwn: history.ReadCommitted,
	} {
		committed, err := e.promoted.raw.Committed(ctx, e.group(name), e.layout.Written)
		if err != nil {
			return err
		}
		for p, at := range committed {
			if at < 0 {
				e.rec.Note("group %s has no offset of %s to resume from", e.group(name), p)
				delete(committed, p)
			}
		}
		r, err := e.promoted.raw.Resume(e.story.whole, e.group(name), level, committed)
		if err != nil {
			return err
		}
		e.promoted.readers = append(e.promoted.readers, r)
	}
	return nil
}
