package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/fixtures"
	"watershed.example/topologies"
)

// field is a cluster of three nodes on which transactions go on.
type field struct {
	*fixtures.Cluster
	t     *testing.T
	plain *kgo.Client
	wg    sync.WaitGroup
	end   context.CancelFunc
}

const (
	fieldTopic = "t"
	fieldTxn   = "some-id"
)

func newField(t *testing.T, ctx context.Context) *field {
	t.Helper()
	top := topologies.ActivePassive().On(3)
	env, err := fixtures.Process().Launch(ctx, fixtures.Spec{
		Topology: top, Dir: filepath.Join(t.TempDir(), "run"), ReplicaLag: 1500 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Close()) })
	f := &field{Cluster: env.Cluster("B"), t: t}
	f.plain, err = f.Client("plain", kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.UnknownTopicRetries(50), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(f.plain.Close)
	_, err = kadm.NewClient(f.plain).CreateTopic(ctx, 3, 3, map[string]*string{
		"min.insync.replicas": kadm.StringPtr("2"), "message.timestamp.type": kadm.StringPtr("LogAppendTime"),
	}, fieldTopic)
	require.NoError(t, err)
	tx, err := f.Client("tx", kgo.TransactionalID(fieldTxn), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	tctx, cancel := context.WithCancel(ctx)
	f.end = cancel
	f.wg.Go(func() {
		for tctx.Err() == nil {
			if err := transaction(tctx, tx); err != nil {
				_ = pause(tctx, "") // faults are about
			}
		}
	})
	t.Cleanup(func() { cancel(); tx.Close(); f.wg.Wait() })
	return f
}

func transaction(ctx context.Context, tx *kgo.Client) error {
	if err := tx.BeginTransaction(); err != nil {
		return err
	}
	for p := range int32(3) {
		tx.Produce(ctx, &kgo.Record{Topic: fieldTopic, Partition: p, Value: []byte("v")}, nil)
	}
	err := tx.Flush(ctx)
	return errors.Join(err, tx.EndTransaction(ctx, kgo.TransactionEndTry(err == nil)))
}

// awayFromCoordinator is a partition whose leader is not the transactions' coordinator:
// what a coordinator writes to its own node's partitions is no request that can be held.
// Earlier acts may have moved either.
func (f *field) awayFromCoordinator(ctx context.Context) (partition string) {
	adm := kadm.NewClient(f.plain)
	require.Eventually(f.t, func() bool {
		of := adm.FindTxnCoordinators(ctx, fieldTxn)[fieldTxn]
		topics, err := adm.ListTopics(ctx, fieldTopic)
		if of.Err != nil || err != nil {
			return false
		}
		for _, p := range topics[fieldTopic].Partitions.Sorted() {
			if p.Leader >= 0 && p.Leader != of.NodeID {
				partition = fmt.Sprintf("%s-%d", fieldTopic, p.Partition)
				return true
			}
		}
		_, _ = adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, topics.TopicsSet())
		return false
	}, 20*time.Second, 100*time.Millisecond, "a partition that is led by another node than the coordinator's")
	return partition
}

// write writes a record to the first partition, once.
func (f *field) write(ctx context.Context) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Second, errLate)
	defer cancel()
	r, err := f.plain.ProduceSync(ctx, &kgo.Record{Topic: fieldTopic, Value: []byte("v")}).First()
	if err != nil {
		// A client that tries nothing again looks for no new leader by itself either.
		f.plain.ForceMetadataRefresh()
	}
	return r, err
}

var errLate = errors.New("no answer")

// answers says whether a node answers who connects to it: it closes the connection of
// one that asks for nonsense.
func (f *field) answers(ctx context.Context, n *fixtures.Node) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", n.ClientAddress())
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 100)); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, err = c.Read(make([]byte, 1))
	return err
}

