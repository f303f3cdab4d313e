package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// Limits of the phases of a run. Each bounds how long an answer may take; what
// is not there by then is named in the error.
const (
	launchLimit   = 20 * time.Second
	trafficLimit  = 20 * time.Second
	catchUpLimit  = 15 * time.Second
	strikeLimit   = 10 * time.Second
	stopLimit     = 20 * time.Second
	writableLimit = 10 * time.Second
	readLimit     = 10 * time.Second

	// longPoll is how long the fetches wait that are to be served late.
	longPoll = 60 * time.Millisecond
)

// limited runs one phase under its limit; its error says which phase it was.
func limited(ctx context.Context, phase string, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %s", phase, limit))
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", phase, err)
	}
	return nil
}

// story is one failover on its way: the environment and what was seen so far.
type story struct {
	scenario Scenario
	world    *world
	rec      *traffic.Recorder
	layout   layout
	mirror   topologies.Mirror
	seed     uint64
	progress func(string, ...any)

	control  *traffic.Control
	source   *sourceTraffic
	promoted *promotedTraffic
	gates    *gates
	fault    *fault
	// whole lasts as long as the story: what runs beside its phases lives in it.
	whole context.Context
	// launched is how long the launch took, began when the story did, up the
	// time from launch to the first acknowledged write, the self-test left out.
	launched time.Duration
	began    time.Time
	up       time.Duration

	forged  *traffic.Header
	stopped map[traffic.Partition]history.Mirror
	// stuck is set when STOPPED did not come in time: a finding, not a fault of
	// the environment.
	stuck error
}

// play runs the story up to its end. An error says that the run could not do
// what it claims; what brokers did wrong is for the checks to find.
func (s *story) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.whole = ctx
	defer s.close()
	for _, step := range s.scenario.Topology.Steps {
		for _, phase := range s.phases(step) {
			s.progress("%s", phase.name)
			if err := limited(ctx, phase.name, phase.limit, phase.do); err != nil {
				if s.stuck != nil && errors.Is(err, s.stuck) {
					return nil // the evidence tells
				}
				return err
			}
		}
	}
	return s.rec.Err()
}

// phase is one bounded part of a step.
type phase struct {
	name  string
	limit time.Duration
	do    func(context.Context) error
}

// phases says how a step of the topology's story is played.
func (s *story) phases(step topologies.Step) []phase {
	promoted := step.Cluster == s.mirror.To
	switch step.Do {
	case topologies.CreateTopics:
		return []phase{{"topics on " + step.Cluster, launchLimit, s.createTopics}}
	case topologies.Write:
		if promoted {
			return []phase{
				{"traffic on the promoted cluster", trafficLimit, s.trafficAfter},
				{"reading to the end", readLimit + trafficLimit, s.readToEnd},
			}
		}
		return []phase{{"traffic on the source", trafficLimit, s.trafficBefore}}
	case topologies.StartMirror:
		return []phase{
			{"mirror start", catchUpLimit, s.startMirror},
			{"read-only destination", trafficLimit, s.readOnly},
		}
	case topologies.CatchUp:
		return []phase{{"open transaction", catchUpLimit, s.openTransaction}}
	case topologies.StopMirror:
		return []phase{
			{"stop", stopLimit + strikeLimit, s.stop},
			{"after the stop", trafficLimit, s.late},
		}
	case topologies.Promote:
		return []phase{{"promotion", writableLimit, s.writable}}
	}
	return []phase{{string(step.Do), launchLimit, func(context.Context) error {
		return fmt.Errorf("topology %s: unknown action %q", s.scenario.Topology.Name, step.Do)
	}}}
}

func (s *story) close() {
	if s.source != nil {
		s.source.close()
	}
	if s.promoted != nil {
		s.promoted.close()
	}
	if s.control != nil {
		s.control.Close()
	}
	s.fault.close()
	if s.gates != nil {
		s.gates.close()
	}
}

