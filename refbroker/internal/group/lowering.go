package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/shards"
)

// Cuts are the cuts that mirroring has made to partitions, as far as commits are
// concerned: a group that resumes above where its partition was cut would skip
// what is written there since (GRP-1).
type Cuts interface {
	// Owed says to what the commits of a shard's groups on a partition have yet to
	// be lowered; they are neither told nor replaced before.
	Owed(shard int32, p Partition) (to int64, owed bool)
	// Debts lists all that a shard owes; Pay with number records that it is done.
	Debts(shard int32) (debts map[Partition]int64, number uint64)
	Pay(ctx context.Context, shard, epoch int32, number uint64) error
	// Reached is what has become of an offset that a consumer reached behind a
	// record of a leader epoch: what a stop cut, it has not seen in its new form.
	Reached(p Partition, offset int64, epoch int32) int64
	// Mirrors says whether a topic's partition takes its source's records now.
	Mirrors(p Partition, topicID [16]byte) bool
}

// lowerOwed pays what the shard owes, until it ends.
func (s *shard) lowerOwed() {
	for s.ctx.Err() == nil {
		changed := s.c.cfg.Cluster.Changed()
		if _, number := s.c.cfg.Cluster.Debts(s.index); number == 0 {
			select {
			case <-changed:
			case <-s.ctx.Done():
			}
			continue
		}
		shards.Retry(s.ctx, s.c.cfg.Backoff, func() error {
			debts, number := s.c.cfg.Cluster.Debts(s.index)
			if number == 0 {
				return nil
			}
			if !s.c.cfg.NotLowered {
				if err := s.lower(debts); err != nil {
					return err
				}
			}
			return s.c.cfg.Cluster.Pay(s.ctx, s.index, s.epoch, number)
		}, func(err error) {
			s.c.cfg.Log.Warn("commits not lowered yet", "partition", s.index, "epoch", s.epoch, "err", err)
		})
	}
}

// lower writes what the debts make of the groups' commits. What a group has in
// its queue was decided before the debt was known, so it comes first.
func (s *shard) lower(debts map[Partition]int64) error {
	s.mu.Lock()
	if err := s.ready(); err != nil {
		s.mu.Unlock()
		return err
	}
	var done []chan error
	for _, e := range s.groups {
		if !e.writing && len(e.ledger.lowered(e.group.ID, debts)) == 0 {
			continue
		}
		written := make(chan error, 1)
		done = append(done, written)
		s.enqueue(e, write{
			by:      shards.NoProducer(),
			records: func() []Record { return e.ledger.lowered(e.group.ID, debts) },
			done:    func(err error) { written <- err },
		})
	}
	s.mu.Unlock()
	for _, written := range done {
		select {
		case err := <-written:
			if err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	return nil
}

// lowered are the records after which no offset of a group, committed or held
// back by a transaction, is above its debt. What a transaction would commit is
// overtaken by them: see [Ledger.End].
func (l *Ledger) lowered(group string, debts map[Partition]int64) []Record {
	var all []Record
	for _, p := range l.All() {
		to, owed := debts[p]
		if !owed {
			continue
		}
		above := false
		for _, offsets := range l.pending {
			c, there := offsets[p]
			above = above || there && c.Offset > to
		}
		c, committed := l.commits[p]
		switch {
		case committed && c.Offset > to:
			c.Offset, c.LeaderEpoch = to, -1
		case !above:
			continue
		case !committed:
			all = append(all, Record{Group: group, Partition: &p}) // a tombstone
			continue
		}
		all = append(all, Record{Group: group, Partition: &p, Commit: &c})
	}
	return all
}

// mayCommit refuses commits that can't be told from those that have yet to be
// lowered, as a coordinator does that is not loaded yet: every client tries
// again. mu is held.
func (s *shard) mayCommit(offsets []Offset) error {
	for _, o := range offsets {
		if _, owed := s.c.cfg.Cluster.Owed(s.index, o.Partition); owed {
			return kerr.CoordinatorLoadInProgress
		}
	}
	return nil
}

// above says whether a group holds an offset above one; mu is held.
func (e *entry) above(p Partition, to int64) bool {
	return e.writing || len(e.ledger.lowered(e.group.ID, map[Partition]int64{p: to})) > 0
}
