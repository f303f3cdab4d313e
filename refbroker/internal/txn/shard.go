package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// shard is the coordinator's part for one partition of [TopicName], in one
// leader epoch.
type shard struct {
	c     *Coordinator
	index int32
	// epoch is the leader epoch, and the coordinator epoch of markers.
	epoch  int32
	ctx    context.Context //nolint:containedctx // the shard's life, which outlasts a request
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	// loadedOnce is closed when the shard is loaded.
	loadedOnce chan struct{}

	mu     sync.Mutex // never held while waiting
	loaded bool
	log    Log
	txns   map[string]*entry
}

// entry is one transactional id.
type entry struct {
	txn Txn
	// busy: a transition is on its way to the log.
	busy bool
	// changed is closed, and replaced, when busy or txn change.
	changed chan struct{}
}

func (e *entry) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func newShard(ctx context.Context, c *Coordinator, index, epoch int32) *shard {
	s := &shard{c: c, index: index, epoch: epoch, txns: map[string]*entry{}, loadedOnce: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// LeaderEpoch implements [shards.Shard].
func (s *shard) LeaderEpoch() int32 { return s.epoch }

// Loaded implements [shards.Shard].
func (s *shard) Loaded() <-chan struct{} { return s.loadedOnce }

// Start implements [shards.Shard].
func (s *shard) Start() { s.work.Go(s.run) }

// End stops the shard and waits for everything that it started. Its work is
// only ever begun with mu held and the context alive.
func (s *shard) End() {
	s.mu.Lock()
	s.cancel(kerr.NotCoordinator)
	s.mu.Unlock()
	s.work.Wait()
}

// run loads the shard and then looks after its transactions until it ends.
func (s *shard) run() {
	loaded := shards.Retry(s.ctx, s.c.cfg.Backoff, s.load, func(err error) {
		s.c.cfg.Log.Warn("transaction state not loaded yet", "partition", s.index, "epoch", s.epoch, "err", err)
	})
	if !loaded {
		return
	}
	tick := time.NewTicker(s.c.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.sweep()
		}
	}
}

// readAtOnce is how much of the log is read at a time.
const readAtOnce = 1 << 20

// load rebuilds the transactional ids from the log, and goes on with what was
// being ended.
func (s *shard) load() error {
	log, err := s.c.cfg.Cluster.Open(s.index)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	// Only a high watermark at the log's end shows all that an earlier
	// coordinator may have told its producers.
	marks, err := log.Settle(s.ctx)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	txns := map[string]Txn{}
	for at := marks.LogStart; at < marks.LogEnd; {
		got, err := log.Read(replica.ReadOptions{
			Offset: at, MaxBytes: readAtOnce, MinOne: true, ReplicaID: -1, CurrentLeaderEpoch: s.epoch, LastFetchedEpoch: -1,
		})
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		next, err := shards.DecodeBatches(got.Raw, at, shards.Visitor{Record: func(_, _ int64, key, value []byte) error {
			t, ok, err := decodeRecord(key, value)
			switch {
			case err != nil || !ok:
				return err
			case t.State == Dead:
				delete(txns, t.ID)
			default:
				txns[t.ID] = t
			}
			return nil
		}})
		if err != nil {
			return err
		}
		if next <= at {
			return fmt.Errorf("read at %d of %d gave nothing", at, marks.LogEnd)
		}
		at = next
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.log = log
	for id, t := range txns {
		s.txns[id] = &entry{txn: t, changed: make(chan struct{})}
		if t.State.preparing() {
			s.work.Go(func() { s.finish(t) })
		}
	}
	s.loaded = true
	close(s.loadedOnce)
	return nil
}

// look returns the current Txn of an id; ok is false for an unknown one.
func (s *shard) look(id string) (t Txn, ok, busy bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return Txn{}, false, false, err
	}
	e := s.txns[id]
	if e == nil || e.txn.ID == "" { // or its first record is not written yet
		return Txn{}, false, false, nil
	}
	return e.txn, true, e.busy, nil
}

// ready is called with mu held.
func (s *shard) ready() error {
	if s.ctx.Err() != nil {
		return kerr.NotCoordinator
	}
	if !s.loaded {
		return kerr.CoordinatorLoadInProgress
	}
	return nil
}

// update lets decide choose the next Txn of a transactional id, writes it, and
// lets it take effect. decide sees ok false for an unknown id; it is called
// with a lock held and must not wait.
func (s *shard) update(id string, decide func(t Txn, ok bool) outcome) (outcome, error) {
	s.mu.Lock()
	if err := s.ready(); err != nil {
		s.mu.Unlock()
		return outcome{}, err
	}
	e, known := s.txns[id]
	var t Txn
	if known {
		if e.busy {
			s.mu.Unlock()
			return outcome{}, kerr.ConcurrentTransactions
		}
		t = e.txn
	}
	o := decide(t, known)
	if o.write == nil {
		s.mu.Unlock()
		return o, o.err
	}
	if !known {
		e = &entry{changed: make(chan struct{})}
		s.txns[id] = e
	}
	e.busy = true
	s.mu.Unlock()

	err := s.write(*o.write)

	s.mu.Lock()
	defer s.mu.Unlock()
	e.busy = false
	defer e.notify()
	if err != nil {
		// The write may be in the log all the same. The next one for this id
		// overrides it, and a coordinator that loads it first acts on what no
		// producer was told yet.
		if !known {
			delete(s.txns, id)
		}
		s.c.cfg.Log.Warn("transaction state not written", "transactional_id", id, "state", o.write.State, "err", err)
		return outcome{}, coordinatorError(err)
	}
	if o.write.State == Dead {
		delete(s.txns, id)
		return o, o.err
	}
	e.txn = *o.write
	if e.txn.State.preparing() && t.State != e.txn.State && s.ctx.Err() == nil {
		s.work.Go(func() { s.finish(*o.write) })
	}
	return o, o.err
}

// write appends t to the log and waits until all in-sync replicas have it.
// It does not end with the request that asked for it: what is under way is
// either written or not, never left unknown because a client hung up.
func (s *shard) write(t Txn) error {
	_, err := s.log.Append(s.ctx, encode(t), replica.AppendOptions{
		Purpose: replica.ForInternal, Acks: -1, LeaderEpoch: s.epoch,
		Within: s.c.cfg.WriteTimeout, Late: context.DeadlineExceeded,
	})
	if err != nil && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// finish writes the markers of a transaction that is being ended, and then
// completes it. It goes on until that is done or the shard ends.
func (s *shard) finish(t Txn) {
	owed, ok := s.mark(t)
	if !ok {
		return
	}
	for wait := s.c.cfg.Backoff; ; wait = min(2*wait, 50*s.c.cfg.Backoff) {
		_, err := s.update(t.ID, func(now Txn, ok bool) outcome {
			if !ok {
				return outcome{}
			}
			done, err := now.complete(owed, s.c.now())
			if err != nil {
				return refuse(err)
			}
			return outcome{write: &done}
		})
		if err == nil || errors.Is(err, kerr.InvalidTxnState) || !shards.Pause(s.ctx, wait) {
			return
		}
	}
}

// sweep aborts what has been open for too long, forgets what was idle for too
// long, and settles debts.
func (s *shard) sweep() {
	s.mu.Lock()
	var due, indebted []string
	now := s.c.now()
	for id, e := range s.txns {
		switch {
		case e.busy:
		case len(e.txn.Debts) > 0:
			indebted = append(indebted, id)
			fallthrough
		case e.txn.timedOut(now), s.idle(e.txn, now):
			due = append(due, id)
		}
	}
	s.mu.Unlock()
	slices.Sort(due)
	for _, id := range due {
		_, err := s.update(id, func(t Txn, ok bool) outcome {
			switch {
			case ok && t.timedOut(now):
				// Its producer may come back with the old epoch (KIP-588).
				fenced, err := t.fence(true, now)
				return outcome{write: &fenced, err: err}
			case ok && s.idle(t, now):
				dead, err := t.moved(Expire, now)
				return outcome{write: &dead, err: err}
			}
			return outcome{}
		})
		if err != nil && s.ctx.Err() == nil {
			s.c.cfg.Log.Warn("transaction not aborted yet", "transactional_id", id, "err", err)
		}
	}
	slices.Sort(indebted)
	ctx, cancel := context.WithTimeout(s.ctx, s.c.cfg.WriteTimeout)
	defer cancel()
	for _, id := range indebted {
		if err := s.settle(ctx, id, nil); err != nil && s.ctx.Err() == nil {
			s.c.cfg.Log.Warn("owed marker not settled yet", "transactional_id", id, "err", err)
		}
	}
}

// idle reports whether a transactional id is to be forgotten.
func (s *shard) idle(t Txn, now int64) bool {
	return t.State.completed() && len(t.Debts) == 0 && now-t.UpdatedAt >= s.c.cfg.Expiration.Milliseconds()
}
