package group

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/shards"
)

func now() time.Time { return time.Now() }

// Offset is one offset to be committed, or fetched.
type Offset struct {
	Partition   Partition
	Offset      int64
	LeaderEpoch int32
	Metadata    string
	TopicID     [16]byte
	// Err is the answer to a fetch of it.
	Err error
}

// Transaction is that of a TxnOffsetCommit.
type Transaction struct {
	ID       string
	Producer Producer
	// Version is the transactions version of the client: 2 for v5 on, which
	// adds the group to the transaction by itself (KIP-890).
	Version int16
}

// CheckMetadata refuses what a commit may not carry.
func (c *Coordinator) CheckMetadata(metadata string) error {
	if len(metadata) > c.cfg.MaxMetadata {
		return kerr.OffsetMetadataTooLarge
	}
	return nil
}

// Commit answers an OffsetCommit, once all in-sync replicas have it;
// GROUP_ID_NOT_FOUND is for a member of a group that there isn't. Retention
// is what clients of old ask for; negative leaves it to the broker.
func (c *Coordinator) Commit(ctx context.Context, group string, by Committer, retention time.Duration, offsets []Offset) error {
	s, err := c.loaded(ctx, group)
	if err != nil {
		return err
	}
	return c.commit(ctx, s, group, by, shards.NoProducer(), 0, retention, offsets)
}

// CommitInTransaction answers a TxnOffsetCommit: the offsets take effect when
// the transaction commits (KIP-98, KIP-447).
func (c *Coordinator) CommitInTransaction(ctx context.Context, group string, by Committer, t Transaction, offsets []Offset) error {
	if group == "" {
		return kerr.InvalidGroupID
	}
	s, err := c.loaded(ctx, group)
	if err != nil {
		return err
	}
	guard, err := c.verify(ctx, s, t)
	if err != nil {
		return err
	}
	by.Transactional = true
	return c.commit(ctx, s, group, by, t.Producer, guard, -1, offsets)
}

// verify has the transaction's coordinator confirm that the group belongs to
// it, or adds it, so that no pending offset can hang (KIP-890).
func (c *Coordinator) verify(ctx context.Context, s *shard, t Transaction) (guard uint64, err error) {
	v2 := t.Version >= 2 && c.cfg.TransactionVersion >= 2
	guard, ongoing, err := s.log.StartVerification(t.Producer.ID, t.Producer.Epoch, 0, v2)
	if err != nil {
		return 0, writeError(err)
	}
	if ongoing {
		return 0, nil
	}
	here := []env.TopicPartition{{Topic: TopicName, Partition: s.index}}
	err = c.cfg.Verifier.VerifyOrAdd(ctx, t.ID, t.Producer.ID, t.Producer.Epoch, here, v2)[0]
	switch {
	case errors.Is(err, kerr.NotEnoughReplicas), errors.Is(err, kerr.UnknownTopicOrPartition):
		return 0, kerr.CoordinatorNotAvailable // to be tried again
	case err != nil:
		return 0, err
	}
	return guard, nil
}

func (c *Coordinator) commit(
	ctx context.Context, s *shard, group string, by Committer, producer Producer, guard uint64, retention time.Duration, offsets []Offset,
) error {
	done := make(chan error, 1)
	err := s.with(group, by.Generation < 0, func(e *entry) {
		if e == nil || by.Generation >= 0 && !e.known() && e.group.State != Dead {
			done <- kerr.GroupIDNotFound
			return
		}
		if err := e.group.MayCommit(by, now()); err != nil {
			done <- err
			return
		}
		if err := s.mayCommit(offsets); err != nil {
			done <- err
			return
		}
		at := c.wall()
		var records []Record
		for _, o := range offsets {
			if reached := c.cfg.Cluster.Reached(o.Partition, o.Offset, o.LeaderEpoch); reached != o.Offset {
				o.Offset, o.LeaderEpoch = reached, -1
			}
			commit := Commit{
				Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata, At: at, ExpiresAt: -1, TopicID: o.TopicID,
			}
			if retention >= 0 {
				commit.ExpiresAt = at + retention.Milliseconds()
			}
			records = append(records, Record{Group: group, Partition: &o.Partition, Commit: &commit})
		}
		if len(records) == 0 {
			done <- nil
			return
		}
		s.enqueue(e, write{
			records: func() []Record { return records }, by: producer, guard: guard,
			done: func(err error) { done <- writeError(err) },
		})
	})
	if err != nil {
		return err
	}
	return answered(ctx, done)
}

// Fetch answers an OffsetFetch for one group; nil partitions are all that have
// an offset. What has none has offset -1. With stable, an offset that an open
// transaction may change is refused (KIP-447).
func (c *Coordinator) Fetch(ctx context.Context, group string, partitions []Partition, stable bool) ([]Offset, error) {
	s, err := c.loaded(ctx, group)
	if err != nil {
		return nil, err
	}
	var out []Offset
	var owes error
	err = s.with(group, false, func(e *entry) {
		ledger := NewLedger()
		if e != nil {
			ledger = e.ledger
		}
		all := partitions == nil
		if all {
			partitions = ledger.All()
		}
		for _, p := range partitions {
			if to, owed := c.cfg.Cluster.Owed(s.index, p); owed && e != nil && e.above(p, to) {
				owes = kerr.CoordinatorLoadInProgress
				return
			}
			o := Offset{Partition: p, Offset: -1, LeaderEpoch: -1}
			commit, ok, unstable := ledger.Lookup(p)
			ok = ok && !c.gone(p, commit)
			switch {
			case stable && unstable:
				o.Err = kerr.UnstableOffsetCommit
			case ok:
				o.Offset, o.LeaderEpoch, o.Metadata, o.TopicID = commit.Offset, commit.LeaderEpoch, commit.Metadata, commit.TopicID
			case all:
				continue
			}
			out = append(out, o)
		}
	})
	if err == nil {
		err = owes
	}
	return out, err
}

// gone reports whether an offset was committed for a topic that is no more;
// there may be another of its name.
func (c *Coordinator) gone(p Partition, commit Commit) bool {
	id, ok := c.cfg.Cluster.TopicID(p.Topic)
	return !ok || commit.TopicID != [16]byte{} && commit.TopicID != id
}
