package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/lock"
	"watershed.example/refbroker/internal/quorum"
)

// sourceLeader is where a partition is led on the source.
type sourceLeader struct {
	node  int32
	addr  string
	epoch int32 // -1: the source doesn't say
	// lineage is what the leader told of its log in that epoch; nil when the
	// source knows no barrier lists, as plain Kafka.
	lineage *lineage
}

// link is one mirror's way to its source: what is known of the source's
// leaders, and a fetcher for each of its brokers.
type link struct {
	cluster string // this one
	mirror  *quorum.Mirror
	way     Way
	// topics lists the topics of the mirror, to ask for together.
	topics     func() []string
	newFetcher func(addr string) *fetcher
	// throttle is shared by the fetchers.
	throttle *throttle
	// expected is the cluster id that the source must have.
	expected string
	// ended is closed once the mirror is another, or gone, and end closes it; the
	// fetchers end then. nil for a link that has none.
	ended <-chan struct{}
	end   context.CancelFunc

	// refresh is held by who asks the source, which many want at once.
	refresh lock.Mutex

	mu         sync.Mutex
	generation uint64
	asking     bool // the next generation's answers may be on their way
	answered   time.Time
	known      map[string]knownTopic
	addrs      map[int32]string
	fetchers   map[string]*fetcher
}

type knownTopic struct {
	id  [16]byte
	err error
	// partitions is how many the topic has there.
	partitions int
	leaders    map[int32]sourceLeader
	// failed are the partitions whose leader did not tell of its log.
	failed map[int32]error
}

func newLink(cluster string, m *quorum.Mirror, h host.Host, topics func() []string, newFetcher func(string) *fetcher) *link {
	return &link{
		cluster: cluster, mirror: m, way: WayTo(h, m.Configs), topics: topics, newFetcher: newFetcher, expected: m.SourceClusterID,
		throttle: newThrottle(0), refresh: lock.New(), known: map[string]knownTopic{}, fetchers: map[string]*fetcher{},
	}
}

// fresh is the generation that is as old as an answer of before now can be.
func (l *link) fresh() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking {
		return l.generation + 1
	}
	return l.generation
}

// older is the generation that is too old to be told again after age: what is
// known is good enough below that.
func (l *link) older(age time.Duration) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.answered) < age {
		return 0
	}
	return l.generation
}

// leader finds a partition's leader on the source, and its generation. What is
// of generation stale or older is asked for again.
func (l *link) leader(ctx context.Context, topic string, id [16]byte, index int32, stale uint64) (sourceLeader, uint64, error) {
	if err := l.refresh.LockContext(ctx); err != nil {
		return sourceLeader{}, stale, err
	}
	defer l.refresh.Unlock()
	l.mu.Lock()
	generation := l.generation
	known := l.known[topic]
	_, ok := known.leaders[index]
	again := !ok || generation <= stale // what the source could not say then it may know by now
	l.asking = again
	l.mu.Unlock()
	if again {
		err := l.ask(ctx, topic)
		l.mu.Lock()
		l.asking = false
		l.mu.Unlock()
		if err != nil {
			return sourceLeader{}, stale, err
		}
		l.mu.Lock()
		generation, known = l.generation, l.known[topic]
		l.mu.Unlock()
	}
	switch {
	case known.err != nil:
		return sourceLeader{}, generation, fmt.Errorf("topic %q on the source: %w", topic, known.err)
	case known.id != id && known.id != [16]byte{}:
		return sourceLeader{}, generation, fmt.Errorf("topic %q has id %x on the source and %x here: %w", topic, known.id, id, kerr.InconsistentTopicID)
	}
	leader, ok := known.leaders[index]
	if err := known.failed[index]; err != nil {
		return sourceLeader{}, generation, fmt.Errorf("barriers of partition %s-%d on the source: %w", topic, index, err)
	}
	if !ok {
		return sourceLeader{}, generation, fmt.Errorf("partition %s-%d has no leader on the source: %w", topic, index, kerr.LeaderNotAvailable)
	}
	return leader, generation, nil
}

// partitions is how many partitions a topic had on the source when it was last
// asked; 0 where it did not say.
func (l *link) partitions(topic string, id [16]byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.known[topic]; k.err == nil && k.id == id {
		return k.partitions
	}
	return 0
}

// ask reads the metadata of the mirror's topics from the first broker that
// answers: those known from before, then the bootstrap servers.
func (l *link) ask(ctx context.Context, topic string) error {
	topics := l.topics()
	if !slices.Contains(topics, topic) {
		topics = append(topics, topic)
	}
	l.mu.Lock()
	var addrs []string
	for _, id := range slices.Sorted(maps.Keys(l.addrs)) {
		addrs = append(addrs, l.addrs[id])
	}
	l.mu.Unlock()
	for _, a := range l.mirror.Bootstrap {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	meta, err := AskCluster(ctx, l.way, addrs, l.expected, topics...)
	if err != nil {
		return err
	}
	brokers := map[int32]string{}
	for _, b := range meta.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	known := map[string]knownTopic{}
	for _, t := range meta.Topics {
		if t.Topic == nil {
			continue
		}
		k := knownTopic{
			id: t.TopicID, err: kerr.ErrorForCode(t.ErrorCode), partitions: len(t.Partitions),
			leaders: map[int32]sourceLeader{}, failed: map[int32]error{},
		}
		for _, p := range t.Partitions {
			if addr, ok := brokers[p.Leader]; ok {
				k.leaders[p.Partition] = sourceLeader{node: p.Leader, addr: addr, epoch: p.LeaderEpoch}
			}
		}
		known[*t.Topic] = k
	}
	l.askLineages(ctx, known)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	l.answered = time.Now()
	l.addrs, l.known = brokers, known
	if _, ok := l.known[topic]; !ok {
		return fmt.Errorf("topic %q on the source: %w", topic, kerr.UnknownTopicOrPartition)
	}
	return nil
}

// fetcherTo returns the fetcher of the source broker at addr.
func (l *link) fetcherTo(addr string) *fetcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.fetchers[addr]
	if !ok {
		f = l.newFetcher(addr)
		l.fetchers[addr] = f
	}
	return f
}

// errLinkEnded is why a driver takes the way to its source anew.
var errLinkEnded = errors.New("the mirror has changed")

// permanent reports whether an error of the source will not go away by
// itself: the mirror fails then, until the operator starts or stops it.
func permanent(err error) bool {
	return errors.Is(err, ErrOtherCluster) || errors.Is(err, kerr.InconsistentTopicID) ||
		errors.Is(err, errNoCommonHistory) || errors.Is(err, errSourceStartsLater) || errors.Is(err, errLoop)
}
