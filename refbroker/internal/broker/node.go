// Package broker is one node: it makes the parts, connects them, and serves
// the Kafka protocol, one file for each API, named with its key.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/afero"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/metrics"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/peer"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/replication"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// Node is a broker that runs.
type Node struct {
	cfg      Config
	env      *env.Env
	quorum   *quorum.Node
	replicas *replica.Manager
	table    *wire.Table
	server   *wire.Server
	peers    *peer.Peers
	addrs    map[string]string
	// incarnation is new at each run, and epoch the broker epoch of this one.
	incarnation string
	epoch       int64

	// silence ends the heartbeats.
	silence context.CancelFunc
	beats   sync.WaitGroup
	stop    context.CancelFunc
	work    sync.WaitGroup
	failed  chan struct{}
	err     error // set before failed is closed
	ended   sync.Once
	endErr  error
}

// Start starts a node and returns once it serves. ctx bounds the start only;
// the node runs until Close or Kill.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, addrs: map[string]string{}, incarnation: newClusterID(), failed: make(chan struct{}), stop: func() {}, silence: func() {}}
	// Listeners first: an address in use is found before anything is written.
	listeners, err := n.listen(ctx)
	if err == nil {
		err = n.start(ctx, listeners)
	}
	if err != nil {
		for _, l := range listeners {
			_ = l.Close()
		}
		return nil, errors.Join(err, n.end(false))
	}
	return n, nil
}

// listen opens all listeners, in the order of cfg.
func (n *Node) listen(ctx context.Context) ([]net.Listener, error) {
	var all []net.Listener
	for _, c := range n.cfg.Listeners {
		l, err := n.cfg.Host.Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return all, fmt.Errorf("listener %q: %w", c.Name, err)
		}
		all = append(all, l)
		n.addrs[c.Name] = l.Addr().String()
	}
	return all, nil
}

func (n *Node) start(ctx context.Context, listeners []net.Listener) error {
	cfg := n.cfg
	clusterID, err := n.openQuorum(ctx)
	if err != nil {
		return err
	}
	logs := filepath.Join(cfg.DataDir, "logs")
	clean, err := cleanStop(cfg.Host.FS, logs)
	if err != nil {
		return err
	}
	cfg.Operations.note(func(o *Operations) { o.node, o.incarnation, o.quorum = cfg.NodeID, n.incarnation, n.quorum })
	if err := n.quorum.WaitReady(ctx); err != nil {
		return fmt.Errorf("wait for a leader of the metadata quorum: %w", err)
	}
	if err := n.checkProfile(); err != nil {
		return err
	}
	n.replicas, err = replica.NewManager(replica.Config{
		Host: cfg.Host, NodeID: cfg.NodeID, ClusterID: clusterID, Dir: logs, Defects: cfg.Defects, Logger: cfg.Log, TopicDefaults: cfg.TopicDefaults,
		Profile: cfg.Profile, Lag: cfg.ReplicaLag, RetentionEvery: cfg.RetainEvery, CompactEvery: cfg.CompactEvery,
	})
	if err != nil {
		return err
	}
	if err := n.register(ctx, clean); err != nil {
		return err
	}
	life, silence := context.WithCancel(context.Background())
	n.silence = silence
	n.beats.Go(func() { n.quorum.KeepAlive(life, n.epoch) })
	// From here on nobody sees metadata that is not in force on this node. What
	// is broken is told and tried again; the rest is served.
	if err := n.quorum.Install(ctx, n.replicas.Apply); err != nil {
		return fmt.Errorf("open the partitions: %w", err)
	}
	cfg.Operations.note(func(o *Operations) { o.replicas = n.replicas })
	n.peers = peer.New(peer.Config{
		Host: cfg.Host, Addresses: cfg.Peers, Image: n.quorum.Image, ClientID: nodeClient(cfg.NodeID, n.incarnation),
	})
	n.env = &env.Env{
		Peers:  n.peers,
		NodeID: cfg.NodeID, ClusterID: clusterID, Host: cfg.Host, Log: cfg.Log, Quorum: n.quorum, Replicas: n.replicas,
		Gate: cfg.Gate, Defects: cfg.Defects, TransactionVersion: cfg.TransactionVersion,
		OffsetsPartitions: cfg.OffsetsPartitions, TxnPartitions: cfg.TxnPartitions,
		Topics: &topics{node: cfg.NodeID, quorum: n.quorum, replicas: n.replicas},
	}
	return n.serve(listeners)
}

