// Franz is the script of behaviours with franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/ci/conformance/script"
)

func main() {
	script.Main(map[string]script.Behaviour{
		"produce": produce, "transactions": transactions, "group": group, "copy": copyRecords,
		"admin": admin, "leader-kill": leaderKill, "barrier": barrier,
	})
}

// client makes a client; the caller closes it.
func client(k *script.Kit, opts ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(k.Bootstrap, ",")...), kgo.ClientID(k.Prefix), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(script.Limit), kgo.DisableClientMetrics(),
	}
	return kgo.NewClient(append(base, opts...)...)
}

// topic creates a topic with three replicas and waits until all lead and follow.
func topic(ctx context.Context, k *script.Kit, suffix string, partitions int32) (string, error) {
	name := k.Name(suffix)
	cl, err := client(k)
	if err != nil {
		return "", err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	// That it is there says that the client has asked twice: names are not used twice.
	if _, err := adm.CreateTopic(ctx, partitions, 3, nil, name); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	return name, script.Await(ctx, "leaders of "+name, func() (bool, error) { return led(ctx, adm, name, int(partitions)) })
}

func led(ctx context.Context, adm *kadm.Client, name string, partitions int) (bool, error) {
	d, err := adm.ListTopics(ctx, name)
	if err != nil {
		return false, err
	}
	n := 0
	for _, p := range d[name].Partitions {
		if p.Err == nil && p.Leader >= 0 && len(p.ISR) == 3 {
			n++
		}
	}
	return n == partitions, d[name].Err
}

var isolation = map[string]kgo.IsolationLevel{"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted()}

// read reads a partition up to its end in an isolation level, as OFFSET:VALUE.
func read(ctx context.Context, k *script.Kit, name string, partition int32, level string) ([]string, error) {
	records, err := records(ctx, k, name, partition, level)
	all := []string{}
	for _, r := range records {
		all = append(all, fmt.Sprintf("%d:%s", r.Offset, r.Value))
	}
	return all, err
}

func records(ctx context.Context, k *script.Kit, name string, partition int32, level string) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, script.Limit)
	defer cancel()
	end, err := endOffset(ctx, k, name, partition, level)
	if err != nil {
		return nil, err
	}
	// Control records are kept: they say how far the reading has come.
	cl, err := client(k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(isolation[level]), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	start, err := kadm.NewClient(cl).ListStartOffsets(ctx, name)
	if err != nil {
		return nil, err
	}
	at, _ := start.Lookup(name, partition)
	var all []*kgo.Record
	for next := at.Offset; next < end; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("at %d of %d of %s-%d in %s: %w", next, end, name, partition, level, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				all = append(all, r)
			}
		})
	}
	return all, nil
}

func endOffset(ctx context.Context, k *script.Kit, name string, partition int32, level string) (int64, error) {
	cl, err := client(k)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	list := kadm.NewClient(cl).ListEndOffsets
	if level == "read_committed" {
		list = kadm.NewClient(cl).ListCommittedOffsets
	}
	ends, err := list(ctx, name)
	if err != nil {
		return 0, err
	}
	o, ok := ends.Lookup(name, partition)
	if !ok {
		return 0, fmt.Errorf("no end of %s-%d", name, partition)
	}
	return o.Offset, o.Err
}

// settled waits until no transaction is open: markers are written a moment after
// the end was acknowledged.
func settled(ctx context.Context, k *script.Kit, name string) error {
	return script.Await(ctx, "the markers of "+name, func() (bool, error) {
		stable, err1 := endOffset(ctx, k, name, 0, "read_committed")
		end, err2 := endOffset(ctx, k, name, 0, "read_uncommitted")
		return stable == end, errors.Join(err1, err2)
	})
}

// errorName is Kafka's name of an error, or the client's own text.
func errorName(err error) string {
	if err == nil {
		return "none"
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Message
	}
	return err.Error()
}

func produce(ctx context.Context, k *script.Kit) error {
	name, err := topic(ctx, k, "", 3)
	if err != nil {
		return err
	}
	cl, err := client(k)
	if err != nil {
		return err
	}
	defer cl.Close()
	acked := make([]int64, 20)
	var firstErr error
	for i := range acked {
		cl.Produce(ctx, &kgo.Record{Topic: name, Value: fmt.Appendf(nil, "v%d", i)}, func(r *kgo.Record, err error) {
			acked[i] = r.Offset
			firstErr = errors.Join(firstErr, err)
		})
	}
	if err := errors.Join(cl.Flush(ctx), firstErr); err != nil {
		return err
	}
	k.Fact("acked", acked)
	for codec, option := range map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		c, err := client(k, kgo.ProducerBatchCompression(option))
		if err != nil {
			return err
		}
		err = c.ProduceSync(ctx, &kgo.Record{Topic: name, Partition: 1, Value: []byte(strings.Repeat(codec, 100))}).FirstErr()
		c.Close()
		if err != nil {
			return fmt.Errorf("produce with %s: %w", codec, err)
		}
	}
	big, err := client(k, kgo.ProducerBatchMaxBytes(4<<20), kgo.BrokerMaxWriteBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer big.Close()
	k.Fact("too-large", errorName(big.ProduceSync(ctx, &kgo.Record{Topic: name, Value: make([]byte, 1_100_000)}).FirstErr()))
	got, err := records(ctx, k, name, 1, "read_committed")
	if err != nil {
		return err
	}
	var codecs []string
	for _, r := range got {
		codecs = append(codecs, fmt.Sprintf("%s%d", r.Value[:3], len(r.Value)))
	}
	slices.Sort(codecs)
	k.Fact("codecs", codecs)
	values, err := read(ctx, k, name, 0, "read_uncommitted")
	k.Fact("read", values)
	if err != nil {
		return err
	}
	err = cl.ProduceSync(ctx, &kgo.Record{Topic: name, Partition: 2, Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}}).FirstErr()
	if err != nil {
		return err
	}
	got, err = records(ctx, k, name, 2, "read_uncommitted")
	if err != nil {
		return err
	}
	r := got[0]
	k.Fact("whole-record", []any{string(r.Key), r.Value == nil, r.Headers[0].Key, string(r.Headers[0].Value), r.Headers[1].Value == nil, r.LeaderEpoch})
	unknown, err := client(k, kgo.UnknownTopicRetries(1))
	if err != nil {
		return err
	}
	defer unknown.Close()
	k.Fact("unknown-topic", errorName(unknown.ProduceSync(ctx, &kgo.Record{Topic: k.Name("nowhere"), Value: []byte("v")}).FirstErr()))
	return nil
}

