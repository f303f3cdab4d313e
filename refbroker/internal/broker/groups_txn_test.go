package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is a member that consumes t, and produces what it read to out, in
// transactions of its own id.
func (n *testNode) session(id string, opts ...kgo.Opt) *kgo.GroupTransactSession {
	n.t.Helper()
	s, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
		kgo.SeedBrokers(n.Addrs()["client"]), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.TransactionalID(id), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DefaultProduceTopic("out"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.HeartbeatInterval(20 * time.Millisecond), kgo.SessionTimeout(5 * time.Second), kgo.RebalanceTimeout(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.ConcurrentTransactionsBackoff(2 * time.Millisecond),
	}, opts...)...)
	require.NoError(n.t, err)
	n.t.Cleanup(s.Close)
	return s
}

// work moves records from t to out until stop ends, and then ends the
// transaction that it is in, while ctx lasts; every fourth one is aborted.
func work(ctx, stop context.Context, s *kgo.GroupTransactSession) error {
	for i := 0; ; i++ {
		fs := s.PollRecords(stop, 5)
		if stop.Err() != nil {
			return nil
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if err := s.Begin(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Value: r.Value}, nil)
		})
		if _, err := s.End(ctx, kgo.TransactionEndTry(i%4 != 3)); err != nil {
			return fmt.Errorf("end: %w", err)
		}
	}
}

// Each record of t is in out exactly once, for readers of committed records,
// while members come and go, transactions are aborted, and one member dies in
// its transaction: until that times out, others wait for its offsets.
func TestConsumeProcessProduce(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{1, 2} {
		t.Run(fmt.Sprintf("version=%d", version), func(t *testing.T) {
			n := startNode(t, quickGroups, func(c *Config) { c.TransactionVersion = version })
			n.topic("t", 4)
			n.topic("out", 1)
			want := n.spread(4, 0, 40)

			var working sync.WaitGroup
			ctx := n.ctx()
			stopping, stop := context.WithCancel(ctx)
			defer working.Wait()
			defer stop()
			for _, id := range []string{"x0", "x1"} {
				s := n.session(id)
				working.Go(func() {
					if err := work(ctx, stopping, s); err != nil {
						t.Errorf("%s: %v", id, err)
					}
				})
			}
			mortal := n.session("x2", kgo.TransactionTimeout(500*time.Millisecond))
			want = append(want, n.spread(4, 40, 40)...)
			for mortal.PollRecords(ctx, 5).NumRecords() == 0 {
				require.NoError(t, ctx.Err(), "the third member gets nothing to do")
				want = append(want, n.spread(4, len(want), 4)...)
			}
			require.NoError(t, mortal.Begin())
			dead, die := context.WithCancel(ctx)
			mortal.Produce(dead, &kgo.Record{Value: []byte("of the dead")}, nil)
			require.NoError(t, mortal.Client().Flush(ctx))
			require.NoError(t, kerr.ErrorForCode(commitAll(n, mortal)))
			die()
			mortal.Close()
			want = append(want, n.spread(4, len(want), 40)...)
			n.consume("out", len(want), kgo.ReadCommitted())

			// The offsets say the same once the last transaction is through.
			adm := kadm.NewClient(n.client())
			require.Eventually(t, func() bool {
				lag, err := adm.Lag(ctx, "g")
				return err == nil && lag.Error() == nil && lag["g"].Lag.Total() == 0
			}, 20*time.Second, 10*time.Millisecond, "offsets are not committed")
			stop()
			working.Wait()
			n.produce(n.client(), "out", "last")
			require.ElementsMatch(t, append(want, "last"), n.consumeTo("out", "last"))
		})
	}
}

