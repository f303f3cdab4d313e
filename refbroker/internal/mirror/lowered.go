package mirror

import (
	"context"
	"fmt"
	"time"

	"watershed.example/refbroker/internal/quorum"
)

// lowerWait bounds how long a stop waits for the group coordinator to lower
// commits: longer than it takes for a dead node's shards to be led by another,
// and short enough for a failover. A shard that nobody leads then does not hold
// up the partition: it lowers before it tells or takes an offset of it, whenever
// that will be.
const lowerWait = 5 * time.Second

// awaitLowered waits until no group has a commit above L, for as long as
// lowerWait allows (GRP-1).
func (s *stopping) awaitLowered(ctx context.Context) {
	if s.lowerBy.IsZero() {
		s.lowerBy = time.Now().Add(lowerWait)
	}
	limit := time.NewTimer(time.Until(s.lowerBy))
	defer limit.Stop()
	for {
		changed := s.d.m.quorum.Changed()
		v, err := s.d.view()
		if err != nil {
			return // for the record to refuse
		}
		why := NotLowered(s.d.m.quorum.Image(), v.part)
		if why == "" {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			s.d.log.Warn("stopped before commits of groups are lowered", "why", why)
			return
		case <-ctx.Done():
			return
		}
	}
}

// NotLowered says which shards of the group coordinator have yet to lower
// commits on a partition, "" for none.
func NotLowered(img *quorum.Image, p *quorum.Partition) string {
	shards := img.Owing(p)
	if len(shards) == 0 {
		return ""
	}
	to, _ := img.Owed(shards[0], p)
	return fmt.Sprintf("commits of groups above %d wait to be lowered by shards %v of %s", to, shards, quorum.OffsetsTopic)
}
