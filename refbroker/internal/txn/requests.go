package txn

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/replica"
)

var _ env.TxnVerifier = (*Coordinator)(nil)

// InitRequest is an InitProducerId.
type InitRequest struct {
	// TransactionalID is nil for a producer that is only idempotent.
	TransactionalID *string
	TimeoutMillis   int32
	// ProducerID and Epoch are what a producer that recovers believes to have
	// (KIP-360), -1 for none.
	ProducerID int64
	Epoch      int16
}

// InitProducerID gives a producer its id and epoch. With a transactional id it
// fences whoever had that before; a transaction that is open is aborted first,
// meanwhile the answer is CONCURRENT_TRANSACTIONS.
func (c *Coordinator) InitProducerID(ctx context.Context, r InitRequest) (producerID int64, epoch int16, err error) {
	if r.TransactionalID == nil {
		id, err := c.freshID(ctx)
		if err != nil {
			return noProducerID, noProducerEpoch, err
		}
		return id, 0, nil
	}
	have := identity{r.ProducerID, r.Epoch}
	switch {
	case *r.TransactionalID == "", (r.ProducerID < 0) != (r.Epoch < 0):
		return noProducerID, noProducerEpoch, kerr.InvalidRequest
	case r.TimeoutMillis <= 0, int64(r.TimeoutMillis) > c.cfg.MaxTimeout.Milliseconds():
		return noProducerID, noProducerEpoch, kerr.InvalidTransactionTimeout
	case r.ProducerID < 0:
		have = noIdentity()
	}
	got, err := c.decide(ctx, *r.TransactionalID, func(t Txn, ok bool, fresh int64) outcome {
		if !ok {
			if fresh == noProducerID {
				return outcome{rotate: true}
			}
			t = newTxn(*r.TransactionalID, fresh)
		}
		return c.raised(t, t.initProducer(have, r.TimeoutMillis, fresh, c.now()))
	})
	if err != nil {
		return noProducerID, noProducerEpoch, err
	}
	return got.id, got.epoch, nil
}

// EndRequest is an EndTxn.
type EndRequest struct {
	TransactionalID string
	ProducerID      int64
	Epoch           int16
	Commit          bool
	// Version is the transactions version of the client: 2 from EndTxn v5 on.
	Version int16
}

// EndTxn decides the outcome of a transaction. It returns once the decision is
// in the log; the markers follow. The id and epoch are what the producer goes
// on with (other than before with transactions version 2).
func (c *Coordinator) EndTxn(ctx context.Context, r EndRequest) (producerID int64, epoch int16, err error) {
	if r.TransactionalID == "" {
		return noProducerID, noProducerEpoch, kerr.InvalidRequest
	}
	got, err := c.decide(ctx, r.TransactionalID, func(t Txn, ok bool, fresh int64) outcome {
		if !ok {
			return refuse(kerr.InvalidProducerIDMapping)
		}
		return t.end(c.ending(t, identity{r.ProducerID, r.Epoch}), r.Commit, r.Version, fresh, c.now())
	})
	if err != nil {
		return noProducerID, noProducerEpoch, err
	}
	return got.id, got.epoch, nil
}

// decide is shard.update for decisions that may need a fresh producer id,
// which is only taken when they do.
func (c *Coordinator) decide(ctx context.Context, id string, f func(t Txn, ok bool, fresh int64) outcome) (identity, error) {
	s, err := c.loadedShard(ctx, id)
	if err != nil {
		return noIdentity(), err
	}
	fresh := noProducerID
	for {
		o, err := s.update(id, func(t Txn, ok bool) outcome { return f(t, ok, fresh) })
		if err != nil {
			return noIdentity(), err
		}
		if !o.rotate {
			return o.answer, nil
		}
		if fresh, err = c.freshID(ctx); err != nil {
			return noIdentity(), err
		}
	}
}

func (c *Coordinator) freshID(ctx context.Context) (int64, error) {
	id, err := c.ids.take(ctx)
	if err != nil {
		c.cfg.Log.Warn("no producer id block", "err", err)
		return noProducerID, kerr.CoordinatorLoadInProgress
	}
	return id, nil
}

// AddRequest names partitions that join a transaction, or that are looked for
// in it.
type AddRequest struct {
	TransactionalID string
	ProducerID      int64
	Epoch           int16
	Partitions      []Partition
	// VerifyOnly adds nothing.
	VerifyOnly bool
	// Version is the transactions version of the client: 2 for Produce v12 on.
	Version int16
}