// Each act takes the effect that its name says, on a real cluster, and it is over with
// the heal.
func TestEveryActIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of three nodes, for half a minute")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	f := newField(t, ctx)
	for _, act := range AllActs() {
		t.Run(string(act), func(t *testing.T) {
			role := Target{Role: Leader, Cluster: "B", Of: fieldTopic + "-0"}
			switch act {
			case HoldOneEndTxn:
				role = Target{Role: Coordinator, Cluster: "B", Of: fieldTxn}
			case HoldOneTxnMarker:
				role.Of = f.awayFromCoordinator(ctx)
			case Depose:
				role = Target{Role: Controller, Cluster: "B"}
			}
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			s, err := NewNode(NodePlan{Act: act, Target: role, Point: FirstWrite}, f.Cluster)
			require.NoError(t, err)
			require.False(t, s.Proof().Bit())
			defer func() { _, _ = s.Heal(ctx) }() // what failed is not to spoil the next
			quiet := func() {}
			if act == BelowMinISR {
				quiet = f.writeOn(ctx)
			}
			err = s.Hit(ctx)
			quiet()
			require.NoError(t, err)
			f.effect(t, ctx, s)
			require.NoError(t, s.Bite(ctx))
			require.NoError(t, s.Finish(ctx))
			require.True(t, s.Proof().Bit(), s.Proof().String())
			require.Equal(t, !act.Ends(), s.Node().Running())
			p, err := s.Heal(ctx)
			require.NoError(t, err)
			t.Log(p)
			require.True(t, p.Bit(), p.String())
			require.NoError(t, f.AwaitNodes(ctx))
			f.goesOn(t, ctx)
			for _, l := range f.LinksOf(s.Node().Number()) {
				require.Equal(t, [2]fixtures.Behaviour{}, [2]fixtures.Behaviour{l.Get(fixtures.ToServer), l.Get(fixtures.FromServer)}, l.Name())
			}
		})
	}
}

// writeOn writes until the function that it returns is called. A replica lags only
// behind what was written since, and the transactions can stand still with one whose
// marker is kept from the leader.
func (f *field) writeOn(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = f.write(ctx)
			_ = pause(ctx, "")
		}
	})
	return func() { cancel(); wg.Wait() }
}

// goesOn waits until the cluster takes writes again.
func (f *field) goesOn(t *testing.T, ctx context.Context) {
	for {
		_, err := f.write(ctx)
		if err == nil {
			return
		}
		if perr := pause(ctx, "writes go on"); perr != nil {
			at, aerr := f.Partition(f.t.Context(), fieldTopic, 0)
			require.NoError(t, errors.Join(perr, err, aerr), "leader %v, in sync %v", at.Leader, at.InSync)
		}
	}
}

// effect requires what a client sees of the fault.
func (f *field) effect(t *testing.T, ctx context.Context, s *NodeStrike) {
	began := s.Proof().Struck.Truncate(time.Millisecond)
	switch s.Plan().Act {
	case Vanish:
		var ne net.Error
		err := f.answers(ctx, s.Node())
		require.ErrorAs(t, err, &ne)
		require.True(t, ne.Timeout(), "who asks hears nothing: %v", err)
	case Stop:
		err := f.answers(ctx, s.Node())
		require.Error(t, err)
		var ne net.Error
		require.False(t, errors.As(err, &ne) && ne.Timeout(), "who asks is refused: %v", err)
	case Depose:
		require.NotZero(t, s.Proof().Next)
		require.NotEqual(t, s.Proof().Node, s.Proof().Next)
	case BelowMinISR:
		_, err := f.write(ctx)
		for ctx.Err() == nil && !errors.Is(err, kerr.NotEnoughReplicas) { // it may look for the leader first
			_, err = f.write(ctx)
		}
		require.ErrorIs(t, err, kerr.NotEnoughReplicas)
	case DiskFull:
		_, err := f.write(ctx)
		require.Error(t, err)
	case SlowSync:
		_, err := kadm.NewClient(f.plain).CreateTopic(ctx, 1, 3, nil, "slow")
		require.NoError(t, err)
	case ClockSkew:
		r, err := f.write(ctx)
		require.NoError(t, err)
		reader, err := f.Client("reader", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{fieldTopic: {0: kgo.NewOffset().At(r.Offset)}}))
		require.NoError(t, err)
		defer reader.Close()
		got := reader.PollRecords(ctx, 1).Records()
		require.Len(t, got, 1)
		require.WithinRange(t, got[0].Timestamp, began.Add(DefaultSkew), time.Now().Add(DefaultSkew/2), "the broker's time is in the record")
	}
}
