package mirror

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// lineage is what a source's leader tells of its log.
type lineage struct {
	logStart int64
	// forgotten is the offset below which its cleaner may have removed tombstones
	// and markers.
	forgotten int64
	barriers  []replica.Barrier
	// name is the log's among those of all clusters, history those of the logs
	// that it was mirrored from.
	name    string
	history []string
	// upstream are the clusters that it is mirrored from now, nearest first.
	upstream []string
}

// lists says whether a barrier is in the list.
func (l *lineage) lists(b replica.Barrier) bool {
	for _, o := range l.barriers {
		if sameBatch(o, b) {
			return true
		}
	}
	return false
}

// askLineages asks each broker of the source for the barrier lists of what it
// leads, and enters them into known. A list holds in one leader epoch; one of
// another than the metadata's is of no use, since a fetch in the metadata's
// epoch would not be of that log.
func (l *link) askLineages(ctx context.Context, known map[string]knownTopic) {
	byBroker := map[string]*mirrorrpc.DescribeClusterMirrorsRequest{}
	topics := map[[16]byte]knownTopic{}
	for _, k := range known {
		if k.err != nil {
			continue
		}
		topics[k.id] = k
		for index, leader := range k.leaders {
			req := byBroker[leader.addr]
			if req == nil {
				req = mirrorrpc.NewDescribeClusterMirrorsRequest()
				req.ClusterID = &l.cluster
				byBroker[leader.addr] = req
			}
			lookups := req.LastMirrorEpochLookups
			if n := len(lookups); n == 0 || lookups[n-1].TopicID != k.id {
				lookups = append(lookups, mirrorrpc.EpochLookup{TopicID: k.id})
			}
			last := &lookups[len(lookups)-1]
			last.Partitions = append(last.Partitions, index)
			req.LastMirrorEpochLookups = lookups
		}
	}
	for addr, req := range byBroker {
		results, mirrors, err := l.lookUp(ctx, addr, req)
		if !mirrors && err == nil {
			continue // plain Kafka
		}
		told := map[[16]byte]map[int32]mirrorrpc.EpochResult{}
		for _, t := range results {
			told[t.TopicID] = map[int32]mirrorrpc.EpochResult{}
			for _, p := range t.Partitions {
				told[t.TopicID][p.PartitionIndex] = p
			}
		}
		for _, t := range req.LastMirrorEpochLookups {
			k := topics[t.TopicID]
			for _, index := range t.Partitions {
				r, ok := told[t.TopicID][index]
				leader := k.leaders[index]
				leader.lineage, k.failed[index] = lineageOf(leader, r, ok, err)
				if k.failed[index] != nil {
					delete(k.leaders, index)
					continue
				}
				k.leaders[index] = leader
			}
		}
	}
}

// lookUp sends one lookup. mirrors is false for a broker that knows no lists.
func (l *link) lookUp(ctx context.Context, addr string, req kmsg.Request) (results []mirrorrpc.LookupResult, mirrors bool, err error) {
	c, _, err := dial(ctx, l.way, addr, l.expected)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = c.Close() }()
	if !c.mirrors {
		return nil, false, nil
	}
	resp, err := ask[*mirrorrpc.DescribeClusterMirrorsResponse](ctx, c, req)
	if err != nil {
		return nil, true, err
	}
	if err := mirrorrpc.ErrorForCode(req.Key(), resp.ErrorCode); err != nil {
		return nil, true, fmt.Errorf("look up barriers: %w", err)
	}
	return resp.LookupResults, true, nil
}

func lineageOf(leader sourceLeader, r mirrorrpc.EpochResult, told bool, err error) (*lineage, error) {
	switch {
	case err != nil:
		return nil, err
	case !told || r.ErrorCode == 0 && r.LeaderEpoch < 0:
		return nil, fmt.Errorf("the source told nothing: %w", kerr.UnknownTopicOrPartition)
	case r.ErrorCode != 0:
		return nil, kerr.ErrorForCode(r.ErrorCode)
	case r.LeaderEpoch != leader.epoch:
		return nil, fmt.Errorf("leader epoch moved from %d to %d meanwhile: %w", leader.epoch, r.LeaderEpoch, kerr.LeaderNotAvailable)
	}
	l := &lineage{logStart: r.LogStartOffset, forgotten: r.ForgottenUpTo, name: r.LogName, history: r.History, upstream: r.UpstreamClusterIDs}
	for _, b := range r.Barriers {
		l.barriers = append(l.barriers, replica.Barrier{
			Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.SourceClusterID, Writer: b.WriterClusterID, Markers: b.Markers,
		})
	}
	return l, nil
}

// Source is what a mirror's source told of topics when a start asked for them.
type Source struct{ known map[string]knownTopic }

// AskSource asks a mirror's source for topics, and for what their leaders tell of
// their logs.
func AskSource(ctx context.Context, h host.Host, cluster string, m *quorum.Mirror, topics []string) (Source, error) {
	l := newLink(cluster, m, h, func() []string { return topics }, nil)
	if err := l.ask(ctx, topics[0]); err != nil {
		return Source{}, err
	}
	return Source{l.known}, nil
}

// Upstream are the clusters that a topic of the source is mirrored from now.
func (s Source) Upstream(topic string) []string {
	var up []string
	for _, leader := range s.known[topic].leaders {
		if leader.lineage != nil {
			up = append(up, leader.lineage.upstream...)
		}
	}
	return up
}

// Unrelated says why a topic that is here can't be aligned with the source's,
// since their logs have no common history: of the replicas on this node, before
// the topic is made read-only for nothing. Alignment looks again, at all.
func (s Source) Unrelated(img *quorum.Image, t *quorum.Topic, replicas env.Replicas) error {
	for index, leader := range s.known[t.Name].leaders {
		if int(index) >= len(t.Partitions) {
			continue
		}
		p := t.Partitions[index]
		if p.Mirror.State != quorum.Unknown && p.Mirror.State != quorum.Stopped {
			continue // of that log it is known
		}
		part, err := replicas.Partition(t.Name, index)
		if err != nil {
			continue
		}
		own, theirs := sides(img.LogName(p), p, part, leader)
		if own.end > own.start && (theirs == nil || !related(own, *theirs)) {
			return fmt.Errorf("partition %s-%d: %w", t.Name, index, errNoCommonHistory)
		}
	}
	return nil
}
