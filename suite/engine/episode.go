package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"watershed.example/fixtures"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// episode is one stop of one mirror on its way, with the traffic on both of its
// clusters.
type episode struct {
	topologies.Episode
	story  *story
	rec    *traffic.Recorder // of this episode's events
	layout layout

	control  *traffic.Control
	source   *sourceTraffic
	promoted *promotedTraffic
	zombies  *zombies
	gates    *gates
	fault    *fault
	nodes    []*nodeFault
	trial    *traffic.Idempotence
	trialRaw *traffic.Raw
	held     *traffic.HeldOpen // while the source link comes back
	paused   *fixtures.Node    // the follower that holds STOPPING open
	ops      *traffic.Ops

	base    int64 // producer id of the source's first transactional producer
	forged  *traffic.Header
	stopped map[traffic.Partition]history.Mirror
	started bool // its mirror's start was asked for
	ended   bool
}

func (e *episode) from() traffic.Cluster { return e.story.world.cluster(e.Mirror.From) }
func (e *episode) to() traffic.Cluster   { return e.story.world.cluster(e.Mirror.To) }

// struck says whether what the scenario does to stops, it does to this one.
func (e *episode) struck() bool { return e.story.scenario.strikes() == e.Number }

// close ends what the episode still runs. It may be called more than once.
func (e *episode) close() {
	if e.source != nil {
		e.source.close()
	}
	if e.promoted != nil {
		e.promoted.close()
	}
	if e.zombies != nil {
		e.zombies.close()
	}
	if e.control != nil {
		e.control.Close()
	}
	if e.trialRaw != nil {
		e.trialRaw.Close()
	}
	if e.held != nil {
		e.held.Close()
	}
	if e.ops != nil {
		e.ops.Close()
	}
	if e.fault != nil {
		e.fault.close()
	}
	e.source, e.promoted, e.zombies, e.control, e.fault = nil, nil, nil, nil, nil
	e.trialRaw, e.held, e.ops = nil, nil, nil
}

func (e *episode) trafficBefore(ctx context.Context) error {
	e.rec.Phase(history.TrafficBefore)
	var restarts int64
	if e.struck() {
		restarts = e.story.scenario.restarts()
	}
	var err error
	e.source, err = newSource(ctx, e.rec, e.from(), e.layout, e.story.seed, prefix(e.Mirror.From, e.Number),
		func(ctx context.Context, raw *traffic.Raw) (int64, error) {
			return e.story.ids.choose(ctx, e, raw, restarts)
		})
	if err != nil {
		return err
	}
	if e.story.kafkaJars != "" {
		folder := filepath.Join(e.story.folder, "java-"+strconv.Itoa(e.Number))
		if e.source.java, err = newJavaTraffic(e.rec, e.from(), e.story.kafkaJars, folder, prefix(e.Mirror.From, e.Number)); err != nil {
			return err
		}
	}
	return e.source.before(ctx, e.early(e.layout.Written))
}

// wakeZombies lets writers write to a cluster that is about to mirror.
func (e *episode) wakeZombies(ctx context.Context) error {
	var err error
	if e.zombies, err = newZombies(ctx, e.rec, e.to(), e.layout, prefix(e.Mirror.To, e.Number)); err != nil {
		return err
	}
	if err := e.story.ids.pass(ctx, e.Mirror.To, e.zombies.raw); err != nil {
		return err
	}
	return e.zombies.write(ctx)
}

func (e *episode) startMirror(ctx context.Context) error {
	var err error
	if e.control, err = traffic.NewControl(e.rec, e.to(), e.Mirror.Name); err != nil {
		return err
	}
	if e.first() {
		bootstrap, id := e.story.world.mirrorSource(e.Mirror)
		if err := e.control.CreateWith(ctx, bootstrap, id, e.allConfigs()); err != nil {
			return err
		}
	}
	if err := e.outgrow(ctx); err != nil {
		return err
	}
	e.started = true
	if err := e.control.Start(ctx, e.Mirror.Topics...); err != nil {
		return err
	}
	_, err = e.control.Await(ctx, "every partition is mirrored", e.early(e.layout.All), func(_ traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateMirroring
	})
	if err == nil {
		e.rec.Phase(history.Mirroring)
	}
	return err
}

// first says whether no earlier episode created the mirror.
func (e *episode) first() bool {
	for _, other := range e.story.episodes {
		if other.Number < e.Number && other.Mirror.Name == e.Mirror.Name {
			return false
		}
	}
	return true
}

