package psm

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
)

// Reload says what a state is to be rebuilt to, and from what.
type Reload struct {
	// LogStart and Target: the state is to cover [LogStart, Target).
	LogStart, Target int64
	NowMs            int64
	// Replay gives the batches of the log that end at or above from and
	// below to, in order, control records decoded ([DecodeBatch]). It
	// returns each's error as it is. nil is a log without batches.
	Replay func(from, to int64, each func(*Batch) error) error
	// Completed, if set, gets every transaction that ended in what was
	// replayed: a recovery rebuilds the transaction index from it.
	Completed func(Completed) error
}

// Reload rebuilds the state from the newest usable snapshot and the log: after
// a start, a truncation, or when [State.SetStops] asks for it. The stops must
// have been set to those that hold for Target ([CutStops]). Snapshots above
// Target or below LogStart are deleted, so are damaged ones, with a warning.
//
// The log is always replayed from the snapshot on: that no producer is known
// says nothing about earlier offsets once a barrier can empty the state
// (PSM-9). Wherever a stop's barrier offset is passed, what came before is
// forgotten, though its barrier may be gone from the log (BAR-8).
//
// Verifications stay, but for those that the replayed log ends. Completed transactions since the snapshot count as
// unreplicated until [State.OnHighWatermark]. After an error the state is as
// it was before.
func (s *State) Reload(st *Snapshots, r Reload) error {
	if r.LogStart < 0 || r.Target < r.LogStart {
		return fmt.Errorf("reload producer state: target %d, log start %d: %w", r.Target, r.LogStart, ErrOffsetOrder)
	}
	s.Discard()
	n, err := s.newest(st, r)
	if err != nil {
		return err
	}
	n.verifying, n.lastGuard = maps.Clone(s.verifying), s.lastGuard
	if n.end < r.Target && r.Replay != nil {
		err := n.replayAll(r)
		if err != nil {
			return fmt.Errorf("reload producer state to %d: %w", r.Target, err)
		}
	}
	if err := n.moveEnd(r); err != nil {
		return err
	}
	*s = *n
	return nil
}

// newest gives the state of the newest usable snapshot, or an empty one.
func (s *State) newest(st *Snapshots, r Reload) (*State, error) {
	fresh := func() *State {
		n := New(s.cfg)
		n.stops = s.stops
		n.setEnd(r.LogStart)
		return n
	}
	if err := st.deleteIf(func(o int64) bool { return o > r.Target || o > s.late || o < r.LogStart }); err != nil {
		return nil, err
	}
	offsets, err := st.Offsets()
	if err != nil {
		return nil, err
	}
	for i := len(offsets) - 1; i >= 0; i-- {
		n := fresh()
		content, err := st.read(offsets[i])
		if err == nil {
			err = n.load(content, offsets[i], r.NowMs)
		}
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, ErrShort) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		st.log.Warn("producer snapshot is damaged: deleted, the next older is used",
			slog.Int64("offset", offsets[i]), slog.String("error", err.Error()))
		if err := st.Delete(offsets[i]); err != nil {
			return nil, err
		}
	}
	return fresh(), nil
}

func (s *State) replayAll(r Reload) error {
	if s.cfg.Faults.PutBack {
		return s.replayWhole(r)
	}
	return r.Replay(s.end, r.Target, func(b *Batch) error { return s.replay(b, r) })
}

func (s *State) replay(b *Batch, r Reload) error {
	if b.LastOffset >= r.Target || b.LastOffset < s.end {
		return nil
	}
	s.Begin(Append{Origin: Replication})
	if _, err := s.Add(b); err != nil {
		s.Discard()
		return err
	}
	return report(s.Commit(), r)
}

// moveEnd moves the end to the target, past stops that no batch told of.
func (s *State) moveEnd(r Reload) error {
	s.Begin(Append{Origin: Replication})
	for s.app.nextStop < r.Target {
		s.passStop(&s.app)
	}
	s.app.end = max(s.end, r.Target)
	return report(s.Commit(), r)
}

func report(completed []Completed, r Reload) error {
	if r.Completed == nil {
		return nil
	}
	for _, c := range completed {
		if err := r.Completed(c); err != nil {
			return err
		}
	}
	return nil
}
