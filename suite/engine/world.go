package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"watershed.example/chaos"
	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// shortLag is how long replicas may lag where they are made to: by default that is
// half as long as a stop may take.
const shortLag = 2 * time.Second

// world is the environment of one scenario.
type world struct {
	env      *fixtures.Environment
	rec      *traffic.Recorder
	scenario Scenario
	data     string // the brokers' data folders
	keep     bool
	mirrors  map[string]fixtures.Mirrors // of a target's clusters, by name
	done     []func()
}

// launch starts the scenario's clusters, each connection through its link.
func launch(ctx context.Context, rec *traffic.Recorder, sc Scenario, o Options, folder string) (*world, error) {
	launcher, err := launcherOf(sc, o)
	if err != nil {
		return nil, err
	}
	w := &world{rec: rec, scenario: sc, data: filepath.Join(folder, "data"), keep: o.Keep}
	spec := fixtures.Spec{
		Topology: sc.Topology, Dir: w.data, Seed: o.Seed, Profile: string(sc.Profile),
		Defects:      map[string][]string{},
		OnNode:       w.onNode,
		OnConnection: w.onConnection,
	}
	if sc.Kafka {
		spec.Kafka = map[string]fixtures.Apache{}
		for _, m := range sc.Topology.Mirrors {
			if len(sc.Topology.Into(m.From)) == 0 {
				spec.Kafka[m.From] = fixtures.Apache{Jars: o.KafkaJars}
			}
		}
	}
	if o.Broker != nil {
		o.Broker.take(&spec)
	}
	for _, c := range sc.Topology.Clusters {
		if n := c.MinInSync(); n > 1 {
			spec.TopicDefaults = map[string]string{"min.insync.replicas": strconv.Itoa(n)}
		}
	}
	if slices.ContainsFunc(sc.nodes(), func(p chaos.NodePlan) bool { return p.Act == chaos.BelowMinISR }) {
		spec.ReplicaLag = shortLag
	}
	if sc.cleans() {
		spec.CleanEvery = cleanEvery
	}
	if sc.ForeignStop {
		to := sc.Topology.Episodes()[sc.strikes()-1].Mirror.To
		spec.Defects[to] = []string{foreignStop}
	}
	for _, d := range o.Defects {
		name, only, _ := strings.Cut(d, "@")
		if _, ok := sc.Topology.Cluster(only); only != "" && !ok {
			return nil, fmt.Errorf("defect %s: topology %s has no cluster %q", d, sc.Topology.Name, only)
		}
		for _, c := range sc.Topology.Clusters {
			_, apache := spec.Kafka[c.Name]
			if _, fake := spec.Kfake[c.Name]; !apache && !fake && (only == "" || only == c.Name) {
				spec.Defects[c.Name] = append(spec.Defects[c.Name], name)
			}
		}
	}
	if w.env, err = launcher.Launch(ctx, spec); err != nil {
		return nil, err
	}
	if err := w.drive(o.Target); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// launcherOf starts the scenario's clusters, or finds those of a target.
func launcherOf(sc Scenario, o Options) (fixtures.Launcher, error) {
	if o.Target != nil {
		return fixtures.External(o.Target.file, sc.space), nil
	}
	l, _, err := fixtures.Choose(o.Launcher)
	return l, err
}

// drive makes the drivers of a target's mirrors.
func (w *world) drive(t *Target) error {
	w.mirrors = map[string]fixtures.Mirrors{}
	if t == nil || t.file.Mirroring == nil {
		return nil
	}
	for _, c := range w.env.Clusters() {
		m, done, err := c.Mirrors()
		if err != nil {
			return err
		}
		w.mirrors[c.Name()] = m
		w.done = append(w.done, done)
	}
	return nil
}

// foreignStop is the defect that is another's rule: see [Scenario.ForeignStop].
const foreignStop = "barrier-over-open-transaction"

func (w *world) onNode(e fixtures.NodeEvent) {
	if e.What == "lost" {
		w.rec.Note("node %s/%d ended by itself", e.Cluster, e.Node)
		return
	}
	w.rec.Add(history.Event{At: e.At.UnixNano(), Kind: history.KindNode, Node: &history.Node{
		Cluster: e.Cluster, Node: int32(e.Node), What: history.NodeEvent(e.What),
	}})
}

func (w *world) onConnection(c fixtures.Connection) {
	if c.ClusterID == "" {
		return // nobody answered
	}
	w.rec.Add(history.Event{At: c.At.UnixNano(), Kind: history.KindConnection, Connection: &history.Connection{
		Client: c.Client, Address: c.Address, Cluster: c.Cluster, ClusterID: c.ClusterID,
	}})
}

func (w *world) launcher() string { return w.env.Launcher() }

func (w *world) clusterID(name string) string { return w.env.Cluster(name).ID() }

// cluster says how traffic reaches a cluster: through its client link.
func (w *world) cluster(name string) traffic.Cluster {
	c := w.env.Cluster(name)
	t := traffic.Cluster{Name: name, Bootstrap: c.Bootstrap(), Dialer: c.Dialer, Opts: c.Opts(), Space: c.Space(), Asked: c.Asked}
	if m, ok := w.mirrors[name]; ok {
		t.Mirrors, t.Pace = m, m.Pace()
	}
	return t
}

// mirrorSource is what the mirror is created with: the source's addresses on
// the mirror's own link, and its cluster id.
func (w *world) mirrorSource(m topologies.Mirror) (bootstrap, clusterID string) {
	addresses, id := w.env.MirrorSource(m.Name)
	return strings.Join(addresses, ","), id
}

func (w *world) selfTest(ctx context.Context) error { return w.env.SelfTest(ctx) }

// hooks returns the test hooks of each of a cluster's nodes.
func (w *world) hooks(cluster string) []hooks {
	var all []hooks
	for _, n := range w.env.Cluster(cluster).Nodes() {
		all = append(all, nodeHooks{n})
	}
	return all
}

// killAll kills every node of a cluster, as kill -9 does.
func (w *world) killAll(ctx context.Context, cluster string) error {
	var errs []error
	for _, n := range w.env.Cluster(cluster).Nodes() {
		errs = append(errs, n.Kill(ctx))
	}
	return errors.Join(errs...)
}

// restartAll stops and starts every node of a cluster, one after the other.
func (w *world) restartAll(ctx context.Context, cluster string) error {
	var errs []error
	for _, n := range w.env.Cluster(cluster).Nodes() {
		errs = append(errs, n.Restart(ctx))
	}
	return errors.Join(errs...)
}

// startAll starts every node of a cluster at once: none serves before it has met
// a majority of them.
func (w *world) startAll(ctx context.Context, cluster string) error {
	nodes := w.env.Cluster(cluster).Nodes()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.Start(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lives says whether a node of the cluster runs.
func (w *world) lives(cluster string) bool {
	for _, n := range w.env.Cluster(cluster).Nodes() {
		if n.Running() {
			return true
		}
	}
	return false
}

// close ends the brokers, cleanly, so that what they stored is on disk. A
// broker that had ended by itself is an error: its logs are saved all the same.
func (w *world) close() error {
	lost := w.env.Lost()
	for _, done := range w.done {
		done()
	}
	w.done = nil
	return errors.Join(lost, w.env.Close())
}

// save copies the raw logs and the brokers' output into the evidence.
func (w *world) save(folder string) error {
	if err := w.env.CopyLogs(folder); err != nil {
		return fmt.Errorf("save evidence: %w", err)
	}
	if w.keep {
		return nil
	}
	if err := os.RemoveAll(w.data); err != nil {
		return fmt.Errorf("remove the brokers' data: %w", err)
	}
	return nil
}

// SelfTest launches a scenario's clusters and proves that their links are the
// only way in (FA-21).
func SelfTest(ctx context.Context, launcher, folder string) error {
	l, _, err := fixtures.Choose(launcher)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, launchLimit, fmt.Errorf("the self-test took longer than %s", launchLimit))
	defer cancel()
	env, err := l.Launch(ctx, fixtures.Spec{Topology: topologies.ActivePassive(), Dir: filepath.Join(folder, "data")})
	if err != nil {
		return err
	}
	return errors.Join(env.SelfTest(ctx), env.Close())
}

// selfTestLimit bounds the self-test that goes before every scenario.
const selfTestLimit = 30 * time.Second

func runPath(folder string) string { return filepath.Join(folder, check.RunFile) }

// nodeHooks are the test hooks of one node.
type nodeHooks struct{ node *fixtures.Node }

func (n nodeHooks) Node() int32 { return int32(n.node.Number()) }

func (n nodeHooks) Lives() bool { return n.node.Running() }

func (n nodeHooks) Stands() bool { return n.node.Paused() }

func (n nodeHooks) Hold(ctx context.Context, point, partition string) error {
	h, err := n.node.Hooks()
	if err != nil {
		return err
	}
	return h.Arm(ctx, point, partition, "hold")
}

func (n nodeHooks) Release(ctx context.Context, point, partition string) error {
	h, err := n.node.Hooks()
	if err != nil {
		return err
	}
	_, err = h.Release(ctx, point, partition)
	return err
}

func (n nodeHooks) Await(ctx context.Context, point string) (string, error) {
	h, err := n.node.Hooks()
	if err != nil {
		return "", err
	}
	a, err := h.Await(ctx, point, "")
	return a.Partition, err
}