// readOnly reads and is refused on the destination while it mirrors.
func (e *episode) readOnly(ctx context.Context) error {
	var err error
	e.promoted, err = newPromoted(ctx, e.rec, e.to(), e.layout, e.story.seed, prefix(e.Mirror.To, e.Number),
		func(ctx context.Context, raw *traffic.Raw) error { return e.story.ids.pass(ctx, e.Mirror.To, raw) })
	if err != nil {
		return err
	}
	if err := e.promoted.startReaders(e.story.whole, "across"); err != nil {
		return err
	}
	if err := e.snapshotNow(ctx); err != nil {
		return err
	}
	if err := e.secondSource(ctx); err != nil {
		return err
	}
	if err := e.operateEarly(ctx); err != nil {
		return err
	}
	return e.refusedRound(ctx)
}

// refusedRound tries to write to the destination while it is read-only.
func (e *episode) refusedRound(ctx context.Context) error {
	if e.zombies != nil {
		if err := e.zombies.insist(ctx); err != nil {
			return err
		}
	}
	return e.promoted.refusedRound(ctx)
}

// catchUp waits until the destination holds what the source holds now.
func (e *episode) catchUp(ctx context.Context) error {
	source, err := traffic.NewRaw(ctx, e.story.unseen, e.from(), "look")
	if err != nil {
		return err
	}
	defer source.Close()
	if err := e.reach(ctx, source); err != nil {
		return err
	}
	return e.promoted.describe(ctx, history.WhenMirroring)
}

// reach waits until the destination holds all that the source holds now: the
// very same last batch, since a destination that has to realign may be long
// enough and hold something else (CH-3).
func (e *episode) reach(ctx context.Context, source *traffic.Raw) error {
	destination, err := traffic.NewRaw(ctx, e.story.unseen, e.to(), "look")
	if err != nil {
		return err
	}
	defer destination.Close()
	ends := map[traffic.Partition]int64{}
	tails := map[traffic.Partition]traffic.Header{}
	for _, p := range e.layout.All {
		headers, err := source.HeadersFrom(ctx, p, 0)
		if err != nil {
			return err
		}
		if n := len(headers); n > 0 {
			tails[p] = headers[n-1]
			ends[p] = tails[p].LastOffset + 1
		}
	}
	_, err = e.control.Await(ctx, "the destination has caught up", e.layout.All, func(p traffic.Partition, m history.Mirror) bool {
		if m.State != traffic.StateMirroring || m.DestinationOffset < ends[p] {
			return false
		}
		tail, any := tails[p]
		if !any {
			return true
		}
		f, err := destination.Fetch(ctx, p, traffic.FetchOptions{Offset: tail.BaseOffset, Isolation: history.ReadUncommitted})
		return err == nil && len(f.Headers) > 0 && sameBatch(f.Headers[0], tail)
	})
	return err
}

// sameBatch says whether two headers are of one batch, whatever became of its
// producer id on the way: that is for the checks to find.
func sameBatch(a, b traffic.Header) bool {
	a.ID.ProducerID = b.ID.ProducerID
	return a == b
}

// openTransaction leaves a transaction open at the source and waits until the
// destination holds all of it.
func (e *episode) openTransaction(ctx context.Context) error {
	if e.zombies != nil {
		if err := e.zombies.timedOut(ctx); err != nil {
			return err
		}
	}
	if err := e.source.leaveOpen(ctx); err != nil {
		return err
	}
	if err := e.reach(ctx, e.source.raw); err != nil {
		return err
	}
	if err := e.source.learn(ctx); err != nil {
		return err
	}
	headers, err := e.source.raw.HeadersFrom(ctx, e.layout.Forge, 0)
	if err != nil {
		return err
	}
	h, found := traffic.Reusable(headers, 1<<62)
	if !found {
		return fmt.Errorf("%s on the source holds no idempotent batch to forge", e.layout.Forge)
	}
	e.forged = &h
	for _, p := range e.layout.All {
		if _, err := e.source.raw.Offsets(ctx, p); err != nil {
			return err
		}
		if _, err := e.source.raw.Producers(ctx, p, history.WhenMirroring); err != nil {
			return err
		}
	}
	if err := e.sampleMirroring(ctx); err != nil {
		return err
	}
	return e.commitGroups(ctx)
}

// stuckAt remembers that a stop did not end in time, unless the whole run was
// called off.
func (e *episode) stuckAt(err error) error {
	if stuck := new(traffic.StuckError); errors.As(err, &stuck) && !errors.Is(err, context.Canceled) {
		e.story.stuck = err
		e.rec.Note("STUCK: %v", err)
	}
	return err
}
