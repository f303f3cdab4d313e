package traffic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"watershed.example/suite/history"
)

// samplers is how many clients fetch at the same time: a broker answers the
// requests of one connection in their order, and a long poll keeps the others
// waiting.
const samplers = 8

// SampleEverywhere asks for the ends and the producers of each partition, and
// fetches at every offset in both isolation levels, at once and after a long
// poll of that wait (SC-3, SC-7). Nobody should write meanwhile.
func SampleEverywhere(ctx context.Context, rec *Recorder, cluster Cluster, name string, parts []Partition, wait time.Duration) error {
	type place struct {
		part   Partition
		offset int64
	}
	raw, err := NewRaw(ctx, rec, cluster, name)
	if err != nil {
		return err
	}
	defer raw.Close()
	var places []place
	for _, p := range parts {
		o, err := raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		if _, err := raw.Producers(ctx, p, history.WhenAlone); err != nil {
			return err
		}
		for at := o.LogStartOffset; at <= o.HighWatermark; at++ {
			places = append(places, place{p, at})
		}
	}
	work := make(chan place, len(places))
	for _, p := range places {
		work <- p
	}
	close(work)
	g, ctx := errgroup.WithContext(ctx)
	for n := range samplers {
		g.Go(func() error {
			raw, err := NewRaw(ctx, rec, cluster, fmt.Sprintf("%s-%d", name, n))
			if err != nil {
				return err
			}
			defer raw.Close()
			for p := range work {
				for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
					for _, long := range []bool{false, true} {
						o := FetchOptions{Offset: p.offset, Isolation: level, LongPoll: long, Wait: wait}
						if _, err := raw.FetchAgain(ctx, p.part, o); err != nil {
							return err
						}
					}
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// ProducerIDs asks every broker n times for a producer id, and once for each
// transactional id (SC-8).
func ProducerIDs(ctx context.Context, raw *Raw, n int, transactionalIDs ...string) error {
	brokers, err := raw.Brokers(ctx)
	if err != nil {
		return err
	}
	for _, broker := range brokers {
		for range n {
			if err := again(ctx, func() error {
				_, err := raw.producerIDOf(ctx, broker)
				return err
			}); err != nil {
				return err
			}
		}
	}
	for _, id := range transactionalIDs {
		if _, _, err := raw.InitProducerID(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// LastVisible is the offset of the last data record that a reader of p is to
// see by now, -1 where there is none. That of an aborted transaction does not
// count.
func (r *Raw) LastVisible(ctx context.Context, p Partition, isolation history.Isolation) (int64, error) {
	o, err := r.Offsets(ctx, p)
	if err != nil {
		return -1, err
	}
	last := int64(-1)
	for at := o.LogStartOffset; ; {
		f, err := r.FetchAgain(ctx, p, FetchOptions{Offset: at, Isolation: isolation})
		if err != nil {
			return -1, err
		}
		if len(f.Headers) == 0 {
			return last, nil
		}
		last = max(last, lastVisible(f, isolation))
		at = f.NextOffset
	}
}

// lastVisible is the last offset in one answer of data that its aborted list
// does not hide.
func lastVisible(f *Fetched, isolation history.Isolation) int64 {
	last := int64(-1)
	aborted := map[int64]bool{}
	for _, h := range f.Headers {
		for _, a := range f.Aborted {
			if a.ProducerID == h.ID.ProducerID && a.FirstOffset <= h.BaseOffset {
				aborted[a.ProducerID] = true
			}
		}
		switch {
		case h.Control:
			delete(aborted, h.ID.ProducerID)
		case isolation == history.ReadUncommitted || !h.Transactional || !aborted[h.ID.ProducerID]:
			last = h.LastOffset
		}
	}
	return last
}

// AwaitEnd waits until p's high watermark is at or above offset.
func (r *Raw) AwaitEnd(ctx context.Context, p Partition, offset int64) error {
	for {
		o, err := r.Offsets(ctx, p)
		if err == nil && o.HighWatermark >= offset {
			return nil
		}
		if !pause(ctx, describeEvery) {
			return fmt.Errorf("raw client %s: the high watermark of %s is %d, not %d: %w", r.name, p, o.HighWatermark, offset, errors.Join(context.Cause(ctx), err))
		}
	}
}
