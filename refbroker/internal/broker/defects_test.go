package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// defective starts a cluster that is wrong in one way.
func defective(t *testing.T, cluster string, name defect.Name) *mirrorNode {
	t.Helper()
	set, err := defect.Parse([]string{string(name)})
	require.NoError(t, err)
	n := startMirrorNode(t, cluster)
	require.NoError(t, n.Close())
	n.conf.Defects = set
	n.start()
	return n
}

// bothWays tries a defect of a cluster, and the same without it.
func bothWays(t *testing.T, cluster string, name defect.Name, try func(t *testing.T, n *mirrorNode, wrong bool)) {
	t.Helper()
	t.Run(string(name), func(t *testing.T) {
		for side, start := range map[string]func(t *testing.T) *mirrorNode{
			"wrong": func(t *testing.T) *mirrorNode { return defective(t, cluster, name) },
			"right": func(t *testing.T) *mirrorNode { return startMirrorNode(t, cluster) },
		} {
			t.Run(side, func(t *testing.T) {
				t.Parallel()
				try(t, start(t), side == "wrong")
			})
		}
	})
}

// barrierOffsets are where the log has barriers.
func (n *mirrorNode) barrierOffsets() []int64 {
	all := []int64{}
	for _, raw := range n.batches() {
		b, err := psm.DecodeBatch(raw)
		require.NoError(n.t, err)
		if b.IsBarrier() {
			all = append(all, b.BaseOffset)
		}
	}
	return all
}

func TestDefectsOfTheBarrier(t *testing.T) {
	t.Parallel()
	failOver := func(t *testing.T, b *mirrorNode) (l int64) {
		a, lso := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		awaitMirror(t, c, "STOPPED")
		return lso
	}
	bothWays(t, clusterB, defect.BarrierBeforeTruncation, func(t *testing.T, b *mirrorNode, wrong bool) {
		l := failOver(t, b)
		require.Equal(t, wrong, len(b.barrierOffsets()) == 0)
		require.Equal(t, wrong, len(b.part().Producers()) > 0, "PSM-1")
		send(t, b.client(), "local")
		require.Equal(t, wrong, len(b.part().Producers()) > 1)
		if wrong { // it has a mirrored batch's header, and is taken for its retry
			require.Equal(t, l, b.end(), "IDEM-1")
		} else {
			require.Equal(t, l+2, b.end())
		}
		require.NoError(t, b.Kill())
		b.start()
		require.Equal(t, wrong, len(b.part().Producers()) > 1)
	})
	bothWays(t, clusterB, defect.BarrierAfterWritable, func(t *testing.T, b *mirrorNode, wrong bool) {
		l := failOver(t, b)
		send(t, b.client(kgo.DisableIdempotentWrite()), "local")
		want := []int64{l}
		if wrong {
			want = []int64{l + 1}
		}
		require.Eventually(t, func() bool { return slices.Equal(want, b.barrierOffsets()) }, 10*time.Second, time.Millisecond)
		for range 2 {
			require.Empty(t, b.part().Producers())
			require.NoError(t, b.Kill())
			b.start()
		}
		require.Equal(t, want, b.barrierOffsets())
	})
	bothWays(t, clusterB, defect.WrongSourceID, func(t *testing.T, b *mirrorNode, wrong bool) {
		failOver(t, b)
		id := b.part().Barriers()[0].SourceClusterID
		require.Equal(t, wrong, id == clusterB)
		require.Equal(t, wrong, id != clusterA)
		require.True(t, b.part().Barriers()[0].Own)
	})
	bothWays(t, clusterB, defect.TwoBarriers, func(t *testing.T, b *mirrorNode, wrong bool) {
		l := failOver(t, b)
		want := []int64{l}
		if wrong {
			want = append(want, l+1)
		}
		require.Equal(t, want, b.barrierOffsets())
		send(t, b.client(), "local")
	})
	bothWays(t, clusterB, defect.NoBarrierOnEmpty, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		c := b.mirrorFrom(a)
		awaitMirror(t, c, "MIRRORING")
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		awaitMirror(t, c, "STOPPED")
		require.Equal(t, wrong, len(b.barrierOffsets()) == 0)
		send(t, b.client(), "local")
	})
	t.Run("no-barrier-on-empty, with records", func(t *testing.T) {
		b := defective(t, clusterB, defect.NoBarrierOnEmpty)
		l := failOver(t, b)
		require.Equal(t, []int64{l}, b.barrierOffsets())
	})
	bothWays(t, clusterB, defect.NoBarrierWhenSourceDead, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, lso := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, a.Close())
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		awaitMirror(t, c, "STOPPED")
		require.EqualValues(t, lso, awaitMirror(t, c, "STOPPED").StopOffset)
		require.Equal(t, wrong, len(b.barrierOffsets()) == 0)
		require.Equal(t, wrong, len(b.part().Producers()) > 0)
		require.NoError(t, b.Kill())
		b.start()
		send(t, b.client(), "local")
		require.Equal(t, wrong, len(b.part().Producers()) > 1)
	})
	t.Run("no-barrier-when-source-dead, alive", func(t *testing.T) {
		b := defective(t, clusterB, defect.NoBarrierWhenSourceDead)
		l := failOver(t, b)
		require.Equal(t, []int64{l}, b.barrierOffsets())
	})
}

