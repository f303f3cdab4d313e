package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// nodeFault is what strikes a node in a scenario, and records what it did.
type nodeFault struct {
	rec     *traffic.Recorder
	strike  *chaos.NodeStrike
	planned check.PlannedFault
	ended   bool
	watched bool // in the life that it has begun since
	whole   bool // the cluster was waited for since
}

// newNodeFaults prepares the faults that strike nodes in the recorder's episode.
func newNodeFaults(w *world, rec *traffic.Recorder, sc Scenario) ([]*nodeFault, error) {
	var all []*nodeFault
	for i, plan := range sc.nodePlans(int(rec.Episode())) {
		s, err := chaos.NewNode(plan, w.env.Cluster(plan.Target.Cluster))
		if err != nil {
			return nil, err
		}
		id := fmt.Sprintf("node-fault-%d", rec.Episode())
		if i > 0 {
			id += fmt.Sprintf("-%d", i+1)
		}
		all = append(all, &nodeFault{rec: rec, strike: s, planned: check.PlannedFault{
			ID: id, Episode: rec.Episode(), Name: string(plan.Act), Link: "node:" + plan.Target.String(), Phase: plan.Point,
		}})
	}
	return all, nil
}

// plannedFaults lists what is to strike in the episode.
func (e *episode) plannedFaults() []check.PlannedFault {
	all := e.fault.planned()
	for _, f := range e.nodes {
		all = append(all, f.planned)
	}
	if e.story.scenario.Amid.strikesNodes() && e.struck() {
		all = append(all, e.amidFault())
	}
	return all
}

func (f *nodeFault) event(kind history.Kind, p chaos.NodeProof) {
	link, role := f.planned.Link, ""
	if p.Node > 0 {
		link = fmt.Sprintf("node:%s/%d", p.Plan.Target.Cluster, p.Node)
		role = p.Plan.Target.String()
	}
	f.rec.Add(history.Event{Kind: kind, Fault: &history.Fault{
		ID: f.planned.ID, Name: f.planned.Name, Link: link, Role: role, Phase: f.planned.Phase,
		BytesDropped: p.Dropped, BytesHeld: p.Held, BytesDelayed: p.Delayed, ConnectionsReset: p.Reset,
		ProcessEvents: p.Ends, Effects: p.Messages + p.Cut + p.LateEnds + p.Effects,
	}})
}

// due lists the faults of nodes whose point this is.
func (e *episode) due(point string) (all []*nodeFault) {
	for _, f := range e.nodes {
		if f.strike.Plan().Point == point {
			all = append(all, f)
		}
	}
	return all
}

// hit strikes.
func (f *nodeFault) hit(ctx context.Context) error {
	f.event(history.KindFaultStart, f.strike.Proof())
	if err := f.strike.Hit(ctx); err != nil {
		if f.strike.Node() == nil {
			return err // nobody had the role
		}
		// Whether it bit is told by what it counted, and judged.
		f.rec.Note("%v", err)
	}
	f.event(history.KindFaultProof, f.strike.Proof())
	return nil
}

// strikeNode strikes a node at the point of its plan. One that begins a new life at once
// is watched in that.
func (e *episode) strikeNode(ctx context.Context, f *nodeFault) error {
	if f.strike.Plan().Target.Of == liveTxn {
		f.strike.Meaning(e.source.live.TransactionalID())
	}
	plan := f.strike.Plan()
	if plan.Point != lastPoint && !slices.Contains(chaos.Acts(), plan.Act) {
		// Some take a while to strike, and another may lead before they are through: who
		// is held at the gate is not the leader for sure any more (RO-5).
		e.gates.doubtful(plan.Point)
	}
	ended, err := e.writeMeanwhile(ctx, plan)
	if err != nil {
		return err
	}
	err = f.hit(ctx)
	ended()
	if err != nil {
		return err
	}
	if plan.Act == chaos.Restart {
		return e.reborn(ctx, f)
	}
	return nil
}

