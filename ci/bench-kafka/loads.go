package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 8

// A load is put on one broker for some seconds, and gives a number for each
// of its measures.
type load struct {
	measures []measure
	// txns: Kafka's setting for transactions matters.
	txns bool
	run  func(ctx context.Context, o options, addr string) ([]float64, error)
}

func loads() []load {
	return []load{
		{[]measure{
			{Name: "produce 1 KiB", Unit: "MB/s", Ratio: 1.5},
			{Name: "fetch 1 KiB", Unit: "MB/s", Ratio: 0.9},
		}, false, produceAndFetch(1024, 400e6, 1600e6)},
		{[]measure{
			{Name: "produce 100 B", Unit: "MB/s", Ratio: 1.1},
			{Name: "fetch 100 B", Unit: "MB/s", Ratio: 0.9},
		}, false, produceAndFetch(100, 150e6, 450e6)},
		{[]measure{{Name: "transactions, 1 producer", Unit: "1/s", Ratio: 3}}, true, transactions(1)},
		{[]measure{{Name: "transactions, 8 producers", Unit: "1/s", Ratio: 2}}, true, transactions(8)},
		{[]measure{
			{Name: "produce one at a time, p50", Unit: "ms", Less: true},
			{Name: "produce one at a time, p99", Unit: "ms", Ratio: 0.5, Less: true},
		}, false, oneAtATime},
	}
}

