package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/replica"
)

// How a follower fetches (Kafka's replica.fetch.* defaults).
const (
	fetchVersion      = 18
	fetchWait         = 500 * time.Millisecond
	fetchMinBytes     = 1
	fetchMaxBytes     = 10 << 20
	fetchPartitionMax = 1 << 20
	// backoffFirst and backoffMost bound the pause after a failure, of the
	// whole fetch or of one partition.
	backoffFirst = 20 * time.Millisecond
	backoffMost  = 500 * time.Millisecond
)

// errReassigned ends a long poll that does not ask for what came to the fetcher
// meanwhile.
var errReassigned = errors.New("other partitions are followed now")

// followed is one partition that a fetcher fetches, in one leader epoch.
type followed struct {
	part  *replica.Partition
	epoch int32
	// rest is until when the partition is left out after an error, pause how
	// long that was. Used by the fetcher's goroutine alone.
	rest  time.Time
	pause time.Duration
}

// fetcher fetches from one leading broker, one request at a time for all
// partitions.
type fetcher struct {
	cfg    Config
	leader int32

	mu      sync.Mutex // never held while waiting
	parts   map[*replica.Partition]*followed
	changed chan struct{}
	cancel  context.CancelCauseFunc // ends the long poll in flight
}

func newFetcher(cfg Config, leader int32) *fetcher {
	return &fetcher{cfg: cfg, leader: leader, parts: map[*replica.Partition]*followed{}, changed: make(chan struct{})}
}

// follow sets what is fetched. Partitions that are new, or in another epoch, do
// not wait for a long poll of the others to end.
func (f *fetcher) follow(want map[*replica.Partition]int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := false
	for p := range f.parts {
		if _, ok := want[p]; !ok {
			delete(f.parts, p)
		}
	}
	for p, epoch := range want {
		if old, ok := f.parts[p]; !ok || old.epoch != epoch {
			f.parts[p] = &followed{part: p, epoch: epoch}
			fresh = true
		}
	}
	if !fresh {
		return
	}
	close(f.changed)
	f.changed = make(chan struct{})
	if f.cancel != nil {
		f.cancel(errReassigned)
	}
}

// run fetches until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	pause := backoffFirst
	failing := slog.LevelWarn // the first of a row is told, the rest is for debugging
	for ctx.Err() == nil {
		due, wait, changed := f.due(time.Now())
		if len(due) == 0 {
			waitFor(ctx, wait, changed)
			continue
		}
		err := f.once(ctx, due)
		switch {
		case err == nil:
			pause, failing = backoffFirst, slog.LevelWarn
		case errors.Is(err, errReassigned), ctx.Err() != nil:
		default:
			f.cfg.Log.Log(ctx, failing, "fetch from the leader failed", "leader", f.leader, "partitions", len(due), "error", err)
			failing = slog.LevelDebug
			waitFor(ctx, jitter(pause), changed)
			pause = min(2*pause, backoffMost)
		}
	}
}

// due lists what to fetch now, or for how long there is nothing, and a channel
// that closes when there is more. wait 0 means for ever.
func (f *fetcher) due(now time.Time) (due []*followed, wait time.Duration, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.parts {
		rest := p.rest.Sub(now)
		if rest <= 0 {
			due = append(due, p)
		} else if wait == 0 || rest < wait {
			wait = rest
		}
	}
	// The order goes round, or the last would starve behind a busy first.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	return due, wait, f.changed
}

// once sends one fetch, and has the partitions take what it brings.
func (f *fetcher) once(ctx context.Context, due []*followed) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	for _, p := range due {
		if f.parts[p.part] != p { // since due was asked
			f.mu.Unlock()
			return errReassigned
		}
	}
	f.cancel = cancel
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.cancel = nil
		f.mu.Unlock()
	}()
	req, asked := f.request(due)
	if len(asked) == 0 {
		// The roles have changed; the metadata that says so is about to be seen.
		waitFor(ctx, backoffFirst, nil)
		return nil
	}
	resp := kmsg.NewPtrFetchResponse()
	if err := f.cfg.Peers.Request(ctx, f.leader, req, resp); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	now := time.Now()
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p, ok := asked[partitionKey{t.TopicID, t.Partitions[j].Partition}]
			if !ok {
				continue
			}
			if err := f.take(ctx, p, &t.Partitions[j]); err != nil {
				p.pause = min(max(2*p.pause, backoffFirst), backoffMost)
				p.rest = now.Add(jitter(p.pause))
				level := slog.LevelWarn
				if passing(err) {
					level = slog.LevelDebug
				}
				f.cfg.Log.Log(ctx, level, "replica can't follow", "leader", f.leader, "partition", p.part.Name(), "error", err)
				continue
			}
			p.pause = 0
		}
	}
	return nil
}

// partitionKey names a partition as a response does.
type partitionKey struct {
	topic [16]byte
	index int32
}

