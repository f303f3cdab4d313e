package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/replica"
)

func TestFailOver(t *testing.T) {
	t.Parallel()
	a, lso := sourceWithTraffic(t)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	c := b.mirrorFrom(a)
	p := awaitMirror(t, c, "MIRRORING")
	require.Equal(t, "AAAAAAAAAAAAAAAAAAAAAA", p.SourceClusterID)
	require.Equal(t, b.part().Offsets().LogEnd-lso, p.NonStable)
	// What a stop would cut, and why, is told before (OPS-4).
	require.Equal(t, mirrorrpc.CutReport{From: lso, To: b.part().Offsets().LogEnd, Records: 2}, p.WouldCut)
	first, err := psm.DecodeHeader(a.batches()[len(belowOffset(t, a.batches(), lso))])
	require.NoError(t, err)
	require.Equal(t, mirrorrpc.OpenTransaction{
		ProducerID: first.ProducerID, ProducerEpoch: first.ProducerEpoch, FirstOffset: lso, StartMs: first.BaseTimestamp,
	}, p.OldestOpen)
	would := p.WouldCut
	require.Zero(t, p.AlignedAt)

	producer := b.client(kgo.RecordRetries(0))
	err = producer.ProduceSync(t.Context(), kgo.StringRecord("too early")).FirstErr()
	require.Error(t, err)
	require.ErrorAs(t, err, new(*kerr.Error))
	size := len(b.batches())

	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	p = awaitMirror(t, c, "STOPPED")
	require.Equal(t, lso, p.StopOffset)
	require.Equal(t, lso, p.BarrierOffset)
	require.Equal(t, lso-1, p.LastMirroredOffset)
	require.Equal(t, would, p.StopCut, "it was told before")
	require.Equal(t, mirrorrpc.NothingCut, p.WouldCut)
	require.Equal(t, mirrorrpc.NothingOpen, p.OldestOpen)
	require.Less(t, len(b.batches()), size)
	below := belowOffset(t, a.batches(), lso)
	b.requireFailedOver(below, lso)
	require.Empty(t, b.part().Producers())

	send(t, producer, "b1", "b2") // the client that was refused
	require.EqualValues(t, lso+3, b.part().Offsets().LastStable)
	transact(t, b.client(kgo.TransactionalID("b-txn")), true, "b committed")
	send(t, a.client(), "late at the old source")
	require.NoError(t, c.Stop(t.Context(), "m", "t"), "a stop may be repeated")

	reader := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var values []string
	for len(values) < 8 {
		fetches := reader.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	require.Equal(t, []string{"a1", "a2", "plain", "committed 1", "committed 2", "b1", "b2", "b committed"}, values)

	// OPS-5: a restart leaves it writable, also with the source gone.
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	b.start()
	send(t, b.client(), "after a restart")
	b.requireFailedOver(below, lso)
}

// lateReplicas are replicas whose partitions have not taken on yet what the
// quorum says of them, as long as late is set.
type lateReplicas struct {
	env.Replicas
	late bool
}

type latePartition struct{ replica.API }

func (latePartition) ReadOnly() bool { return true }

func (r *lateReplicas) Partition(topic string, index int32) (replica.API, error) {
	p, err := r.Replicas.Partition(topic, index)
	if err == nil && r.late {
		p = latePartition{p}
	}
	return p, err
}

func TestStoppedIsSaidOnceTheLogTakesWrites(t *testing.T) {
	a, _ := sourceWithTraffic(t)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	c := b.mirrorFrom(a)
	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	p := awaitMirror(t, c, "STOPPED")
	require.Empty(t, p.Phase)
	require.False(t, b.part().ReadOnly())

	e := *b.Env()
	replicas := &lateReplicas{Replicas: e.Replicas, late: true}
	e.Replicas = replicas
	img := e.Quorum.Image()
	d := describeMirrorTopic(&e, mirror.New(&e, nil, nil), img, img.Topics["t"]).Partitions[0]
	require.Equal(t, "STOPPING", d.StateValue)
	require.Equal(t, mirror.StepStopped, d.Phase)
	replicas.late = false
	d = describeMirrorTopic(&e, mirror.New(&e, nil, nil), img, img.Topics["t"]).Partitions[0]
	require.Equal(t, "STOPPED", d.StateValue)
	require.Empty(t, d.Phase)
}

// OPS-1: one partition that could not be mirrored keeps no other from being
// failed over, and is the cluster's own again, without a barrier (BAR-1).
func TestATopicIsFailedOverThoughOnePartitionHasFailed(t *testing.T) {
	a := startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA")
	_, err := kadm.NewClient(a.client()).CreateTopic(t.Context(), 3, 1, nil, "t")
	require.NoError(t, err)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	_, err = b.Env().Topics.CreateTopic(t.Context(), env.NewTopic{Name: "t", ID: a.part().TopicID(), Partitions: 3, Replication: 1})
	require.NoError(t, err)
	write := func(n *mirrorNode, value string, parts ...int32) {
		cl := n.client()
		for _, p := range parts {
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte(value)}).FirstErr())
		}
	}
	write(a, "source's", 0, 1) // partition 2 stays empty
	write(b, "own", 1)

	c := b.mirrors()
	require.NoError(t, c.Create(t.Context(), "m", map[string]string{mirrorrpc.ConfigBootstrap: a.addr()}))
	id := a.part().TopicID()
	require.NoError(t, a.Kill()) // it can't be asked whether the logs are related
	b.startUnasked("m", id, 3)
	a.start()
	states := func() (all []string) {
		mirrors, err := c.Describe(t.Context(), "m")
		require.NoError(t, err)
		for _, p := range mirrors[0].Topics[0].Partitions {
			all = append(all, p.StateValue)
		}
		return all
	}
	ends := func() (all []int64) {
		for i := range int32(3) {
			p, err := b.Env().Replicas.Partition("t", i)
			require.NoError(t, err)
			all = append(all, p.Offsets().LogEnd)
		}
		return all
	}
	await := func(want []string, logEnds []int64) {
		require.Eventually(t, func() bool { return slices.Equal(want, states()) && slices.Equal(logEnds, ends()) }, 20*time.Second, 2*time.Millisecond)
	}
	await([]string{"MIRRORING", "FAILED", "MIRRORING"}, []int64{1, 1, 0})
	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	await([]string{"STOPPED", "STOPPED", "STOPPED"}, []int64{2, 1, 1})
	write(b, "promoted", 0, 1, 2)
	mirrors, err := c.Describe(t.Context(), "m")
	require.NoError(t, err)
	for i, barrier := range []int64{1, -1, 0} {
		p := mirrors[0].Topics[0].Partitions[i]
		require.Equal(t, barrier, p.BarrierOffset, "partition %d", i)
		require.Nil(t, p.ErrorMessage)
	}
}

