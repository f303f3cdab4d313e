package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/lock"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// Config of a [Manager].
type Config struct {
	Host   host.Host
	NodeID int32
	// ClusterID is noted as the writer of own barriers.
	ClusterID string
	// Dir is the folder of the node's logs (DATA/logs).
	Dir     string
	Defects defect.Set
	// Logger may be nil.
	Logger *slog.Logger
	// Profile is the cluster's; "" is the default.
	Profile quorum.Profile
	// TopicDefaults are topic configs for topics that do not set them.
	TopicDefaults map[string]string
	// CheckpointEvery is how often recovery points and high watermarks are
	// written down; 0 is a minute, as in Kafka.
	CheckpointEvery time.Duration
	// Lag is replica.lag.time.max.ms: how long a follower may lack something
	// before it leaves the ISR; 0 is [DefaultLag].
	Lag time.Duration
	// RetentionEvery is how often retention is applied; 0 is five minutes, as
	// in Kafka.
	RetentionEvery time.Duration
	// CompactEvery is how often logs are looked at that may be compacted; 0 is
	// fifteen seconds, as in Kafka.
	CompactEvery time.Duration
}

// DefaultLag is the default of [Config.Lag]: Kafka's before 2.5 (KIP-537),
// since tests wait for it.
const DefaultLag = 10 * time.Second

// How often Kafka applies retention, and looks for logs to compact.
const (
	DefaultRetentionEvery = 5 * time.Minute
	DefaultCompactEvery   = 15 * time.Second
)

// Manager holds the partitions of one node.
type Manager struct {
	cfg     Config
	dir     string
	fs      afero.Fs
	inflate storage.Decompress
	deflate storage.Compress
	// before: what the last run of the node left.
	before marks
	clean  bool

	// applying is held over Apply and Close.
	applying lock.Mutex
	stop     context.CancelFunc
	loops    sync.WaitGroup
	closed   bool
	// seen is what was applied last to each partition. Under applying.
	seen map[key]applied
	// swept: logs that were reassigned away while the node was down are gone.
	swept bool
	// made: folders of logs were made since the logs folder was synced.
	made bool

	// saving is held while the checkpoints are written; saved is what they
	// have.
	saving lock.Mutex
	saved  marks

	// live are the epochs of the brokers that are not fenced.
	live atomic.Pointer[map[int32]int64]
	// joining holds one token while a replica may join an ISR.
	joining chan struct{}

	mu    sync.RWMutex
	parts map[key]*Partition
	known map[string]int32 // topics of the last image, and how many partitions they have
}

type key struct {
	topic string
	index int32
}

type applied struct {
	topic     *quorum.Topic
	partition *quorum.Partition
}

// cleanMark is the file that says that all logs were closed cleanly.
const cleanMark = ".kafka_cleanshutdown"

