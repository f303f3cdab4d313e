package engine

import (
	"context"
	"slices"
	"strings"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// locally tries the guarantees that the promoted cluster gives its own
// producers: retries, gaps, zombies, late deliveries (IDEM-3, TXN-6).
func (e *episode) locally(ctx context.Context) error {
	name := prefix(e.Mirror.To, e.Number)
	part := e.layout.Spanned[0]
	raw, err := traffic.NewRaw(ctx, e.rec, e.to(), name+"trial")
	if err != nil {
		return err
	}
	e.trialRaw = raw
	if e.trial, err = traffic.NewIdempotence(ctx, raw, part, e.promoted.payload); err != nil {
		return err
	}
	if err := e.trial.Run(ctx); err != nil {
		return err
	}
	return traffic.LateProduces(ctx, e.rec, e.to(), name+"late", part, e.promoted.payload)
}

// holdOpen opens a transaction on the promoted cluster before the source link
// comes back, where the fault outlasts the stop (TXN-5).
func (e *episode) holdOpen(ctx context.Context) error {
	if !e.story.scenario.outlasts(e.Number) {
		return nil
	}
	if err := e.promoted.awaitHammer(ctx); err != nil {
		return err
	}
	if err := e.passForged(ctx); err != nil {
		return err
	}
	var err error
	e.held, err = traffic.HoldOpen(ctx, e.rec, e.to(), prefix(e.Mirror.To, e.Number)+"held", e.layout.Probed, e.promoted.payload)
	return err
}

// commitHeld ends that transaction.
func (e *episode) commitHeld(ctx context.Context) error {
	if e.held == nil {
		return nil
	}
	if err := e.held.Commit(ctx); err != nil {
		e.rec.Note("%v", err)
	}
	return context.Cause(ctx)
}

// sampleMirroring records what the destination shows of a moment in which
// nothing is written: producers, ends, aborted lists; and asks it to delete
// records (RO-3, PSM-4).
func (e *episode) sampleMirroring(ctx context.Context) error {
	if err := e.promoted.describe(ctx, history.WhenMirroring); err != nil {
		return err
	}
	for _, p := range e.layout.All {
		if _, err := e.promoted.raw.FetchAgain(ctx, p, traffic.FetchOptions{Isolation: history.ReadCommitted}); err != nil {
			return err
		}
	}
	for _, p := range e.layout.Probed {
		if err := e.promoted.raw.DeleteRecords(ctx, p, 1, e.Mirror.Name, traffic.StateMirroring); err != nil {
			return err
		}
	}
	return nil
}

// atGate samples and probes while the stop is held, in scenarios that are about
// operation.
func (e *episode) atGate(ctx context.Context, point string) error {
	if _, err := e.control.Sample(ctx); err != nil {
		return err
	}
	if !e.story.scenario.Operate || point == lastPoint {
		return nil
	}
	return e.control.StopAgain(ctx, e.Mirror.Topics...)
}

// outgrow makes the source's log longer than the one of a destination that was
// a primary itself. So both hold other records at the same offsets under the
// leader epochs that both have elected, where epochs alone would align them
// wrongly (AL-1).
func (e *episode) outgrow(ctx context.Context) error {
	if e.zombies == nil {
		return nil
	}
	const beyond = 5
	for _, p := range e.layout.Written {
		own, err := e.zombies.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		theirs, err := e.source.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		if n := own.HighWatermark + beyond - theirs.HighWatermark; n > 0 {
			if err := e.source.plain.Send(ctx, int(n), p); err != nil {
				return err
			}
		}
	}
	return nil
}

// probeSource is how a probe's mirror reaches the source of this one.
func (e *episode) probeSource() traffic.Source {
	bootstrap, id := e.story.world.mirrorSource(e.Mirror)
	return traffic.Source{Cluster: e.from(), Bootstrap: bootstrap, ID: id, Config: e.story.world.env.Cluster(e.Mirror.From).SourceConfig()}
}

// operateEarly probes the control plane while the mirror runs.
func (e *episode) operateEarly(ctx context.Context) error {
	if !e.struck() || !e.story.scenario.Operate {
		return nil
	}
	if err := traffic.OtherCluster(ctx, e.rec, e.probeSource(), e.to()); err != nil {
		return err
	}
	var err error
	if e.ops, err = traffic.NewOps(ctx, e.rec, e.probeSource(), e.to()); err != nil {
		return err
	}
	return e.ops.InEveryState(ctx)
}

// operateLate goes on with it on the promoted cluster: a mirror whose source is
// cut off, one that is deleted, a restart, a source topic that is deleted.
func (e *episode) operateLate(ctx context.Context) error {
	if e.ops == nil {
		return nil
	}
	if err := e.control.StopAgain(ctx, e.Mirror.Topics...); err != nil {
		return err
	}
	ids, err := e.ops.IDs(ctx)
	if err != nil {
		return err
	}
	link := e.story.world.env.MirrorLink(e.Mirror.Name)
	link.Cut()
	err = e.ops.WithoutSource(ctx, ids)
	link.Heal()
	if err != nil {
		return err
	}
	if err := e.ops.DeleteMirror(ctx); err != nil {
		return err
	}
	e.story.forgetWatch(e.Mirror.To)
	if err := e.story.world.restartAll(ctx, e.Mirror.To); err != nil {
		return err
	}
	if err := awaitServing(ctx, e.promoted.raw, e.layout.All); err != nil {
		return err
	}
	if err := e.ops.DeleteSourceTopic(ctx); err != nil {
		return err
	}
	return e.ops.Write(ctx)
}

// stopMany stops topics of many partitions (OPS-3).
func (e *episode) stopMany(ctx context.Context) error {
	return traffic.Wide(ctx, e.rec, e.probeSource(), e.to(), e.story.scenario.Wide)
}

// secondSource asks for a topic of another mirror into the same cluster (FI-2).
func (e *episode) secondSource(ctx context.Context) error {
	for _, other := range e.story.episodes {
		if other.Number < e.Number && other.Mirror.To == e.Mirror.To && other.Mirror.From != e.Mirror.From && other.control != nil && !other.ended {
			return traffic.SameTopic(ctx, e.rec, e.probeSource(), e.to(), other.Mirror.Topics[0])
		}
	}
	return nil
}

// closeLoop asks the first cluster of a chain to mirror the last one (CH-4).
func (e *episode) closeLoop(ctx context.Context) error {
	chain := chainOf(e.story.scenario.Topology)
	if !e.last() || len(chain) < 3 || !slices.Contains(e.story.scenario.Topology.Links, topologies.Link{From: chain[len(chain)-1], To: chain[0]}) {
		return nil
	}
	var ring []traffic.Source
	for i, cluster := range chain {
		// The last one is reached by the first over the topology's link for that.
		bootstrap, id := e.story.world.env.Source(topologies.Link{From: cluster, To: chain[(i+1)%len(chain)]})
		ring = append(ring, traffic.Source{Cluster: e.story.world.cluster(cluster), Bootstrap: strings.Join(bootstrap, ","), ID: id, Config: e.story.world.env.Cluster(cluster).SourceConfig()})
	}
	return traffic.Loop(ctx, e.rec, ring)
}

// chainOf lists the clusters of a topology whose mirrors form one row; nil for
// others.
func chainOf(t topologies.Topology) []string {
	var row []string
	for _, m := range t.Mirrors {
		switch {
		case row == nil:
			row = []string{m.From, m.To}
		case row[len(row)-1] == m.From && m.To != row[0]:
			row = append(row, m.To)
		default:
			return nil
		}
	}
	return row
}
