package replica

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/defect"
)

// DeleteRecords raises the log's start to offset, or to the high watermark for
// -1, and returns the start. Producers stay known (FA-04). A mirrored
// partition refuses it (RO-3): its log is the source's.
func (p *Partition) DeleteRecords(offset int64) (int64, error) {
	p.order.Lock()
	start, err := p.deleteRecords(offset)
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return start, err
}

func (p *Partition) deleteRecords(offset int64) (int64, error) {
	if p.ReadOnly() && !p.defects.Has(defect.DeleteRecordsWhileMirroring) {
		return 0, fmt.Errorf("%s: %w", p.Name(), ErrReadOnly)
	}
	if _, err := p.leading(-1); err != nil {
		return 0, err
	}
	high := p.log.Marks().HighWatermark
	if offset == -1 {
		offset = high
	}
	if offset < 0 || offset > high {
		return 0, fmt.Errorf("%s: delete records below %d, high watermark %d: %w", p.Name(), offset, high, kerr.OffsetOutOfRange)
	}
	start, err := p.log.DeleteRecords(offset)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.Name(), storageError(err))
	}
	// The log's start is in no segment: without the checkpoint a restart
	// would bring records back.
	if err := p.save(); err != nil {
		return 0, fmt.Errorf("%s: %w", p.Name(), storageError(err))
	}
	return start, nil
}

// AwaitDeleted implements [API].
func (p *Partition) AwaitDeleted(ctx context.Context, offset int64) (low int64, err error) {
	err = p.waitFor(ctx, func() (bool, error) {
		r, err := p.leading(-1)
		if err != nil {
			return false, err
		}
		start := p.log.Marks().LogStart
		p.mu.Lock()
		low = p.progress.lowWatermark(r.replicas, start, p.eligible)
		p.mu.Unlock()
		return low >= offset, nil
	})
	return low, err
}
