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
	Hold(ctx context.Context, point, partition string) error
	Release(ctx context.Context, point, partition string) error
	// Await returns the partition of the next arrival at point that no earlier
	// Await returned.
	Await(ctx context.Context, point string) (partition string, err error)
}

// gateWatch hears of every arrival at a node's gates, as long as the node
// lives, and tells the gates of the episode whose stop it is.
type gateWatch struct {
	hooks  hooks
	wg     sync.WaitGroup
	cancel context.CancelFunc

	mu     sync.Mutex
	owners map[string]*gates // by partition
}

// watchGates starts to watch. close ends it.
func watchGates(ctx context.Context, h hooks) *gateWatch {
	w := &gateWatch{hooks: h, owners: map[string]*gates{}}
	ctx, w.cancel = context.WithCancel(ctx)
	for _, point := range chaos.Points() {
		w.wg.Go(func() {
			for {
				partition, err := h.Await(ctx, point)
				if err != nil {
					return // the broker or the watch has ended
				}
				w.mu.Lock()
				g := w.owners[partition]
				w.mu.Unlock()
				if g != nil {
					g.arrive(point, partition)
				}
			}
		})
	}
	return w
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
	node    int32
	parts   []traffic.Partition

	mu      sync.Mutex
	held    []string
	arrived map[string][]string // partitions seen, by point
	changed chan struct{}
}

// of gives the partitions' arrivals, from now on, to a stop of theirs.
func (w *gateWatch) of(rec *traffic.Recorder, cluster string, node int32, parts []traffic.Partition) *gates {
	g := &gates{
		watch: w, rec: rec, cluster: cluster, node: node, parts: parts,
		arrived: map[string][]string{}, changed: make(chan struct{}),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		w.owners[p.String()] = g
	}
	return g
}

func (g *gates) arrive(point, partition string) {
	g.mu.Lock()
	what := history.GateArrived
	if slices.Contains(g.held, point) {
		what = history.GateHeld
	}
	g.mu.Unlock()
	// It is in the history before anybody acts on it.
	g.event(point, partition, what)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived[point] = append(g.arrived[point], partition)
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gates) event(point, partition string, what history.GateEvent) {
	g.rec.Add(history.Event{Kind: history.KindGate, Gate: &history.Gate{
		Cluster: g.cluster, Node: g.node, Point: point, Partition: partition, What: what,
	}})
}

// hold arms a point for every partition.
func (g *gates) hold(ctx context.Context, point string) error {
	g.mu.Lock()
	g.held = append(g.held, point)
	g.mu.Unlock()
	for _, p := range g.parts {
		if err := g.watch.hooks.Hold(ctx, point, p.String()); err != nil {
			return fmt.Errorf("hold %s: %w", point, err)
		}
	}
	return nil
}

// release lets go who is held at point, now and later.
func (g *gates) release(ctx context.Context, point string) error {
	g.mu.Lock()
	g.held = slices.DeleteFunc(g.held, func(p string) bool { return p == point })
	g.mu.Unlock()
	g.event(point, "", history.GateReleased)
	for _, p := range g.parts {
		if err := g.watch.hooks.Release(ctx, point, p.String()); err != nil {
			return fmt.Errorf("release %s: %w", point, err)
		}
	}
	return nil
}

// crashed records that the node was killed while it was held at point, which
// ends the hold.
func (g *gates) crashed(point string) {
	g.mu.Lock()
	g.held = nil
	g.mu.Unlock()
	g.event(point, "", history.GateCrashed)
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
