package mirror

import (
	"context"
	"errors"
	"fmt"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

var (
	// errNoCommonHistory refuses a mirror start that would mix two logs.
	errNoCommonHistory = errors.New("the log holds records that the source is not known to share")
	// errSourceStartsLater is a source whose retention has overtaken the mirror.
	errSourceStartsLater = errors.New("the source's log starts above the end of this one")
)

// align cuts the log to where it and the source's part (LOG_TRUNCATION), and
// goes on to mirroring. The record says so before the log is cut; whoever finds
// it finishes the cut before anything else is done to the log.
func (d *driver) align(ctx context.Context, v view, part replica.API) error {
	part.EndMirror()
	if v.part.Mirror.Aligned {
		return d.moveTo(ctx, v, quorum.Mirroring)
	}
	// The source is asked even for an empty log: its leader epoch is where
	// this partition's must be above, and its cluster id must be right.
	leader, _, err := d.m.linkOf(d.fetchers, v.mirror).leader(ctx, d.key.topic, d.key.id, d.key.index, 0)
	if err != nil {
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
	target, err := d.target(v, part)
	if err != nil {
		return err
	}
	return d.cutTo(ctx, v, part, target, max(part.Offsets().LogEpoch, leader.epoch))
}

// target is the offset up to which this log can be the source's. An empty log
// is mirrored from its start. A log that was mirrored from the same source
// holds its records below the first offset that this cluster wrote itself, the
// lowest L of its stops. Everything else is refused: leader epochs of two
// clusters collide, so epochs alone would not tell.
func (d *driver) target(v view, part replica.API) (int64, error) {
	o := part.Offsets()
	if o.LogEnd == 0 {
		return 0, nil
	}
	target := o.LogEnd
	shared := false
	for _, s := range v.part.Mirror.Stops {
		if s.SourceClusterID == v.mirror.SourceClusterID {
			shared = true
		}
		target = min(target, s.L)
	}
	if !shared {
		return 0, fmt.Errorf("%w: partition %s ends at offset %d and was never mirrored from cluster %s; mirror into an empty topic",
			errNoCommonHistory, d.key, o.LogEnd, v.mirror.SourceClusterID)
	}
	return max(target, o.LogStart), nil
}
