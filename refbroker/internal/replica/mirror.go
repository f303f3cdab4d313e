package replica

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/storage"
)

// BeginMirror implements [API].
func (p *Partition) BeginMirror() (uint64, error) {
	p.order.Lock()
	defer p.order.Unlock()
	r, err := p.leading(-1)
	if err != nil {
		return 0, err
	}
	if !r.readOnly {
		return 0, fmt.Errorf("%s is writable here, a mirror may not append to it: %w", p.Name(), kerr.InvalidRequest)
	}
	p.sessions++
	p.session = p.sessions
	return p.session, nil
}

// EndMirror implements [API].
func (p *Partition) EndMirror() {
	p.order.Lock()
	p.session = 0
	p.order.Unlock()
}

// AppendMirrored implements [API].
func (p *Partition) AppendMirrored(session uint64, raw []byte) (AppendResult, error) {
	p.order.Lock()
	res, err := p.appendMirrored(session, raw)
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return res, err
}

func (p *Partition) appendMirrored(session uint64, raw []byte) (AppendResult, error) {
	r, err := p.leading(-1)
	if err != nil {
		return AppendResult{}, err
	}
	end := p.log.Marks().LogEnd
	if session == 0 || session != p.session {
		if !p.defects.Has(defect.LateFetchAppended, defect.FetchedAfterHealing) {
			return AppendResult{}, fmt.Errorf("%s: session %d: %w", p.Name(), session, ErrSessionEnded)
		}
		if raw, err = rebase(raw, end, p.log.Marks().Epoch); err != nil {
			return AppendResult{}, err
		}
	}
	rest, err := p.continuing(raw, p.log.Marks(), r.epoch)
	if err != nil {
		return AppendResult{}, err
	}
	if len(rest) == 0 {
		m := p.log.Marks()
		return AppendResult{BaseOffset: m.LogEnd, LastOffset: m.LogEnd - 1, LogAppendTime: -1, LogStartOffset: m.LogStart, Duplicate: true}, nil
	}
	if p.defects.Has(defect.PIDRewrite, defect.PIDRewriteOnce) {
		rest = slices.Clone(rest)
		if err := storage.SetProducerID(rest, p.rewritten); err != nil {
			return AppendResult{}, fmt.Errorf("%s: %w", p.Name(), err)
		}
	}
	done, err := p.log.AppendAsFollower(rest)
	if err != nil {
		return AppendResult{}, fmt.Errorf("%s: mirrored batches: %w", p.Name(), err)
	}
	p.raiseHighWatermark()
	return AppendResult{BaseOffset: done.BaseOffset, LastOffset: done.LastOffset, LogAppendTime: -1, LogStartOffset: done.LogStart}, nil
}

// continuing takes off raw what the log has already, and checks that the rest
// does not go back below its end, and is of no later leader epoch than the
// partition. A gap is what the source's cleaner left: what lies between was
// there and is gone, or a fetch at the log's end would have brought it. A log
// without records takes the batch that its start lies in.
func (p *Partition) continuing(raw []byte, m storage.Marks, epoch int32) ([]byte, error) {
	rest, end := raw, m.LogEnd
	for first := true; len(raw) > 0; {
		b, err := psm.DecodeHeader(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: mirrored batch: %w", p.Name(), err)
		}
		if b.Size > len(raw) {
			return nil, fmt.Errorf("%s: mirrored batch at offset %d: %d of %d bytes: %w", p.Name(), b.BaseOffset, len(raw), b.Size, psm.ErrShort)
		}
		raw = raw[b.Size:]
		if first && b.LastOffset < end {
			rest = raw
			continue
		}
		if first && b.BaseOffset < end && m.LogStart < end && !p.defects.Has(defect.LateFetchAppended) {
			return nil, fmt.Errorf("%s: mirrored %w", p.Name(), &storage.OffsetError{Offset: b.BaseOffset, LogEnd: end})
		}
		first = false
		if b.LeaderEpoch > epoch && !p.defects.Has(defect.EpochBelowLog) {
			return nil, fmt.Errorf("%s: %w", p.Name(), &EpochAboveError{Batch: b.LeaderEpoch, Leader: epoch})
		}
	}
	return rest, nil
}

// rebase is the defect of the late fetch: it moves batches that lie below the
// log's end to it, in the log's epoch, as if they had come in time.
func rebase(raw []byte, end int64, epoch int32) ([]byte, error) {
	raw = slices.Clone(raw)
	next := end
	for rest := raw; len(rest) > 0; {
		b, err := psm.DecodeHeader(rest)
		if err != nil {
			return nil, err
		}
		if b.Size > len(rest) {
			return nil, psm.ErrShort
		}
		base := max(b.BaseOffset, next)
		psm.SetOffsets(rest, base, max(b.LeaderEpoch, epoch))
		next = base + b.LastOffset - b.BaseOffset + 1
		rest = rest[b.Size:]
	}
	return raw, nil
}

