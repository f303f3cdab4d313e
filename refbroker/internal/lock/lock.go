// Package lock holds the broker's mutual exclusion for places that may wait
// (for a disk, a timer, a gate). In a testing/synctest bubble a goroutine
// blocked on a sync.Mutex counts as running, so virtual time stops for
// everybody; one blocked on a channel does not. Mutex is therefore a channel.
package lock

import "context"

// Mutex is a mutual exclusion lock made of a channel. Use [New].
type Mutex struct{ ch chan struct{} }

// New returns an unlocked Mutex.
func New() Mutex { return Mutex{ch: make(chan struct{}, 1)} }

// Lock waits until the lock is free.
func (m Mutex) Lock() { m.ch <- struct{}{} }

// TryLock takes the lock if it is free.
func (m Mutex) TryLock() bool {
	select {
	case m.ch <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockContext waits until the lock is free or ctx ends.
func (m Mutex) LockContext(ctx context.Context) error {
	select {
	case m.ch <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock releases the lock; it panics when the lock is free.
func (m Mutex) Unlock() {
	select {
	case <-m.ch:
	default:
		panic("lock: Unlock of an unlocked Mutex")
	}
}