func TestDefectsOfMirroring(t *testing.T) {
	t.Parallel()
	bothWays(t, clusterB, defect.EpochBelowLog, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		b.mirrorOf(a)
		require.NoError(t, a.mirrors().Bump(t.Context(), a.part().TopicID(), 60, 0))
		send(t, a.client(), "in a high epoch")
		b.equals(a)
		o := b.part().Offsets()
		require.EqualValues(t, 61, o.LogEpoch)
		require.Equal(t, wrong, o.LeaderEpoch < o.LogEpoch, "LOG-5")
		b.stopFrom(a)
		send(t, b.client(), "promoted")
	})
	bothWays(t, clusterB, defect.EpochsCachedWithLeadership, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		send(t, a.client(), "before the election")
		b.mirrorOf(a)
		require.NoError(t, b.mirrors().Bump(t.Context(), b.part().TopicID(), 60, 0))
		require.Eventually(t, func() bool { return b.part().Offsets().LeaderEpoch == 61 }, 10*time.Second, time.Millisecond)
		send(t, a.client(), "after it")
		b.equals(a)
		got, err := kadm.NewClient(b.client()).OffsetForLeaderEpoch(t.Context(), kadm.OffsetForLeaderEpochRequest{"t": {0: 0}})
		require.NoError(t, err)
		end := got["t"][0]
		require.NoError(t, end.Err)
		require.Zero(t, end.LeaderEpoch)
		want := int64(2)
		if wrong {
			want = 1
		}
		require.Equal(t, want, end.EndOffset, "LOG-5")
		b.stopFrom(a)
		send(t, b.client(), "promoted")
	})
	bothWays(t, clusterC, defect.DownstreamNotRealigned, func(t *testing.T, c *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		send(t, a.client(kgo.DisableIdempotentWrite()), "a")
		leaveOpen(t, a, "open")
		b := startMirrorNode(t, clusterB)
		b.mirrorOf(a)
		c.mirrorOf(b)
		cut := c.batches()[1]
		p := b.stopFrom(a)
		require.EqualValues(t, 1, p.StopOffset)
		send(t, b.client(kgo.DisableIdempotentWrite()), "b1", "b2")
		if wrong {
			require.Eventually(t, func() bool { return c.part().Offsets().HighWatermark >= 4 }, 20*time.Second, 5*time.Millisecond)
			require.Equal(t, cut, c.batches()[1], "CH-3: what B cut stays")
			require.Empty(t, c.barrierOffsets())
		} else {
			c.equals(b)
		}
	})
	bothWays(t, clusterB, defect.AlignmentByEpochsAlone, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		plain := a.client(kgo.DisableIdempotentWrite())
		send(t, plain, "common")
		b.mirrorOf(a)
		p := b.stopFrom(a)
		send(t, b.client(kgo.DisableIdempotentWrite()), "b's own")
		// A lives on, and comes to the very leader epoch in which B was promoted.
		_, epoch := b.part().Leader()
		require.NoError(t, a.mirrors().Bump(t.Context(), a.part().TopicID(), epoch-1, 0))
		send(t, plain, "a's 1", "a's 2", "a's 3")
		require.Equal(t, epoch, a.part().Offsets().LogEpoch)
		require.EqualValues(t, 1, p.StopOffset)
		own := b.batches()
		require.NoError(t, b.mirrors().Start(t.Context(), b.linkTo(a), "t"))
		awaitNamed(t, b.mirrors(), b.linkTo(a), "MIRRORING")
		if !wrong {
			b.equals(a)
			return
		}
		require.Eventually(t, func() bool { return b.part().Offsets().HighWatermark == a.end() }, 20*time.Second, 5*time.Millisecond)
		require.Equal(t, own, b.batches()[:len(own)], "AL-1: B's own is taken for A's")
		require.NotEqual(t, a.batches(), b.batches())
	})
	bothWays(t, clusterB, defect.CleanedLogTruncated, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := startMirrorNode(t, clusterA)
		policy := "compact"
		_, err := kadm.NewClient(a.client()).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "t")
		require.NoError(t, err)
		require.NoError(t, b.Close())
		b.conf.CompactEvery = 10 * time.Millisecond
		b.conf.TopicDefaults = map[string]string{"cleanup.policy": policy, "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}
		b.start()
		write := func(n *mirrorNode, rounds int, value string) {
			cl := n.client(kgo.DisableIdempotentWrite())
			for i := range 5 * rounds {
				r := kgo.KeySliceRecord(fmt.Append(nil, "k", i%5), fmt.Append(nil, value, i, strings.Repeat("x", 100)))
				require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
			}
		}
		write(a, 1, "a's")
		b.mirrorOf(a)
		fork := b.stopFrom(a).StopOffset
		require.EqualValues(t, 5, fork)
		// Of each key B has a newer value, above the fork, and its cleaner takes the
		// one below.
		write(b, 8, "b's own")
		require.Eventually(t, func() bool { return b.part().CleanedUpTo() > fork }, 20*time.Second, 5*time.Millisecond, "B's cleaner goes past the fork")
		require.NoError(t, b.mirrors().Start(t.Context(), b.linkTo(a), "t"))
		awaitNamed(t, b.mirrors(), b.linkTo(a), "MIRRORING")
		if !wrong {
			b.equals(a)
			return
		}
		require.Equal(t, fork, b.end())
		_, err = b.tryBatches()
		require.ErrorContains(t, err, "nothing at offset", "AL-1: A's values of the keys are gone")
	})
	bothWays(t, clusterB, defect.OtherClusterAccepted, func(t *testing.T, b *mirrorNode, wrong bool) {
		c := newSource(t, clusterC)
		send(t, c.client(), "another cluster's")
		ctx := t.Context()
		m := b.mirrors()
		require.NoError(t, m.Create(ctx, "m", map[string]string{mirrorrpc.ConfigBootstrap: c.addr(), mirrorrpc.ConfigSourceClusterID: clusterA}))
		err := m.Start(ctx, "m", "t")
		if !wrong {
			require.ErrorIs(t, err, kerr.InconsistentClusterID)
			return
		}
		require.NoError(t, err)
		awaitMirror(t, m, "MIRRORING")
		b.equals(c)
	})
}