// RO-2: a transaction that was open when the mirror started, and ended
// meanwhile, has its marker before a stop that came before the log's alignment
// makes the partition writable.
func TestAStopBeforeAlignmentPaysTheMarkersThatThePartitionOwes(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
			b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
			g := &pointGate{point: "after:" + mirror.StepStopped, arrived: make(chan struct{})}
			require.NoError(t, b.Close())
			b.conf.Gate = g
			b.start()
			_, err := kadm.NewClient(b.client()).CreateTopics(t.Context(), 1, 1, nil, "t", "other")
			require.NoError(t, err)
			own := b.client(kgo.TransactionalID("own"), kgo.TransactionTimeout(10*time.Minute))
			require.NoError(t, own.BeginTransaction())
			send(t, own, "own")
			c := b.mirrors()
			require.NoError(t, c.Create(t.Context(), "m", map[string]string{
				mirrorrpc.ConfigBootstrap: "127.0.0.1:1", mirrorrpc.ConfigSourceClusterID: "AAAAAAAAAAAAAAAAAAAAAA",
			}))
			start := mirrorrpc.NewStartMirrorTopicsRequest()
			start.MirrorName, start.Topics = "m", []mirrorrpc.StartTopic{{TopicName: "t", TopicID: b.part().TopicID(), NumPartitions: 1}}
			_, err = c.R.Request(t.Context(), start)
			require.NoError(t, err)
			awaitMirror(t, c, "LOG_TRUNCATION")
			require.NoError(t, own.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
			require.NoError(t, own.BeginTransaction(), "the transactional id is not wedged")
			require.NoError(t, own.ProduceSync(t.Context(), &kgo.Record{Topic: "other"}).FirstErr())
			require.NoError(t, own.EndTransaction(t.Context(), kgo.TryCommit))
			require.Len(t, b.batches(), 1, "the marker is kept out while the partition mirrors")

			require.NoError(t, c.Stop(t.Context(), "m", "t"))
			<-g.arrived
			o := b.part().Offsets()
			require.EqualValues(t, 2, o.LogEnd)
			require.EqualValues(t, 2, o.LastStable)
			marker, err := psm.DecodeBatch(b.batches()[1])
			require.NoError(t, err)
			require.Equal(t, commit, marker.Control.Type == psm.ControlCommit)
			awaitMirror(t, c, "STOPPED")
			transact(t, own, true, "next") // the partition is its again
			require.Eventually(t, func() bool { return len(b.batches()) == 4 }, 10*time.Second, time.Millisecond)
		})
	}
}

// pointGate tells when a point is passed for the first time.
type pointGate struct {
	point   string
	once    sync.Once
	arrived chan struct{}
}

