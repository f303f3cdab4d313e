package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// slowAfter is how long a source may take to answer before describe says that
// it is being waited for (OPS-2): a link that swallows bytes gives no error
// before request.timeout.ms.
const slowAfter = time.Second

// errNoAnswer is what a source that has not answered yet is described by.
var errNoAnswer = errors.New("no answer from the source yet")

// whileSlow runs do. Should that take longer than slowAfter and allowed, tell
// learns what it is waiting for, once, and never after do has returned.
func whileSlow(what string, allowed time.Duration, tell func(error), do func() error) error {
	since := time.Now()
	return whileLate(allowed+slowAfter, func() {
		tell(fmt.Errorf("%w: waiting since %s for %s", errNoAnswer, since.UTC().Format(time.RFC3339), what))
	}, do)
}

// whileLate runs do, and tell once when that takes longer than after: never
// later than do has returned, for which tell is waited for.
func whileLate(after time.Duration, tell func(), do func() error) error {
	var mu sync.Mutex
	done := false
	timer := time.AfterFunc(after, func() {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			tell()
		}
	})
	defer func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		done = true
	}()
	return do()
}

// leaderAtSource asks who leads the partition on the source, as [link.leader]
// does, and has describe say so where nobody answers.
func (d *driver) leaderAtSource(ctx context.Context, l *link, stale uint64) (leader sourceLeader, generation uint64, err error) {
	what := fmt.Sprintf("one of %s, brokers of cluster %s, to say who leads %s",
		strings.Join(l.mirror.Bootstrap, ", "), l.mirror.SourceClusterID, d.key)
	err = whileSlow(what, 0, d.waiting, func() error {
		leader, generation, err = l.leader(ctx, d.key.topic, d.key.id, d.key.index, stale)
		return err
	})
	return leader, generation, err
}

// waiting has describe say what the partition waits for.
func (d *driver) waiting(err error) {
	d.m.setStatus(d.key, func(s *Status) { s.Error = err.Error() })
}