func TestDefectsOfTheControlPlane(t *testing.T) {
	t.Parallel()
	bothWays(t, clusterB, defect.StopRefusedWithoutSource, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, _ := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, a.Close())
		err := c.Stop(t.Context(), "m", "t")
		if wrong {
			require.ErrorIs(t, err, kerr.BrokerNotAvailable)
			require.Equal(t, quorum.Mirroring, b.Env().Quorum.Image().Topics["t"].Desired)
			return
		}
		require.NoError(t, err)
		awaitMirror(t, c, "STOPPED")
	})
	bothWays(t, clusterB, defect.StopNotIdempotent, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, _ := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		awaitMirror(t, c, "STOPPED")
		err := c.Stop(t.Context(), "m", "t")
		if wrong {
			require.ErrorIs(t, err, mirrorrpc.ErrInvalidClusterMirrorStates)
		} else {
			require.NoError(t, err)
		}
	})
	bothWays(t, clusterB, defect.StopTakesAHundred, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		_, err := kadm.NewClient(a.client()).CreateTopic(t.Context(), 102, 1, nil, "wide")
		require.NoError(t, err)
		name := b.linkTo(a)
		c := b.mirrors()
		in := func(state string) (n int) {
			d, err := c.Describe(t.Context(), name)
			require.NoError(t, err)
			for _, p := range d[0].Topics[0].Partitions {
				if p.StateValue == state {
					n++
				}
			}
			return n
		}
		require.NoError(t, c.Start(t.Context(), name, "wide"))
		require.Eventually(t, func() bool { return in("MIRRORING") == 102 }, patience, 10*time.Millisecond)
		require.NoError(t, c.Stop(t.Context(), name, "wide"))
		want := 102
		if wrong {
			want = 100
		}
		require.Eventually(t, func() bool { return in("STOPPED") >= want }, patience, 10*time.Millisecond)
		require.Equal(t, 102-want, in("STOPPING"))
	})
	bothWays(t, clusterB, defect.PausedStopDoesNothing, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, _ := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		awaitMirror(t, c, "MIRRORING")
		require.NoError(t, c.Pause(t.Context(), "m", "t"))
		awaitMirror(t, c, "PAUSED")
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		if wrong {
			require.Equal(t, quorum.Paused, b.Env().Quorum.Image().Topics["t"].Desired)
		} else {
			awaitMirror(t, c, "STOPPED")
		}
	})
	bothWays(t, clusterB, defect.DescribeHidesCut, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, lso := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		p := awaitMirror(t, c, "MIRRORING")
		if wrong {
			require.Equal(t, mirrorrpc.NothingCut, p.WouldCut)
			require.Equal(t, mirrorrpc.NothingOpen, p.OldestOpen)
		} else {
			require.Equal(t, lso, p.WouldCut.From)
			require.Equal(t, lso, p.OldestOpen.FirstOffset)
		}
	})
	bothWays(t, clusterB, defect.DescribeHidesCause, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, _ := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, a.Close())
		require.Eventually(t, func() bool {
			mirrors, err := c.Describe(t.Context(), "m")
			require.NoError(t, err)
			p := mirrors[0].Topics[0].Partitions[0]
			return p.RetryAttempt > 0 && (p.ErrorMessage == nil) == wrong
		}, patience, 2*time.Millisecond, "it does not go on")
	})
	bothWays(t, clusterB, defect.RefusedWithoutAWord, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, _ := sourceWithTraffic(t)
		awaitMirror(t, b.mirrorFrom(a), "MIRRORING")
		req := produceOf(-1, "t", 0, batchOf("refused"))
		req.Topics[0].TopicID = b.Env().Quorum.Image().Topics["t"].ID
		resp, err := req.RequestWith(t.Context(), b.client())
		require.NoError(t, err)
		p := resp.Topics[0].Partitions[0]
		require.Equal(t, mirrorrpc.ErrReadOnlyTopic.Code, p.ErrorCode)
		require.Equal(t, wrong, p.ErrorMessage == nil)
	})
	bothWays(t, clusterB, defect.MirrorStopStopsOthers, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, c := newSource(t, clusterA), startMirrorNode(t, clusterC)
		makeTopic(t, c, "other")
		b.mirrorOf(a)
		name := b.linkTo(c)
		require.NoError(t, b.mirrors().Start(t.Context(), name, "other"))
		awaitNamed(t, b.mirrors(), name, "MIRRORING")
		b.stopFrom(a)
		want := quorum.Mirroring
		if wrong {
			want = quorum.Stopped
		}
		require.Equal(t, want, b.Env().Quorum.Image().Topics["other"].Desired)
	})
	bothWays(t, clusterB, defect.SameTopicTwoSources, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, c := newSource(t, clusterA), newSource(t, clusterC)
		b.mirrorOf(a)
		name := b.linkTo(c)
		err := b.mirrors().Start(t.Context(), name, "t")
		if !wrong {
			require.ErrorIs(t, err, mirrorrpc.ErrTopicAlreadyInMirror)
			return
		}
		require.NoError(t, err)
		require.Equal(t, name, b.Env().Quorum.Image().Topics["t"].Mirror)
	})
}

