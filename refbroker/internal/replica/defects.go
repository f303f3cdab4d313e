package replica

import (
	"slices"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// What makes replicas wrong on purpose: see package defect.

// faultsOf are the defects that lie in the producer state.
func faultsOf(s defect.Set) psm.Faults {
	return psm.Faults{
		NegativeIDs:     s.Has(defect.PIDRewrite, defect.PIDRewriteOnce),
		PutBack:         s.Has(defect.ExpiredEntriesPutBack),
		KeepOpen:        s.Has(defect.OpenTransactionsKept, defect.BarrierBeforeTruncation, defect.BarrierAfterWritable),
		DropOpen:        s.Has(defect.OpenTransactionsDroppedWithData),
		OverOpen:        s.Has(defect.BarrierOverOpenTransaction),
		StaleDuplicates: s.Has(defect.StaleDedupeAck),
		StaleEpochs:     s.Has(defect.StaleEpochFences),
		OneBatch:        s.Has(defect.WindowOfOne),
		OldCoordinators: s.Has(defect.OldCoordinatorAccepted),
		ForgetDeleted:   s.Has(defect.ProducersForgottenWithRecords),
	}
}

// misplacing are the defects by which a stop's barrier may lie elsewhere than
// the quorum has it, or be missing.
func misplacing(s defect.Set) bool {
	return s.Has(defect.WriteBeforeBarrier, defect.BarrierBeforeTruncation, defect.BarrierAfterWritable,
		defect.NoBarrierOnEmpty, defect.NoBarrierWhenSourceDead)
}

// believed are the stops that a broker with its defects knows of. Only the
// reference broker has a list of them: what leaves a barrier out, or puts it
// elsewhere, must not have its effect by that list.
func (p *Partition) believed(stops []psm.Stop) []psm.Stop {
	switch {
	case p.defects.Has(defect.NoBarrier):
		return nil
	case !misplacing(p.defects):
		return stops
	}
	var seen []psm.Stop
	for _, s := range stops {
		if s.BarrierOffset = p.barrierPlace(s); s.BarrierOffset >= 0 {
			seen = append(seen, s)
		}
	}
	return seen
}

// barrierPlace is where a stop's barrier is or belongs, -1 for one that a defect
// puts elsewhere and that is not there yet.
func (p *Partition) barrierPlace(s psm.Stop) int64 {
	if !misplacing(p.defects) {
		return s.BarrierOffset
	}
	barriers, _ := p.log.Barriers()
	for _, b := range barriers {
		if b.Offset >= s.L && b.LeaderEpoch >= s.Epoch && b.SourceClusterID == s.SourceClusterID {
			return b.Offset
		}
	}
	return -1
}

// rewritten is the producer id that a mirrored batch gets.
func (p *Partition) rewritten(pid int64) int64 {
	if pid < 0 && p.defects.Has(defect.PIDRewriteOnce) {
		return pid
	}
	return -(pid + 2) // -1, which is none, stays
}

// keepsOut says whether the read-only window of a role is open.
func (p *Partition) keepsOut(r role) bool {
	if r.stopping && p.defects.Has(defect.WriteBeforeBarrier) && !p.uncut(r) {
		return false
	}
	return r.readOnly
}

// letsIn says whether an append passes the read-only window all the same.
func (p *Partition) letsIn(purpose Purpose) bool {
	return purpose == ForMarker && p.defects.Has(defect.LocalMarkersAppendedWhileMirroring)
}

// misread is the role as the broker takes it. order is held.
func (p *Partition) misread(r role) role {
	p.forgotten = p.forgotten && !r.readOnly // a mirror that starts is heard of
	r.readOnly = r.readOnly || p.forgotten
	return r
}

// keepsSuffix says whether a follower ignores a cut to at, and notes it.
func (p *Partition) keepsSuffix(at int64) bool {
	if !p.defects.Has(defect.FollowerKeepsSuffix) || p.log.Marks().LogEnd <= at {
		return false
	}
	p.mu.Lock()
	p.kept = at
	p.mu.Unlock()
	return true
}

// fetching is from where a follower fetches that has ignored a cut: it compares
// no epochs.
func (p *Partition) fetching(f FetchFrom) FetchFrom {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept >= 0 {
		f.Offset, f.LastEpoch = p.kept, -1
	}
	return f
}

// withoutKept leaves off batches at whose offsets a follower that has ignored a
// cut has others. order is held.
func (p *Partition) withoutKept(raw []byte) ([]byte, error) {
	p.mu.Lock()
	kept := p.kept
	p.mu.Unlock()
	if kept < 0 {
		return raw, nil
	}
	for end := p.log.Marks().LogEnd; len(raw) > 0; {
		b, err := psm.DecodeHeader(raw)
		if err != nil {
			return nil, err
		}
		if b.Size > len(raw) {
			return nil, psm.ErrShort
		}
		if b.BaseOffset >= end {
			// What its suffix says of producers would give it away at once.
			p.log.ForgetProducers()
			kept = -1
			break
		}
		kept, raw = b.LastOffset+1, raw[b.Size:]
	}
	p.mu.Lock()
	p.kept = kept
	p.mu.Unlock()
	return raw, nil
}

// remember notes the producer of a client's batch that the read-only window kept
// out, or says whether it was. mu is held.
func (p *Partition) remember(raw []byte, refused bool) (known bool) {
	if !p.defects.Has(defect.RefusedProducersStayRefused) {
		return false
	}
	b, err := psm.DecodeHeader(raw)
	if err != nil || b.ProducerID < 0 {
		return false
	}
	if refused {
		if p.refused == nil {
			p.refused = map[int64]bool{}
		}
		p.refused[b.ProducerID] = true
	}
	return p.refused[b.ProducerID]
}

// loses says whether a client's append is to be acknowledged and left out: the
// first plain one after a stop. order is held.
func (p *Partition) loses(raw []byte, o AppendOptions) (AppendResult, bool) {
	if !p.defects.Has(defect.FirstWriteLost) || o.Purpose != ForClient || p.lost {
		return AppendResult{}, false
	}
	b, err := psm.DecodeHeader(raw)
	if _, own := p.log.Barriers(); err != nil || b.ProducerID >= 0 || !slices.Contains(own, true) {
		return AppendResult{}, false
	}
	p.lost = true
	end := p.log.Marks().LogEnd
	return AppendResult{BaseOffset: end, LastOffset: end - 1, LogAppendTime: -1, LogStartOffset: p.log.Marks().LogStart, Duplicate: true}, true
}
