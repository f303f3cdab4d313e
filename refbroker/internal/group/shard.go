package group

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/lock"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// shard is the coordinator's part for one partition of [TopicName], in one
// leader epoch.
type shard struct {
	c      *Coordinator
	index  int32
	epoch  int32
	ctx    context.Context //nolint:containedctx // the shard's life, which outlasts a request
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	// loadedOnce is closed when the shard is loaded.
	loadedOnce chan struct{}
	// kick wakes run: something is due earlier than it thought.
	kick chan struct{}

	// replaying is held over a replay; at is the next offset of it.
	replaying lock.Mutex
	at        int64

	mu      sync.Mutex // never held while waiting
	loaded  bool
	log     Log
	groups  map[string]*entry
	open    map[int64]map[string]bool // groups with pending offsets, by producer id
	stored  map[string]*Metadata      // groups as the log has them, while it is loaded
	waiting map[Token]chan Effect
	tokens  Token
	// armed is when run wakes by itself; zero for never.
	armed time.Time
}

// entry is one group.
type entry struct {
	group  *Group
	ledger *Ledger
	// queue is what is to be written, in the order in which it was decided.
	queue   []write
	writing bool
}

// known reports whether there is such a group for anybody to see.
func (e *entry) known() bool {
	g := e.group
	return g.State != Dead && (g.Used() || len(g.members) > 0 || len(g.promised) > 0 || !e.ledger.Unused())
}

func newShard(ctx context.Context, c *Coordinator, index, epoch int32) *shard {
	s := &shard{
		c: c, index: index, epoch: epoch, loadedOnce: make(chan struct{}), kick: make(chan struct{}, 1), replaying: lock.New(),
		waiting: map[Token]chan Effect{},
	}
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

// run loads the shard and then looks after its groups until it ends.
func (s *shard) run() {
	loaded := shards.Retry(s.ctx, s.c.cfg.Backoff, s.load, func(err error) {
		s.c.cfg.Log.Warn("groups not loaded yet", "partition", s.index, "epoch", s.epoch, "err", err)
	})
	if !loaded {
		return
	}
	sweep := time.NewTicker(s.c.cfg.SweepEvery)
	defer sweep.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-sweep.C:
			s.sweep()
		case <-due.C:
		case <-s.kick:
		}
		if next := s.tick(); !next.IsZero() {
			due.Reset(time.Until(next))
		} else {
			due.Stop()
		}
	}
}

// tick does what is due, and returns when something will be.
func (s *shard) tick() (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, wall := time.Now(), s.c.wall()
	for _, e := range s.groups {
		d := e.group.Deadline()
		if !d.IsZero() && !now.Before(d) {
			e.group.Tick(now, wall)
			s.carryOut(e)
			s.forget(e)
			d = e.group.Deadline()
		}
		if !d.IsZero() && (next.IsZero() || d.Before(next)) {
			next = d
		}
	}
	s.armed = next
	return next
}

// load rebuilds the groups from the log, and begins to follow it.
func (s *shard) load() error {
	log, err := s.c.cfg.Cluster.Open(s.index)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	// Only a high watermark at the log's end shows all that an earlier
	// coordinator may have told its clients.
	marks, err := log.Settle(s.ctx)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	s.mu.Lock()
	s.log, s.groups, s.open, s.stored = log, map[string]*entry{}, map[int64]map[string]bool{}, map[string]*Metadata{}
	s.mu.Unlock()
	s.at = marks.LogStart
	if err := s.catchUp(s.ctx); err != nil {
		return err
	}
	if s.at < marks.LogEnd {
		return fmt.Errorf("read at %d of %d gave nothing", s.at, marks.LogEnd)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	now := time.Now()
	for id, m := range s.stored {
		s.entry(id).group.Restore(*m, now)
	}
	s.stored = nil
	s.loaded = true
	close(s.loadedOnce)
	s.work.Go(s.follow)
	s.work.Go(s.lowerOwed)
	return nil
}

// follow replays the log as it grows, until the shard ends: a transaction's
// markers come from elsewhere.
func (s *shard) follow() {
	wait := s.c.cfg.Backoff
	for {
		changed := s.log.Changed()
		if err := s.catchUp(s.ctx); err != nil {
			if s.ctx.Err() != nil {
				return
			}
			s.c.cfg.Log.Warn("offsets not followed", "partition", s.index, "err", err)
			if !shards.Pause(s.ctx, wait) {
				return
			}
			wait = min(2*wait, 50*s.c.cfg.Backoff)
			continue
		}
		wait = s.c.cfg.Backoff
		select {
		case <-s.ctx.Done():
			return
		case <-changed:
		}
	}
}

// readAtOnce is how much of the log is read at a time.
const readAtOnce = 1 << 20

// catchUp replays the log up to its high watermark.
func (s *shard) catchUp(ctx context.Context) error {
	if err := s.replaying.LockContext(ctx); err != nil {
		return err
	}
	defer s.replaying.Unlock()
	for {
		got, err := s.log.Read(replica.ReadOptions{
			Offset: s.at, MaxBytes: readAtOnce, MinOne: true, ReplicaID: -1, CurrentLeaderEpoch: s.epoch, LastFetchedEpoch: -1,
		})
		if err != nil {
			return fmt.Errorf("read at %d: %w", s.at, err)
		}
		next, err := s.replay(got.Raw)
		if err != nil {
			return err
		}
		if next <= s.at {
			return nil
		}
		s.at = next
	}
}

// replay applies batches of the log.
func (s *shard) replay(raw []byte) (next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shards.DecodeBatches(raw, s.at, shards.Visitor{Record: s.replayRecord, Marker: s.replayMarker})
}

func (s *shard) replayRecord(offset, producer int64, key, value []byte) error {
	r, ok, err := decodeRecord(key, value)
	switch {
	case err != nil || !ok:
		return err
	case r.Partition == nil && s.stored == nil:
		// What this shard itself wrote of a group is known.
	case r.Partition == nil && r.Tombstone():
		delete(s.stored, r.Group)
	case r.Partition == nil:
		s.stored[r.Group] = r.Metadata
	case r.Tombstone():
		if e := s.groups[r.Group]; e != nil {
			e.ledger.Delete(*r.Partition)
			s.forget(e)
		}
	default:
		r.Commit.Record = offset
		s.entry(r.Group).ledger.Commit(producer, *r.Partition, *r.Commit)
		if producer >= 0 {
			if s.open[producer] == nil {
				s.open[producer] = map[string]bool{}
			}
			s.open[producer][r.Group] = true
		}
	}
	return nil
}

func (s *shard) replayMarker(producer int64, commit bool) {
	for id := range s.open[producer] {
		if e := s.groups[id]; e != nil {
			e.ledger.End(producer, commit)
			s.forget(e)
		}
	}
	delete(s.open, producer)
}

// entry returns a group's entry, made if needed. mu is held.
func (s *shard) entry(id string) *entry {
	e := s.groups[id]
	if e == nil {
		e = &entry{ledger: NewLedger(), group: NewGroup(id, Timing{
			InitialDelay: s.c.cfg.InitialRebalanceDelay, FreshTimeout: freshTimeout,
		})}
		s.groups[id] = e
	}
	return e
}

// forget drops an entry that holds nothing. mu is held.
func (s *shard) forget(e *entry) {
	if s.loaded && !e.known() && e.group.State == Empty && !e.writing && len(e.queue) == 0 && s.groups[e.group.ID] == e {
		delete(s.groups, e.group.ID)
	}
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