// BAR-6: an application gets the barrier.
func TestDefectsOfConsumers(t *testing.T) {
	bothWays(t, clusterB, defect.ControlRecordDelivered, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		plain := a.client(kgo.DisableIdempotentWrite())
		send(t, plain, "a")
		b.mirrorOf(a)
		b.stopFrom(a)
		send(t, b.client(kgo.DisableIdempotentWrite()), "b")
		want := []int64{0, 2}
		if wrong {
			want = []int64{0, 1, 2}
		}
		reader := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}))
		var got []int64
		for len(got) == 0 || got[len(got)-1] < 2 {
			fetches := reader.PollFetches(t.Context())
			require.NoError(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, r.Offset) })
		}
		require.Equal(t, want, got)
	})
}

// TXN-6, FA-13: a batch that comes when its transaction has ended.
func TestDefectsOfLateProduce(t *testing.T) {
	t.Parallel()
	for version, produce := range map[int16]int16{1: 11, 2: 12} {
		for _, wrong := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, transactions version %d, wrong %v", defect.LateProduceOpensTransaction, version, wrong), func(t *testing.T) {
				n := startMirrorNode(t, clusterA)
				require.NoError(t, n.Close())
				n.conf.TransactionVersion = version
				if wrong {
					var err error
					n.conf.Defects, err = defect.Parse([]string{string(defect.LateProduceOpensTransaction)})
					require.NoError(t, err)
				}
				n.start()
				makeTopic(t, n, "t")
				makeTopic(t, n, "late")
				cl := n.client(kgo.TransactionalID("x"), kgo.TransactionTimeout(10*time.Minute))
				transact(t, cl, false, "in time")
				pid, epoch, err := cl.ProducerID(t.Context())
				require.NoError(t, err)
				if version == 2 {
					epoch-- // the transaction's own: its end has raised it
				}
				// Of the transaction, on its way since before its end, and the first
				// for its partition.
				send := func() int16 {
					req := produceOf(-1, "late", 0, batchOf("late", func(b *kmsg.RecordBatch) {
						b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.Attributes = pid, epoch, 0, 0x10
					}))
					id := "x"
					req.TransactionID = &id
					req.SetVersion(produce)
					i := slices.IndexFunc(n.table.APIs(), func(a wire.API) bool { return a.Key == req.Key() })
					resp, err := n.table.APIs()[i].Handle(t.Context(), &wire.Request{Key: req.Key(), Version: produce, Body: req})
					require.NoError(t, err)
					return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
				}
				// The end of a transaction is answered before it is complete.
				code := send()
				for end := time.Now().Add(10 * time.Second); code == kerr.ConcurrentTransactions.Code || code == kerr.NotEnoughReplicas.Code; code = send() {
					require.True(t, time.Now().Before(end), "the transaction is not completed: code %d", code)
					time.Sleep(time.Millisecond)
				}
				p, err := n.Env().Replicas.Partition("late", 0)
				require.NoError(t, err)
				o := p.Offsets()
				if wrong {
					require.Zero(t, code)
					require.EqualValues(t, 1, o.LogEnd)
					require.Zero(t, o.LastStable, "it will never end")
				} else {
					require.NotZero(t, code)
					require.Zero(t, o.LogEnd)
				}
			})
		}
	}
}

