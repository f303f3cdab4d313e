package mirror

import (
	"context"
	"math/rand/v2"
	"time"
)

// The waits between tries, in which a source comes back quickly after a short
// cut and is not hammered during a long one.
const (
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 2 * time.Second
)

// backoff is an exponential back-off with 20 % jitter.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{next: backoffFirst} }

func (b *backoff) reset() { b.next = backoffFirst }

// wait waits; it is false when ctx ends first.
func (b *backoff) wait(ctx context.Context) bool {
	d := time.Duration(float64(b.next) * (0.8 + 0.4*rand.Float64()))
	b.next = min(2*b.next, backoffMost)
	return sleep(ctx, d)
}

// sleep waits; it is false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