func (s *story) createTopics(ctx context.Context) error {
	topics := map[string]int32{}
	for _, t := range s.scenario.Topology.Topics {
		topics[t.Name] = int32(t.Partitions)
	}
	raw, err := traffic.NewRaw(ctx, s.rec, s.world.cluster(s.mirror.From), "a-admin")
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := raw.CreateTopics(ctx, topics); err != nil {
		return err
	}
	// The first write says that the clusters are up.
	first, err := traffic.NewProducer(s.rec, s.world.cluster(s.mirror.From), traffic.ProducerOptions{
		Name: "a-first", Mode: history.Plain, Attempts: 10,
	})
	if err != nil {
		return err
	}
	defer first.Close()
	err = first.Send(ctx, 1, s.layout.Written[0])
	s.up = s.launched + time.Since(s.began)
	return err
}

// beforeStop does what the scenario does to whole clusters before it requests
// the stop.
func (s *story) beforeStop(ctx context.Context) error {
	if s.scenario.KillSource {
		if err := s.world.killAll(ctx, s.mirror.From); err != nil {
			return err
		}
	}
	if s.scenario.RestartDestination {
		if err := s.fault.cutNow(ctx); err != nil {
			return err
		}
		return s.world.restartAll(ctx, s.mirror.To)
	}
	return nil
}

func (s *story) trafficBefore(ctx context.Context) error {
	s.rec.Phase(history.TrafficBefore)
	base := int64(transactionalBase)
	if s.scenario.RestartDestination {
		base += pidBlock
	}
	var err error
	if s.source, err = newSource(ctx, s.rec, s.world.cluster(s.mirror.From), s.layout, s.seed, base); err != nil {
		return err
	}
	return s.source.before(ctx)
}

func (s *story) startMirror(ctx context.Context) error {
	var err error
	if s.control, err = traffic.NewControl(s.rec, s.world.cluster(s.mirror.To), s.mirror.Name); err != nil {
		return err
	}
	bootstrap, id := s.world.mirrorSource(s.mirror)
	if err := s.control.Create(ctx, bootstrap, id); err != nil {
		return err
	}
	if err := s.control.Start(ctx, s.mirror.Topics...); err != nil {
		return err
	}
	_, err = s.control.Await(ctx, "every partition is mirrored", s.layout.All, func(_ traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateMirroring
	})
	if err == nil {
		s.rec.Phase(history.Mirroring)
	}
	return err
}

// readOnly reads and is refused on the destination while it mirrors.
func (s *story) readOnly(ctx context.Context) error {
	var err error
	s.promoted, err = newPromoted(ctx, s.rec, s.world.cluster(s.mirror.To), s.layout, s.seed)
	if err != nil {
		return err
	}
	if err := s.promoted.startReaders(s.whole, "b-across"); err != nil {
		return err
	}
	return s.promoted.refusedRound(ctx)
}

// openTransaction leaves a transaction open at the source and waits until the
// destination holds all of it.
func (s *story) openTransaction(ctx context.Context) error {
	if err := s.source.leaveOpen(ctx); err != nil {
		return err
	}
	ends := map[traffic.Partition]int64{}
	for _, p := range s.layout.All {
		o, err := s.source.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		ends[p] = o.HighWatermark
	}
	if _, err := s.control.Await(ctx, "the destination has caught up", s.layout.All, func(p traffic.Partition, m history.Mirror) bool {
		return m.DestinationOffset >= ends[p]
	}); err != nil {
		return err
	}
	if err := s.source.learn(ctx); err != nil {
		return err
	}
	headers, err := s.source.raw.HeadersFrom(ctx, s.layout.Forge, 0)
	if err != nil {
		return err
	}
	h, found := traffic.Reusable(headers, ends[s.layout.Forge])
	if !found {
		return fmt.Errorf("%s on the source holds no idempotent batch to forge", s.layout.Forge)
	}
	s.forged = &h
	for _, p := range s.layout.All {
		if _, err := s.source.raw.Producers(ctx, p, history.WhenMirroring); err != nil {
			return err
		}
	}
	return s.promoted.describe(ctx, history.WhenMirroring)
}

