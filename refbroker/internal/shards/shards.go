// Package shards spreads a coordinator over the partitions of an internal topic
// that its node leads: one shard for each, in each leader epoch. The
// transaction coordinator and the group coordinator are such; what a shard does
// is theirs.
package shards

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Topic is the internal topic of a coordinator, as its node sees it.
type Topic interface {
	// Shards is the number of the topic's partitions, 0 while there is no such
	// topic.
	Shards() int
	// Leads reports whether this node leads a partition of the topic, and in
	// which leader epoch.
	Leads(shard int32) (epoch int32, leads bool)
	// Changed returns a channel that is closed when Shards or Leads may answer
	// otherwise.
	Changed() <-chan struct{}
}

// Shard is a coordinator's part for one partition, in one leader epoch.
type Shard interface {
	comparable
	LeaderEpoch() int32
	// Start begins the shard's work, and does not wait for it.
	Start()
	// End stops the shard and waits for everything that it started.
	End()
	// Loaded is closed when the shard has read its partition.
	Loaded() <-chan struct{}
}

// Set is the shards of a coordinator on one node.
type Set[S Shard] struct {
	topic Topic
	made  func(ctx context.Context, index, epoch int32) S

	mu     sync.Mutex // never held while waiting
	shards map[int32]S
	// moved is closed, and replaced, when shards change.
	moved chan struct{}
}

// New returns a set, which is empty until [Set.Run] has looked at the topic.
// made makes a shard, not yet started.
func New[S Shard](topic Topic, made func(ctx context.Context, index, epoch int32) S) *Set[S] {
	return &Set[S]{topic: topic, made: made, shards: map[int32]S{}, moved: make(chan struct{})}
}

// Run follows the leadership of the topic until ctx ends, and then waits for
// everything that it started.
func (c *Set[S]) Run(ctx context.Context) {
	defer c.follow(context.Background(), nil)
	for {
		changed := c.topic.Changed()
		want := map[int32]int32{}
		for i := range int32(c.topic.Shards()) {
			if epoch, leads := c.topic.Leads(i); leads {
				want[i] = epoch
			}
		}
		c.follow(ctx, want)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// follow ends the shards that are not in want, by leader epoch, and starts
// those that are missing.
func (c *Set[S]) follow(ctx context.Context, want map[int32]int32) {
	var ended []S
	c.mu.Lock()
	for i, s := range c.shards {
		if epoch, ok := want[i]; !ok || epoch != s.LeaderEpoch() {
			delete(c.shards, i)
			ended = append(ended, s)
		}
	}
	c.mu.Unlock()
	for _, s := range ended {
		s.End()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, epoch := range want {
		if _, ok := c.shards[i]; !ok {
			s := c.made(ctx, i, epoch)
			c.shards[i] = s
			s.Start()
		}
	}
	close(c.moved)
	c.moved = make(chan struct{})
}

// At returns the shard of a partition, if there is one here.
func (c *Set[S]) At(index int32) (s S, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok = c.shards[index]
	return s, ok
}

// Of returns the shard that a key belongs to. The error is
// COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.
func (c *Set[S]) Of(key string) (s S, err error) {
	n := c.topic.Shards()
	if n == 0 {
		return s, kerr.CoordinatorNotAvailable
	}
	i := PartitionFor(key, n)
	if s, ok := c.At(i); ok {
		return s, nil
	}
	if _, leads := c.topic.Leads(i); leads {
		return s, kerr.CoordinatorLoadInProgress
	}
	return s, kerr.NotCoordinator
}

// Await is Of, but waits up to limit for what is being loaded; loaded says
// whether it is.
func (c *Set[S]) Await(ctx context.Context, key string, limit time.Duration) (s S, loaded bool, err error) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		moved := c.moved
		c.mu.Unlock()
		s, err := c.Of(key)
		if err != nil && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			return s, false, err
		}
		var done <-chan struct{}
		if err == nil {
			done = s.Loaded()
		}
		select {
		case <-done:
			return s, true, nil
		case <-moved:
		case <-ctx.Done():
			return s, false, err
		case <-deadline.C:
			return s, false, err
		}
	}
}

// Led returns all shards that this node leads.
func (c *Set[S]) Led() ([]S, error) {
	var all []S
	for i := range int32(c.topic.Shards()) {
		if _, leads := c.topic.Leads(i); !leads {
			continue
		}
		s, ok := c.At(i)
		if !ok {
			return nil, kerr.CoordinatorLoadInProgress
		}
		all = append(all, s)
	}
	return all, nil
}

// PartitionFor is the partition that a key belongs to: Java's String.hashCode,
// made positive, modulo partitions.
func PartitionFor(key string, partitions int) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(key)) {
		h = 31*h + int32(unit)
	}
	if h == math.MinInt32 {
		return 0
	}
	return max(h, -h) % int32(partitions)
}

// Retry does something until it succeeds, with failed told of each failure, and
// pauses of backoff, doubled up to 50 times that, in between. It returns false
// when ctx ended before.
func Retry(ctx context.Context, backoff time.Duration, do func() error, failed func(error)) bool {
	for wait := backoff; ; wait = min(2*wait, 50*backoff) {
		err := do()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		failed(err)
		if !Pause(ctx, wait) {
			return false
		}
	}
}

// Pause waits; it returns false when ctx ended.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
