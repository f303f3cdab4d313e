package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sync/errgroup"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// promotedTraffic is what runs against the destination: attempts that must be
// refused until the mirror is stopped, and writers that collide with mirrored
// ones after it.
type promotedTraffic struct {
	rec     *traffic.Recorder
	cluster traffic.Cluster
	layout  layout
	rng     *rand.Rand
	raw     *traffic.Raw
	prober  *traffic.Prober
	payload []byte
	codecs  func() traffic.Codec
	prefix  string // of the names of all clients

	// The same clients are refused before the stop and accepted after it.
	plain, idempotent, transactional *traffic.Producer
	colliding                        []*traffic.Producer
	readers                          []*traffic.Reader

	wg          sync.WaitGroup
	stopHammer  context.CancelFunc
	hammerErr   error
	hammerEnded chan struct{}
}

func newPromoted(
	ctx context.Context, rec *traffic.Recorder, cluster traffic.Cluster, l layout, seed uint64, prefix string,
	pass func(context.Context, *traffic.Raw) error,
) (*promotedTraffic, error) {
	d := &promotedTraffic{
		rec: rec, cluster: cluster, layout: l, rng: traffic.Rand(seed, prefix+"promoted"), prefix: prefix,
		stopHammer: func() {}, hammerEnded: make(chan struct{}),
	}
	d.payload = payloadOf(d.rng)
	d.codecs = codecsOf(d.rng)
	var err error
	if d.raw, err = traffic.NewRaw(ctx, rec, cluster, prefix+"raw"); err != nil {
		return d, err
	}
	if err := pass(ctx, d.raw); err != nil {
		return d, err
	}
	for _, w := range []struct {
		to   **traffic.Producer
		name string
		mode history.Mode
	}{
		{&d.plain, prefix + "plain", history.Plain},
		{&d.idempotent, prefix + "idempotent", history.Idempotent},
		{&d.transactional, prefix + "txn", history.Transactional},
	} {
		if *w.to, err = d.producer(w.name, w.mode, ""); err != nil {
			return d, err
		}
	}
	// The destination's first producer id goes to an ordinary producer, as the
	// source's did: the two collide of themselves.
	if _, _, err := d.idempotent.ID(ctx); err != nil {
		return d, err
	}
	d.prober, err = traffic.NewProber(ctx, d.raw, l.Probed, d.payload)
	return d, err
}

func (d *promotedTraffic) producer(name string, mode history.Mode, txnID string) (*traffic.Producer, error) {
	return traffic.NewProducer(d.rec, d.cluster, traffic.ProducerOptions{
		Name: name, Mode: mode, TransactionalID: txnID, Payload: d.payload, Compression: d.codecs(),
	})
}

// refusedRound tries to write in every way that clients have, while the
// partitions are read-only. That all of it is refused is for the checks to say.
func (d *promotedTraffic) refusedRound(ctx context.Context) error {
	part := d.layout.Probed[0]
	_ = d.plain.Send(ctx, 1, part)
	_ = d.idempotent.Send(ctx, 1, part)
	_ = d.transactional.Transaction(ctx, true, 1, part)
	if ctx.Err() != nil {
		return fmt.Errorf("attempts to write to read-only partitions: %w", context.Cause(ctx))
	}
	return d.prober.Round(ctx)
}

// startHammer starts to write to the destination without a pause, until every
// partition that is probed has accepted one write.
func (d *promotedTraffic) startHammer(ctx context.Context) {
	ctx, d.stopHammer = context.WithCancel(ctx)
	d.wg.Go(func() {
		defer close(d.hammerEnded)
		d.hammerErr = d.prober.UntilAccepted(ctx)
	})
}

// awaitHammer waits until every probed partition has accepted a write.
func (d *promotedTraffic) awaitHammer(ctx context.Context) error {
	select {
	case <-d.hammerEnded:
		return d.hammerErr
	case <-ctx.Done():
		return fmt.Errorf("the partitions are STOPPED but accept no write: %w", context.Cause(ctx))
	}
}

// startReaders starts one reader for each isolation level, from offset 0.
func (d *promotedTraffic) startReaders(ctx context.Context, name string) error {
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		r, err := traffic.StartReader(ctx, d.rec, d.cluster, d.prefix+name+"-"+string(level), level, d.layout.All)
		if err != nil {
			return err
		}
		d.readers = append(d.readers, r)
	}
	return nil
}

// describe samples producers and ends of every partition.
func (d *promotedTraffic) describe(ctx context.Context, when history.When) error {
	for _, p := range d.layout.All {
		if _, err := d.raw.OffsetsAndEpochs(ctx, p); err != nil {
			return err
		}
		if _, err := d.raw.Producers(ctx, p, when); err != nil {
			return err
		}
	}
	return nil
}

// accepted writes with the clients that were refused before (RO-4).
func (d *promotedTraffic) accepted(ctx context.Context) {
	part := d.layout.Probed[0]
	_ = d.plain.Send(ctx, 1, part)
	_ = d.idempotent.Send(ctx, 1, part)
	_ = d.transactional.Transaction(ctx, true, 1, part)
}

