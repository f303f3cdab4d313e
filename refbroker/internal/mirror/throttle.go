package mirror

import (
	"context"
	"sync"
	"time"
)

// throttle bounds the rate at which the fetchers of one mirror on one node take
// bytes. A response is as large as it is, so what it is too large by is owed: the
// next fetch waits until the debt is paid.
type throttle struct {
	mu      sync.Mutex // never held while waiting
	rate    int64      // bytes a second, 0 for no limit
	owed    float64
	at      time.Time // when owed was counted
	changed chan struct{}
}

func newThrottle(rate int64) *throttle {
	return &throttle{rate: rate, at: time.Now(), changed: make(chan struct{})}
}

// set changes the rate, also for who waits.
func (t *throttle) set(rate int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rate == rate {
		return
	}
	t.payLocked()
	t.rate = rate
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *throttle) payLocked() {
	now := time.Now()
	t.owed = max(0, t.owed-now.Sub(t.at).Seconds()*float64(t.rate))
	t.at = now
}

// take counts bytes that were fetched.
func (t *throttle) take(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.payLocked()
	if t.rate > 0 {
		t.owed += float64(n)
	}
}

// most is how much one response may bring: no more than a second's worth, so that
// the rate is kept within seconds too.
func (t *throttle) most(limit int32) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rate == 0 || t.rate > int64(limit) {
		return limit
	}
	return int32(t.rate)
}

// wait waits until nothing is owed.
func (t *throttle) wait(ctx context.Context) error {
	for {
		t.mu.Lock()
		t.payLocked()
		var left time.Duration
		if t.rate > 0 {
			left = time.Duration(t.owed / float64(t.rate) * float64(time.Second))
		}
		changed := t.changed
		t.mu.Unlock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
