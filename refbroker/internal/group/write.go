package group

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// write is what a group wants in the log.
type write struct {
	// records are asked for when it is the write's turn, with mu held; all that
	// was written for the group before is in its ledger then.
	records func() []Record
	by      Producer
	guard   uint64
	// done is told how it went, without mu.
	done func(error)
}

// enqueue lets w be written after everything that was decided for the group
// before, so that the log has it in the order of the decisions. mu is held and
// the shard ready.
func (s *shard) enqueue(e *entry, w write) {
	e.queue = append(e.queue, w)
	if !e.writing {
		e.writing = true
		s.work.Go(func() { s.drain(e) })
	}
}

// drain writes what is queued for a group.
func (s *shard) drain(e *entry) {
	for {
		s.mu.Lock()
		if len(e.queue) == 0 {
			e.writing = false
			s.forget(e)
			s.mu.Unlock()
			return
		}
		w := e.queue[0]
		e.queue = e.queue[1:]
		records := w.records()
		s.mu.Unlock()
		w.done(s.append(w, records))
	}
}

// recordsAtOnce bounds a batch of tombstones; what a client commits at once is
// in one batch.
const recordsAtOnce = 1000

// append writes records and waits until all in-sync replicas have them, and
// the ledgers too. It does not end with the request that asked for it.
func (s *shard) append(w write, records []Record) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.c.cfg.WriteTimeout)
	defer cancel()
	for len(records) > 0 {
		part := records
		if part[0].Tombstone() {
			part = part[:min(recordsAtOnce, len(part))]
		}
		records = records[len(part):]
		_, err := s.log.Append(ctx, encodeBatch(s.c.wall(), w.by, part), replica.AppendOptions{
			Purpose: replica.ForInternal, Acks: -1, LeaderEpoch: s.epoch, Guard: w.guard,
		})
		if err == nil {
			err = s.catchUp(ctx)
		}
		if err != nil && s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if err != nil {
			s.c.cfg.Log.Warn("group state not written", "group", part[0].Group, "partition", s.index, "err", err)
			return err
		}
	}
	return nil
}

// carryOut does what a group's events made necessary. mu is held.
func (s *shard) carryOut(e *entry) {
	for _, f := range e.group.Effects() {
		if f.Store == nil {
			if ch := s.waiting[f.Token]; ch != nil {
				delete(s.waiting, f.Token)
				ch <- f
			}
			continue
		}
		records := []Record{{Group: e.group.ID, Metadata: f.Store}}
		s.enqueue(e, write{by: shards.NoProducer(), records: func() []Record { return records }, done: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			err = writeError(err)
			if err == kerr.InvalidCommitOffsetSize { //nolint:errorlint // what writeError returns is never wrapped
				err = kerr.UnknownServerError // as Kafka tells of an assignment that is too large
			}
			e.group.Stored(f.Number, err, time.Now(), s.c.wall())
			if s.ctx.Err() == nil {
				s.carryOut(e)
			}
		}})
	}
	d := e.group.Deadline()
	if !d.IsZero() && (s.armed.IsZero() || d.Before(s.armed)) {
		s.armed = d
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// with lets f work on a group, and carries out what follows from it. Without
// create, e is nil for an unknown group.
func (s *shard) with(id string, create bool, f func(e *entry)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return err
	}
	e := s.groups[id]
	if e == nil && create {
		e = s.entry(id)
	}
	f(e)
	if e != nil {
		s.carryOut(e)
		s.forget(e)
	}
	return nil
}

// token makes a request that waits; mu is held.
func (s *shard) token() (Token, chan Effect) {
	s.tokens++
	ch := make(chan Effect, 1)
	s.waiting[s.tokens] = ch
	return s.tokens, ch
}

// await waits for the answer to a request. ok is false when the shard ends, or
// the node does, before there is one.
func (s *shard) await(ctx context.Context, t Token, ch chan Effect) (f Effect, ok bool) {
	select {
	case f = <-ch:
		return f, true
	case <-s.ctx.Done():
	case <-ctx.Done():
	}
	s.mu.Lock()
	delete(s.waiting, t)
	s.mu.Unlock()
	select {
	case f = <-ch:
		return f, true
	default:
		return f, false
	}
}
