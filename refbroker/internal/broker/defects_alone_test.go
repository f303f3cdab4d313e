package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/refbroker/internal/defect"
)

func TestDefectsOfAClusterAlone(t *testing.T) {
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
