package broker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

func TestDefectsOfAClusterAlone(t *testing.T) {
	t.Parallel()
	bothWays(t, clusterA, defect.AbortedListMissingAfterLongPoll, func(t *testing.T, n *mirrorNode, wrong bool) {
		_, err := kadm.NewClient(n.client()).CreateTopic(t.Context(), 1, 1, nil, "t")
		require.NoError(t, err)
		cl := n.client(kgo.TransactionalID("x"))
		transact(t, cl, false, "aborted")
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(int16(kmsg.Fetch), 12) // the last one that names topics
		asks := n.client(kgo.MaxVersions(versions))
		for _, long := range []bool{false, true} {
			req := kmsg.NewPtrFetchRequest()
			req.ReplicaID, req.MaxBytes, req.SessionEpoch, req.IsolationLevel = -1, 1<<20, -1, 1
			if long {
				req.MinBytes, req.MaxWaitMillis = 1<<20, 20
			}
			part := kmsg.NewFetchRequestTopicPartition()
			part.PartitionMaxBytes = 1 << 20
			part.CurrentLeaderEpoch, part.LastFetchedEpoch = -1, -1
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.Partitions = "t", []kmsg.FetchRequestTopicPartition{part}
			req.Topics = []kmsg.FetchRequestTopic{topic}
			require.Eventually(t, func() bool { // the marker comes after the answer to EndTxn
				resp, err := asks.Broker(1).Request(t.Context(), req)
				if err != nil {
					return false
				}
				got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
				return got.LastStableOffset == 2 && (len(got.AbortedTransactions) == 0) == (long && wrong)
			}, 20*time.Second, 5*time.Millisecond)
		}
	})
	bothWays(t, clusterA, defect.IDsHandedOutTwice, func(t *testing.T, n *mirrorNode, wrong bool) {
		ask := func() int64 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = -1, -1
			resp, err := req.RequestWith(t.Context(), n.client())
			require.NoError(t, err)
			require.Zero(t, resp.ErrorCode)
			return resp.ProducerID
		}
		before := ask()
		require.NoError(t, n.Close())
		n.start()
		require.Equal(t, wrong, ask() == before)
	})
}

// SC-4: a reader that is never given the control batch before which it stands.
func TestDefectOfReadersBeforeControlBatches(t *testing.T) {
	bothWays(t, clusterA, defect.ControlBatchesWithheld, func(t *testing.T, n *mirrorNode, wrong bool) {
		makeTopic(t, n, "t")
		transact(t, n.client(kgo.TransactionalID("x")), true, "committed")
		require.Eventually(t, func() bool { return n.part().Offsets().LastStable == 2 }, 20*time.Second, 5*time.Millisecond)
		for level, sees := range map[int8]bool{0: true, 1: !wrong} {
			req := kmsg.NewPtrFetchRequest()
			req.ReplicaID, req.MaxBytes, req.SessionEpoch, req.IsolationLevel = -1, 1<<20, -1, level
			part := kmsg.NewFetchRequestTopicPartition()
			part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch, part.LastFetchedEpoch = 1, 1<<20, -1, -1
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.Partitions = "t", []kmsg.FetchRequestTopicPartition{part}
			req.Topics = []kmsg.FetchRequestTopic{topic}
			versions := kversion.Stable()
			versions.SetMaxKeyVersion(int16(kmsg.Fetch), 12)
			resp, err := n.client(kgo.MaxVersions(versions)).Broker(1).Request(t.Context(), req)
			require.NoError(t, err)
			got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
			require.Zero(t, got.ErrorCode)
			require.Equal(t, sees, len(got.RecordBatches) > 0, "isolation level %d", level)
		}
	})
}

// SC-8: two brokers that take the same block of producer ids.
func TestDefectOfSeveralBrokersThatGiveIDs(t *testing.T) {
	for _, wrong := range []bool{true, false} {
		t.Run(fmt.Sprintf("%s %v", defect.IDBlocksNotReserved, wrong), func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3, func(cfg *Config) {
				if wrong {
					var err error
					cfg.Defects, err = defect.Parse([]string{string(defect.IDBlocksNotReserved)})
					require.NoError(t, err)
				}
			})
			blocks := map[int64]bool{}
			for _, n := range c.nodes {
				i := slices.IndexFunc(n.table.APIs(), func(a wire.API) bool { return a.Key == int16(kmsg.InitProducerID) })
				var resp *kmsg.InitProducerIDResponse
				require.Eventually(t, func() bool { // a node may not know yet who leads the quorum
					req := kmsg.NewPtrInitProducerIDRequest()
					req.ProducerID, req.ProducerEpoch = -1, -1
					got, err := n.table.APIs()[i].Handle(t.Context(), &wire.Request{Key: req.Key(), Version: 4, Body: req})
					if err != nil {
						return false
					}
					resp = got.(*kmsg.InitProducerIDResponse)
					return resp.ErrorCode == 0
				}, patience, 5*time.Millisecond)
				blocks[resp.ProducerID/quorum.ProducerIDBlockSize] = true
			}
			require.Equal(t, wrong, len(blocks) < 3, "blocks %v", blocks)
		})
	}
}

// FO-2: a source that has lost one of its mirrors.
func TestDefectOfASourceThatLosesAMirror(t *testing.T) {
	set, err := defect.Parse([]string{string(defect.LostMirrorTakesOthersAlong)})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		wrong, right := mirrorsOfSource(set), mirrorsOfSource(defect.Set{})
		for _, m := range []*mirrorsOf{wrong, right} {
			require.False(t, m.refuses("watershed-mirror-B-a-to-b"))
			require.False(t, m.refuses("watershed-mirror-C-a-to-c"), "both are there")
			time.Sleep(lostAfter + time.Millisecond)
			require.False(t, m.refuses("watershed-mirror"))
			require.Equal(t, m == wrong, m.refuses("watershed-mirror-C-a-to-c"), "the other is gone")
			time.Sleep(lostUntil)
			require.False(t, m.refuses("watershed-mirror-C-a-to-c"))
		}
	})
}