func transactions(ctx context.Context, k *script.Kit) error {
	name, err := topic(ctx, k, "", 1)
	if err != nil {
		return err
	}
	id := kgo.TransactionalID(k.Name("id"))
	cl, err := client(k, id)
	if err != nil {
		return err
	}
	defer cl.Close()
	send := func(cl *kgo.Client, value string) error {
		var all []*kgo.Record
		for i := range 3 {
			all = append(all, &kgo.Record{Topic: name, Value: fmt.Appendf(nil, "%s-%d", value, i)})
		}
		return cl.ProduceSync(ctx, all...).FirstErr()
	}
	for _, outcome := range []string{"commit1", "abort1", "commit2"} {
		if err := errors.Join(cl.BeginTransaction(), send(cl, outcome), cl.EndTransaction(ctx, kgo.TransactionEndTry(outcome[0] == 'c'))); err != nil {
			return fmt.Errorf("transaction %s: %w", outcome, err)
		}
	}
	if err := errors.Join(cl.BeginTransaction(), send(cl, "open")); err != nil {
		return err
	}
	tell := func(when string) error {
		for level := range isolation {
			end, err1 := endOffset(ctx, k, name, 0, level)
			values, err2 := read(ctx, k, name, 0, level)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			k.Fact(level+"-end-"+when, end)
			k.Fact(level+"-"+when, values)
		}
		return nil
	}
	if err := tell("while-open"); err != nil {
		return err
	}
	second, err := client(k, id)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := errors.Join(second.BeginTransaction(), send(second, "second")); err != nil {
		return fmt.Errorf("the second producer: %w", err)
	}
	k.Fact("fenced-send", errorName(send(cl, "zombie")))
	k.Fact("fenced-commit", errorName(cl.EndTransaction(ctx, kgo.TryCommit)))
	if err := second.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	if err := settled(ctx, k, name); err != nil {
		return err
	}
	return tell("at-the-end")
}

func group(ctx context.Context, k *script.Kit) error {
	name, err := topic(ctx, k, "", 4)
	if err != nil {
		return err
	}
	if err := fill(ctx, k, name, "v", 40); err != nil {
		return err
	}
	var read []string
	a, err := join(ctx, k, name)
	if err != nil {
		return err
	}
	defer a.close()
	if err := script.Await(ctx, "the first member to have all", func() (bool, error) { return a.has(4) }); err != nil {
		return err
	}
	b, err := join(ctx, k, name)
	if err != nil {
		return err
	}
	defer b.close()
	if err := script.Await(ctx, "two each", func() (bool, error) {
		x, err1 := a.has(2)
		y, err2 := b.has(2)
		return x && y, errors.Join(err1, err2)
	}); err != nil {
		return err
	}
	k.Fact("shared", []int{a.count(), b.count()})
	if err := script.Await(ctx, "all records", func() (bool, error) { return len(distinct(a, b)) == 40, nil }); err != nil {
		return err
	}
	a.close()
	if err := script.Await(ctx, "the other to have all", func() (bool, error) { return b.has(4) }); err != nil {
		return err
	}
	b.close()
	read = distinct(a, b)
	k.Fact("read", read)
	if err := committed(ctx, k, "committed"); err != nil {
		return err
	}
	if err := fill(ctx, k, name, "w", 8); err != nil {
		return err
	}
	c, err := join(ctx, k, name)
	if err != nil {
		return err
	}
	defer c.close()
	if err := script.Await(ctx, "the rest", func() (bool, error) { return len(distinct(c)) == 8, nil }); err != nil {
		return err
	}
	c.close()
	k.Fact("resumed", distinct(c))
	return committed(ctx, k, "committed-at-the-end")
}

func fill(ctx context.Context, k *script.Kit, name, value string, n int) error {
	cl, err := client(k)
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range n {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: name, Partition: int32(i % 4), Value: fmt.Appendf(nil, "%s%d", value, 10+i)}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// committedAt waits until the first partition's commit is there: that of a
// transaction holds a moment after its end.
func committedAt(ctx context.Context, k *script.Kit, fact string, at int64) error {
	cl, err := client(k)
	if err != nil {
		return err
	}
	defer cl.Close()
	err = script.Await(ctx, fmt.Sprint("commit ", at), func() (bool, error) {
		offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, k.Name("g"))
		o, ok := offsets.Lookup(k.Name("in"), 0)
		return ok && o.At == at, err
	})
	return errors.Join(err, committed(ctx, k, fact))
}

func committed(ctx context.Context, k *script.Kit, fact string) error {
	cl, err := client(k)
	if err != nil {
		return err
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, k.Name("g"))
	if err != nil {
		return err
	}
	all := map[string]any{}
	offsets.Each(func(o kadm.OffsetResponse) { all[fmt.Sprint(o.Partition)] = o.At })
	k.Fact(fact, all)
	return nil
}