// NewManager opens the folder of a node's logs. The logs themselves are opened
// by the first [Manager.Apply]. Close it.
func NewManager(cfg Config) (*Manager, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{
		{&cfg.CheckpointEvery, time.Minute},
		{&cfg.RetentionEvery, DefaultRetentionEvery},
		{&cfg.CompactEvery, DefaultCompactEvery},
		{&cfg.Lag, DefaultLag},
	} {
		if *d.to <= 0 {
			*d.to = d.value
		}
	}
	m := &Manager{
		joining: make(chan struct{}, 1),
		cfg:     cfg, dir: cfg.Dir, fs: cfg.Host.FS, applying: lock.New(), saving: lock.New(),
		seen: map[key]applied{}, parts: map[key]*Partition{},
	}
	m.deflate = deflate()
	inflate := sync.OnceValue(func() kgo.Decompressor { return kgo.DefaultDecompressor() })
	m.inflate = func(src []byte, codec int8) ([]byte, error) {
		return inflate().Decompress(src, kgo.CompressionCodecType(codec))
	}
	if _, err := parseTopicConfigs(cfg.TopicDefaults, nil); err != nil {
		return nil, fmt.Errorf("topic defaults: %w", err)
	}
	if err := m.prepare(); err != nil {
		return nil, fmt.Errorf("logs folder %s: %w", m.dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.loops.Go(func() { every(ctx, cfg.CheckpointEvery, m.checkpoint) })
	m.loops.Go(func() { every(ctx, cfg.RetentionEvery, m.retainAll) })
	m.loops.Go(func() { every(ctx, cfg.CompactEvery, func() { m.compactAll(ctx) }) })
	return m, nil
}

// prepare reads what the last run left, and takes its clean-shutdown mark
// away: from now on a stop is unclean until Close says otherwise.
func (m *Manager) prepare() error {
	if err := m.fs.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	var err error
	if m.before, err = loadMarks(m.fs, m.dir); err != nil {
		return err
	}
	m.saved = m.before
	mark := filepath.Join(m.dir, cleanMark)
	if m.clean, err = afero.Exists(m.fs, mark); err != nil {
		return err
	}
	if m.clean {
		if err := m.fs.Remove(mark); err != nil {
			return err
		}
	}
	entries, err := afero.ReadDir(m.fs, m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), suffixDelete) {
			if err := m.fs.RemoveAll(filepath.Join(m.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return storage.SyncDir(m.fs, m.dir)
}

// every does something now and then, until ctx ends.
func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// checkpoint writes the checkpoints down.
func (m *Manager) checkpoint() {
	for _, p := range m.All() {
		p.log.ExpireProducers()
	}
	if err := m.saveMarks(); err != nil {
		m.cfg.Logger.Warn("checkpoints are not written", "error", err)
	}
}

// Get returns this node's replica of a partition.
func (m *Manager) Get(topic string, index int32) (*Partition, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.parts[key{topic, index}]
	return p, ok
}

// Partition is [Manager.Get] with Kafka's errors: NOT_LEADER_OR_FOLLOWER when
// the replicas are elsewhere, UNKNOWN_TOPIC_OR_PARTITION when there is no such
// partition.
func (m *Manager) Partition(topic string, index int32) (API, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p, ok := m.parts[key{topic, index}]; ok {
		return p, nil
	}
	if index >= 0 && index < m.known[topic] {
		return nil, fmt.Errorf("%s has no replica on node %d: %w", partitionName(topic, index), m.cfg.NodeID, kerr.NotLeaderForPartition)
	}
	return nil, fmt.Errorf("%s: %w", partitionName(topic, index), kerr.UnknownTopicOrPartition)
}

// GetByID returns this node's replica of a partition of the topic with id.
func (m *Manager) GetByID(id [16]byte, index int32) (*Partition, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for k, p := range m.parts {
		if k.index == index && p.topicID == id {
			return p, true
		}
	}
	return nil, false
}

// All returns this node's replicas, by topic and number.
func (m *Manager) All() []*Partition {
	m.mu.RLock()
	out := slices.Collect(maps.Values(m.parts))
	m.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Partition) int {
		if c := strings.Compare(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.index - b.index)
	})
	return out
}

// Joining is told when a replica may join the ISR of a partition that this node
// leads.
func (m *Manager) Joining() <-chan struct{} { return m.joining }

func (m *Manager) joined() {
	select {
	case m.joining <- struct{}{}:
	default:
	}
}

// eligible says whether the run of a broker that fetched is one that lives.
func (m *Manager) eligible(id int32, epoch int64) bool {
	live := m.live.Load()
	if live == nil {
		return false
	}
	now, ok := (*live)[id]
	return ok && (epoch < 0 || epoch == now)
}

// Close ends all partitions. A clean close leaves every log on disk and marks
// that, so that nothing needs recovery; it says what could not be written, and
// then leaves no mark.
func (m *Manager) Close(clean bool) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.stop()
	m.loops.Wait()
	err := closeAll(m.All(), clean)
	if !clean || err != nil {
		return err
	}
	if err := m.saveMarks(); err != nil {
		return err
	}
	return storage.WriteFileAtomic(m.fs, filepath.Join(m.dir, cleanMark), []byte(`{"version":0,"brokerEpoch":-1}`))
}

// closeAll closes partitions, several at a time: each syncs what its log left to
// a flush.
func closeAll(parts []*Partition, clean bool) error {
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	slots := make(chan struct{}, applyTogether)
	for i, p := range parts {
		slots <- struct{}{}
		all.Go(func() {
			if err := p.close(clean); err != nil {
				errs[i] = fmt.Errorf("close %s: %w", p.Name(), err)
			}
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Dir is the folder that the logs lie in.
func (m *Manager) Dir() string { return m.dir }

// Size is how many bytes the log holds.
func (p *Partition) Size() int64 { return p.log.Size() }