// KIP-1279's pictures of its first design: A's producer 0 and B's own producer 0
// on C, behind two clusters that rewrite ids.
func TestDefectsThatRewriteProducerIDsOverAChain(t *testing.T) {
	for name, want := range map[defect.Name][]int64{
		defect.PIDRewrite:     {0, -1, -2}, // A's is 0 again: a local producer's id on C
		defect.PIDRewriteOnce: {-2, -1, -2},
		"":                    {0, -1, 0},
	} {
		t.Run("defect "+string(name), func(t *testing.T) {
			t.Parallel()
			a := newSource(t, clusterA)
			start := startMirrorNode
			if name != "" {
				start = func(t *testing.T, cluster string) *mirrorNode { return defective(t, cluster, name) }
			}
			b, c := start(t, clusterB), start(t, clusterC)
			send(t, a.client(), "a's")
			b.link(a)
			b.stopFrom(a)
			send(t, b.client(), "b's")
			c.link(b)
			var ids []int64
			for _, raw := range c.batches() {
				h, err := psm.DecodeBatch(raw)
				require.NoError(t, err)
				require.NoError(t, psm.CheckCRC(raw))
				ids = append(ids, h.ProducerID)
			}
			require.Equal(t, want, ids)
			known := slices.Compact(slices.Sorted(slices.Values([]int64{want[0], want[2]})))
			var got []int64
			for _, p := range c.part().Producers() {
				got = append(got, p.ProducerID)
			}
			require.Equal(t, known, got)
		})
	}
}

