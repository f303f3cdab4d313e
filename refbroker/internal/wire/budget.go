package wire

import (
	"context"
	"sync"
)

// budget bounds the memory of the requests in flight (queued.max.request.bytes).
// What a request needs beyond [freeBytes] is taken from it as the bytes arrive,
// never by the length that a client claims. When it is used up, requests wait
// in the order in which they came.
//
// Requests that are read in part hold something and want more, so they could
// wait for each other for ever. One of them at a time may therefore overdraw:
// it goes on, ends, and the next may. All together is at most the limit and one
// frame.
type budget struct {
	mu      sync.Mutex // never held while waiting
	free    int64
	waiting []*claim
	// favoured may overdraw, nil for nobody.
	favoured *loan
}

// loan is what one connection holds of the budget.
type loan struct {
	of   *budget
	held int64
}

// claim is a loan that waits to grow.
type claim struct {
	by      *loan
	n       int64
	granted chan struct{}
}

// take grows the loan by n, and waits until that is possible or ctx ends.
func (l *loan) take(ctx context.Context, n int64) error {
	b := l.of
	b.mu.Lock()
	if len(b.waiting) == 0 || b.favoured == l {
		if b.fits(l, n) {
			b.grant(l, n)
			b.mu.Unlock()
			return nil
		}
	}
	c := &claim{l, n, make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.serve()
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiting {
		if w == c {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve()
			break
		}
	}
	return context.Cause(ctx) // what was granted meanwhile goes back with the loan
}

// fits says whether a loan may grow by n, and makes it the favoured one if it
// must be for that. mu is held.
func (b *budget) fits(l *loan, n int64) bool {
	switch {
	case b.free >= n, b.favoured == l:
		return true
	case b.favoured == nil:
		b.favoured = l
		return true
	}
	return false
}

func (b *budget) grant(l *loan, n int64) {
	b.free -= n
	l.held += n
}

// serve grants what waits, first come first served. mu is held.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].by, b.waiting[0].n) {
		c := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.grant(c.by, c.n)
		close(c.granted)
	}
}

// giveBack ends the loan; it may be taken again.
func (l *loan) giveBack() {
	b := l.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += l.held
	l.held = 0
	if b.favoured == l {
		b.favoured = nil
	}
	b.serve()
}

// left is what is free, negative when overdrawn.
func (b *budget) left() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}
