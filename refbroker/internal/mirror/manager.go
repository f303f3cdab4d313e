package mirror

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/txn"
)

// Quorum is the metadata as mirroring sees it; *quorum.Node is one.
type Quorum interface {
	Image() *quorum.Image
	Changed() <-chan struct{}
	// Apply proposes a command; once it returns, Image shows it.
	Apply(ctx context.Context, c quorum.Command) (any, error)
}

// Debts are the transaction markers that were kept out of partitions while they
// mirrored (RO-2); *txn.Coordinator has them.
type Debts interface {
	// SettleDebts pays what a partition owes, before it is writable.
	SettleDebts(ctx context.Context, p txn.Partition) error
}

// Manager mirrors and stops the partitions that this node leads.
type Manager struct {
	node     int32
	cluster  string
	host     host.Host
	log      *slog.Logger
	quorum   Quorum
	batcher  *quorum.Batcher
	debts    Debts
	groups   Groups // nil: their offsets are not mirrored
	ranges   Offsets
	topics   env.Topics                  // nil where none can grow
	ensure   func(context.Context) error // that there is a group coordinator
	create   func(context.Context, env.NewTopic) (*quorum.Topic, error)
	replicas env.Replicas
	gate     gate.Gate
	defects  defect.Set
	// lookEvery is how often a mirror looks at its source, 0 for as its config says.
	lookEvery time.Duration

	wg sync.WaitGroup

	mu      sync.Mutex
	drivers map[partitionKey]*driver
	links   map[string]*link
	syncs   map[string]*groupSync
	status  map[partitionKey]Status
}

// partitionKey names a partition of one incarnation of a topic.
type partitionKey struct {
	topic string
	id    [16]byte
	index int32
}

func (k partitionKey) String() string { return fmt.Sprintf("%s-%d", k.topic, k.index) }

// Status is what only the node that drives a partition knows of it.
type Status struct {
	// Phase is the step of STOPPING that is under way, or "".
	Phase string
	// SourceHighWatermark is -1 when the source has not answered yet.
	SourceHighWatermark int64
	// Error says what is in the way now, or "".
	Error string
	// Attempts counts the tries since the last success.
	Attempts int16
}

// New makes a manager; [Manager.Run] starts it.
func New(e *env.Env, debts Debts, groups Groups) *Manager {
	m := newManager(e, e.Quorum, debts)
	m.groups, m.ranges = groups, nodeRanges{e}
	m.topics = e.Topics
	if e.Topics != nil {
		m.create = e.Topics.CreateTopic
	}
	m.ensure = func(ctx context.Context) error { return group.EnsureTopic(ctx, e) }
	return m
}

func newManager(e *env.Env, q Quorum, debts Debts) *Manager {
	return &Manager{
		node: e.NodeID, cluster: e.ClusterID, host: e.Host, log: e.Log, quorum: q, debts: debts,
		replicas: e.Replicas, gate: e.Gate, defects: e.Defects,
		batcher: quorum.NewBatcher(q.Apply),
		drivers: map[partitionKey]*driver{}, links: map[string]*link{}, syncs: map[string]*groupSync{}, status: map[partitionKey]Status{},
	}
}

// Status returns what this node knows of a partition that it drives.
func (m *Manager) Status(topic string, id [16]byte, index int32) (Status, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.status[partitionKey{topic, id, index}]
	return s, ok
}