// Settle implements [API]. The last stable offset that it answers is where a
// stop may cut: below every transaction that ended above it. The log is on disk
// up to there, or a last replica that loses what was not could never bring its
// barrier to the offset that the quorum has.
func (p *Partition) Settle(ctx context.Context) (Offsets, error) {
	var o Offsets
	err := p.waitFor(ctx, func() (bool, error) {
		if _, err := p.leading(-1); err != nil {
			return false, err
		}
		o = p.Offsets()
		return o.HighWatermark >= o.LogEnd, nil
	})
	if err != nil {
		return o, err
	}
	if err = p.log.FlushBatches(); err == nil {
		o.LastStable, err = p.stopsAt(o)
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", p.Name(), storageError(err))
	}
	return o, nil
}

// stopsAt is where a stop would end what is mirrored: L.
func (p *Partition) stopsAt(o Offsets) (int64, error) {
	if !p.profile.CutsAtStop() {
		return o.LogEnd, nil
	}
	return p.log.StableCut()
}

// Cut implements [API]. It needs the image that the quorum record made:
// before, it answers UNKNOWN_LEADER_EPOCH. Offsets at or above the cut in
// leader epochs below epoch are what goes; so a cut that was made already,
// and what this cluster has written since, stay.
func (p *Partition) Cut(offset int64, epoch int32) error {
	p.order.Lock()
	err := p.cut(offset, epoch)
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return err
}

func (p *Partition) cut(offset int64, epoch int32) error {
	r, err := p.leading(-1)
	if err != nil {
		return err
	}
	if epoch > r.epoch {
		return fmt.Errorf("%s: cut in leader epoch %d, here %d: %w", p.Name(), epoch, r.epoch, kerr.UnknownLeaderEpoch)
	}
	if p.uncut(role{cut: &cutRecord{at: offset, epoch: epoch}}) || offset >= p.log.Marks().LogEnd {
		if _, err := p.log.TruncateTo(offset); err != nil {
			return fmt.Errorf("%s: cut to %d: %w", p.Name(), offset, storageError(err))
		}
		end := p.log.Marks().LogEnd
		p.mu.Lock()
		p.progress.cut(end, time.Now())
		p.mu.Unlock()
		p.raiseHighWatermark()
	}
	// Followers find the cut in the quorum's list; so would this log, later. The
	// stop is noted with it, before the barrier is appended.
	if p.log.CutEpoch() < epoch {
		if err := p.log.SetStopsCut(p.stops, epoch); err != nil {
			return fmt.Errorf("%s: note the cut to %d: %w", p.Name(), offset, storageError(err))
		}
	}
	// Also when an earlier try cut the log and came no further.
	if err := p.lowered(p); err != nil {
		return fmt.Errorf("%s: cut to %d: %w", p.Name(), offset, storageError(err))
	}
	return nil
}

// AppendBarrier implements [API]. It refuses to write one over an open
// transaction (PSM-8), or anywhere but at the stop's barrier offset.
func (p *Partition) AppendBarrier(stop psm.Stop) (int64, error) {
	p.order.Lock()
	offset, err := p.appendBarrier(stop)
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return offset, err
}

func (p *Partition) appendBarrier(stop psm.Stop) (int64, error) {
	r, err := p.leading(-1)
	if err != nil {
		return 0, err
	}
	if stop.Epoch > r.epoch {
		return 0, fmt.Errorf("%s: barrier in leader epoch %d, here %d: %w", p.Name(), stop.Epoch, r.epoch, kerr.UnknownLeaderEpoch)
	}
	if stop.BarrierOffset = p.barrierPlace(stop); stop.BarrierOffset < 0 {
		stop.BarrierOffset = p.log.Marks().LogEnd
	}
	if err := p.rememberStop(stop); err != nil {
		return 0, fmt.Errorf("%s: %w", p.Name(), storageError(err))
	}
	barriers, own := p.log.Barriers()
	for i, b := range barriers {
		if own[i] && b.Offset == stop.BarrierOffset && b.LeaderEpoch >= stop.Epoch && b.SourceClusterID == stop.SourceClusterID {
			return b.Offset, nil
		}
	}
	if end := p.log.Marks().LogEnd; end != stop.BarrierOffset {
		return 0, fmt.Errorf("%s: barrier belongs at offset %d, the log ends at %d: %w", p.Name(), stop.BarrierOffset, end, kerr.InvalidRequest)
	}
	raw := psm.Barrier{Timestamp: p.now().UnixMilli(), SourceClusterID: stop.SourceClusterID}.Append(nil)
	if p.defects.Has(defect.BarrierValuePadded) {
		raw = storage.PadBarrier(raw)
	}
	done, err := p.log.AppendAsLeader(raw, r.epoch, psm.Append{Origin: psm.Coordinator})
	if err != nil {
		return 0, fmt.Errorf("%s: append barrier: %w", p.Name(), storageError(err))
	}
	p.raiseHighWatermark()
	return done.BaseOffset, nil
}

// rememberStop writes the stop beside the log, synced.
func (p *Partition) rememberStop(stop psm.Stop) error {
	stops := p.log.Stops()
	if slices.Contains(stops, stop) {
		return nil
	}
	return p.log.SetStops(append(stops, stop))
}

// WaitCommitted implements [API].
func (p *Partition) WaitCommitted(ctx context.Context, offset int64) error {
	return p.waitFor(ctx, func() (bool, error) {
		if _, err := p.leading(-1); err != nil {
			return false, err
		}
		return p.log.Marks().HighWatermark > offset, nil
	})
}
