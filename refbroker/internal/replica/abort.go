package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// OpenTransactionsError is a log that has not as many open transactions as a
// stop has markers for.
type OpenTransactionsError struct {
	// Open transactions there are, Wanted would bring the barrier to its place.
	Open, Wanted int64
}

func (e *OpenTransactionsError) Error() string {
	return fmt.Sprintf("%d transactions are open, %d would bring the barrier to its place", e.Open, e.Wanted)
}

// OpenTransactions counts the transactions without a marker.
func (p *Partition) OpenTransactions() (n int64) {
	for _, k := range p.Producers() {
		if k.CurrentTxnFirstOffset >= 0 {
			n++
		}
	}
	return n
}

// AbortOpen implements [API].
func (p *Partition) AbortOpen(stop psm.Stop) error {
	p.order.Lock()
	err := p.abortOpen(stop)
	p.order.Unlock()
	if err == nil {
		p.notify()
	}
	return err
}

func (p *Partition) abortOpen(stop psm.Stop) error {
	r, err := p.leading(-1)
	if err != nil {
		return err
	}
	if stop.Epoch > r.epoch {
		return fmt.Errorf("%s: markers in leader epoch %d, here %d: %w", p.Name(), stop.Epoch, r.epoch, kerr.UnknownLeaderEpoch)
	}
	end := p.log.Marks().LogEnd
	if end > stop.BarrierOffset {
		return nil // the barrier is there
	}
	// A marker for each at once: a crash leaves the first of them, and those that
	// are open then are the others.
	var raw []byte
	open, now := int64(0), p.now().UnixMilli()
	for _, k := range p.log.Producers() {
		if k.CurrentTxnFirstOffset < 0 {
			continue
		}
		open++
		raw = psm.EndTxnMarker{
			Timestamp: now, ProducerID: k.ProducerID, ProducerEpoch: k.Epoch, CoordinatorEpoch: max(k.CoordinatorEpoch, 0),
		}.Append(raw)
	}
	if wanted := stop.BarrierOffset - end; open != wanted {
		return fmt.Errorf("%s, which ends at %d: %w", p.Name(), end, &OpenTransactionsError{Open: open, Wanted: wanted})
	}
	if open == 0 {
		return nil
	}
	if _, err := p.log.AppendAsLeader(raw, r.epoch, psm.Append{Origin: psm.Coordinator}); err != nil {
		return fmt.Errorf("%s: append ABORT markers: %w", p.Name(), storageError(err))
	}
	p.raiseHighWatermark()
	return nil
}
