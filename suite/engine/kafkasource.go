package engine

import (
	"context"
	"fmt"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
	"watershed.example/topologies"
)

// kafkaPatience is how many times as long as refbroker's the start of Apache
// Kafka may take, and its first transaction: a machine that is busy with other
// things takes that long.
const kafkaPatience = 5

// KafkaSources are the scenarios whose source is Apache Kafka.
func KafkaSources() []Scenario {
	one, three := topologies.ActivePassive(), topologies.ActivePassive().On(several)
	link := one.Mirrors[0].Link()
	return []Scenario{
		{Name: "three-nodes/leader-killed", Kafka: true, Topology: three, SourceLoses: true}, // the slowest first
		{Name: "one-node/partition", Kafka: true, Topology: one, Plan: &chaos.Plan{Kind: chaos.Partition, Link: link, Point: "before:truncated"}},
		{Name: "one-node/grown-and-killed", Kafka: true, Topology: growing(1), Grows: true, KillSource: true},
	}
}

// javaTraffic is what Kafka's own client writes to the source: with each codec, in
// transactions that commit, abort, are empty, or are open at the stop.
type javaTraffic struct {
	rec       *traffic.Recorder
	cluster   traffic.Cluster
	prefix    string
	java      *traffic.Java
	producers []*traffic.Producer // transactional, one for each codec
	plain     *traffic.Producer
	second    *traffic.Producer // idempotent
	open      *traffic.Producer
}

func newJavaTraffic(rec *traffic.Recorder, cluster traffic.Cluster, jars, folder, prefix string) (*javaTraffic, error) {
	java, err := traffic.StartJava(jars, folder)
	if err != nil {
		return nil, err
	}
	j := &javaTraffic{rec: rec, cluster: cluster, prefix: prefix + "java-", java: java}
	producer := func(name string, mode history.Mode, codec traffic.Codec) *traffic.Producer {
		p, perr := traffic.NewProducer(rec, cluster, traffic.ProducerOptions{
			Name: j.prefix + name, Mode: mode, Compression: codec, Varied: true, Java: java,
			Payload: []byte("a payload that compresses well: the same again, the same again, the same again, the same again"),
		})
		if err == nil {
			err = perr
		}
		return p
	}
	for _, codec := range traffic.Codecs() {
		j.producers = append(j.producers, producer(codec.String(), history.Transactional, codec))
	}
	j.plain = producer("plain", history.Plain, traffic.Zstd)
	j.second = producer("idempotent", history.Idempotent, traffic.LZ4)
	j.open = producer("open", history.Transactional, traffic.Snappy)
	return j, err
}

// before writes what the mirror copies before it is stopped. Without a Java
// process it does nothing, as all methods.
func (j *javaTraffic) before(ctx context.Context, parts []traffic.Partition) error {
	if j == nil {
		return nil
	}
	if err := j.again(ctx, parts); err != nil {
		return err
	}
	// Kafka's client sends nothing for a transaction without records; a client of
	// an earlier version may.
	if err := j.open.Begin(history.IntentCommit); err != nil {
		return err
	}
	if err := j.open.End(ctx, true); err != nil {
		return err
	}
	for _, commit := range []bool{true, false} {
		name := fmt.Sprintf("%sempty-%t", j.prefix, commit)
		if err := traffic.EmptyTransaction(ctx, j.rec, j.cluster, name, commit, parts...); err != nil {
			return err
		}
	}
	return nil
}

// again writes as before, by nothing but the client, which finds out by itself
// which nodes are there.
func (j *javaTraffic) again(ctx context.Context, parts []traffic.Partition) error {
	if j == nil {
		return nil
	}
	for i, p := range j.producers {
		for _, commit := range []bool{i%2 == 0, i%2 != 0} {
			if err := p.Transaction(ctx, commit, 5, parts...); err != nil {
				return err
			}
		}
	}
	if err := j.plain.Send(ctx, 4, parts...); err != nil {
		return err
	}
	return j.second.Send(ctx, 4, parts...)
}

// leaveOpen opens a transaction that the stop is to find.
func (j *javaTraffic) leaveOpen(ctx context.Context, parts []traffic.Partition) error {
	if j == nil {
		return nil
	}
	if err := j.open.Begin(history.IntentOpen); err != nil {
		return err
	}
	return j.open.Send(ctx, 3, parts...)
}

// late goes on at the old source after the failover.
func (j *javaTraffic) late(ctx context.Context, parts []traffic.Partition) error {
	if j == nil {
		return nil
	}
	if err := j.open.End(ctx, true); err != nil {
		return err
	}
	return j.producers[0].Transaction(ctx, true, 2, parts...)
}

func (j *javaTraffic) close() {
	if j == nil {
		return
	}
	if err := j.java.Close(); err != nil {
		j.rec.Note("%v", err)
	}
}

// lossLimit bounds the loss of a leader, and all that comes of it.
const lossLimit = 180 * time.Second

// sourceLoses kills the leader of a partition of the source with kill -9 while
// all clients write and the mirror copies, and starts it again when the mirror has
// gone on with the next leader.
func (e *episode) sourceLoses(ctx context.Context) error {
	c := e.story.world.env.Cluster(e.Mirror.From)
	part := e.layout.Spanned[0]
	leader, err := c.Leader(ctx, part.Topic, part.Index)
	if err != nil {
		return err
	}
	if err := leader.Kill(ctx); err != nil {
		return err
	}
	for {
		p, err := c.Partition(ctx, part.Topic, part.Index)
		if err != nil {
			return err
		}
		if p.Leader != leader {
			break
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("%s on cluster %s has no leader but the one that was killed: %w", part, e.Mirror.From, context.Cause(ctx))
		}
	}
	if err := awaitServing(ctx, e.source.raw, e.layout.All); err != nil {
		return err
	}
	if err := e.source.again(ctx); err != nil {
		return err
	}
	if err := e.reach(ctx, e.source.raw); err != nil {
		return fmt.Errorf("the mirror goes on after its source lost a leader: %w", err)
	}
	if err := leader.Start(ctx); err != nil {
		return err
	}
	if err := e.story.world.awaitWhole(ctx, e.Mirror.From, e.layout.All); err != nil {
		return err
	}
	return awaitServing(ctx, e.source.raw, e.layout.All)
}

// again writes what the mirror copies once the source has lost a leader.
func (s *sourceTraffic) again(ctx context.Context) error {
	all := s.layout.Written
	if err := s.idempotent.Send(ctx, 2, all...); err != nil {
		return err
	}
	for _, commit := range []bool{true, false} {
		if err := s.ending.Transaction(ctx, commit, 2, all...); err != nil {
			return err
		}
	}
	if err := s.java.again(ctx, all); err != nil {
		return err
	}
	// The last ordinary batch is the one to forge, as in before.
	return s.second.Send(ctx, 2, s.layout.Forge)
}