// commitAll commits in a session's transaction what it has polled, and returns
// the first error code.
func commitAll(n *testNode, s *kgo.GroupTransactSession) int16 {
	t := n.t
	t.Helper()
	cl := s.Client()
	id, epoch, err := cl.ProducerID(t.Context())
	require.NoError(t, err)
	member, generation := cl.GroupMetadata()
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "x2", id, epoch, "g"
	added, err := add.RequestWith(t.Context(), cl)
	require.NoError(t, err)
	if added.ErrorCode != 0 {
		return added.ErrorCode
	}
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch, r.MemberID, r.Generation = "x2", "g", id, epoch, member, generation
	for topic, partitions := range cl.UncommittedOffsets() {
		out := kmsg.TxnOffsetCommitRequestTopic{Topic: topic}
		for p, o := range partitions {
			one := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			one.Partition, one.Offset = p, o.Offset
			out.Partitions = append(out.Partitions, one)
		}
		r.Topics = append(r.Topics, out)
	}
	require.NotEmpty(t, r.Topics)
	for i, topic := range r.Topics { // for the versions that name topics by id
		r.Topics[i].TopicID = n.Env().Quorum.Image().Topics[topic.Topic].ID
	}
	resp, err := r.RequestWith(t.Context(), cl)
	require.NoError(t, err)
	return resp.Topics[0].Partitions[0].ErrorCode
}

