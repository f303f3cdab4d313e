package broker

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
)

const (
	clusterA = "AAAAAAAAAAAAAAAAAAAAAA"
	clusterB = "BBBBBBBBBBBBBBBBBBBBBB"
	clusterC = "CCCCCCCCCCCCCCCCCCCCCC"
	clusterD = "DDDDDDDDDDDDDDDDDDDDDD"
)

// linkTo names a link to a source, "from-A".
func (n *mirrorNode) linkTo(source *mirrorNode) string {
	n.t.Helper()
	name := "from-" + source.ClusterID()[:1]
	err := n.mirrors().Create(n.t.Context(), name, map[string]string{
		mirrorrpc.ConfigBootstrap: source.addr(), mirrorrpc.ConfigSourceClusterID: source.ClusterID(),
	})
	if err != nil {
		require.ErrorIs(n.t, err, mirrorrpc.ErrMirrorAlreadyExists)
	}
	return name
}

// mirrorOf starts the mirroring of a source and waits until both logs are equal.
func (n *mirrorNode) mirrorOf(source *mirrorNode) mirrorrpc.DescribedPartition {
	n.t.Helper()
	name := n.linkTo(source)
	require.NoError(n.t, n.mirrors().Start(n.t.Context(), name, "t"))
	p := awaitNamed(n.t, n.mirrors(), name, "MIRRORING")
	n.equals(source)
	return p
}

// equals waits until the log is that of another cluster, byte for byte.
func (n *mirrorNode) equals(source *mirrorNode) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		theirs, err := source.tryBatches()
		own, ownErr := n.tryBatches()
		return err == nil && ownErr == nil && fmt.Sprint(theirs) == fmt.Sprint(own)
	}, 20*time.Second, 5*time.Millisecond, "%s: %s\n%s: %s", n.ClusterID(), laterText{n}, source.ClusterID(), laterText{source})
}

// laterText shows a log when it is printed.
type laterText struct{ n *mirrorNode }

func (l laterText) String() string {
	s := fmt.Sprintf("%+v", l.n.part().Offsets())
	all, err := l.n.tryBatches()
	if err != nil {
		s += " " + err.Error()
	}
	for _, raw := range all {
		b, _ := psm.DecodeBatch(raw)
		s += fmt.Sprintf(" [%d,%d] e%d pid %d", b.BaseOffset, b.LastOffset, b.LeaderEpoch, b.ProducerID)
		if b.IsControl() {
			s += " " + b.Control.Type.String()
		}
	}
	return s
}

// stopFrom stops the mirroring of a source.
func (n *mirrorNode) stopFrom(source *mirrorNode) mirrorrpc.DescribedPartition {
	n.t.Helper()
	name := n.linkTo(source)
	require.NoError(n.t, n.mirrors().Stop(n.t.Context(), name, "t"))
	return awaitNamed(n.t, n.mirrors(), name, "STOPPED")
}

// barriers are "OFFSET WRITER<-SOURCE" of the log's list.
func (n *mirrorNode) barriers() []string {
	var all []string
	for _, b := range n.part().Barriers() {
		all = append(all, fmt.Sprintf("%d %.1s<-%.1s", b.Offset, b.Writer, b.SourceClusterID))
	}
	return all
}

// newSource is a cluster with a topic.
func newSource(t *testing.T, id string) *mirrorNode {
	n := startMirrorNode(t, id)
	_, err := kadm.NewClient(n.client()).CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	return n
}

func (n *mirrorNode) end() int64 { return n.part().Offsets().LogEnd }

