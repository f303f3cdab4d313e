package replica

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/storage"
)

// Barriers implements [API].
func (p *Partition) Barriers() []Barrier {
	found, own := p.log.Barriers()
	out := make([]Barrier, len(found))
	for i, b := range found {
		out[i] = Barrier{
			Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC,
			SourceClusterID: b.SourceClusterID, Writer: b.Writer, Markers: b.Markers, Own: own[i],
		}
	}
	return out
}

// NoteBarriers implements [API].
func (p *Partition) NoteBarriers(source []Barrier) error {
	if err := p.log.NoteBarriers(stored(source)); err != nil {
		return fmt.Errorf("%s: note the source's barriers: %w", p.Name(), storageError(err))
	}
	return nil
}

// ListsLost reports whether this replica of a partition that was ever mirrored
// has to ask its leader which barriers its log has had, and who wrote them: the
// file of that was lost, or never was here.
func (p *Partition) ListsLost() bool {
	p.mu.Lock()
	mirrored := len(p.role.cuts) > 0
	p.mu.Unlock()
	return mirrored && p.log.ListsLost()
}

// RestoreBarriers takes over the leader's list.
func (p *Partition) RestoreBarriers(leaders []Barrier) error {
	if err := p.log.RestoreBarriers(stored(leaders)); err != nil {
		return fmt.Errorf("%s: restore the list of barriers: %w", p.Name(), storageError(err))
	}
	return nil
}

func stored(list []Barrier) []storage.Barrier {
	out := make([]storage.Barrier, len(list))
	for i, b := range list {
		out[i] = storage.Barrier{Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.SourceClusterID, Writer: b.Writer, Markers: b.Markers}
	}
	return out
}

// Lineage implements [API]. A leader that has yet to cut its log has none.
func (p *Partition) Lineage() (Lineage, error) {
	p.order.Lock()
	defer p.order.Unlock()
	r, err := p.leading(-1)
	if err != nil {
		return Lineage{}, err
	}
	if p.uncut(r) {
		return Lineage{}, fmt.Errorf("%s, epoch %d: %w", p.Name(), r.epoch, ErrUncut)
	}
	return Lineage{LeaderEpoch: r.epoch, LogStart: p.log.Marks().LogStart, ForgottenUpTo: p.ForgottenUpTo(), Barriers: p.Barriers()}, nil
}

// FollowLogStart implements [API]. What lies above the high watermark stays.
func (p *Partition) FollowLogStart(session uint64, offset int64) error {
	p.order.Lock()
	moved, err := p.followLogStart(session, offset)
	p.order.Unlock()
	if moved {
		p.notify()
	}
	return err
}

func (p *Partition) followLogStart(session uint64, offset int64) (bool, error) {
	if _, err := p.leading(-1); err != nil {
		return false, err
	}
	m := p.log.Marks()
	if offset = min(offset, m.HighWatermark); offset <= m.LogStart {
		return false, nil
	}
	if session == 0 || session != p.session {
		return false, fmt.Errorf("%s: session %d: %w", p.Name(), session, ErrSessionEnded)
	}
	if _, err := p.log.DeleteRecords(offset); err != nil {
		return false, fmt.Errorf("%s: follow the source's log start: %w", p.Name(), storageError(err))
	}
	// The log's start is in no segment: without the checkpoint a restart would
	// bring records back.
	if err := p.save(); err != nil {
		return true, fmt.Errorf("%s: follow the source's log start: %w", p.Name(), storageError(err))
	}
	return true, nil
}

// CountRecords implements [API].
func (p *Partition) CountRecords(offset int64) (int64, error) {
	n, err := p.log.CountRecords(offset)
	if err != nil {
		return 0, fmt.Errorf("%s: count records: %w", p.Name(), storageError(err))
	}
	return n, nil
}

// CutAnew implements [API].
func (p *Partition) CutAnew(start int64, epoch int32, below []Barrier) error {
	p.order.Lock()
	err := p.cutAnew(start, epoch, below)
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return err
}

func (p *Partition) cutAnew(start int64, epoch int32, below []Barrier) error {
	r, err := p.leading(-1)
	if err != nil {
		return err
	}
	if epoch > r.epoch {
		return fmt.Errorf("%s: cut in leader epoch %d, here %d: %w", p.Name(), epoch, r.epoch, kerr.UnknownLeaderEpoch)
	}
	if err := p.log.TruncateFully(start, stored(below)...); err != nil {
		return fmt.Errorf("%s: begin anew at %d: %w", p.Name(), start, storageError(err))
	}
	p.mu.Lock()
	p.progress.cut(start, time.Now())
	p.mu.Unlock()
	p.raiseHighWatermark()
	if err := p.log.SetCutEpoch(epoch); err != nil {
		return fmt.Errorf("%s: note the cut to %d: %w", p.Name(), start, storageError(err))
	}
	// The checkpoints have the old log's start and more of it than is there.
	if err := p.save(); err != nil {
		return fmt.Errorf("%s: begin anew at %d: %w", p.Name(), start, storageError(err))
	}
	return nil
}