// link starts the mirroring of a source and waits until it has caught up, by
// offsets: bytes may be rewritten.
func (n *mirrorNode) link(source *mirrorNode) {
	n.t.Helper()
	name := n.linkTo(source)
	require.NoError(n.t, n.mirrors().Start(n.t.Context(), name, "t"))
	awaitNamed(n.t, n.mirrors(), name, "MIRRORING")
	require.Eventually(n.t, func() bool { return n.part().Offsets().HighWatermark == source.end() }, 20*time.Second, 5*time.Millisecond)
}

func TestDefectsAroundAStop(t *testing.T) {
	t.Parallel()
	bothWays(t, clusterB, defect.HealedLinkAborts, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, l := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, a.Close())
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		awaitMirror(t, c, "STOPPED")
		leaveOpen(t, b, "local")
		open := b.part().Offsets().LastStable
		require.Greater(t, open, l)
		a.start()
		if !wrong {
			// Nothing is to come; that it would have by then, the other case shows.
			require.Never(t, func() bool { return b.part().Offsets().LastStable != open }, 300*time.Millisecond, 10*time.Millisecond)
			return
		}
		require.Eventually(t, func() bool { return b.part().Offsets().LastStable > open }, 20*time.Second, 5*time.Millisecond, "TXN-5")
	})
	bothWays(t, clusterB, defect.FetchedAfterHealing, func(t *testing.T, b *mirrorNode, wrong bool) {
		a, _ := sourceWithTraffic(t)
		c := b.mirrorFrom(a)
		require.NoError(t, a.Close())
		require.NoError(t, c.Stop(t.Context(), "m", "t"))
		awaitMirror(t, c, "STOPPED")
		end := b.part().Offsets().LogEnd
		a.start()
		send(t, a.client(kgo.DisableIdempotentWrite()), "written since")
		if !wrong {
			// Nothing is to come; that it would have by then, the other case shows.
			require.Never(t, func() bool { return b.part().Offsets().LogEnd != end }, 300*time.Millisecond, 10*time.Millisecond)
			return
		}
		require.Eventually(t, func() bool { return b.part().Offsets().LogEnd > end }, 20*time.Second, 5*time.Millisecond, "LINK-3")
	})
	bothWays(t, clusterB, defect.ResumesAtOldEnd, func(t *testing.T, b *mirrorNode, wrong bool) {
		a := newSource(t, clusterA)
		plain := a.client(kgo.DisableIdempotentWrite())
		send(t, plain, "common")
		b.mirrorOf(a)
		b.stopFrom(a)
		send(t, b.client(kgo.DisableIdempotentWrite()), "b's own")
		send(t, plain, "a's 1", "a's 2", "a's 3", "a's 4")
		require.NoError(t, b.mirrors().Start(t.Context(), b.linkTo(a), "t"))
		awaitNamed(t, b.mirrors(), b.linkTo(a), "MIRRORING")
		require.Eventually(t, func() bool { return b.part().Offsets().HighWatermark == a.end() }, 20*time.Second, 5*time.Millisecond)
		require.Equal(t, wrong, len(b.batches()) < len(a.batches()), "FB-3: what lies between is missing")
		if !wrong {
			b.equals(a)
		}
	})
}
