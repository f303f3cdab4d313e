package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"watershed.example/refbroker/internal/replica"
)

// errNoCommonHistory refuses a mirror start that would mix two logs.
var errNoCommonHistory = errors.New("the log holds records that the source is not known to share")

// side is what alignment knows of one of the two logs.
type side struct {
	// name is the log's, history those of the logs that it was mirrored from.
	name       string
	history    []string
	start, end int64 // end of this cluster's log only
	// cleaned is how far this cluster's cleaner has come, forgotten how far the
	// source's has forgotten tombstones and markers.
	cleaned, forgotten int64
	barriers           []replica.Barrier
}

// target is where a log is cut before it is mirrored into.
type target struct {
	at int64
	// anew: everything goes, and the log begins at at.
	anew bool
}

// alignment says up to where own can be the source's log (AL-1). Leader epochs
// of two clusters collide as producer ids do, so they can't say where two logs
// part; barriers can: each fork is a stop of one of the two, or of a cluster
// that one was mirrored from, and a stop leaves a barrier. What the lists have
// in common, they prove to be common; epochs are asked below that only.
//
// source is nil where the source knows no barrier lists, discard the operator's
// word that everything may go.
func alignment(own side, source *side, discard bool) (target, error) {
	from := int64(0)
	if source != nil {
		from = source.start
	}
	anew := target{at: from, anew: true}
	empty := own.start == own.end
	switch {
	case discard:
		return anew, nil
	case own.end == 0 && from == 0:
		return target{}, nil
	case source == nil && empty:
		return anew, nil
	case source == nil:
		return target{}, fmt.Errorf("%w: the source knows no barrier lists", errNoCommonHistory)
	case !related(own, *source) && empty:
		return anew, nil
	case !related(own, *source):
		return target{}, fmt.Errorf("%w: neither was mirrored from the other, nor both from a third, and they share no barrier", errNoCommonHistory)
	}
	at := own.end
	if part, ok := firstDifference(own.barriers, source.barriers); ok {
		at = min(at, part)
	}
	return keeping(at, own, source), nil
}

// keeping is the target of a log that may keep what lies below at. Where that is
// nothing, the source's log begins later, or a cleaner of one of the two has gone
// past it, it is copied anew. source is nil
// where the source doesn't say where its log begins.
func keeping(at int64, own side, source *side) target {
	from := int64(0)
	if source != nil {
		from = source.start
	}
	if at < own.start || at < from {
		return target{at: from, anew: true}
	}
	if at < own.cleaned {
		// A key's older value below is gone, and its newer one is above (AL-1).
		return target{at: from, anew: true}
	}
	if source != nil && own.start < at && at < source.forgotten {
		// What is kept would never hear that a key was deleted, or that a
		// transaction ended.
		return target{at: from, anew: true}
	}
	return target{at: at}
}

// related says whether two logs have a common history: one was mirrored from
// the other, both from a third, or they share a barrier.
func related(a, b side) bool {
	if slices.Contains(a.history, b.name) || slices.Contains(b.history, a.name) {
		return true
	}
	for _, h := range a.history {
		if slices.Contains(b.history, h) {
			return true
		}
	}
	for _, x := range a.barriers {
		if slices.ContainsFunc(b.barriers, func(y replica.Barrier) bool { return sameBarrier(x, y) }) {
			return true
		}
	}
	return false
}

// firstDifference is the lowest offset at which one list has a stop that the
// other has not: where its cluster began to write, which is the barrier's offset,
// or below it where ABORT markers come first (profile kip1279-latest).
func firstDifference(a, b []replica.Barrier) (offset int64, found bool) {
	for i := 0; ; i++ {
		switch {
		case i == len(a) && i == len(b):
			return 0, false
		case i == len(a):
			return b[i].Fork(), true
		case i == len(b):
			return a[i].Fork(), true
		case !sameBarrier(a[i], b[i]):
			return min(a[i].Fork(), b[i].Fork()), true
		}
	}
}

// sameBatch reports whether two barriers are the same bytes.
func sameBatch(a, b replica.Barrier) bool {
	return a.Offset == b.Offset && a.LeaderEpoch == b.LeaderEpoch && a.CRC == b.CRC && a.SourceClusterID == b.SourceClusterID
}

// sameBarrier reports whether two barriers are the same bytes of the same
// writer. Two clusters that stop at the same offset in the same millisecond
// write the same bytes; a writer that is not known is taken for another.
func sameBarrier(a, b replica.Barrier) bool { return sameBatch(a, b) && a.Writer == b.Writer }

// epochs answers OffsetForLeaderEpoch: the largest leader epoch of a log at or
// below epoch, and where it ends; (-1, -1) for none.
type epochs func(ctx context.Context, epoch int32) (int32, int64, error)

// agreeing lowers at to where the leader epochs of both logs agree, as a
// follower does (KIP-101): below where the barriers part all epochs are of one
// line, in which an unclean election or a lost tail may have cut. last is the
// epoch of own's last record below an offset, -1 for none. What is below start,
// where own begins, says that the source's log ends below that, or that no epoch
// of own's is in it.
func agreeing(ctx context.Context, at, start int64, own, source epochs, last func(int64) int32) (int64, error) {
	for at > start {
		epoch := last(at)
		if epoch < 0 {
			return at, nil
		}
		theirs, end, err := source(ctx, epoch)
		if err != nil {
			return at, err
		}
		switch {
		case theirs == epoch && end >= at:
			return at, nil
		case theirs > epoch:
			return at, fmt.Errorf("the source answers with leader epoch %d, asked for %d", theirs, epoch)
		}
		if theirs < 0 {
			return 0, nil // nothing that the source's log has an epoch for
		}
		at = min(at, max(end, 0))
		if theirs < epoch {
			if _, end, err = own(ctx, theirs); err != nil {
				return at, err
			}
			at = min(at, max(end, 0))
		}
	}
	return at, nil
}
