// Sarama is the script of behaviours with sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"watershed.example/ci/conformance/script"
)

func main() {
	sarama.Logger = discard{}
	script.Main(map[string]script.Behaviour{
		"produce": produce, "transactions": transactions, "group": group, "copy": copyRecords,
		"admin": admin, "leader-kill": leaderKill, "barrier": barrier,
	})
}

type discard struct{}

func (discard) Print(...any)          {}
func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

func config(k *script.Kit, change ...func(*sarama.Config)) *sarama.Config {
	c := sarama.NewConfig()
	c.Version, c.ClientID = sarama.MaxVersion, k.Prefix
	c.Net.MaxOpenRequests = 1 // for idempotent producers
	c.Producer.Idempotent, c.Producer.RequiredAcks = true, sarama.WaitForAll
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	// A leader that is gone is to be waited for, not given up.
	c.Producer.Retry.Max, c.Producer.Retry.Backoff = 300, 100*time.Millisecond
	c.Metadata.Retry.Max, c.Admin.Retry.Max, c.Admin.Timeout = 30, 30, script.Limit
	c.Net.ReadTimeout = script.Limit
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	for _, f := range change {
		f(c)
	}
	return c
}

func transactional(k *script.Kit, id string) func(*sarama.Config) {
	return func(c *sarama.Config) { c.Producer.Transaction.ID = k.Name(id) }
}

func brokers(k *script.Kit) []string { return strings.Split(k.Bootstrap, ",") }

func topic(ctx context.Context, k *script.Kit, suffix string, detail sarama.TopicDetail) (string, error) {
	name := k.Name(suffix)
	adm, err := sarama.NewClusterAdmin(brokers(k), config(k))
	if err != nil {
		return "", err
	}
	defer closing(adm)
	partitions := max(int(detail.NumPartitions), len(detail.ReplicaAssignment))
	if detail.NumPartitions > 0 {
		detail.ReplicationFactor = 3
	}
	// That it is there says that the client has asked twice: names are not used twice.
	if err := adm.CreateTopic(name, &detail, false); err != nil && !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	return name, script.Await(ctx, "leaders of "+name, func() (bool, error) { return led(adm, name, partitions) })
}

func closing(c io.Closer) { _ = c.Close() } // all was done

func led(adm sarama.ClusterAdmin, name string, partitions int) (bool, error) {
	all, err := adm.DescribeTopics([]string{name})
	if err != nil {
		return false, err
	}
	n := 0
	for _, p := range all[0].Partitions {
		if p.Leader >= 0 && len(p.Isr) == 3 {
			n++
		}
	}
	return n == partitions, nil
}

func producer(k *script.Kit, change ...func(*sarama.Config)) (sarama.SyncProducer, error) {
	return sarama.NewSyncProducer(brokers(k), config(k, change...))
}

func send(p sarama.SyncProducer, name string, partition int32, values ...string) (offsets []int64, err error) {
	for _, v := range values {
		_, at, err := p.SendMessage(&sarama.ProducerMessage{Topic: name, Partition: partition, Value: sarama.StringEncoder(v)})
		if err != nil {
			return offsets, err
		}
		offsets = append(offsets, at)
	}
	return offsets, nil
}

var isolation = map[string]sarama.IsolationLevel{"read_committed": sarama.ReadCommitted, "read_uncommitted": sarama.ReadUncommitted}

// end is a partition's end as an isolation level sees it: sarama's own question
// knows none, so the answer is read from a broker.
func end(k *script.Kit, name string, partition int32, level string) (int64, error) {
	cl, err := sarama.NewClient(brokers(k), config(k))
	if err != nil {
		return 0, err
	}
	defer closing(cl)
	leader, err := cl.Leader(name, partition)
	if err != nil {
		return 0, err
	}
	req := &sarama.OffsetRequest{Version: 4, IsolationLevel: isolation[level]}
	req.AddBlock(name, partition, sarama.OffsetNewest, 1)
	resp, err := leader.GetAvailableOffsets(req)
	if err != nil {
		return 0, err
	}
	b := resp.GetBlock(name, partition)
	if b == nil || b.Err != sarama.ErrNoError {
		return 0, fmt.Errorf("no end of %s-%d: %v", name, partition, b)
	}
	return b.Offset, nil
}