// openQuorum checks whose the data folder is, and joins the quorum. The
// quorum's store is what keeps another process out of the folder, so the
// folder is claimed only once that is open.
func (n *Node) openQuorum(ctx context.Context) (clusterID string, err error) {
	cfg := n.cfg
	if err := cfg.Host.FS.MkdirAll(cfg.DataDir, 0o755); err != nil {
		return "", fmt.Errorf("data folder %s: %w", cfg.DataDir, err)
	}
	m, exists, err := readMeta(cfg.Host.FS, cfg.DataDir)
	if err != nil {
		return "", fmt.Errorf("data folder %s: %w", cfg.DataDir, err)
	}
	switch {
	case exists:
		if err := m.claimedBy(cfg.DataDir, cfg.ClusterID, cfg.NodeID); err != nil {
			return "", err
		}
	case cfg.ClusterID != "":
		m = meta{cfg.ClusterID, cfg.NodeID}
	case len(cfg.Voters) > 1:
		return "", fmt.Errorf("a cluster of several voters needs a cluster id at its first start")
	default:
		m = meta{newClusterID(), cfg.NodeID}
	}
	n.quorum, err = quorum.Open(ctx, quorum.Config{
		Host: cfg.Host, Log: cfg.Log, Dir: filepath.Join(cfg.DataDir, "quorum"), ClusterID: m.clusterID,
		NodeID: cfg.NodeID, Listen: cfg.RaftListen, OnListen: cfg.OnQuorum, Voters: cfg.Voters,
		SessionTimeout: cfg.SessionTimeout,
		Claim:          func(existing bool) error { return m.claim(cfg.Host.FS, cfg.DataDir, existing) },
	})
	if err != nil {
		return "", fmt.Errorf("data folder %s: %w", cfg.DataDir, err)
	}
	return m.clusterID, nil
}

// cleanStop says whether the last run of the node ended cleanly; a first run
// has nothing to lose.
func cleanStop(fs afero.Fs, logs string) (bool, error) {
	there, err := afero.DirExists(fs, logs)
	if err != nil || !there {
		return true, err
	}
	return afero.Exists(fs, filepath.Join(logs, ".kafka_cleanshutdown"))
}

// checkProfile refuses another profile than the cluster's before anything of the
// logs is touched. What this node has not heard of yet, its registration does.
func (n *Node) checkProfile() error {
	_, err := n.quorum.Image().Try(quorum.RegisterBroker{ID: n.cfg.NodeID, Incarnation: n.incarnation, Profile: n.cfg.Profile})
	if err != nil {
		return fmt.Errorf("data folder %s: %w", n.cfg.DataDir, err)
	}
	return nil
}

// registerPause is between two tries to register.
const registerPause = 100 * time.Millisecond

