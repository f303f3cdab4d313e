package mirror

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/replica"
)

// How a mirror fetches (the defaults of KIP-1279's development build).
const (
	fetchWait = 500 * time.Millisecond
	// fetchFirstWait is the long poll after partitions came or went. It doubles
	// up to fetchWait, so that those started together soon fetch together.
	fetchFirstWait = 10 * time.Millisecond
	// removedPause is how long a fetcher waits before it connects anew without
	// the partitions that left.
	removedPause = 5 * time.Millisecond
	// A source that is written to all the time answers each fetch at once, with what
	// little came since the last. After one of less than smallFetch a fetcher waits
	// for more: each request costs the source what a hundred records do.
	smallFetch      = 512 << 10
	smallFetchPause = 5 * time.Millisecond
	// takeTogether is how many partitions of a response are appended at a time.
	takeTogether = 4

	fetchMinBytes     = 1
	fetchMaxBytes     = 10 << 20
	fetchPartitionMax = 1 << 20
)

// errRemoved is why a fetcher closes its connection when a partition leaves:
// no response that was in flight may arrive any more (LINK-1).
var errRemoved = errors.New("fetcher removed")

// fetcher fetches from one broker of a source, one request at a time for all
// partitions. It connects while it has any.
type fetcher struct {
	way       Way
	log       *slog.Logger
	addr      string
	clusterID string
	// keepLate makes it wrong: see defect.LateFetchAppended.
	keepLate bool
	// throttle bounds what is fetched, nil for no bound.
	throttle *throttle
	// blind makes it wrong: see defect.DownstreamNotRealigned.
	blind bool

	mu      sync.Mutex
	regs    []*registration
	changed chan struct{}
	cancel  context.CancelCauseFunc // ends the request in flight
}

func newFetcher(w Way, log *slog.Logger, addr, clusterID string, keepLate bool) *fetcher {
	return &fetcher{way: w, log: log, addr: addr, clusterID: clusterID, keepLate: keepLate, changed: make(chan struct{})}
}

// add begins to fetch a partition. A long poll in flight goes on without it.
func (f *fetcher) add(r *registration) {
	r.f = f
	r.out = make(chan outcome, 1)
	f.mu.Lock()
	f.regs = append(f.regs, r)
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
}

// run fetches until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	var c *conn
	var last <-chan struct{}
	wait := fetchFirstWait
	retry := newBackoff()
	drop := func() {
		if c != nil {
			_ = c.Close()
			c = nil
		}
	}
	defer drop()
	for {
		active, changed := f.active()
		if len(active) == 0 {
			drop()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		if changed != last {
			last, wait = changed, fetchFirstWait
		}
		n, err := f.once(ctx, &c, active, wait)
		wait = min(2*wait, fetchWait)
		if err == nil {
			retry.reset()
			if n > 0 && n < smallFetch && !sleep(ctx, smallFetchPause) {
				return
			}
			continue
		}
		drop()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRemoved) {
			// Many partitions leave at once in a stop: one new connection for
			// those that stay.
			if !sleep(ctx, removedPause) {
				return
			}
			continue
		}
		for _, r := range active {
			r.seen(-1, err)
			if permanent(err) {
				r.yield(outcome{err: err})
			}
		}
		f.log.Warn("mirror fetch failed", "source", f.addr, "error", err, "partitions", len(active))
		if !retry.wait(ctx) {
			return
		}
		// The leaders may be elsewhere by now: let the drivers look again.
		for _, r := range active {
			r.yield(outcome{err: err})
		}
	}
}

// active lists the partitions to fetch and a channel that closes when more
// come.
func (f *fetcher) active() ([]*registration, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*registration
	for _, r := range f.regs {
		if !r.idle {
			all = append(all, r)
		}
	}
	return all, f.changed
}

// once sends one fetch and appends what it brings. It says how many bytes that
// were.
func (f *fetcher) once(ctx context.Context, c **conn, active []*registration, wait time.Duration) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	f.cancel = cancel
	for _, r := range active {
		if r.gone && !f.keepLate { // since active was asked
			f.cancel = nil
			f.mu.Unlock()
			return 0, errRemoved
		}
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.cancel = nil
		f.mu.Unlock()
	}()
	if f.throttle != nil {
		if err := f.throttle.wait(ctx); err != nil {
			return 0, err
		}
	}
	var resp *kmsg.FetchResponse
	err := whileSlow(fmt.Sprintf("broker %s of cluster %s to answer a fetch", f.addr, f.clusterID), wait, func(late error) {
		for _, r := range active {
			r.waiting(late)
		}
	}, func() (err error) {
		if *c == nil {
			fresh, _, err := dial(ctx, f.way, f.addr, f.clusterID)
			if err != nil {
				return err
			}
			*c = fresh
			fresh.reuses = true // what a fetch brings is in the logs before the next
		}
		resp, err = ask[*kmsg.FetchResponse](ctx, *c, f.request(active, wait))
		return err
	})
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errRemoved) {
			// A dial that is called off tells no cause of its own. Taken for a
			// failure, it would have every other partition yielded, whose return
			// calls off the next dial, and so on.
			return 0, cause
		}
		return 0, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, fmt.Errorf("fetch: %w", err)
	}
	n := bytesOf(resp)
	if n == 0 {
		(*c).buffer = nil // a source at rest holds no memory here
	}
	if f.throttle != nil {
		f.throttle.take(n)
	}
	asked := make(map[partitionKey]*registration, 2*len(active))
	for _, r := range active { // a response names a topic or its id (version 13)
		asked[partitionKey{topic: r.topic, index: r.index}] = r
		asked[partitionKey{id: r.id, index: r.index}] = r
	}
	// Much is checked and written by several at a time, or a source that is written
	// to by many is ahead of its mirror for good.
	var taking sync.WaitGroup
	slots := make(chan struct{}, takeTogether)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			key := partitionKey{topic: t.Topic, index: t.Partitions[j].Partition}
			if t.Topic == "" {
				key.id = t.TopicID
			}
			r, ok := asked[key]
			switch {
			case !ok:
			case n < smallFetch:
				f.take(r, &t.Partitions[j])
			default:
				slots <- struct{}{}
				taking.Go(func() {
					f.take(r, &t.Partitions[j])
					<-slots
				})
			}
		}
	}
	taking.Wait()
	return n, context.Cause(ctx)
}