// settled waits until no transaction is open: markers are written a moment after
// the end was acknowledged.
func settled(ctx context.Context, k *script.Kit, name string) error {
	return script.Await(ctx, "the markers of "+name, func() (bool, error) {
		stable, err1 := end(k, name, 0, "read_committed")
		last, err2 := end(k, name, 0, "read_uncommitted")
		return stable == last, errors.Join(err1, err2)
	})
}

// messages reads until the last record that is to be seen: sarama tells no
// position, so the caller says how many there are.
func messages(ctx context.Context, k *script.Kit, name string, partition int32, level string, want int) ([]*sarama.ConsumerMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, script.Limit)
	defer cancel()
	c, err := sarama.NewConsumer(brokers(k), config(k, func(c *sarama.Config) { c.Consumer.IsolationLevel = isolation[level] }))
	if err != nil {
		return nil, err
	}
	defer closing(c)
	p, err := c.ConsumePartition(name, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer closing(p)
	var all []*sarama.ConsumerMessage
	more := time.NewTimer(script.Limit)
	for {
		select {
		case m := <-p.Messages():
			if all = append(all, m); len(all) == want {
				more.Reset(300 * time.Millisecond) // for what must not come
			}
		case <-more.C:
			return all, nil
		case <-ctx.Done():
			return all, fmt.Errorf("%d of %d records of %s in %s came", len(all), want, name, level)
		}
	}
}

func read(ctx context.Context, k *script.Kit, name string, level string, want int) ([]string, error) {
	all, err := messages(ctx, k, name, 0, level, want)
	text := []string{}
	for _, m := range all {
		text = append(text, fmt.Sprintf("%d:%s", m.Offset, m.Value))
	}
	return text, err
}

// errorName is Kafka's name of an error, or the client's own text.
func errorName(err error) string {
	if err == nil {
		return "none"
	}
	var k sarama.KError
	if errors.As(err, &k) {
		return fmt.Sprintf("error %d", int16(k))
	}
	return err.Error()
}

func produce(ctx context.Context, k *script.Kit) error {
	name, err := topic(ctx, k, "", sarama.TopicDetail{NumPartitions: 3})
	if err != nil {
		return err
	}
	p, err := producer(k)
	if err != nil {
		return err
	}
	defer closing(p)
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf("v%d", i))
	}
	acked, err := send(p, name, 0, values...)
	if err != nil {
		return err
	}
	k.Fact("acked", acked)
	got, err := read(ctx, k, name, "read_uncommitted", 20)
	if err != nil {
		return err
	}
	k.Fact("read", got)
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		c, err := producer(k, func(c *sarama.Config) { c.Producer.Compression = codec })
		if err != nil {
			return err
		}
		_, err = send(c, name, 1, strings.Repeat(codec.String(), 100))
		closing(c)
		if err != nil {
			return fmt.Errorf("produce with %s: %w", codec, err)
		}
	}
	compressed, err := messages(ctx, k, name, 1, "read_committed", 4)
	if err != nil {
		return err
	}
	var codecs []string
	for _, m := range compressed {
		codecs = append(codecs, fmt.Sprintf("%s%d", m.Value[:3], len(m.Value)))
	}
	k.Fact("codecs", codecs)
	big, err := producer(k, func(c *sarama.Config) { c.Producer.MaxMessageBytes = 4 << 20 })
	if err != nil {
		return err
	}
	defer closing(big)
	_, err = send(big, name, 0, strings.Repeat("x", 1_100_000))
	k.Fact("too-large", errorName(err))
	_, _, err = p.SendMessage(&sarama.ProducerMessage{
		Topic: name, Partition: 2, Key: sarama.StringEncoder("k"), Timestamp: time.UnixMilli(1_000_000_000_000),
		Headers: []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b")}},
	})
	if err != nil {
		return err
	}
	whole, err := messages(ctx, k, name, 2, "read_committed", 1)
	if err != nil {
		return err
	}
	m := whole[0]
	k.Fact("whole-record", []any{string(m.Key), m.Value == nil, m.Timestamp.UnixMilli(), len(m.Headers), string(m.Headers[0].Value)})
	return nil
}

