package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// sourceTraffic is what runs against the source: everything that a stop has to
// sort out.
type sourceTraffic struct {
	rec     *traffic.Recorder
	cluster traffic.Cluster
	layout  layout
	rng     *rand.Rand
	raw     *traffic.Raw
	payload []byte
	// prefix begins the names of all clients, which are unique on a cluster.
	prefix string

	idempotent, second, plain, ending, straddling, open *traffic.Producer
	live                                                *traffic.Producer // writes while mirrors are stopped
	java                                                *javaTraffic      // nil for none
	mirrored                                            []mirroredTxn

	wg         sync.WaitGroup
	stopLive   chan struct{} // closed to end the live traffic; nil when there is none
	cancelLive context.CancelFunc
	liveErr    error
}

// mirroredTxn is a transactional producer of the source, with which one of the
// destination's is to collide.
type mirroredTxn struct {
	writer string
	id     int64
	epoch  int16
}

// newSource makes the source's producers, in the order that gives them the
// producer ids that the collisions need: the first idempotent one gets the
// cluster's first id, as the destination's first one will; the transactional ones
// get ids from the one that base names on, with one left free before each.
func newSource(
	ctx context.Context, rec *traffic.Recorder, cluster traffic.Cluster, l layout, seed uint64, prefix string,
	base func(context.Context, *traffic.Raw) (int64, error),
) (*sourceTraffic, error) {
	s := &sourceTraffic{
		rec: rec, cluster: cluster, layout: l, rng: traffic.Rand(seed, prefix+"source"), prefix: prefix,
		cancelLive: func() {},
	}
	s.payload = payloadOf(s.rng)
	codecs := codecsOf(s.rng)
	var err error
	if s.raw, err = traffic.NewRaw(ctx, rec, cluster, prefix+"raw"); err != nil {
		return s, err
	}
	producer := func(to **traffic.Producer, name string, mode history.Mode) error {
		txnID := ""
		if mode == history.Transactional {
			if txnID, err = s.raw.TransactionalID(ctx, prefix+name); err != nil {
				return err
			}
		}
		*to, err = traffic.NewProducer(rec, cluster, traffic.ProducerOptions{
			Name: prefix + name, Mode: mode, TransactionalID: txnID, Attempts: traffic.Patiently, Payload: s.payload, Compression: codecs(),
		})
		if err != nil || mode == history.Plain {
			return err
		}
		_, _, err = (*to).ID(ctx)
		return err
	}
	first, err := base(ctx, s.raw)
	if err != nil {
		return s, err
	}
	if err := producer(&s.idempotent, "idempotent", history.Idempotent); err != nil {
		return s, err
	}
	if err := producer(&s.plain, "plain", history.Plain); err != nil {
		return s, err
	}
	for i, t := range []struct {
		to   **traffic.Producer
		name string
	}{{&s.ending, "txn-ending"}, {&s.open, "txn-open"}} {
		next := first + 2*int64(i)
		free, err := traffic.BurnProducerIDs(ctx, s.raw, next)
		if err != nil {
			return s, err
		}
		if !free {
			// Another broker of the cluster had the block.
			rec.Note("producer id %d of cluster %s is not free: nobody will meet it", next, cluster.Name)
		}
		if err := producer(t.to, t.name, history.Transactional); err != nil {
			return s, err
		}
	}
	if err := producer(&s.second, "idempotent-2", history.Idempotent); err != nil {
		return s, err
	}
	if err := producer(&s.straddling, "txn-straddling", history.Transactional); err != nil {
		return s, err
	}
	return s, producer(&s.live, "live", history.Transactional)
}

// payloadOf draws the bytes that follow the tag in every record.
func payloadOf(rng *rand.Rand) []byte {
	b := make([]byte, 20+rng.IntN(200))
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return b
}

// codecsOf deals out codecs to producers, in an order that rng decides: any five
// in a row have one each, so that mirrored logs hold every kind.
func codecsOf(rng *rand.Rand) func() traffic.Codec {
	all := traffic.Codecs()
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	next := 0
	return func() traffic.Codec {
		next++
		return all[next%len(all)]
	}
}

// large is how many records one batch of each run has, at most.
const large = 400

// rounds bounds how much ordinary traffic one phase sees.
const rounds = 3

