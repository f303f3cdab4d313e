package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"watershed.example/fixtures"
)

// InFlightBytes is the least that a held response must have to count as one
// with records: an answer to a fetch that found nothing is smaller. [Nudge]
// writes at least as much.
const InFlightBytes = 1024

// Nudge writes records of at least so many bytes in all to mirrored partitions
// of the source, and returns when they are acknowledged: a fetch that waits
// there is answered then. It must not use the link that is struck.
type Nudge func(ctx context.Context, bytes int) error

// Strike carries out one plan:
//
//	s, err := chaos.New(plan, env.MirrorLink("a-to-b"), nudge)
//	err = s.Prepare(ctx)     // before the stop is requested
//	…                        // request the stop; the gate holds it at plan.Point
//	err = s.Hit(ctx)         // the fault happens; then release the gate
//	proof := s.Heal()        // now, or after STOPPED
//
// Its methods are called one after the other.
type Strike struct {
	plan  Plan
	link  *fixtures.Link
	nudge Nudge

	before fixtures.Counts // when the strike began

	mu    sync.Mutex
	proof Proof
}

// New makes a strike of a plan on its link. nudge may be nil for [None].
func New(plan Plan, link *fixtures.Link, nudge Nudge) (*Strike, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if link == nil || link.Name() != plan.Link {
		return nil, fmt.Errorf("strike %s: there is no such link", plan)
	}
	if nudge == nil && plan.Kind != None {
		return nil, fmt.Errorf("strike %s: nobody writes to the source, so nothing can be proved", plan)
	}
	return &Strike{plan: plan, link: link, nudge: nudge, proof: Proof{Plan: plan}}, nil
}

// Plan is the strike's.
func (s *Strike) Plan() Plan { return s.plan }

// begin opens the window of the proof.
func (s *Strike) begin() {
	s.before = s.link.Counts()
	s.update(func(p *Proof) { p.Began = time.Now() })
}

func (s *Strike) update(do func(*Proof)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(&s.proof)
}

// Prepare puts something in flight, where the plan needs that. It returns an
// error, with the link healed, when nothing comes before ctx ends.
func (s *Strike) Prepare(ctx context.Context) error {
	if !s.plan.InFlight() {
		return nil
	}
	s.begin()
	d, least := s.direction()
	err := s.hold(ctx, d, least)
	if err != nil {
		s.link.Heal()
		return fmt.Errorf("strike %s: nothing could be held in flight: %w", s.plan, err)
	}
	if s.plan.Kind != HoldOneFetch {
		// From here on nothing moves, not even the news that somebody hung up.
		s.link.Set(1-d, fixtures.Behaviour{Mode: fixtures.Hold})
	}
	s.update(func(p *Proof) { p.InFlight = s.link.Counts().Of(d).HeldNow })
	return nil
}

// direction is where the bytes in flight are, and how many those must be.
func (s *Strike) direction() (fixtures.Direction, int64) {
	if s.plan.Kind == PartitionToSource {
		return fixtures.ToServer, 1
	}
	return fixtures.FromServer, InFlightBytes
}

// fetch is Kafka's key of the API.
const fetch = 1

// patience is how long one attempt to catch a response waits: longer than any
// fetch waits at its source.
const patience = 1500 * time.Millisecond

// hold tries until least bytes are held in direction d.
func (s *Strike) hold(ctx context.Context, d fixtures.Direction, least int64) error {
	how := fixtures.Behaviour{Mode: fixtures.Hold}
	if s.plan.Kind == HoldOneFetch {
		how = fixtures.Behaviour{Mode: fixtures.HoldOne, API: fetch}
	}
	for {
		s.link.Set(d, how)
		if err := s.nudge(ctx, InFlightBytes); err != nil {
			return fmt.Errorf("write to the source: %w", err)
		}
		err := s.await(ctx, patience, func(c fixtures.Counts) bool { return c.Of(d).HeldNow >= least })
		if err == nil || ctx.Err() != nil {
			return err
		}
		// What is held is an answer without records, and no other comes before
		// it was delivered.
		s.link.Set(d, fixtures.Behaviour{})
		if err := s.await(ctx, patience, func(c fixtures.Counts) bool { return c.Of(d).HeldNow == 0 }); err != nil {
			return err
		}
	}
}

var errPatience = errors.New("the link's counters did not show it in time")

// await waits until the link's counters since the beginning satisfy ok.
func (s *Strike) await(ctx context.Context, limit time.Duration, ok func(fixtures.Counts) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errPatience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		c := s.link.Counts().Since(s.before)
		if ok(c) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (%s)", context.Cause(ctx), c)
		}
	}
}