func (n *Node) register(ctx context.Context, clean bool) error {
	c := quorum.RegisterBroker{
		ID: n.cfg.NodeID, Incarnation: n.incarnation, Listeners: map[string]string{}, Clean: clean, Profile: n.cfg.Profile,
	}
	for _, l := range n.cfg.Listeners {
		c.Listeners[l.Name] = l.Advertise
		if l.Advertise == "" {
			c.Listeners[l.Name] = n.addrs[l.Name]
		}
	}
	result, err := n.quorum.Apply(ctx, c)
	for err != nil && !errors.Is(err, kerr.InvalidRequest) {
		// The quorum's leader may die at any time, and a second registration of
		// the same incarnation changes nothing.
		n.cfg.Log.Warn("not registered yet", "error", err)
		select {
		case <-time.After(registerPause):
		case <-ctx.Done():
			return fmt.Errorf("register broker %d: %w: %w", c.ID, context.Cause(ctx), err)
		}
		result, err = n.quorum.Apply(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("register broker %d: %w", c.ID, err)
	}
	b, ok := result.(*quorum.Broker)
	if !ok {
		return fmt.Errorf("register broker %d: unexpected result %T", c.ID, result)
	}
	n.epoch = b.Epoch
	return nil
}

// serve starts the parts that run by themselves, and takes requests.
func (n *Node) serve(listeners []net.Listener) error {
	e := n.env
	coordinator := txn.NewForNode(e)
	groups := group.NewForNode(e, coordinator, n.cfg.Groups)
	mirrors := mirror.New(e, txn.Debts{Env: e, Coordinator: coordinator}, groups)
	var err error
	if n.table, err = wire.NewTable(n.apis(coordinator, groups, mirrors)...); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.work.Go(func() {
		_, _ = n.quorum.Wait(ctx, func(*quorum.Image) bool { return false })
		if err := n.quorum.Err(); err != nil {
			n.err = err
			close(n.failed)
		}
	})
	replicas := replication.New(replication.Config{
		Node: e.NodeID, BrokerEpoch: n.epoch, Quorum: n.quorum, Replicas: n.replicas, Peers: n.peers, Log: e.Log,
	})
	n.work.Go(func() { replicas.Run(ctx) })
	n.work.Go(func() { coordinator.Run(ctx) })
	n.work.Go(func() { groups.Run(ctx) })
	n.work.Go(func() {
		if err := mirrors.Run(ctx); err != nil {
			n.cfg.Log.Error("mirroring ended", "error", err)
		}
	})
	n.server = wire.NewServer(wire.Config{Table: n.table, Log: n.cfg.Log, Limits: n.cfg.Limits})
	if n.cfg.Operations != nil {
		watch := metrics.NewWatch(n.cfg.NodeID)
		n.work.Go(func() { watch.Run(ctx, n.quorum) })
		defer n.noteServing(mirrors, watch)
	}
	for i, l := range listeners {
		if err := n.server.ServeSecure(n.cfg.Listeners[i].Name, l, n.cfg.Listeners[i].Security); err != nil {
			return err
		}
	}
	return nil
}

// Addrs maps the names of the listeners to where they listen.
func (n *Node) Addrs() map[string]string { return n.addrs }

// ClusterID is the cluster's id.
func (n *Node) ClusterID() string { return n.env.ClusterID }

// Env is what the node gives to its parts.
func (n *Node) Env() *env.Env { return n.env }

// Failed is closed when the node can't go on; Err says why. It still has to be
// closed.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err is why the node failed; nil before Failed is closed.
func (n *Node) Err() error {
	select {
	case <-n.failed:
		return n.err
	default:
		return nil
	}
}

// handOverTimeout bounds a controlled shutdown: what can't be handed over then
// is fenced later.
const handOverTimeout = 2 * time.Second

// handOver gives what this node leads to others, before it stops serving
// (controlled shutdown, KIP-631). Nobody is asked where nobody is left.
func (n *Node) handOver() {
	others := false
	for id, b := range n.quorum.Image().Brokers {
		others = others || id != n.cfg.NodeID && !b.Fenced
	}
	if !others {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	_, err := n.quorum.Apply(ctx, quorum.FenceBroker{ID: n.cfg.NodeID, Epoch: n.epoch})
	if err == nil {
		err = n.quorum.HandOver(ctx)
	}
	if err != nil {
		n.cfg.Log.Warn("leaderships are not handed over", "error", err)
	}
}

// Close stops the node cleanly: no request is taken any more, every log is on
// disk and marked so. It waits for everything that the node started.
func (n *Node) Close() error { return n.end(true) }

// Kill stops the node as a crash would, as far as that is possible within a
// process: nothing is flushed, nothing is marked clean.
func (n *Node) Kill() error { return n.end(false) }

func (n *Node) end(clean bool) error {
	n.ended.Do(func() {
		n.cfg.Operations.note(func(o *Operations) { o.ending, o.metrics = true, nil })
		n.silence()
		n.beats.Wait()
		if clean && n.server != nil {
			n.handOver()
		}
		if n.server != nil {
			n.server.Close()
		}
		n.stop()
		n.work.Wait()
		if n.peers != nil {
			n.peers.Close()
		}
		if n.replicas != nil {
			n.endErr = n.replicas.Close(clean)
		}
		if n.quorum != nil {
			n.endErr = errors.Join(n.endErr, n.quorum.Close())
		}
	})
	return n.endErr
}