func transactions(ctx context.Context, k *script.Kit) error {
	name, err := topic(ctx, k, "", sarama.TopicDetail{NumPartitions: 1})
	if err != nil {
		return err
	}
	p, err := producer(k, transactional(k, "id"))
	if err != nil {
		return err
	}
	for _, outcome := range []string{"commit1", "abort1", "commit2"} {
		if err := p.BeginTxn(); err != nil {
			return err
		}
		if _, err := send(p, name, 0, outcome+"-0", outcome+"-1"); err != nil {
			return err
		}
		finish := p.AbortTxn
		if outcome[0] == 'c' {
			finish = p.CommitTxn
		}
		if err := finish(); err != nil {
			return fmt.Errorf("end %s: %w", outcome, err)
		}
	}
	if err := p.BeginTxn(); err != nil {
		return err
	}
	if _, err := send(p, name, 0, "open-0", "open-1"); err != nil {
		return err
	}
	tell := func(when string, want map[string]int) error {
		for level := range isolation {
			at, err := end(k, name, 0, level)
			if err != nil {
				return err
			}
			k.Fact(level+"-end-"+when, at)
			got, err := read(ctx, k, name, level, want[level])
			k.Fact(level+"-"+when, got)
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := tell("while-open", map[string]int{"read_committed": 4, "read_uncommitted": 8}); err != nil {
		return err
	}
	second, err := producer(k, transactional(k, "id"))
	if err != nil {
		return err
	}
	defer closing(second)
	if err := second.BeginTxn(); err != nil {
		return err
	}
	if _, err := send(second, name, 0, "second"); err != nil {
		return err
	}
	_, err = send(p, name, 0, "zombie")
	k.Fact("fenced-send", errorName(err))
	_ = p.Close() // it is fenced
	if err := second.CommitTxn(); err != nil {
		return err
	}
	if err := settled(ctx, k, name); err != nil {
		return err
	}
	return tell("at-the-end", map[string]int{"read_committed": 5, "read_uncommitted": 9})
}

func group(ctx context.Context, k *script.Kit) error {
	name, err := topic(ctx, k, "", sarama.TopicDetail{NumPartitions: 4})
	if err != nil {
		return err
	}
	fill := func(value string, n int) error {
		p, err := producer(k)
		if err != nil {
			return err
		}
		defer closing(p)
		for i := range n {
			if _, err := send(p, name, int32(i%4), fmt.Sprintf("%s%d", value, 10+i)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill("v", 40); err != nil {
		return err
	}
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
	if err := script.Await(ctx, "all records", func() (bool, error) { return len(distinct(a, b)) == 40, nil }); err != nil {
		return err
	}
	a.close()
	if err := script.Await(ctx, "the other to have all", func() (bool, error) { return b.has(4) }); err != nil {
		return err
	}
	b.close()
	k.Fact("read", distinct(a, b))
	if err := committed(k, name, "committed", 4); err != nil {
		return err
	}
	if err := fill("w", 8); err != nil {
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
	return committed(k, name, "committed-at-the-end", 4)
}

// committedAt waits until the first partition's commit is there: that of a
// transaction holds a moment after its end.
func committedAt(ctx context.Context, k *script.Kit, name, fact string, at int64) error {
	adm, err := sarama.NewClusterAdmin(brokers(k), config(k))
	if err != nil {
		return err
	}
	defer closing(adm)
	err = script.Await(ctx, fmt.Sprint("commit ", at), func() (bool, error) {
		resp, err := adm.ListConsumerGroupOffsets(k.Name("g"), map[string][]int32{name: {0}})
		if err != nil {
			return false, err
		}
		b := resp.GetBlock(name, 0)
		return b != nil && b.Offset == at, nil
	})
	return errors.Join(err, committed(k, name, fact, 1))
}

func committed(k *script.Kit, name, fact string, partitions int32) error {
	adm, err := sarama.NewClusterAdmin(brokers(k), config(k))
	if err != nil {
		return err
	}
	defer closing(adm)
	var all []int32
	for p := range partitions {
		all = append(all, p)
	}
	resp, err := adm.ListConsumerGroupOffsets(k.Name("g"), map[string][]int32{name: all})
	if err != nil {
		return err
	}
	found := map[string]any{}
	for _, p := range all {
		if b := resp.GetBlock(name, p); b != nil {
			found[fmt.Sprint(p)] = fmt.Sprint(b.Offset, b.Metadata, errorName(kerror(b.Err)))
		}
	}
	k.Fact(fact, found)
	return nil
}

func kerror(e sarama.KError) error {
	if e == sarama.ErrNoError {
		return nil
	}
	return e
}