// leaveOpen leaves a transaction open.
func leaveOpen(t *testing.T, n *mirrorNode, id string) *kgo.Client {
	t.Helper()
	cl := n.client(kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
	require.NoError(t, cl.BeginTransaction())
	send(t, cl, id)
	return cl
}

// FB-1 to FB-4: A and B take turns, three times; whoever is not promoted lives
// on, writes, and has transactions open.
func TestFailbackThreeTimes(t *testing.T) {
	t.Parallel()
	a := newSource(t, clusterA)
	b := startMirrorNode(t, clusterB)
	send(t, a.client(), "a1", "a2")
	from, to := a, b
	var barriers []string
	for turn := range 6 {
		to.mirrorOf(from)
		leaveOpen(t, from, fmt.Sprintf("open-%d", turn))
		require.Eventually(t, func() bool { return to.end() == from.end() }, 10*time.Second, time.Millisecond)
		before := from.batches()
		p := to.stopFrom(from)
		require.Equal(t, from.end()-1, p.StopOffset, "turn %d: the open transaction is cut", turn)
		require.Equal(t, mirrorrpc.CutReport{From: p.StopOffset, To: p.StopOffset + 1, Records: 1}, p.StopCut)
		barriers = append(barriers, fmt.Sprintf("%d %.1s<-%.1s", p.StopOffset, to.ClusterID(), from.ClusterID()))
		require.Equal(t, barriers, to.barriers())
		require.Equal(t, before[:len(before)-1], to.batches()[:len(before)-1])
		require.Empty(t, to.part().Producers())
		// The promoted one is written to, and so is the other.
		send(t, to.client(), "on", "the", "promoted", "one")
		transact(t, to.client(kgo.TransactionalID("txn")), true, "committed")
		require.Eventually(t, func() bool { return to.part().Offsets().LastStable == to.end() }, 10*time.Second, time.Millisecond)
		send(t, from.client(), "zombie", "zombie")
		from, to = to, from
	}
}

// FB-4 and RO-2: a transaction that the old primary left open, and that its
// coordinator ends while the log is mirrored from the new one, leaves no byte in
// it, and its transactional id goes on.
func TestALateMarkerOfTheOldPrimary(t *testing.T) {
	a := newSource(t, clusterA)
	_, err := kadm.NewClient(a.client()).CreateTopic(t.Context(), 1, 1, nil, "other")
	require.NoError(t, err)
	b := startMirrorNode(t, clusterB)
	send(t, a.client(), "a1")
	b.mirrorOf(a)
	l := b.stopFrom(a).StopOffset
	send(t, b.client(), "b1")
	zombie := leaveOpen(t, a, "zombie")
	require.NoError(t, zombie.ProduceSync(t.Context(), &kgo.Record{Topic: "other", Value: []byte("x")}).FirstErr())
	require.Greater(t, a.end(), l)
	a.mirrorOf(b)
	require.NoError(t, zombie.EndTransaction(t.Context(), kgo.TryAbort))
	// Its marker is on the other partition, so the coordinator has sent them.
	other, err := a.Env().Replicas.Partition("other", 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return other.Offsets().LogEnd == 2 }, 10*time.Second, time.Millisecond)
	send(t, b.client(), "b2")
	a.equals(b)
	require.NoError(t, zombie.BeginTransaction())
	require.Error(t, zombie.ProduceSync(t.Context(), kgo.StringRecord("read-only")).FirstErr())
	require.NoError(t, zombie.EndTransaction(t.Context(), kgo.TryAbort))
	require.NoError(t, zombie.BeginTransaction())
	require.NoError(t, zombie.ProduceSync(t.Context(), &kgo.Record{Topic: "other", Value: []byte("y")}).FirstErr())
	require.NoError(t, zombie.EndTransaction(t.Context(), kgo.TryCommit))
	a.equals(b)
	a.stopFrom(b)
	require.NoError(t, zombie.BeginTransaction())
	send(t, zombie, "writable again")
	require.NoError(t, zombie.EndTransaction(t.Context(), kgo.TryCommit))
	require.Eventually(t, func() bool { return a.part().Offsets().LastStable == a.end() }, 10*time.Second, time.Millisecond)
}