// measureLoads runs the loads in turns on brokers that all run all the time.
func measureLoads(ctx context.Context, o options, res *results) error {
	var todo []load
	for _, l := range loads() {
		if slices.ContainsFunc(l.measures, func(m measure) bool { return o.only.MatchString(m.Name) }) {
			todo = append(todo, l)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	brokers, err := startAll(ctx, o, slices.ContainsFunc(todo, func(l load) bool { return l.txns }))
	for _, b := range brokers {
		defer b.kill()
	}
	if err != nil {
		return err
	}
	for round := -1; round < o.rounds; round++ { // the one before the first warms up
		for _, l := range todo {
			for i := range brokers {
				// Who is first changes: what the one before leaves to the disk is
				// everybody's burden in turn.
				b := brokers[(i+max(round, 0))%len(brokers)]
				if b.name == theirsTx && !l.txns {
					continue
				}
				if err := measureOne(ctx, o, res, l, b, brokers, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func measureOne(ctx context.Context, o options, res *results, l load, b *broker, all []*broker, round int) error {
	runtime.GC()
	before, cpu := readTicks(all...), b.cpuSeconds()
	got, err := l.run(ctx, o, b.addr)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", l.measures[0].Name, b.name, err)
	}
	noise := before.others(readTicks(all...))
	cpu = b.cpuSeconds() - cpu
	for i, m := range l.measures {
		fmt.Fprintf(os.Stderr, "round %d  %-28s %-10s %10.4g %-5s others %2.0f %%  cpu %.2f s\n", round+1, m.Name, b.name, got[i], m.Unit, 100*noise, cpu)
		if round >= 0 {
			res.add(m, b.name, sample{Value: got[i], Others: noise, CPU: cpu})
		}
	}
	return nil
}

func startAll(ctx context.Context, o options, txns bool) (all []*broker, err error) {
	add := func(b *broker, err error, name string) error {
		if b != nil {
			b.name = name
			all = append(all, b)
		}
		return err
	}
	b, err := startRefbroker(ctx, o, filepath.Join(o.dir, ours))
	if err := add(b, err, ours); err != nil || o.kafkaLib == "" {
		return all, err
	}
	b, err = startKafka(ctx, o, filepath.Join(o.dir, theirs))
	if err := add(b, err, theirs); err != nil || !txns {
		return all, err
	}
	b, err = startKafka(ctx, o, filepath.Join(o.dir, theirsTx), "add.partitions.to.txn.retry.backoff.ms=1")
	return all, add(b, err, theirsTx)
}

// client is one with franz-go's defaults, but without compression: the bytes
// that are counted are those that move.
func client(addr string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(10 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
	}, more...)...)
}

var topics atomic.Int64

// withTopic makes a topic for one load, and deletes it afterwards.
func withTopic(ctx context.Context, addr string, n int32, do func(topic string) error) (err error) {
	cl, err := client(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topic := fmt.Sprintf("bench-%d", topics.Add(1))
	if _, err := adm.CreateTopic(ctx, n, 1, nil, topic); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	defer func() {
		_, derr := adm.DeleteTopics(ctx, topic)
		err = errors.Join(err, derr)
	}()
	return do(topic)
}

func produceAndFetch(size, produced, fetched float64) func(context.Context, options, string) ([]float64, error) {
	return func(ctx context.Context, o options, addr string) (got []float64, err error) {
		n := int(produced * o.scale / size)
		err = withTopic(ctx, addr, partitions, func(topic string) error {
			took, err := produce(ctx, addr, topic, int(size), n)
			if err != nil {
				return err
			}
			got = append(got, float64(n)*size/1e6/took.Seconds())
			times := max(1, int(fetched*o.scale/(float64(n)*size)))
			runtime.GC()
			began := time.Now()
			for range times {
				if err := consume(ctx, addr, topic, n); err != nil {
					return err
				}
			}
			got = append(got, float64(times)*float64(n)*size/1e6/time.Since(began).Seconds())
			return nil
		})
		return got, err
	}
}

// produce is idempotent, with acks=all, as franz-go does by default.
func produce(ctx context.Context, addr, topic string, size, n int) (time.Duration, error) {
	cl, err := client(addr, kgo.DefaultProduceTopic(topic))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("first")}).FirstErr(); err != nil {
		return 0, err
	}
	value := make([]byte, size)
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.Store(&err)
		}
	}
	began := time.Now()
	const block = 1000
	for i := 0; i < n; i += block {
		records := make([]kgo.Record, min(block, n-i))
		for j := range records {
			records[j].Value = value
			cl.Produce(ctx, &records[j], promise)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return took, nil
}

// consume reads a topic from its start until it has seen n records.
func consume(ctx context.Context, addr, topic string, n int) error {
	cl, err := client(addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for got := 0; got < n; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return err
		}
		got += fs.NumRecords()
	}
	return nil
}

// transactions commits transactions of ten records of 100 bytes, as fast as a
// number of producers can, and gives how many there are in a second.
func transactions(producers int) func(context.Context, options, string) ([]float64, error) {
	return func(ctx context.Context, o options, addr string) (got []float64, err error) {
		err = withTopic(ctx, addr, partitions, func(topic string) error {
			long := time.Duration(o.scale * float64(2*time.Second))
			var clients []*kgo.Client
			for i := range producers {
				cl, err := client(addr, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, i)))
				if err != nil {
					return err
				}
				defer cl.Close()
				clients = append(clients, cl)
				if err := transaction(ctx, cl); err != nil { // finds coordinator and leaders
					return err
				}
			}
			var done atomic.Int64
			var work sync.WaitGroup
			errs := make([]error, producers)
			began := time.Now()
			for i, cl := range clients {
				work.Go(func() {
					for time.Since(began) < long && errs[i] == nil {
						errs[i] = transaction(ctx, cl)
						done.Add(1)
					}
				})
			}
			work.Wait()
			got = []float64{float64(done.Load()) / time.Since(began).Seconds()}
			return errors.Join(errs...)
		})
		return got, err
	}
}

func transaction(ctx context.Context, cl *kgo.Client) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	value := make([]byte, 100)
	var failed atomic.Pointer[error]
	for range 10 {
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

// oneAtATime produces a record, waits for its acknowledgement, and goes on
// with the next.
func oneAtATime(ctx context.Context, o options, addr string) (got []float64, err error) {
	err = withTopic(ctx, addr, 1, func(topic string) error {
		cl, err := client(addr, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
		if err != nil {
			return err
		}
		defer cl.Close()
		var took []time.Duration
		value := make([]byte, 100)
		for i := range int(5000*o.scale) + 100 {
			began := time.Now()
			if err := cl.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
				return err
			}
			if i >= 100 { // by then it knows its leader, and the topic is there
				took = append(took, time.Since(began))
			}
		}
		slices.Sort(took)
		at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
		got = []float64{at(0.5), at(0.99)}
		return nil
	})
	return got, err
}