func (f *fetcher) request(regs []*registration, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1 // a consumer: up to the source's high watermark
	req.ReplicaState.ID = -1
	req.MaxWaitMillis = int32(wait / time.Millisecond)
	req.MinBytes, req.MaxBytes = fetchMinBytes, fetchMaxBytes
	partitionMax := int32(fetchPartitionMax)
	if f.throttle != nil {
		req.MaxBytes, partitionMax = f.throttle.most(fetchMaxBytes), f.throttle.most(fetchPartitionMax)
	}
	req.IsolationLevel = 0 // READ_UNCOMMITTED
	req.SessionID, req.SessionEpoch = 0, -1
	at := map[string]int{}
	for _, r := range regs {
		i, ok := at[r.topic]
		if !ok {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = r.topic, r.id
			i = len(req.Topics)
			at[r.topic] = i
			req.Topics = append(req.Topics, t)
		}
		o := r.part.Offsets()
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = r.index
		p.CurrentLeaderEpoch = r.epoch
		p.FetchOffset, p.LastFetchedEpoch = o.LogEnd, o.LogEpoch
		if f.blind {
			p.LastFetchedEpoch = -1
		}
		if r.from > o.LogEnd {
			p.FetchOffset, p.LastFetchedEpoch = r.from, -1
		}
		p.PartitionMaxBytes = partitionMax
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req
}

// bytesOf counts the records of a response.
func bytesOf(resp *kmsg.FetchResponse) (n int) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			n += len(resp.Topics[i].Partitions[j].RecordBatches)
		}
	}
	return n
}

// take deals with one partition of a response.
func (f *fetcher) take(r *registration, p *kmsg.FetchResponseTopicPartition) {
	f.mu.Lock()
	skip := r.idle || r.gone && !f.keepLate
	f.mu.Unlock()
	if skip {
		return
	}
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		if errors.Is(err, kerr.OffsetOutOfRange) && p.LogStartOffset > r.part.Offsets().LogEnd {
			err = fmt.Errorf("%w: at offset %d, this log ends at %d", errSourceStartsLater, p.LogStartOffset, r.part.Offsets().LogEnd)
		}
		r.seen(-1, err)
		r.yield(outcome{err: fmt.Errorf("fetch %s-%d from the source: %w", r.topic, r.index, err)})
		return
	}
	if p.DivergingEpoch.Epoch >= 0 || p.DivergingEpoch.EndOffset >= 0 {
		r.yield(outcome{diverged: true, epoch: p.DivergingEpoch.Epoch, end: p.DivergingEpoch.EndOffset})
		return
	}
	raw, err := wholeBatches(p.RecordBatches)
	if err == nil && len(raw) > 0 {
		if r.unlisted(raw) {
			r.yield(outcome{unlisted: true})
			return
		}
		_, err = r.part.AppendMirrored(r.session, raw)
	}
	if errors.Is(err, replica.ErrSessionEnded) {
		f.log.Info("response in flight refused", "topic", r.topic, "partition", r.index, "source", f.addr)
		r.yield(outcome{err: err})
		return
	}
	if err == nil && p.LogStartOffset > 0 {
		err = r.part.FollowLogStart(r.session, p.LogStartOffset)
	}
	r.seen(p.HighWatermark, err)
	if err != nil {
		r.yield(outcome{err: fmt.Errorf("append mirrored batches to %s-%d: %w", r.topic, r.index, err)})
	}
}

// errTornBatch is a response that does not hold one whole batch.
var errTornBatch = errors.New("response ends within its first batch")

// wholeBatches leaves off the batch that a broker may have cut at the end of a
// response.
func wholeBatches(raw []byte) ([]byte, error) {
	const head = 12 // base offset and length
	end := 0
	for len(raw)-end >= head {
		n := int64(int32(binary.BigEndian.Uint32(raw[end+8:])))
		if n < 0 {
			return nil, fmt.Errorf("batch of %d bytes in a fetch response", n)
		}
		if n > int64(len(raw)-end-head) {
			break
		}
		end += head + int(n)
	}
	if end == 0 && len(raw) > 0 {
		return nil, errTornBatch
	}
	return raw[:end], nil
}
