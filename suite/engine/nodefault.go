package engine

import (
	"context"
	"fmt"
	"slices"
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
	whole   bool // the cluster was waited for since
}

// newNodeFault prepares the fault that strikes a node in the recorder's episode,
// if the scenario has one; else it returns nil.
func newNodeFault(w *world, rec *traffic.Recorder, sc Scenario) (*nodeFault, error) {
	if sc.Node == nil || int32(sc.strikes()) != rec.Episode() {
		return nil, nil
	}
	s, err := chaos.NewNode(*sc.Node, w.env.Cluster(sc.Node.Target.Cluster))
	if err != nil {
		return nil, err
	}
	return &nodeFault{rec: rec, strike: s, planned: check.PlannedFault{
		ID: fmt.Sprintf("node-fault-%d", rec.Episode()), Episode: rec.Episode(), Name: string(sc.Node.Act),
		Link: "node:" + sc.Node.Target.String(), Phase: sc.Node.Point,
	}}, nil
}

// plannedFaults lists what is to strike in the episode.
func (e *episode) plannedFaults() []check.PlannedFault {
	all := e.fault.planned()
	if e.node != nil {
		all = append(all, e.node.planned)
	}
	if e.story.scenario.Amid != "" && e.struck() {
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

// due says whether this is the fault's point.
func (f *nodeFault) due(point string) bool { return f != nil && f.strike.Plan().Point == point }

// strikeAt strikes, if this is the fault's point.
func (f *nodeFault) strikeAt(ctx context.Context, point string) error {
	if !f.due(point) {
		return nil
	}
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

// strikeNode strikes a node, if this is the fault's point. One that begins a new life
// at once is watched in that.
func (e *episode) strikeNode(ctx context.Context, point string) error {
	if !e.node.due(point) {
		return nil
	}
	if plan := e.node.strike.Plan(); plan.Target.Of == liveTxn {
		e.node.strike.Meaning(e.source.live.TransactionalID())
	}
	plan := e.node.strike.Plan()
	if point != lastPoint && !slices.Contains(chaos.Acts(), plan.Act) {
		// Some take a while to strike, and another may lead before they are through: who
		// is held at the gate is not the leader for sure any more (RO-5).
		e.gates.doubtful(point)
	}
	if err := e.node.strikeAt(ctx, point); err != nil {
		return err
	}
	if w := e.story.watches[plan.Target.Cluster]; w != nil && plan.Act == chaos.Restart {
		w.rewatch(int32(e.node.strike.Node().Number()))
	}
	return nil
}

// aloneFor bounds how long a node that is stranded may go on before it is
// killed: it waits for others, and does so for good.
const aloneFor = 1500 * time.Millisecond

// finish ends a fault that keeps the stop from its end, once the rest was let go from
// point: when it has bit, and the node has done what it does alone: the stop's last
// step, if it does not wait for the others. A node that was stranded is killed.
func (e *episode) finish(ctx context.Context, point string) error {
	f := e.node
	if !f.due(point) || !f.strike.Plan().Act.Passing() {
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
const biteFor = 5 * time.Second

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
	if f == nil || f.ended || f.strike.Node() == nil {
		return nil
	}
	f.ended = true
	f.bite(ctx)
	p, err := f.strike.Heal(ctx)
	f.event(history.KindFaultStop, p)
	f.rec.Note("%s", p)
	return err
}

// healNode ends the fault that struck a node, and waits until all serve again.
func (e *episode) healNode(ctx context.Context) error {
	if e.node == nil || e.node.whole || e.node.strike.Node() == nil {
		return nil
	}
	e.node.whole = true
	lasted := !e.node.ended
	if err := e.node.heal(ctx); err != nil {
		return err
	}
	plan, node := e.node.strike.Plan(), int32(e.node.strike.Node().Number())
	if w := e.story.watches[plan.Target.Cluster]; w != nil && e.node.strike.Proof().Ends > 0 && plan.Act != chaos.Restart {
		switch {
		case plan.Act != chaos.Pause:
			w.rewatch(node)
		case !lasted: // it was let go with the others
		case plan.Point != chaos.FirstWrite:
			// It was held when it was paused, and passed over when the others were
			// let go.
			if err := e.gates.releaseOn(ctx, node, plan.Point); err != nil {
				return err
			}
		}
	}
	if err := e.story.world.awaitWhole(ctx, plan.Target.Cluster, e.layout.All); err != nil {
		return err
	}
	if e.sourceStruck() {
		return awaitServing(ctx, e.source.raw, e.layout.All)
	}
	return awaitServing(ctx, e.promoted.raw, e.layout.All)
}

// sourceStruck says whether it was a node of the source.
func (e *episode) sourceStruck() bool {
	return e.node != nil && e.node.strike.Plan().Target.Cluster == e.Mirror.From
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
func (e *episode) strikeWritable(ctx context.Context) error {
	for _, p := range e.layout.All {
		if _, err := e.promoted.raw.Offsets(ctx, p); err != nil { // tells the leader, and who is in sync
			return err
		}
	}
	if err := e.node.strikeAt(ctx, chaos.FirstWrite); err != nil {
		return err
	}
	e.promoted.accepted(ctx)
	if err := e.healNode(ctx); err != nil {
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