// stop requests the stop, lets the fault strike, and waits for STOPPED.
func (s *story) stop(ctx context.Context) error {
	s.source.startLive(s.whole)
	if err := s.beforeStop(ctx); err != nil {
		return err
	}
	h := s.world.hooks(s.mirror.To)
	s.gates = watchGates(s.whole, h, s.rec, s.mirror.To, 1)
	points := s.scenario.holds()
	for _, p := range points {
		if err := s.gates.hold(ctx, p); err != nil {
			return err
		}
	}
	s.promoted.startHammer(s.whole)
	if err := s.fault.prepare(ctx); err != nil {
		return err
	}
	s.rec.Phase(history.StopRequested)
	if err := s.control.Stop(ctx, s.mirror.Topics...); err != nil {
		return err
	}
	for _, p := range points {
		if err := s.gates.await(ctx, p, s.layout.All); err != nil {
			return s.stuckAt(err)
		}
		if err := s.fault.strikeAt(ctx, p); err != nil {
			return err
		}
		if p != lastPoint { // after it the partitions are writable
			if err := s.promoted.refusedRound(ctx); err != nil {
				return err
			}
		}
		if !s.scenario.HealAfterStop && s.scenario.Plan != nil {
			s.fault.heal()
		}
		if err := s.gates.release(ctx, p); err != nil {
			return err
		}
	}
	stopped, err := s.control.Await(ctx, "every partition is STOPPED", s.layout.All, func(_ traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateStopped
	})
	if err != nil {
		return s.stuckAt(err)
	}
	s.stopped = stopped
	s.rec.Phase(history.Stopped)
	return nil
}

// stuckAt remembers that the stop did not end in time, unless the whole run was
// called off.
func (s *story) stuckAt(err error) error {
	if stuck := new(traffic.StuckError); errors.As(err, &stuck) && !errors.Is(err, context.Canceled) {
		s.stuck = err
		s.rec.Note("STUCK: %v", err)
	}
	return err
}

// late heals the fault and lets the old source go on, where it lives.
func (s *story) late(ctx context.Context) error {
	if err := s.promoted.describe(ctx, history.WhenAfterStop); err != nil {
		return err
	}
	if err := s.promoted.atBarrier(ctx, s.stopped); err != nil {
		return err
	}
	for _, r := range s.promoted.readers {
		r.Snapshot()
	}
	s.fault.heal()
	lives := s.world.lives(s.mirror.From)
	if err := s.source.endLive(lives); err != nil || !lives {
		return err
	}
	return s.source.late(ctx)
}

// writable waits until the destination accepts writes, and writes with the
// clients that were refused before.
func (s *story) writable(ctx context.Context) error {
	if err := s.promoted.awaitHammer(ctx); err != nil {
		s.stuck = err
		s.rec.Note("STUCK: %v", err)
		return err
	}
	s.promoted.accepted(ctx)
	return nil
}

func (s *story) trafficAfter(ctx context.Context) error {
	s.rec.Phase(history.TrafficAfter)
	if err := s.promoted.collide(ctx, s.forged, s.source.mirrored); err != nil {
		return err
	}
	if err := s.promoted.after(ctx); err != nil {
		return err
	}
	if err := s.watch(ctx); err != nil {
		return err
	}
	if err := s.promoted.last(ctx); err != nil {
		return err
	}
	s.rec.Phase(history.Settled)
	return nil
}

// watchFor is how long a healed link is watched: a fetcher that still lives asks
// again within that time (a second is the usual pause between its attempts).
const watchFor = 1200 * time.Millisecond

// watchEvery paces what the old source writes meanwhile.
const watchEvery = 100 * time.Millisecond

// watch goes on writing to the old source after a fault of its link has healed,
// so that there is always something to come (LINK-3).
func (s *story) watch(ctx context.Context) error {
	if s.fault.healedAt.IsZero() || !s.world.lives(s.mirror.From) {
		return nil
	}
	end := time.NewTimer(watchFor - time.Since(s.fault.healedAt))
	defer end.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := s.source.plain.Send(ctx, 1, s.layout.Written...); err != nil {
			return err
		}
		if _, err := s.control.Describe(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
}

func (s *story) readToEnd(ctx context.Context) error {
	if err := s.promoted.span(ctx, s.stopped); err != nil {
		return err
	}
	return limited(ctx, "readers", readLimit, func(ctx context.Context) error {
		if err := s.promoted.readToEnd(ctx, "b-fresh"); err != nil {
			// A reader that does not get there is a finding.
			s.rec.Note("%v", err)
		}
		return nil
	})
}