// writeMeanwhile writes to the partition of a source whose replicas are to lag: they only do
// so behind what is written since, and the transactions of the live traffic may stand
// still, with a marker that the fault keeps from them.
func (e *episode) writeMeanwhile(ctx context.Context, plan chaos.NodePlan) (ended func(), err error) {
	if plan.Act != chaos.BelowMinISR || plan.Target.Role != chaos.Source {
		return func() {}, nil
	}
	at := slices.IndexFunc(e.layout.All, func(p traffic.Partition) bool { return p.String() == plan.Target.Of })
	if at < 0 {
		return nil, fmt.Errorf("strike %s: mirror %s has no such partition", plan, e.Mirror.Name)
	}
	lagging, err := traffic.NewProducer(e.rec, e.from(), traffic.ProducerOptions{
		Name: prefix(e.Mirror.From, e.Number) + "lagging", Mode: history.Plain, Attempts: 1,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil && lagging.Send(ctx, 1, e.layout.All[at]) == nil {
			continue // until one is not replicated any more
		}
	})
	return func() { cancel(); wg.Wait(); lagging.Close() }, nil
}

// reborn watches a node that has begun a new life, and has it held where the stop is to
// be held yet.
func (e *episode) reborn(ctx context.Context, f *nodeFault) error {
	node, cluster := int32(f.strike.Node().Number()), f.strike.Plan().Target.Cluster
	w := e.story.watches[cluster]
	if w == nil {
		return nil
	}
	w.rewatch(node)
	if cluster != e.Mirror.To || e.gates == nil {
		return nil
	}
	return e.gates.holdAgain(ctx, node)
}

// healAtOnce ends a fault at its point, while the stop is held there.
func (e *episode) healAtOnce(ctx context.Context, f *nodeFault) error {
	if err := f.heal(ctx); err != nil {
		return err
	}
	if f.strike.Plan().Act.Ends() {
		f.watched = true
		return e.reborn(ctx, f)
	}
	return nil
}

// aloneFor bounds how long a node that is stranded may go on before it is
// killed: it waits for others, and does so for good.
const aloneFor = 1500 * time.Millisecond

// finish ends a fault that keeps the stop from its end, once the rest was let go from
// its point: when it has bit, and the node has done what it does alone: the stop's last
// step, if it does not wait for the others. A node that was stranded is killed.
func (e *episode) finish(ctx context.Context, f *nodeFault) error {
	if !f.strike.Plan().Act.Passing() {
		return nil
	}
	f.bite(ctx)
	alone, cancel := context.WithTimeout(ctx, aloneFor)
	defer cancel()
	if err := e.gates.awaitOne(alone, lastPoint, f.strike.Plan().Target.Of); err == nil {
		f.rec.Note("%s is STOPPED while %s lasts", f.strike.Plan().Target.Of, f.strike.Plan().Act)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.strike.Plan().Act != chaos.Strand {
		return f.heal(ctx)
	}
	err := f.strike.Finish(ctx)
	f.event(history.KindFaultProof, f.strike.Proof())
	return err
}

// biteFor bounds how long a fault may take to be felt.
const biteFor = 10 * time.Second

// bite waits until the node has felt the fault. Whether it did is judged.
func (f *nodeFault) bite(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, biteFor, fmt.Errorf("not felt within %s", biteFor))
	defer cancel()
	if err := f.strike.Bite(ctx); err != nil {
		f.rec.Note("%s: %v", f.strike.Plan(), err)
	}
}

// heal ends the fault, if it still lasts.
func (f *nodeFault) heal(ctx context.Context) error {
	if f.ended || f.strike.Node() == nil {
		return nil
	}
	f.ended = true
	f.bite(ctx)
	p, err := f.strike.Heal(ctx)
	f.event(history.KindFaultStop, p)
	f.rec.Note("%s", p)
	return err
}

