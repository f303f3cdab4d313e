package traffic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/suite/history"
)

// fetchWait is how long a reader's fetch waits at the broker for data.
const fetchWait = 250 * time.Millisecond

// Reader is an application that consumes partitions from their first offset, or
// from another one, with franz-go's consumer. It runs until it is stopped.
type Reader struct {
	name      string
	cluster   Cluster
	isolation history.Isolation
	rec       *Recorder
	cl        *kgo.Client
	cancel    context.CancelFunc
	done      chan struct{}
	fetches   atomic.Int64 // fetches answered so far

	mu      sync.Mutex
	at      map[Partition]*place
	changed chan struct{} // closed and replaced when a position moves
}

// place is where a reader stands in one partition.
type place struct {
	start, position int64
	fetchesThen     int64 // the count of fetches when the position last moved
}

// Isolation is the reader's isolation level.
func (r *Reader) Isolation() history.Isolation { return r.isolation }

// fetchCounter counts the answers to Fetch requests.
type fetchCounter struct{ n *atomic.Int64 }

const fetchKey = 1

func (c fetchCounter) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == fetchKey && e2e.ReadErr == nil {
		c.n.Add(1)
	}
}

// StartReader starts a reader of parts from offset 0.
func StartReader(ctx context.Context, rec *Recorder, cluster Cluster, name string, isolation history.Isolation, parts []Partition) (*Reader, error) {
	starts := map[Partition]int64{}
	for _, p := range parts {
		starts[p] = 0
	}
	return StartReaderAt(ctx, rec, cluster, name, isolation, starts)
}

// StartReaderAt starts a reader of partitions from an offset of each.
func StartReaderAt(ctx context.Context, rec *Recorder, cluster Cluster, name string, isolation history.Isolation, starts map[Partition]int64) (*Reader, error) {
	r := &Reader{
		name: name, cluster: cluster, isolation: isolation, rec: rec,
		done: make(chan struct{}), at: map[Partition]*place{}, changed: make(chan struct{}),
	}
	from := map[string]map[int32]kgo.Offset{}
	for p, start := range starts {
		if from[p.Topic] == nil {
			from[p.Topic] = map[int32]kgo.Offset{}
		}
		from[p.Topic][p.Index] = kgo.NewOffset().At(start)
		r.at[p] = &place{start: start, position: start}
	}
	level := kgo.ReadUncommitted()
	if isolation == history.ReadCommitted {
		level = kgo.ReadCommitted()
	}
	cl, err := kgo.NewClient(append(clientOpts(cluster, name),
		kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level),
		kgo.FetchMaxWait(fetchWait), kgo.WithHooks(fetchCounter{&r.fetches}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("make reader %s of cluster %s: %w", name, cluster.Name, err)
	}
	r.cl = cl
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r, nil
}

func (r *Reader) run(ctx context.Context) {
	for {
		fetches := r.cl.PollFetches(ctx)
		if ended(ctx) || fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			r.fetchError(Partition{topic, partition}, err)
		})
		fetches.EachPartition(func(f kgo.FetchTopicPartition) { r.records(Partition{f.Topic, f.Partition}, f.Records) })
	}
}

// fetchError notes an error that the client shows while it goes on. Where a
// truncation took away what was read, reading goes on from where the logs part.
func (r *Reader) fetchError(p Partition, err error) {
	r.rec.Note("reader %s: %s on cluster %s: %v", r.name, p, r.cluster.Name, err)
	if lost := new(kgo.ErrDataLoss); errors.As(err, &lost) {
		r.position(p, false)
		r.mu.Lock()
		defer r.mu.Unlock()
		if at := r.at[p]; at != nil {
			at.start, at.position = lost.ResetTo, lost.ResetTo
			r.movedLocked(at)
		}
	}
}

// records notes what one poll gave of a partition: records that follow each
// other, and whose tags do, are one event.
func (r *Reader) records(p Partition, all []*kgo.Record) {
	for len(all) > 0 {
		e, tag := r.observed(all[0])
		n := int64(1)
		for ; e.Tag != "" && n < int64(len(all)) && n < math.MaxInt32; n++ {
			next, follows := r.observed(all[n])
			if next.Tag == "" || next.Offset != e.Offset+n || follows != tag.Add(n) {
				break
			}
		}
		if n > 1 {
			e.Count = int32(n)
		}
		r.rec.Add(history.Event{Kind: history.KindRead, Read: &e})
		r.moved(p, e.Offset+n)
		all = all[n:]
	}
}

func (r *Reader) observed(rec *kgo.Record) (history.Observed, history.Tag) {
	e := history.Observed{
		Reader: r.name, Cluster: r.cluster.Name, Topic: rec.Topic, Partition: rec.Partition,
		Isolation: r.isolation, Offset: rec.Offset,
	}
	var header []byte
	for _, h := range rec.Headers {
		if h.Key == history.HeaderKey {
			header = h.Value
		}
	}
	tag, err := history.TagOf(header, rec.Value)
	if err == nil {
		e.Tag = tag.String()
	} else {
		e.Key, e.Value = clip(rec.Key), clip(rec.Value)
	}
	return e, tag
}

// moved notes the next offset that is asked for.
func (r *Reader) moved(p Partition, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.at[p]; at != nil {
		at.position = next
		r.movedLocked(at)
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 64)] }

func (r *Reader) movedLocked(at *place) {
	at.fetchesThen = r.fetches.Load()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Await waits until the reader has passed the offsets in ends: its next offset
// in each of the partitions is at or above it.
func (r *Reader) Await(ctx context.Context, ends map[Partition]int64) error {
	for {
		r.mu.Lock()
		changed := r.changed
		var missing []string
		for p, end := range ends {
			if at := r.at[p]; at != nil && at.position < end {
				missing = append(missing, fmt.Sprintf("%s stands at %d", p, at.position))
			}
		}
		r.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-r.done:
			return fmt.Errorf("reader %s ended before it reached the end: %v", r.name, missing)
		case <-ctx.Done():
			return &StuckError{What: "reader " + r.name + " reaches the end", Missing: missing, Err: context.Cause(ctx)}
		}
	}
}

// Snapshot records where the reader stands in every partition now.
func (r *Reader) Snapshot() {
	for p := range r.at {
		r.position(p, false)
	}
}

func (r *Reader) position(p Partition, final bool) {
	r.mu.Lock()
	at := r.at[p]
	if at == nil {
		r.mu.Unlock()
		return
	}
	e := history.Reader{
		Reader: r.name, Cluster: r.cluster.Name, Topic: p.Topic, Partition: p.Index, Isolation: r.isolation,
		Start: at.start, Position: at.position, Final: final, IdleFetches: r.fetches.Load() - at.fetchesThen,
	}
	r.mu.Unlock()
	r.rec.Add(history.Event{Kind: history.KindReaderPosition, Reader: &e})
}

// Stop ends the reader and records where it stood in each partition.
func (r *Reader) Stop() {
	r.cancel()
	<-r.done
	r.cl.Close()
	for p := range r.at {
		r.position(p, true)
	}
}