// Run follows the metadata until ctx ends, and then waits for all that it
// started.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.batcher.Wait()
	defer m.wg.Wait()
	defer cancel()
	for {
		changed := m.quorum.Changed()
		m.reconcile(ctx, m.quorum.Image())
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// reconcile starts a driver for each partition that has something to do, tells
// the others of their partition's new state, and ends those of partitions that
// this node no longer leads.
func (m *Manager) reconcile(ctx context.Context, img *quorum.Image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := make(map[partitionKey]bool, len(m.drivers))
	for _, t := range img.Topics {
		if t.Mirror == "" {
			continue
		}
		for i, p := range t.Partitions {
			if p.Leader != m.node {
				continue
			}
			key := partitionKey{t.Name, t.ID, int32(i)}
			seen[key] = true
			if d, ok := m.drivers[key]; ok {
				d.stateIs(p.Mirror.State)
			} else if driven(p.Mirror.State) {
				m.startLocked(ctx, key)
			}
		}
	}
	for key, d := range m.drivers {
		if !seen[key] {
			d.cancel(errNotOurs)
		}
	}
	for key := range m.status {
		if !seen[key] {
			delete(m.status, key)
		}
	}
	for name, l := range m.links {
		if !sameSource(img.Mirrors[name], l.mirror) {
			l.end()
			delete(m.links, name)
			continue
		}
		l.throttle.set(m.share(img, img.Mirrors[name]))
	}
	m.syncGroupsLocked(ctx, img)
}

// driven reports whether a driver has something to do in a state.
func driven(s quorum.MirrorState) bool {
	switch s {
	case quorum.LogTruncation, quorum.EpochFencing, quorum.Mirroring, quorum.Pausing, quorum.Stopping:
		return true
	}
	return false
}

func (m *Manager) startLocked(ctx context.Context, key partitionKey) {
	d := newDriver(ctx, m, key)
	m.drivers[key] = d
	m.wg.Go(func() {
		d.run()
		m.mu.Lock()
		delete(m.drivers, key)
		// The state may have changed after the driver looked at it, and the
		// reconciliation of that have met this driver still.
		if v, err := d.view(); err == nil && driven(v.part.Mirror.State) && ctx.Err() == nil {
			m.startLocked(ctx, key)
		}
		m.mu.Unlock()
	})
}

// linkOf returns the way to a mirror's source, and starts fetchers in ctx when
// they are needed.
func (m *Manager) linkOf(ctx context.Context, mirror *quorum.Mirror) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.links[mirror.Name]; ok {
		if sameSource(mirror, l.mirror) {
			return l
		}
		l.end()
	}
	life, end := context.WithCancel(ctx)
	topics := func() []string {
		var names []string
		for _, t := range m.quorum.Image().Topics {
			if t.Mirror == mirror.Name && t.Desired == quorum.Mirroring {
				names = append(names, t.Name)
			}
		}
		return names
	}
	var l *link
	l = newLink(m.cluster, mirror, m.host, topics, func(addr string) *fetcher {
		f := newFetcher(l.way.fetching(m.cluster, mirror.Name), m.log.With("mirror", mirror.Name), addr, ExpectedCluster(m.defects, mirror.SourceClusterID), m.defects.Has(defect.LateFetchAppended))
		f.throttle = l.throttle
		f.blind = m.defects.Has(defect.DownstreamNotRealigned)
		m.wg.Go(func() { f.run(life) })
		return f
	})
	l.expected = ExpectedCluster(m.defects, mirror.SourceClusterID)
	l.throttle.set(m.share(m.quorum.Image(), mirror))
	l.ended, l.end = life.Done(), end
	m.links[mirror.Name] = l
	return l
}

// share is this node's part of the rate at which a mirror may fetch: as large as
// that of each other node that leads some of it.
func (m *Manager) share(img *quorum.Image, mirror *quorum.Mirror) int64 {
	settings, err := ReadSettings(mirror.Configs)
	if err != nil || settings.Rate == 0 {
		return 0
	}
	nodes := map[int32]bool{m.node: true}
	for _, t := range img.Topics {
		if t.Mirror != mirror.Name {
			continue
		}
		for _, p := range t.Partitions {
			if p.Mirror.State == quorum.Mirroring && p.Leader >= 0 {
				nodes[p.Leader] = true
			}
		}
	}
	return max(1, settings.Rate/int64(len(nodes)))
}

func (m *Manager) setStatus(key partitionKey, edit func(*Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.status[key]
	if !ok {
		s.SourceHighWatermark = -1
	}
	edit(&s)
	m.status[key] = s
}

// partition is this node's replica.
func (m *Manager) partition(key partitionKey) (replica.API, error) {
	p, err := m.replicas.Partition(key.topic, key.index)
	if err != nil {
		return nil, err
	}
	if p.TopicID() != key.id {
		return nil, fmt.Errorf("partition %s: topic id %x, not %x", key, p.TopicID(), key.id)
	}
	return p, nil
}
