package replication

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"watershed.example/refbroker/internal/peer"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// Quorum is the metadata as replication sees it; *quorum.Node is one.
type Quorum interface {
	Image() *quorum.Image
	Changed() <-chan struct{}
	Apply(ctx context.Context, c quorum.Command) (any, error)
}

// Config of a [Manager].
type Config struct {
	Node int32
	// BrokerEpoch is that of this run of the node (KIP-903).
	BrokerEpoch int64
	Quorum      Quorum
	Replicas    *replica.Manager
	Peers       *peer.Peers
	Log         *slog.Logger
	// ISREvery is how often members of ISRs are looked at; 0 is half a second.
	ISREvery time.Duration
}

// Manager replicates for one node. Make it with [New] and run it.
type Manager struct {
	cfg      Config
	fetchers map[int32]*fetcher // by leader; used by Run alone
	work     sync.WaitGroup
}

// New makes a manager.
func New(cfg Config) *Manager {
	if cfg.ISREvery <= 0 {
		cfg.ISREvery = 500 * time.Millisecond
	}
	return &Manager{cfg: cfg, fetchers: map[int32]*fetcher{}}
}

// Run follows the metadata until ctx ends, and then waits for all that it
// started.
func (m *Manager) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer m.work.Wait()
	defer cancel()
	m.work.Go(func() { m.watchISRs(ctx) })
	for {
		// The image is in force on this node before anybody sees it.
		changed := m.cfg.Quorum.Changed()
		m.assign(ctx)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// assign gives each partition that follows to the fetcher of its leader.
func (m *Manager) assign(ctx context.Context) {
	follows := map[int32]map[*replica.Partition]int32{}
	for _, p := range m.cfg.Replicas.All() {
		from, ok := p.Following()
		if !ok {
			continue
		}
		if follows[from.Leader] == nil {
			follows[from.Leader] = map[*replica.Partition]int32{}
		}
		follows[from.Leader][p] = from.LeaderEpoch
	}
	for leader := range follows {
		if m.fetchers[leader] == nil {
			f := newFetcher(m.cfg, leader)
			m.fetchers[leader] = f
			m.work.Go(func() { f.run(ctx) })
		}
	}
	for leader, f := range m.fetchers {
		f.follow(follows[leader])
	}
}