// collide writes what a broker that kept mirrored producer state would swallow
// or refuse: forged headers, and transactions under the ids and epochs of
// mirrored transactional producers.
func (d *promotedTraffic) collide(ctx context.Context, forged *traffic.Header, mirrored []mirroredTxn) error {
	traffic.Forge(ctx, d.raw, d.layout.Forge, forged, d.payload)
	for _, m := range mirrored {
		txnID, err := d.raw.TransactionalID(ctx, d.prefix+"meets-"+m.writer)
		if err != nil {
			return err
		}
		met, err := traffic.MeetTransactional(ctx, d.raw, txnID, m.id, m.epoch)
		if err != nil {
			return err
		}
		if !met {
			d.rec.Note("producer id %d of %s can't be met: cluster %s has gone past it", m.id, m.writer, d.cluster.Name)
			continue
		}
		p, err := d.producer(txnID, history.Transactional, txnID)
		if err != nil {
			return err
		}
		d.colliding = append(d.colliding, p)
		if _, _, err := p.ID(ctx); err != nil {
			d.rec.Note("%v", err)
			continue
		}
		for _, commit := range []bool{true, false, true} {
			if err := p.Transaction(ctx, commit, 1+d.rng.IntN(3), d.layout.Mixed...); err != nil {
				d.rec.Note("%v", err)
				break
			}
		}
	}
	return context.Cause(ctx)
}

// after is ordinary traffic on the promoted cluster. Errors are in the history,
// for the checks.
func (d *promotedTraffic) after(ctx context.Context) error {
	for range rounds {
		for _, i := range d.rng.Perm(4) {
			n := 1 + d.rng.IntN(3)
			switch i {
			case 0:
				_ = d.idempotent.Send(ctx, n, d.layout.Mixed...)
			case 1:
				_ = d.plain.Send(ctx, n, d.layout.Written...)
			case 2:
				_ = d.transactional.Transaction(ctx, true, n, d.layout.Mixed...)
			case 3:
				_ = d.transactional.Transaction(ctx, false, n, d.layout.Mixed...)
			}
		}
	}
	return context.Cause(ctx)
}

// last writes one record at the end of each partition: readers that saw it have
// read everything before it. Its writer is a patient one: without the record no reader
// can tell that it is at the end, and a connection may have ended with a restart.
func (d *promotedTraffic) last(ctx context.Context) error {
	p, err := traffic.NewProducer(d.rec, d.cluster, traffic.ProducerOptions{
		Name: d.prefix + "last", Mode: history.Plain, Attempts: traffic.Patiently, Payload: d.payload,
	})
	if err != nil {
		return err
	}
	defer p.Close()
	_ = p.Send(ctx, 1, d.layout.All...)
	return context.Cause(ctx)
}

// readToEnd waits until the readers have passed the last stable offset of every
// partition, and lets two more read everything from the start.
func (d *promotedTraffic) readToEnd(ctx context.Context, name string) error {
	ends := map[traffic.Partition]int64{}
	for _, p := range d.layout.All {
		o, err := d.raw.Offsets(ctx, p)
		if err != nil {
			return err
		}
		ends[p] = o.LastStableOffset
	}
	if err := d.startReaders(ctx, name); err != nil {
		return err
	}
	var errs []error
	for _, r := range d.readers {
		errs = append(errs, r.Await(ctx, ends))
	}
	return errors.Join(errs...)
}

// span fetches across the barrier of each partition in both isolation levels,
// at once and after a long poll, from a few places before it (TXN-4).
func (d *promotedTraffic) span(ctx context.Context, stops map[traffic.Partition]history.Mirror) error {
	return d.fetchers(ctx, func(p traffic.Partition) []int64 { return slicesOf(max(stops[p].LastMirrored, 0), d.rng) })
}

// fetchers fetches from the offsets that from names, in all partitions at once.
// Each has a client of its own: a broker answers the requests of one connection
// in their order, and a long poll keeps the others waiting.
func (d *promotedTraffic) fetchers(ctx context.Context, from func(traffic.Partition) []int64) error {
	var g errgroup.Group
	for _, p := range d.layout.All {
		offsets := from(p)
		if len(offsets) == 0 {
			continue
		}
		g.Go(func() error {
			raw, err := traffic.NewRaw(ctx, d.rec, d.cluster, d.prefix+"fetch-"+p.String())
			if err != nil {
				return err
			}
			defer raw.Close()
			for _, offset := range offsets {
				for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
					if err := fetchBothWays(ctx, raw, p, offset, level); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// fetchBothWays fetches at once and after a long poll.
func fetchBothWays(ctx context.Context, raw *traffic.Raw, p traffic.Partition, offset int64, level history.Isolation) error {
	for _, long := range []bool{false, true} {
		if _, err := raw.FetchAgain(ctx, p, traffic.FetchOptions{
			Offset: offset, Isolation: level, LongPoll: long, Wait: longPoll,
		}); err != nil {
			return err
		}
	}
	return nil
}

// atBarrier fetches at the barrier of each partition while it is the last batch
// there, in partitions that nobody has written to since.
func (d *promotedTraffic) atBarrier(ctx context.Context, stops map[traffic.Partition]history.Mirror) error {
	return d.fetchers(ctx, func(p traffic.Partition) []int64 {
		if at := stops[p].BarrierOffset; at >= 0 {
			return []int64{at}
		}
		return nil
	})
}

// slicesOf names offsets at or below end from which to fetch: the start, a
// place in between, and the end itself.
func slicesOf(end int64, rng *rand.Rand) []int64 {
	if end == 0 {
		return []int64{0}
	}
	return []int64{0, rng.Int64N(end), end}
}

func (d *promotedTraffic) close() {
	d.stopHammer()
	d.wg.Wait()
	for _, r := range d.readers {
		r.Stop()
	}
	for _, p := range append(d.colliding, d.plain, d.idempotent, d.transactional) {
		if p != nil {
			p.Close()
		}
	}
	if d.raw != nil {
		d.raw.Close()
	}
}