// AddPartitions adds partitions to a transaction, or verifies that they are in
// it. It returns one error for each. Unless it only verifies, one partition
// that can't be added keeps the others out too (OPERATION_NOT_ATTEMPTED).
func (c *Coordinator) AddPartitions(r AddRequest) []error {
	errs := make([]error, len(r.Partitions))
	if !r.VerifyOnly {
		bad := false
		for i, p := range r.Partitions {
			errs[i] = c.writable(p)
			bad = bad || errs[i] != nil
		}
		if bad {
			for i := range errs {
				if errs[i] == nil {
					errs[i] = kerr.OperationNotAttempted
				}
			}
			return errs
		}
	}
	c.join(r, errs)
	return errs
}

// writable reports why a partition can't take part in a transaction.
func (c *Coordinator) writable(p Partition) error {
	switch state := c.cfg.Cluster.Partition(p); {
	case !state.Exists:
		return kerr.UnknownTopicOrPartition
	case state.ReadOnly:
		return replica.ErrReadOnly
	}
	return nil
}

// join adds or verifies the partitions that have no error yet.
func (c *Coordinator) join(r AddRequest, errs []error) {
	var partitions []Partition
	for i, p := range r.Partitions {
		if errs[i] == nil {
			partitions = append(partitions, p)
		}
	}
	if len(partitions) == 0 {
		return
	}
	have := identity{r.ProducerID, r.Epoch}
	all := func(err error) {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
	if r.TransactionalID == "" {
		all(kerr.InvalidRequest)
		return
	}
	s, err := c.shard(r.TransactionalID)
	if err != nil {
		all(err)
		return
	}
	if !r.VerifyOnly {
		_, err = s.update(r.TransactionalID, func(t Txn, ok bool) outcome {
			if !ok {
				return refuse(kerr.InvalidProducerIDMapping)
			}
			return t.add(have, partitions, r.Version, c.now())
		})
		all(err)
		return
	}
	t, ok, _, err := s.look(r.TransactionalID)
	if err == nil && !ok {
		err = kerr.InvalidProducerIDMapping
	}
	if err != nil {
		all(err)
		return
	}
	for i, p := range r.Partitions {
		if errs[i] == nil {
			errs[i] = t.verify(have, p)
		}
	}
}

// VerifyOrAdd is what Produce asks before it appends transactional batches
// (KIP-890): clients of transactions version 1 must have added the partitions;
// those of version 2 add them by producing (add). It returns one error for
// each partition, as Produce v11 and up is to answer it: before that, clients
// know INVALID_TXN_STATE in place of TRANSACTION_ABORTABLE.
func (c *Coordinator) VerifyOrAdd(
	ctx context.Context, transactionalID string, producerID int64, epoch int16, partitions []env.TopicPartition, add bool,
) []error {
	r := AddRequest{TransactionalID: transactionalID, ProducerID: producerID, Epoch: epoch, VerifyOnly: !add, Version: version2}
	errs := make([]error, len(partitions))
	for i, p := range partitions {
		r.Partitions = append(r.Partitions, Partition{p.Topic, p.Partition})
		if add {
			errs[i] = c.writable(r.Partitions[i])
		}
	}
	refused := append([]error(nil), errs...)
	if far, ok := c.elsewhere(ctx, r); ok {
		for i, err := range far {
			if errs[i] == nil {
				errs[i] = produceError(err, add)
			}
		}
		return errs
	}
	deadline := time.NewTimer(c.cfg.AddWait)
	defer deadline.Stop()
	for {
		changed := c.changed(transactionalID)
		copy(errs, refused)
		c.join(r, errs)
		if changed == nil || !containsError(errs, kerr.ConcurrentTransactions) {
			break
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		case <-deadline.C:
		}
		break
	}
	for i, err := range errs {
		errs[i] = produceError(err, add)
	}
	return errs
}

func containsError(errs []error, want error) bool {
	for _, err := range errs {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// changed returns the channel that is closed at the next change of a
// transactional id, nil for an unknown one.
func (c *Coordinator) changed(id string) <-chan struct{} {
	s, err := c.shard(id)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.txns[id]; e != nil {
		return e.changed
	}
	return nil
}

// produceError is a coordinator's answer in the words of Produce: clients act
// on some codes there that they take for fatal, or for stale metadata, when
// they come under the coordinator's name.
func produceError(err error, add bool) error {
	switch {
	case errors.Is(err, kerr.ProducerFenced):
		return kerr.InvalidProducerEpoch
	case errors.Is(err, kerr.ConcurrentTransactions) && !add,
		errors.Is(err, kerr.CoordinatorLoadInProgress), errors.Is(err, kerr.CoordinatorNotAvailable),
		errors.Is(err, kerr.NotCoordinator):
		return kerr.NotEnoughReplicas
	}
	return err
}