// before writes to partitions the records that the mirror copies before it is
// stopped: commits and aborts over several partitions, idempotent and plain records, and
// what the forged collisions will meet.
func (s *sourceTraffic) before(ctx context.Context, all []traffic.Partition) error {
	for range rounds {
		for _, i := range s.rng.Perm(4) {
			var err error
			n := 1 + s.rng.IntN(3)
			switch i {
			case 0:
				err = s.idempotent.Send(ctx, n, all...)
			case 1:
				err = s.plain.Send(ctx, n, all...)
			case 2:
				err = s.ending.Transaction(ctx, true, n, all...)
			case 3:
				err = s.ending.Transaction(ctx, false, n, all...)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := s.open.Transaction(ctx, true, 1+s.rng.IntN(3), all...); err != nil {
		return err
	}
	if err := s.idempotent.Send(ctx, large/2+s.rng.IntN(large/2), all[0]); err != nil {
		return err
	}
	if err := s.java.before(ctx, all); err != nil {
		return err
	}
	if err := traffic.SeedForgeries(ctx, s.raw, s.layout.Forge, s.payload); err != nil {
		return err
	}
	// The last ordinary batch on this partition is the one to forge.
	return s.second.Send(ctx, 2+s.rng.IntN(3), all...)
}

// leaveOpen opens the transaction that STOPPING is to find, over several
// partitions, and writes other records behind it.
func (s *sourceTraffic) leaveOpen(ctx context.Context) error {
	// One transaction begins before the open one and ends behind its first
	// record: cut at the last stable offset, it would be open again (TXN-3).
	if err := s.straddling.Begin(history.IntentCommit); err != nil {
		return err
	}
	if err := s.straddling.Send(ctx, 1+s.rng.IntN(2), s.layout.Spanned...); err != nil {
		return err
	}
	if err := s.java.leaveOpen(ctx, s.layout.Spanned); err != nil {
		return err
	}
	if err := s.open.Begin(history.IntentOpen); err != nil {
		return err
	}
	if err := s.open.Send(ctx, 2+s.rng.IntN(3), s.layout.Spanned...); err != nil {
		return err
	}
	if err := s.straddling.Send(ctx, 1, s.layout.Spanned...); err != nil {
		return err
	}
	if err := s.straddling.End(ctx, true); err != nil {
		return err
	}
	if err := s.idempotent.Send(ctx, 1+s.rng.IntN(3), s.layout.Spanned...); err != nil {
		return err
	}
	if err := s.plain.Send(ctx, 1+s.rng.IntN(3), s.layout.Spanned...); err != nil {
		return err
	}
	return nil
}

// learn reads from the source's raw log under which ids and epochs its
// transactional producers wrote last.
func (s *sourceTraffic) learn(ctx context.Context) error {
	headers, err := s.raw.HeadersFrom(ctx, s.layout.Spanned[0], 0)
	if err != nil {
		return err
	}
	for _, p := range []*traffic.Producer{s.ending, s.open} {
		id, _, err := p.ID(ctx)
		if err != nil {
			return err
		}
		m := mirroredTxn{p.Name(), id, -1}
		for _, h := range headers {
			if h.ID.ProducerID == id && h.Transactional && !h.Control {
				m.epoch = h.ID.Epoch
			}
		}
		if m.epoch < 0 {
			return fmt.Errorf("%s on the source holds no transactional batch of producer id %d", s.layout.Spanned[0], id)
		}
		s.mirrored = append(s.mirrored, m)
	}
	return nil
}

const (
	// liveEvery paces the traffic that goes on while the mirror is stopped.
	liveEvery = 5 * time.Millisecond
	// liveMost bounds it.
	liveMost = 2000
)

// startLive starts the traffic that goes on at the source through whole stops:
// short transactions that commit or abort, and plain records. It ends with
// endLive, and of itself when the source no longer answers.
func (s *sourceTraffic) startLive(ctx context.Context) {
	ctx, s.cancelLive = context.WithCancel(ctx)
	stop := make(chan struct{})
	s.stopLive = stop
	s.wg.Go(func() { s.liveErr = s.runLive(ctx, stop) })
}

func (s *sourceTraffic) runLive(ctx context.Context, stop <-chan struct{}) error {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for i := range liveMost {
		var err error
		if i%2 == 0 {
			err = s.plain.Send(ctx, 1, s.layout.Written...)
		} else {
			err = s.live.Transaction(ctx, i%4 == 1, 1, s.layout.Written...)
		}
		if err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// endLive ends the live traffic, if there is any, and returns what it met. Where
// the source still answers, a write on its way is waited for.
func (s *sourceTraffic) endLive(answers bool) error {
	if s.stopLive == nil {
		return nil
	}
	if !answers {
		s.cancelLive()
	}
	close(s.stopLive)
	s.wg.Wait()
	s.cancelLive()
	s.stopLive = nil
	if !answers {
		return nil
	}
	return s.liveErr
}

// late goes on at the old source after the failover: the open transaction
// commits there, and more records follow. None of it may reach the destination.
func (s *sourceTraffic) late(ctx context.Context) error {
	if err := s.open.End(ctx, true); err != nil {
		return err
	}
	if err := s.java.late(ctx, s.layout.Written); err != nil {
		return err
	}
	if err := s.idempotent.Send(ctx, 2, s.layout.Written...); err != nil {
		return err
	}
	return s.ending.Transaction(ctx, true, 1, s.layout.Written...)
}

// producers are those that there are by now, but Kafka's own.
func (s *sourceTraffic) producers() []*traffic.Producer {
	all := []*traffic.Producer{s.idempotent, s.second, s.plain, s.ending, s.straddling, s.open, s.live}
	return slices.DeleteFunc(all, func(p *traffic.Producer) bool { return p == nil })
}

// close closes the producers.
func (s *sourceTraffic) close() {
	s.cancelLive()
	s.wg.Wait()
	for _, p := range s.producers() {
		p.Close()
	}
	if s.raw != nil {
		s.raw.Close()
	}
	s.java.close()
}