// consumeTo reads committed values of partition 0 from the start, up to one.
func (n *testNode) consumeTo(topic, last string) []string {
	n.t.Helper()
	cl := n.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().AtStart()},
	}))
	var values []string
	for !slices.Contains(values, last) {
		fs := cl.PollFetches(n.ctx())
		require.NoError(n.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// txnCommit is a TxnOffsetCommit of t-0 at an offset.
func txnCommit(tx string, id int64, epoch int16, at int64) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch = tx, "g", id, epoch
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = at
	r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	return r
}

// fetchOffset is what t-0 has committed, or the error.
func (n *testNode) fetchOffset(stable bool) (int64, error) {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.RequireStable = stable
	r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
	g := serveOne[*kmsg.OffsetFetchResponse](n, 8, r).Groups[0]
	p := g.Topics[0].Partitions[0]
	return p.Offset, errors.Join(kerr.ErrorForCode(g.ErrorCode), kerr.ErrorForCode(p.ErrorCode))
}

func TestOffsetsInTransactions(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickGroups)
	n.topic("t", 1)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	require.Zero(t, serveOne[*kmsg.FindCoordinatorResponse](n, 6, find).Coordinators[0].ErrorCode)
	begin := func(tx string) (int64, int16) {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionalID, r.TransactionTimeoutMillis = &tx, 60_000
		for {
			resp := serveOne[*kmsg.InitProducerIDResponse](n, 5, r)
			if resp.ErrorCode == kerr.ConcurrentTransactions.Code {
				continue
			}
			require.Zero(t, resp.ErrorCode)
			return resp.ProducerID, resp.ProducerEpoch
		}
	}
	commit := func(version int16, tx string, id int64, epoch int16, at int64) error {
		resp := serveOne[*kmsg.TxnOffsetCommitResponse](n, version, txnCommit(tx, id, epoch, at))
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	end := func(version int16, tx string, id int64, epoch int16, commit bool) {
		r := kmsg.NewPtrEndTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = tx, id, epoch, commit
		require.Zero(t, serveOne[*kmsg.EndTxnResponse](n, version, r).ErrorCode)
	}
	settled := func(want int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			at, err := n.fetchOffset(true)
			return err == nil && at == want
		}, 10*time.Second, time.Millisecond, "the offset does not become %d", want)
	}
	add := func(tx string, id int64, epoch int16) error {
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = tx, id, epoch, "g"
		return kerr.ErrorForCode(serveOne[*kmsg.AddOffsetsToTxnResponse](n, 4, r).ErrorCode)
	}

	t.Run("version 1", func(t *testing.T) {
		id, epoch := begin("x")
		require.ErrorIs(t, commit(4, "x", id, epoch, 3), kerr.TransactionAbortable, "nobody added the group")
		require.ErrorIs(t, commit(3, "x", id, epoch, 3), kerr.InvalidTxnState, "in the words of old")
		require.NoError(t, add("x", id, epoch))
		require.NoError(t, commit(4, "x", id, epoch, 3))
		at, err := n.fetchOffset(true)
		require.ErrorIs(t, err, kerr.UnstableOffsetCommit)
		require.Equal(t, int64(-1), at)
		at, err = n.fetchOffset(false)
		require.NoError(t, err)
		require.Equal(t, int64(-1), at)
		end(4, "x", id, epoch, true)
		settled(3)
	})
	t.Run("version 2", func(t *testing.T) {
		id, epoch := begin("y")
		require.NoError(t, commit(5, "y", id, epoch, 7))
		end(5, "y", id, epoch, false)
		settled(3)
		require.NoError(t, commit(5, "y", id, epoch+1, 8))
		require.ErrorIs(t, commit(5, "y", id, epoch, 9), kerr.InvalidProducerEpoch, "late, from the transaction before")
		end(5, "y", id, epoch+1, true)
		settled(8)
	})
	t.Run("refused", func(t *testing.T) {
		require.ErrorIs(t, commit(5, "nobody", 999, 0, 1), kerr.InvalidProducerIDMapping)
		require.ErrorIs(t, add("nobody", 999, 0), kerr.InvalidProducerIDMapping)
		none := kmsg.NewPtrAddOffsetsToTxnRequest()
		require.Equal(t, kerr.InvalidGroupID.Code, serveOne[*kmsg.AddOffsetsToTxnResponse](n, 4, none).ErrorCode)
		id, epoch := begin("w")
		for want, change := range map[*kerr.Error]func(*kmsg.TxnOffsetCommitRequest){
			kerr.InvalidGroupID:          func(r *kmsg.TxnOffsetCommitRequest) { r.Group = "" },
			kerr.IllegalGeneration:       func(r *kmsg.TxnOffsetCommitRequest) { r.Group, r.MemberID, r.Generation = "h", "m", 1 },
			kerr.UnknownMemberID:         func(r *kmsg.TxnOffsetCommitRequest) { r.MemberID, r.Generation = "m", 1 },
			kerr.UnknownTopicOrPartition: func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Topic = "none" },
			kerr.OffsetMetadataTooLarge: func(r *kmsg.TxnOffsetCommitRequest) {
				long := string(make([]byte, 5000))
				r.Topics[0].Partitions[0].Metadata = &long
			},
		} {
			r := txnCommit("w", id, epoch, 5)
			change(r)
			got := serveOne[*kmsg.TxnOffsetCommitResponse](n, 5, r).Topics[0].Partitions[0].ErrorCode
			require.Equal(t, want.Code, got, "%v", kerr.ErrorForCode(got))
		}
		r := txnCommit("w", id, epoch, 5)
		r.Group, r.MemberID, r.Generation = "h", "m", 1
		r.Topics[0].TopicID = n.Env().Quorum.Image().Topics["t"].ID
		require.Equal(t, kerr.GroupIDNotFound.Code, serveOne[*kmsg.TxnOffsetCommitResponse](n, 6, r).Topics[0].Partitions[0].ErrorCode)
	})
	t.Run("a producer that was replaced is fenced", func(t *testing.T) {
		id, epoch := begin("z")
		require.NoError(t, commit(5, "z", id, epoch, 20))
		id2, epoch2 := begin("z")
		require.Equal(t, id, id2)
		require.Greater(t, epoch2, epoch)
		require.ErrorIs(t, commit(5, "z", id, epoch, 21), kerr.InvalidProducerEpoch)
		require.ErrorIs(t, add("z", id, epoch), kerr.ProducerFenced)
		settled(8)
		require.NoError(t, commit(5, "z", id2, epoch2, 22))
		require.NoError(t, n.Close())
		n.start()
		require.Eventually(t, func() bool { _, err := n.fetchOffset(true); return errors.Is(err, kerr.UnstableOffsetCommit) },
			10*time.Second, time.Millisecond, "the transaction is open after a restart too")
		end(5, "z", id2, epoch2, true)
		settled(22)
	})
}