// CH-1 and CH-2: ids and bytes are the same over every hop, and a stop in the
// middle is mirrored on.
func TestAChainOfFour(t *testing.T) {
	t.Parallel()
	a := newSource(t, clusterA)
	b, c, d := startMirrorNode(t, clusterB), startMirrorNode(t, clusterC), startMirrorNode(t, clusterD)
	send(t, a.client(), "a1", "a2")
	b.mirrorOf(a)
	c.mirrorOf(b)
	d.mirrorOf(c)
	leaveOpen(t, a, "a-open")
	send(t, a.client(), "behind", "behind", "behind")
	d.equals(a)

	// The first failover: B cuts what C and D have already (CH-3).
	p := b.stopFrom(a)
	require.EqualValues(t, 4, p.StopCut.Records)
	send(t, b.client(), "b1")
	c.equals(b)
	d.equals(b)
	require.Equal(t, []string{fmt.Sprintf("%d B<-A", p.StopOffset)}, d.barriers())

	// The second: C stops, and D goes on.
	leaveOpen(t, b, "b-open")
	d.equals(b)
	q := c.stopFrom(b)
	send(t, c.client(), "c1", "c2")
	d.equals(c)
	require.Equal(t, []string{fmt.Sprintf("%d B<-A", p.StopOffset), fmt.Sprintf("%d C<-B", q.StopOffset)}, d.barriers())
	r := d.stopFrom(c)
	require.Equal(t, r.StopOffset, c.end())
	require.Equal(t, fmt.Sprintf("%d D<-C", r.StopOffset), d.barriers()[2])
}

func zombieRecord() *kgo.Record { return kgo.StringRecord("zombie") }

// FI-1, FI-2 and FO-2: two mirrors of one cluster are independent, also when the
// source of one accepts connections and never answers.
func TestFanIn(t *testing.T) {
	t.Parallel()
	a, b := newSource(t, clusterA), startMirrorNode(t, clusterB)
	_, err := kadm.NewClient(b.client()).CreateTopics(t.Context(), 1, 1, nil, "u", "t")
	require.NoError(t, err)
	c := startMirrorNode(t, clusterC)
	send(t, a.client(), "a1", "a2")
	onB := b.client(kgo.DefaultProduceTopic("u"))
	send(t, onB, "b1", "b2", "b3")
	c.mirrorOf(a)
	rpc := c.mirrors()
	require.NoError(t, rpc.Start(t.Context(), c.linkTo(b), "u"))
	ofB := func() mirrorrpc.DescribedPartition { return awaitNamed(t, rpc, "from-B", "MIRRORING") }
	require.Eventually(t, func() bool { return ofB().DestinationOffset == 3 }, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, rpc.Start(t.Context(), "from-B", "t"), mirrorrpc.ErrTopicAlreadyInMirror)

	require.NoError(t, b.Kill())
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", b.addr())
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		first := true
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			if first {
				first = false
				accepted <- struct{}{}
			}
		}
	}()
	<-accepted // C asks, and gets no answer
	began := time.Now()
	producers := a.part().Producers()
	send(t, a.client(), "a3")
	c.equals(a)
	require.NoError(t, rpc.Stop(t.Context(), "from-B", "u"))
	p := awaitNamed(t, rpc, "from-B", "STOPPED")
	require.EqualValues(t, 3, p.BarrierOffset)
	require.Empty(t, c.barriers(), "of the other mirror's topic")
	require.Len(t, c.part().Producers(), len(producers)+1)
	require.True(t, c.part().ReadOnly())
	send(t, c.client(kgo.DefaultProduceTopic("u")), "c1")
	q := c.stopFrom(a)
	require.EqualValues(t, 3, q.BarrierOffset)
	require.Less(t, time.Since(began), dialPatience, "waited for the other mirror's source")
	_ = silent.Close()
	<-accepted
}

// dialPatience is less than what a broker waits for a source that is silent.
const dialPatience = 8 * time.Second