// Hit lets the fault happen, while the gate holds the stop at the plan's point,
// and returns when the link's counters show it. Where the link is alive it
// writes to the source until they do. An error, with the fault still in place,
// says that it can't be shown before ctx ends.
func (s *Strike) Hit(ctx context.Context) error {
	if !s.plan.InFlight() {
		s.begin()
	}
	at := s.link.Counts()
	s.update(func(p *Proof) { p.Struck = time.Now() })
	if s.plan.Kind == None {
		return nil
	}
	s.happen(ctx)
	err := s.show(ctx, at)
	switch s.plan.Kind {
	case HoldAndDrop, HoldAndRelease, CutInFrame:
		s.link.Heal()
	}
	s.measure(at)
	if err != nil {
		return fmt.Errorf("strike %s: %w", s.plan, err)
	}
	if p := s.Proof(); !p.Bit() {
		return fmt.Errorf("strike %s", p)
	}
	return nil
}

// happen makes the link behave as the fault says.
func (s *Strike) happen(ctx context.Context) {
	drop, pass := fixtures.Behaviour{Mode: fixtures.Drop}, fixtures.Behaviour{}
	switch s.plan.Kind {
	case Partition:
		s.link.Cut()
	case PartitionToSource:
		s.link.Set(fixtures.ToServer, drop)
		s.link.Set(fixtures.FromServer, pass)
	case PartitionFromSource, HoldAndDrop:
		s.link.Set(fixtures.FromServer, drop)
		s.link.Set(fixtures.ToServer, pass)
	case Latency:
		b := fixtures.Behaviour{Mode: fixtures.Delay, Delay: s.plan.Delay, Jitter: s.plan.Jitter, Seed: s.plan.Seed}
		if b.Delay == 0 && b.Jitter == 0 {
			b.Delay, b.Jitter = DefaultDelay, DefaultJitter
		}
		s.slow(ctx, b)
	case HoldAndRelease, HoldOneFetch:
		s.link.Heal()
	case Bandwidth:
		s.slow(ctx, fixtures.Behaviour{Mode: fixtures.Slow, Rate: cmp.Or(s.plan.Rate, DefaultRate)})
	case CutInFrame:
		// What goes to the source stays as it is until the heal: the news that somebody
		// hung up would end the connection first.
		s.link.Set(fixtures.FromServer, fixtures.Behaviour{Mode: fixtures.CutOne, API: fixtures.AnyAPI})
	case Reset:
		s.link.Reset()
		s.link.Heal()
	}
}

// slow slows both directions down, what is in flight first: the news that somebody
// hung up would end its connection.
func (s *Strike) slow(ctx context.Context, b fixtures.Behaviour) {
	s.link.Set(fixtures.FromServer, b)
	if s.plan.InFlight() {
		// Where it does not, the proof says so.
		_ = s.await(ctx, showLimit, func(c fixtures.Counts) bool { return c.FromServer.Delayed > 0 })
	}
	s.link.Set(fixtures.ToServer, b)
}

// showLimit bounds how long the effect on what is in flight may take to be
// counted: it needs no more than the link's own goroutines.
const showLimit = 2 * time.Second

// show waits until the effect is counted. A link that is alive is nudged.
func (s *Strike) show(ctx context.Context, at fixtures.Counts) error {
	ok := func(fixtures.Counts) bool {
		s.measure(at)
		return s.Proof().Bit()
	}
	if s.plan.InFlight() {
		if s.plan.Kind == HoldAndRelease {
			inFlight := s.Proof().InFlight
			ok = func(fixtures.Counts) bool {
				s.measure(at)
				p := s.Proof()
				return p.Released+p.Undelivered >= inFlight
			}
		}
		return s.await(ctx, showLimit, ok)
	}
	for {
		if err := s.nudge(ctx, InFlightBytes); err != nil {
			return fmt.Errorf("write to the source: %w", err)
		}
		if s.plan.Kind == Reset && !s.Proof().Bit() {
			// The fetcher may have been between two connections.
			s.link.Reset()
		}
		err := s.await(ctx, patience, ok)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// measure takes the counts so far into the proof. at is when the fault happened.
func (s *Strike) measure(at fixtures.Counts) {
	now := s.link.Counts()
	since := now.Since(at).FromServer
	s.update(func(p *Proof) {
		p.take(now.Since(s.before))
		if p.InFlight > 0 && (p.Plan.Kind == HoldAndRelease || p.Plan.Kind == Latency) {
			p.Released = min(max(p.Released, since.Out), p.InFlight)
			p.Undelivered = min(max(p.Undelivered, since.Undelivered), p.InFlight-p.Released)
		}
	})
}

// Heal ends the fault, if it still lasts, and returns the final proof. It may be
// called at any time, also instead of Hit, and more than once.
func (s *Strike) Heal() Proof {
	s.mu.Lock()
	began, ended := !s.proof.Began.IsZero(), !s.proof.Ended.IsZero()
	s.mu.Unlock()
	if !began || ended {
		return s.Proof()
	}
	now := s.link.Counts()
	s.link.Heal()
	s.update(func(p *Proof) {
		p.take(now.Since(s.before))
		p.Ended = time.Now()
	})
	return s.Proof()
}

// Proof is what the strike did so far.
func (s *Strike) Proof() Proof {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proof
}
