package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"watershed.example/refbroker/internal/quorum"
)

// Metadata is the quorum as a [Watch] sees it; *quorum.Node is one.
type Metadata interface {
	Image() *quorum.Image
	Changed() <-chan struct{}
}

// Watch counts what happens between two scrapes: it compares each version of
// the metadata with the one before. (Versions that follow each other faster than
// it looks are seen as one.)
type Watch struct {
	node int32

	mu              sync.Mutex // never held while waiting
	shrinks, expand int64
	// stopping is since when a partition is, as this node saw.
	stopping map[partition]time.Time
	took     []int64 // by stopBounds
	count    uint64
	sum      time.Duration
}

// partition names one of an incarnation of a topic.
type partition struct {
	id    [16]byte
	index int
}

// stopBounds are the upper ends of the buckets of stops: a stop takes some
// commits of the quorum, and as long as replicas lag.
var stopBounds = []time.Duration{
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// NewWatch makes a watch for a node; [Watch.Run] starts it.
func NewWatch(node int32) *Watch {
	return &Watch{node: node, stopping: map[partition]time.Time{}, took: make([]int64, len(stopBounds))}
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context, m Metadata) {
	before := m.Image()
	w.see(&quorum.Image{}, before, time.Now())
	for {
		changed := m.Changed()
		if img := m.Image(); img != before {
			w.see(before, img, time.Now())
			before = img
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// see compares two versions of the metadata.
func (w *Watch) see(before, now *quorum.Image, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, t := range now.Topics {
		old := before.Topics[name]
		if old == t {
			continue // nothing in it has changed
		}
		for i, p := range t.Partitions {
			var was *quorum.Partition
			if old != nil && old.ID == t.ID && i < len(old.Partitions) {
				was = old.Partitions[i]
			}
			if was == p {
				continue
			}
			w.partition(partition{t.ID, i}, was, p, at)
		}
	}
}

func (w *Watch) partition(key partition, was, now *quorum.Partition, at time.Time) {
	if was != nil && now.Leader == w.node {
		for _, id := range was.ISR {
			// One that the partition has no more was taken off it, and does not lag.
			if !slices.Contains(now.ISR, id) && slices.Contains(now.Replicas, id) {
				w.shrinks++
			}
		}
		for _, id := range now.ISR {
			if !slices.Contains(was.ISR, id) {
				w.expand++
			}
		}
	}
	since, running := w.stopping[key]
	switch now.Mirror.State {
	case quorum.Stopping:
		if !running {
			w.stopping[key] = at
		}
		return
	case quorum.Stopped:
		if running && now.Leader == w.node {
			w.stopped(at.Sub(since))
		}
	}
	delete(w.stopping, key)
}

func (w *Watch) stopped(took time.Duration) {
	w.count++
	w.sum += took
	for i, bound := range stopBounds {
		if took <= bound {
			w.took[i]++
			break
		}
	}
}

func (w *Watch) isr() (shrinks, expands int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shrinks, w.expand
}

// stops is the histogram of how long stops took.
func (w *Watch) stops() (count uint64, sum float64, buckets map[float64]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	buckets = make(map[float64]uint64, len(stopBounds))
	var below uint64
	for i, bound := range stopBounds {
		below += uint64(w.took[i])
		buckets[bound.Seconds()] = below
	}
	return w.count, w.sum.Seconds(), buckets
}
