package replica

import (
	"errors"
	"fmt"
	"slices"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// ErrNotFollowing is returned for what a fetch brought that is no longer this
// replica's to follow: the leader or its epoch has changed meanwhile.
var ErrNotFollowing = errors.New("replica does not follow in this leader epoch")

// FetchFrom is where a follower fetches.
type FetchFrom struct {
	Leader, LeaderEpoch int32
	// Offset is the log's end, LastEpoch the latest leader epoch in the log, -1
	// in an empty one.
	Offset    int64
	LastEpoch int32
	LogStart  int64
	High      int64
}

// Following says from where this replica fetches; ok is false when it follows
// nobody.
func (p *Partition) Following() (f FetchFrom, ok bool) {
	p.mu.Lock()
	r, closed := p.role, p.closed
	p.mu.Unlock()
	if closed || r.leader < 0 || r.leader == p.node {
		return f, false
	}
	m := p.log.Marks()
	return p.fetching(FetchFrom{
		Leader: r.leader, LeaderEpoch: r.epoch, Offset: m.LogEnd, LastEpoch: m.Epoch, LogStart: m.LogStart, High: m.HighWatermark,
	}), true
}

// Fetched is one answer of the leader.
type Fetched struct {
	// LeaderEpoch is that in which it was asked.
	LeaderEpoch int32
	// Raw is whole batches.
	Raw            []byte
	High, LogStart int64
}

// follow runs f while this replica follows in a leader epoch, so that the role
// does not change under it.
func (p *Partition) follow(epoch int32, f func(role) error) error {
	p.order.Lock()
	defer p.order.Unlock()
	p.mu.Lock()
	r, closed := p.role, p.closed
	p.mu.Unlock()
	if closed || r.leader == p.node || r.epoch != epoch {
		return fmt.Errorf("%s: epoch %d, now %d of leader %d: %w", p.Name(), epoch, r.epoch, r.leader, ErrNotFollowing)
	}
	return f(r)
}

// AppendFetched appends what the leader sent, byte for byte, and takes over its
// high watermark and log start.
func (p *Partition) AppendFetched(f Fetched) error {
	moved := false
	err := p.follow(f.LeaderEpoch, func(r role) error {
		raw, err := upToEpoch(f.Raw, r.epoch)
		if err != nil {
			return fmt.Errorf("%s: batches of the leader: %w", p.Name(), err)
		}
		if len(raw) < len(f.Raw) {
			// KAFKA-18723: of a later epoch than this replica knows of. It fetches
			// them again once it does.
			p.logger.Warn("batches above the leader epoch are left for later", "partition", p.Name(), "leader_epoch", r.epoch)
		}
		if raw, err = p.withoutKept(raw); err != nil {
			return fmt.Errorf("%s: batches of the leader: %w", p.Name(), err)
		}
		if len(raw) > 0 {
			if _, err := p.log.AppendAsFollower(raw); err != nil {
				return fmt.Errorf("%s: batches of the leader: %w", p.Name(), p.told(storageError(err)))
			}
			p.failing = false
			moved = true
			if p.defects.Has(defect.FollowerKnowsNoProducers) {
				p.log.ForgetProducers()
			}
		}
		m := p.log.Marks()
		if high := min(f.High, m.LogEnd); high > m.HighWatermark {
			m = p.log.SetHighWatermark(high)
			moved = true
		}
		if f.LogStart > m.LogStart && m.HighWatermark > m.LogStart {
			// Below the high watermark only: the rest comes with the next answer.
			if _, err := p.log.DeleteRecords(f.LogStart); err != nil {
				return fmt.Errorf("%s: log start of the leader: %w", p.Name(), storageError(err))
			}
			// As the leader does: a kill would bring the records back here.
			if err := p.save(); err != nil {
				return fmt.Errorf("%s: log start of the leader: %w", p.Name(), storageError(err))
			}
			moved = true
		}
		return nil
	})
	if moved {
		p.notify()
	}
	return err
}

// HoldsStrangeBarrier reports whether a MIRROR_PID_RESET is among batches of which
// this replica can't tell who wrote it. It can of its own stops', so that a
// thousand partitions that stop ask nobody (OPS-3).
func (p *Partition) HoldsStrangeBarrier(raw []byte) bool {
	for len(raw) > 0 {
		h, err := psm.DecodeHeader(raw)
		if err != nil || h.Size > len(raw) {
			return false // whoever appends it says so
		}
		if h.IsControl() {
			if b, err := psm.DecodeBatch(raw[:h.Size]); err == nil && b.IsBarrier() && !p.log.KnowsWriter(&b) {
				return true
			}
		}
		raw = raw[h.Size:]
	}
	return false
}

// upToEpoch leaves off the batches from the first on that has a later leader
// epoch.
func upToEpoch(raw []byte, epoch int32) ([]byte, error) {
	for at := 0; at < len(raw); {
		b, err := psm.DecodeHeader(raw[at:])
		if err != nil {
			return nil, err
		}
		if b.Size > len(raw)-at {
			return nil, psm.ErrShort
		}
		if b.LeaderEpoch > epoch {
			return raw[:at], nil
		}
		at += b.Size
	}
	return raw, nil
}

// Diverged gives up what the leader does not have: the leader's log has epoch,
// or ends it, at end only (KIP-595).
func (p *Partition) Diverged(leaderEpoch, epoch int32, end int64) error {
	err := p.follow(leaderEpoch, func(role) error {
		m := p.log.Marks()
		to := end
		if _, own := p.log.EndOffsetForEpoch(epoch); own >= 0 {
			to = min(to, own)
		}
		p.logger.Info("log parts from the leader's", "partition", p.Name(), "leader_epoch", leaderEpoch,
			"epoch", epoch, "end", end, "cut_to", to, "log_end", m.LogEnd, "high_watermark", m.HighWatermark)
		if err := p.giveUp(to); err != nil {
			return err
		}
		// A leader that was away and comes back gives up the barrier that it wrote,
		// and the stop with it; but the stop stands, and the new leader's barrier is
		// the next batch (PSM-2).
		if err := p.log.SetStops(p.stops); err != nil {
			return fmt.Errorf("%s: note stops again: %w", p.Name(), storageError(err))
		}
		return nil
	})
	p.notify()
	return err
}

// giveUp truncates a follower's log. order is held.
func (p *Partition) giveUp(to int64) error {
	if to < p.log.Marks().LogStart {
		return p.beginAt(to, nil) // retention was further here
	}
	_, err := p.log.TruncateTo(to)
	if err == nil {
		err = p.lowered(p)
	}
	if err != nil {
		return fmt.Errorf("%s: cut to %d: %w", p.Name(), to, storageError(err))
	}
	return nil
}

// OutOfRange deals with a leader that does not have the follower's offset: one
// whose log starts later, or one that ends before and knows no epochs. below are
// the barriers that the leader's log has had before its start.
func (p *Partition) OutOfRange(leaderEpoch int32, leaderStart int64, below []Barrier) error {
	err := p.follow(leaderEpoch, func(role) error {
		m := p.log.Marks()
		p.logger.Warn("the leader does not have this replica's offset; it starts anew", "partition", p.Name(),
			"log_end", m.LogEnd, "leader_log_start", leaderStart)
		return p.beginAt(leaderStart, stored(below))
	})
	p.notify()
	return err
}

// followStops notes the stops, and has the log follow the truncations of
// mirroring. Stops that lie above all cuts say nothing of the log as it is, so
// that they and the cuts are one write (OPS-3). A leader that has yet to make the
// cut of a stop notes the stop with that cut: nothing is appended before. order is held.
func (p *Partition) followStops(r role, stops []psm.Stop) error {
	if r.stopping && r.leader == p.node && p.uncut(r) {
		stops = slices.DeleteFunc(slices.Clone(stops), func(s psm.Stop) bool { return s.Epoch == r.cut.epoch })
	}
	known := p.log.Stops()
	end := p.log.Marks().LogEnd
	for _, c := range r.cuts {
		if c.Epoch > p.log.CutEpoch() {
			end = min(end, c.At)
		}
	}
	above := !slices.ContainsFunc(stops, func(s psm.Stop) bool {
		return s.BarrierOffset < end && !slices.Contains(known, s)
	})
	if !above {
		if err := p.log.SetStops(stops); err != nil {
			return fmt.Errorf("note stops: %w", err)
		}
	}
	epoch, err := p.applyCuts(r)
	if err != nil {
		return err
	}
	if err := p.log.SetStopsCut(stops, epoch); err != nil {
		return fmt.Errorf("%s: note stops, and the cut in epoch %d: %w", p.Name(), epoch, storageError(err))
	}
	return nil
}

// applyCuts has a log follow the truncations of mirroring that it has not
// followed yet. One that its leader has still to make is left to the steps of a
// stop or an alignment. It returns the epoch of the last one. order is held.
func (p *Partition) applyCuts(r role) (int32, error) {
	applied := p.log.CutEpoch()
	epoch := applied
	for _, c := range r.cuts {
		if c.Epoch <= applied {
			continue
		}
		if r.leader == p.node && r.cut != nil && c.Epoch == r.cut.epoch {
			if !p.uncut(r) {
				epoch = c.Epoch // it needs none, or a crash came behind it
			}
			continue
		}
		epoch = c.Epoch
		if p.shows(c, r) {
			p.logger.Warn("the note of a cut that the log has followed was lost", "partition", p.Name(), "cut_to", c.At, "epoch", c.Epoch, "anew", c.Anew)
			continue
		}
		if err := p.followCut(c); err != nil {
			return epoch, err
		}
	}
	return epoch, nil
}

// shows says whether the log itself shows that it has followed a cut. The note
// of that lies in a file of its own, which may get lost; to follow a cut again
// would take away what was acknowledged since.
//
// Nothing of the cut's leader epoch or a later one comes into a log that has yet
// to follow it (see assume). A source's batches may be of earlier ones; but the
// log of an only replica was the leader's, which cuts before the quorum knows
// that the cut was made.
func (p *Partition) shows(c quorum.AlignRecord, r role) bool {
	m := p.log.Marks()
	if m.Epoch >= c.Epoch {
		return true
	}
	if len(r.replicas) != 1 || r.cut != nil && r.cut.epoch == c.Epoch {
		return false
	}
	// One below it has lost more than the note.
	if c.Anew {
		return m.LogStart >= c.At
	}
	return m.LogEnd > c.At
}

// followCut gives up what a truncation took from the leader's log.
func (p *Partition) followCut(c quorum.AlignRecord) error {
	m := p.log.Marks()
	p.logger.Info("log follows a cut", "partition", p.Name(), "cut_to", c.At, "epoch", c.Epoch, "anew", c.Anew, "log_end", m.LogEnd)
	if !c.Anew && p.keepsSuffix(c.At) {
		return nil
	}
	if !c.Anew && c.At < p.log.CleanedUpTo() && !p.defects.Has(defect.CleanedLogTruncated) {
		// Each replica compacts for itself. This one lacks what its cleaner removed
		// for the sake of what is cut now, and the leader has it (AL-1).
		var below []storage.Barrier
		barriers, _ := p.log.Barriers()
		for _, b := range barriers {
			if b.Offset < m.LogStart {
				below = append(below, b)
			}
		}
		return p.beginAt(m.LogStart, below)
	}
	if !c.Anew {
		// Also where nothing lies above it: an epoch in which this replica led and
		// wrote nothing may be above those that the source's batches have.
		return p.giveUp(c.At)
	}
	below := make([]storage.Barrier, len(c.Below))
	for i, b := range c.Below {
		below[i] = storage.Barrier(b)
	}
	return p.beginAt(c.At, below)
}

// beginAt empties a follower's log, which begins at start from then on.
func (p *Partition) beginAt(start int64, below []storage.Barrier) error {
	err := p.log.TruncateFully(start, below...)
	if err == nil {
		// The checkpoints have the old log's start and more of it than is there.
		err = p.save()
	}
	if err != nil {
		return fmt.Errorf("%s: begin anew at %d: %w", p.Name(), start, storageError(err))
	}
	return nil
}