func (g *pointGate) Pass(ctx context.Context, point, _ string) error {
	if point == g.point {
		g.once.Do(func() { close(g.arrived) })
	}
	return context.Cause(ctx)
}

// crashGate kills the node at a point, as far as that goes within a process.
type crashGate struct {
	point   string
	once    sync.Once
	arrived chan struct{}
}

func (g *crashGate) Pass(ctx context.Context, point, _ string) error {
	if point == g.point {
		g.once.Do(func() { close(g.arrived) })
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

func TestAFailOverIsCompletedAfterACrashInEveryStep(t *testing.T) {
	t.Parallel()
	points := []string{mirror.PointRecorded}
	for _, step := range mirror.Steps() {
		points = append(points, "before:"+step, "after:"+step)
	}
	a, lso := sourceWithTraffic(t)
	want := a.batches()
	for i, point := range points {
		t.Run(point, func(t *testing.T) {
			g := &crashGate{point: point, arrived: make(chan struct{})}
			b := startMirrorNode(t, fmt.Sprintf("BBBBBBBBBBBBBBBBBBBB%02d", i))
			require.NoError(t, b.Close())
			b.conf.Gate = g
			b.start()
			c := b.mirrorFrom(a)
			awaitMirror(t, c, "MIRRORING")
			require.NoError(t, c.Stop(t.Context(), "m", "t"))
			<-g.arrived
			require.NoError(t, b.Kill())
			b.conf.Gate = gate.Open{}
			b.start()
			awaitMirror(t, b.mirrors(), "STOPPED")
			send(t, b.client(), "b1")
			b.requireFailedOver(belowOffset(t, want, lso), lso)
			require.Empty(t, belowOffset(t, b.batches()[len(belowOffset(t, want, lso))+2:], 1<<40), "more than the barrier and one batch")
		})
	}
}

func TestMirrorRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	a, _ := sourceWithTraffic(t)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	c := b.mirrors()
	ctx := t.Context()
	create := func(name, bootstrap, id string) error {
		configs := map[string]string{mirrorrpc.ConfigBootstrap: bootstrap}
		if id != "" {
			configs[mirrorrpc.ConfigSourceClusterID] = id
		}
		return c.Create(ctx, name, configs)
	}
	require.ErrorIs(t, create("bad name", a.addr(), ""), kerr.InvalidRequest)
	require.ErrorIs(t, create("m", "", ""), kerr.InvalidConfig)
	require.ErrorIs(t, create("m", "nonsense", ""), kerr.InvalidConfig)
	require.ErrorIs(t, create("m", "127.0.0.1:1", ""), kerr.BrokerNotAvailable)
	require.ErrorIs(t, create("m", b.addr(), ""), kerr.InvalidRequest, "itself")
	require.ErrorIs(t, c.Start(ctx, "m", "t"), mirrorrpc.ErrUnknownMirror)
	require.ErrorIs(t, c.Stop(ctx, "m", "t"), mirrorrpc.ErrUnknownMirror)
	_, err := c.Describe(ctx, "m")
	require.ErrorIs(t, err, mirrorrpc.ErrUnknownMirror)

	require.NoError(t, create("m", a.addr(), "CCCCCCCCCCCCCCCCCCCCCC")) // not a's id (LINK-4)
	require.ErrorIs(t, create("m", a.addr(), ""), mirrorrpc.ErrMirrorAlreadyExists)
	require.ErrorIs(t, c.Start(ctx, "m", "t"), kerr.InconsistentClusterID)

	require.NoError(t, create("n", a.addr(), ""))
	require.ErrorIs(t, c.Start(ctx, "n", "nowhere"), kerr.UnknownTopicOrPartition)
	require.ErrorIs(t, c.Stop(ctx, "n", "t"), kerr.UnknownTopicOrPartition)
	require.NoError(t, c.Start(ctx, "n", "t"))
	require.NoError(t, c.Start(ctx, "n", "t"), "a start may be repeated")
	require.ErrorIs(t, c.Start(ctx, "m", "t"), mirrorrpc.ErrTopicAlreadyInMirror)
	require.ErrorIs(t, c.Stop(ctx, "m", "t"), mirrorrpc.ErrTopicNotInMirror)

	mirrors, err := c.List(ctx)
	require.NoError(t, err)
	require.Equal(t, []mirrorrpc.ListedMirror{
		{MirrorName: "m", SourceBootstrap: a.addr(), SourceClusterID: "CCCCCCCCCCCCCCCCCCCCCC"},
		{MirrorName: "n", SourceBootstrap: a.addr(), SourceClusterID: "AAAAAAAAAAAAAAAAAAAAAA", TopicCount: 1, TopicNames: []string{"t"}},
	}, mirrors)
}