// request asks for the partitions from where their logs end.
func (f *fetcher) request(due []*followed) (*kmsg.FetchRequest, map[partitionKey]*followed) {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(fetchVersion)
	req.ReplicaID = f.cfg.Node
	req.ReplicaState.ID, req.ReplicaState.Epoch = f.cfg.Node, f.cfg.BrokerEpoch
	req.MaxWaitMillis = int32(fetchWait / time.Millisecond)
	req.MinBytes, req.MaxBytes = fetchMinBytes, fetchMaxBytes
	req.SessionID, req.SessionEpoch = 0, -1
	asked := map[partitionKey]*followed{}
	at := map[[16]byte]int{}
	for _, p := range due {
		from, ok := p.part.Following()
		if !ok || from.Leader != f.leader || from.LeaderEpoch != p.epoch {
			continue
		}
		id := p.part.TopicID()
		i, ok := at[id]
		if !ok {
			t := kmsg.NewFetchRequestTopic()
			t.TopicID = id
			i = len(req.Topics)
			at[id] = i
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch = p.part.Index(), from.LeaderEpoch
		rp.FetchOffset, rp.LastFetchedEpoch = from.Offset, from.LastEpoch
		rp.LogStartOffset, rp.HighWatermark = from.LogStart, from.High
		rp.PartitionMaxBytes = fetchPartitionMax
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
		asked[partitionKey{id, p.part.Index()}] = p
	}
	return req, asked
}

// take deals with the leader's answer for one partition.
func (f *fetcher) take(ctx context.Context, p *followed, r *kmsg.FetchResponseTopicPartition) error {
	err := kerr.ErrorForCode(r.ErrorCode)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		l, err := f.lineage(ctx, p)
		if err != nil {
			return err
		}
		below := slices.DeleteFunc(l.Barriers, func(b replica.Barrier) bool { return b.Offset >= l.LogStart })
		return p.part.OutOfRange(p.epoch, l.LogStart, below)
	case err != nil:
		return fmt.Errorf("leader's answer: %w", err)
	case r.DivergingEpoch.Epoch >= 0 || r.DivergingEpoch.EndOffset >= 0:
		return p.part.Diverged(p.epoch, r.DivergingEpoch.Epoch, r.DivergingEpoch.EndOffset)
	}
	if p.part.ListsLost() {
		l, err := f.lineage(ctx, p)
		if err != nil {
			return err
		}
		if err := p.part.RestoreBarriers(l.Barriers); err != nil {
			return err
		}
	}
	if p.part.HoldsStrangeBarrier(r.RecordBatches) {
		// The batch does not say who wrote it; the leader's list does, and has to
		// be here before it: this replica may lead next.
		l, err := f.lineage(ctx, p)
		if err != nil {
			return err
		}
		if err := p.part.NoteBarriers(l.Barriers); err != nil {
			return err
		}
	}
	return p.part.AppendFetched(replica.Fetched{
		LeaderEpoch: p.epoch, Raw: r.RecordBatches, High: r.HighWatermark, LogStart: r.LogStartOffset,
	})
}

// lineage asks the leader for its list of barriers.
func (f *fetcher) lineage(ctx context.Context, p *followed) (replica.Lineage, error) {
	req := mirrorrpc.NewDescribeClusterMirrorsRequest()
	cluster := f.cfg.Quorum.Image().ClusterID
	req.ClusterID = &cluster
	req.LastMirrorEpochLookups = []mirrorrpc.EpochLookup{{TopicID: p.part.TopicID(), Partitions: []int32{p.part.Index()}}}
	resp := &mirrorrpc.DescribeClusterMirrorsResponse{}
	l := replica.Lineage{LeaderEpoch: -1}
	if err := f.cfg.Peers.Request(ctx, f.leader, req, resp); err != nil {
		return l, err
	}
	if len(resp.LookupResults) != 1 || len(resp.LookupResults[0].Partitions) != 1 {
		return l, fmt.Errorf("barriers of %s: %d topics in the answer", p.part.Name(), len(resp.LookupResults))
	}
	r := resp.LookupResults[0].Partitions[0]
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return l, fmt.Errorf("barriers of %s: %w", p.part.Name(), err)
	}
	if r.LeaderEpoch != p.epoch {
		return l, fmt.Errorf("barriers of %s: leader epoch %d, now %d: %w", p.part.Name(), p.epoch, r.LeaderEpoch, kerr.FencedLeaderEpoch)
	}
	l.LeaderEpoch, l.LogStart = r.LeaderEpoch, r.LogStartOffset
	for _, b := range r.Barriers {
		l.Barriers = append(l.Barriers, replica.Barrier{
			Offset: b.Offset, LeaderEpoch: b.LeaderEpoch, CRC: b.CRC, SourceClusterID: b.SourceClusterID, Writer: b.WriterClusterID, Markers: b.Markers,
		})
	}
	return l, nil
}

// passing reports whether an error only says that one of the two nodes has not
// yet heard of what the other knows.
func passing(err error) bool {
	for _, e := range []error{
		replica.ErrNotFollowing, kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.UnknownTopicID, kerr.UnknownTopicOrPartition,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// waitFor waits for a time (0: for ever), a change or the end of ctx.
func waitFor(ctx context.Context, d time.Duration, changed <-chan struct{}) {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
	case <-changed:
	case <-ctx.Done():
	}
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