// healNodes ends the faults that struck nodes, and waits until all serve again.
func (e *episode) healNodes(ctx context.Context) error {
	var struck []*nodeFault
	for _, f := range e.nodes {
		if !f.whole && f.strike.Node() != nil {
			struck = append(struck, f)
		}
	}
	if len(struck) == 0 {
		return nil
	}
	for _, f := range struck {
		f.whole = true
		lasted := !f.ended
		if err := f.heal(ctx); err != nil {
			return err
		}
		if err := e.goesOn(ctx, f, lasted); err != nil {
			return err
		}
	}
	for _, f := range struck { // those of one cluster are there together
		if err := e.story.world.awaitWhole(ctx, f.strike.Plan().Target.Cluster, e.layout.All); err != nil {
			return err
		}
	}
	raw := e.promoted.raw
	if e.sourceStruck() {
		if err := awaitServing(ctx, e.source.raw, e.layout.All); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(struck, func(f *nodeFault) bool { return f.strike.Plan().Target.Cluster == e.Mirror.To }) {
		return nil
	}
	return awaitServing(ctx, raw, e.layout.All)
}

// goesOn takes up a node that was healed: it is watched in its new life, or let go from
// where it was held.
func (e *episode) goesOn(ctx context.Context, f *nodeFault, lasted bool) error {
	plan, node := f.strike.Plan(), int32(f.strike.Node().Number())
	w := e.story.watches[plan.Target.Cluster]
	if w == nil || f.strike.Proof().Ends == 0 || plan.Act == chaos.Restart {
		return nil
	}
	switch {
	case plan.Act != chaos.Pause:
		if !f.watched {
			w.rewatch(node)
		}
	case !lasted: // it was let go with the others
	case plan.Point != chaos.FirstWrite && plan.Target.Cluster == e.Mirror.To:
		// It was held when it was paused, and passed over when the others were let go
		// from there, and from later points.
		for _, point := range e.holds() {
			if err := e.gates.releaseOn(ctx, node, point); err != nil {
				return err
			}
		}
	}
	return nil
}

// sourceStruck says whether a node of the source was struck.
func (e *episode) sourceStruck() bool {
	return slices.ContainsFunc(e.nodes, func(f *nodeFault) bool { return f.strike.Plan().Target.Cluster == e.Mirror.From })
}

// awaitWhole waits until every node of a cluster is there, and every replica of
// the partitions is in sync.
func (w *world) awaitWhole(ctx context.Context, cluster string, parts []traffic.Partition) error {
	c := w.env.Cluster(cluster)
	if err := c.AwaitNodes(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for _, part := range parts {
		for {
			p, err := c.Partition(ctx, part.Topic, part.Index)
			if err != nil {
				return err
			}
			if len(p.InSync) == len(p.Replicas) {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%s on cluster %s: %d of %d replicas are in sync: %w", part, cluster, len(p.InSync), len(p.Replicas), context.Cause(ctx))
			}
		}
	}
	return nil
}

// strikeWritable strikes a node once the first write was taken, and goes on
// writing while it is away and when it is back (BAR-5, PSM-2).
func (e *episode) strikeWritable(ctx context.Context, due []*nodeFault) error {
	for _, p := range e.layout.All {
		if _, err := e.promoted.raw.Offsets(ctx, p); err != nil { // tells the leader, and who is in sync
			return err
		}
	}
	for _, f := range due {
		if err := f.hit(ctx); err != nil {
			return err
		}
	}
	e.promoted.accepted(ctx)
	if err := e.healNodes(ctx); err != nil {
		return err
	}
	e.promoted.accepted(ctx)
	return e.promoted.describe(ctx, history.WhenAfterStop)
}

// sampleEnds asks for the ends of every partition before its logs are saved, and
// for the replicas that are in sync (LOG-4).
func (e *episode) sampleEnds(ctx context.Context) error {
	if !e.story.scenario.replicated() {
		return nil
	}
	raws := []*traffic.Raw{e.promoted.raw}
	if e.story.world.lives(e.Mirror.From) {
		raws = append(raws, e.source.raw)
	}
	for _, raw := range raws {
		if err := awaitServing(ctx, raw, e.layout.All); err != nil {
			return err
		}
	}
	return nil
}
