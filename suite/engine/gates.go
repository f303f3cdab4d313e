package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"watershed.example/chaos"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// lastPoint is the gate at which a partition is STOPPED already.
const lastPoint = "after:stopped"

// hooks is what the engine asks of a broker's test hooks.
type hooks interface {
	// Node is the broker's number, Lives says whether it runs, and Stands whether
	// it does, but is paused: then it answers nothing.
	Node() int32
	Lives() bool
	Stands() bool
	Hold(ctx context.Context, point, partition string) error
	Release(ctx context.Context, point, partition string) error
	// Await returns the partition of the next arrival at point that no earlier
	// Await returned.
	Await(ctx context.Context, point string) (partition string, err error)
}

// gateWatch hears of every arrival at the gates of a cluster's nodes, as long as
// each lives, and tells the gates of the episode whose stop it is.
type gateWatch struct {
	nodes  []hooks
	wg     sync.WaitGroup
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu     sync.Mutex
	owners map[string]*gates // by partition
}

// watchGates starts to watch. close ends it.
func watchGates(ctx context.Context, nodes []hooks) *gateWatch {
	w := &gateWatch{nodes: nodes, owners: map[string]*gates{}}
	w.ctx, w.cancel = context.WithCancel(ctx)
	for _, h := range nodes {
		w.rewatch(h.Node())
	}
	return w
}

// rewatch watches a node that begins a new life; one that lives is not to be
// watched twice.
func (w *gateWatch) rewatch(node int32) {
	for _, h := range w.nodes {
		if h.Node() != node {
			continue
		}
		for _, point := range chaos.AllPoints() {
			w.wg.Go(func() { w.watch(w.ctx, h, point) })
		}
	}
}

func (w *gateWatch) watch(ctx context.Context, h hooks, point string) {
	for {
		partition, err := h.Await(ctx, point)
		if err != nil {
			return // the broker or the watch has ended
		}
		w.mu.Lock()
		g := w.owners[partition]
		w.mu.Unlock()
		if g != nil {
			g.arrive(h.Node(), point, partition)
		}
	}
}

func (w *gateWatch) close() {
	w.cancel()
	w.wg.Wait()
}

// gates are those of one stop: they hear of its partitions only, and record
// every arrival.
type gates struct {
	watch   *gateWatch
	rec     *traffic.Recorder
	cluster string
	parts   []traffic.Partition

	mu      sync.Mutex
	held    []string
	reborn  map[int32]bool      // nodes that may pass before they are held again
	arrived map[string][]string // partitions seen, by point
	changed chan struct{}
}

// of gives the partitions' arrivals, from now on, to a stop of theirs.
func (w *gateWatch) of(rec *traffic.Recorder, cluster string, parts []traffic.Partition) *gates {
	g := &gates{
		watch: w, rec: rec, cluster: cluster, parts: parts,
		arrived: map[string][]string{}, changed: make(chan struct{}), reborn: map[int32]bool{},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		w.owners[p.String()] = g
	}
	return g
}

func (g *gates) arrive(node int32, point, partition string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what := history.GateArrived
	if slices.Contains(g.held, point) && !g.reborn[node] {
		what = history.GateHeld
	}
	// It is in the history before anybody acts on it, and a hold before its release: one that
	// came after that would never end.
	g.event(node, point, partition, what)
	g.arrived[point] = append(g.arrived[point], partition)
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gates) event(node int32, point, partition string, what history.GateEvent) {
	g.rec.Add(history.Event{Kind: history.KindGate, Gate: &history.Gate{
		Cluster: g.cluster, Node: node, Point: point, Partition: partition, What: what,
	}})
}

// hold arms a point for every partition on every node: whoever comes to lead one.
func (g *gates) hold(ctx context.Context, point string) error {
	g.mu.Lock()
	g.held = append(g.held, point)
	g.mu.Unlock()
	for _, h := range g.watch.nodes {
		for _, p := range g.parts {
			if err := h.Hold(ctx, point, p.String()); err != nil && h.Lives() {
				return fmt.Errorf("hold %s on node %d: %w", point, h.Node(), err)
			}
		}
	}
	return nil
}

// holdAgain holds a node that has begun a new life at the points at which the stop is to be
// held yet. It may be past them by then, so that its arrivals are no holds any more.
func (g *gates) holdAgain(ctx context.Context, node int32) error {
	g.mu.Lock()
	points := slices.Clone(g.held)
	g.reborn[node] = true
	g.mu.Unlock()
	for _, h := range g.watch.nodes {
		for _, p := range g.parts {
			for _, point := range points {
				if h.Node() != node {
					continue
				}
				if err := h.Hold(ctx, point, p.String()); err != nil && h.Lives() {
					return fmt.Errorf("hold %s again on node %d: %w", point, node, err)
				}
			}
		}
	}
	return nil
}

// release lets go who is held at point, now and later. Whoever is held on a node
// that stands still stays so until [gates.releaseOn].
func (g *gates) release(ctx context.Context, point string) error {
	var moving []hooks
	g.mu.Lock()
	g.held = slices.DeleteFunc(g.held, func(p string) bool { return p == point })
	for _, h := range g.watch.nodes {
		if !h.Stands() {
			g.event(h.Node(), point, "", history.GateReleased)
			moving = append(moving, h)
		}
	}
	g.mu.Unlock()
	for _, h := range moving {
		if err := g.letGo(ctx, h, point); err != nil {
			return err
		}
	}
	return nil
}

// releaseOn lets go who is held at point on a node that stood still.
func (g *gates) releaseOn(ctx context.Context, node int32, point string) error {
	for _, h := range g.watch.nodes {
		if h.Node() == node {
			g.event(node, point, "", history.GateReleased)
			return g.letGo(ctx, h, point)
		}
	}
	return fmt.Errorf("release %s: there is no node %d", point, node)
}

func (g *gates) letGo(ctx context.Context, h hooks, point string) error {
	for _, p := range g.parts {
		if err := h.Release(ctx, point, p.String()); err != nil && h.Lives() {
			return fmt.Errorf("release %s on node %d: %w", point, h.Node(), err)
		}
	}
	return nil
}

// crashed records that all nodes were killed while they were held at point, which
// ends the hold.
func (g *gates) crashed(point string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = nil
	for _, h := range g.watch.nodes {
		g.event(h.Node(), point, "", history.GateCrashed)
	}
}

// doubtful records that a hold at point says nothing any more: another node may lead
// what is held.
func (g *gates) doubtful(point string) {
	for _, h := range g.watch.nodes {
		g.event(h.Node(), point, "", history.GateReleased)
	}
}

// awaitOne waits until one partition has arrived at point.
func (g *gates) awaitOne(ctx context.Context, point, partition string) error {
	for {
		g.mu.Lock()
		changed, there := g.changed, slices.Contains(g.arrived[point], partition)
		g.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// await waits until all partitions have arrived at point.
func (g *gates) await(ctx context.Context, point string) error {
	for {
		g.mu.Lock()
		changed := g.changed
		var missing []string
		for _, p := range g.parts {
			if !slices.Contains(g.arrived[point], p.String()) {
				missing = append(missing, p.String())
			}
		}
		g.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &traffic.StuckError{
				What: "STOPPING reaches " + point, Missing: []string{strings.Join(missing, ", ") + " not there yet"},
				Err: context.Cause(ctx),
			}
		}
	}
}
