package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// FA-14: a fetch gives the same records and the same list of aborted
// transactions whether it is answered at once or had to wait; the list is for
// read_committed only.
func TestAbortedTransactionsAtOnceAndAfterALongPoll(t *testing.T) {
	n := startNode(t)
	traffic := func(topic string) {
		cl := n.client(kgo.DefaultProduceTopic(topic), kgo.TransactionalID("txn of "+topic))
		transact(t, cl, false, "aborted 1", "aborted 2")
		transact(t, cl, true, "committed")
	}
	ask := func(topic string, isolation int8, minBytes int) (kmsg.FetchResponseTopicPartition, error) {
		req := fetchOf(topic, 0)
		req.IsolationLevel, req.MaxWaitMillis, req.MinBytes = isolation, int32(patience.Milliseconds()), int32(minBytes)
		resp, err := req.RequestWith(n.ctx(), n.client(kgo.MaxVersions(kversion.V3_0_0())))
		if err != nil {
			return kmsg.FetchResponseTopicPartition{}, err
		}
		return resp.Topics[0].Partitions[0], nil
	}
	for isolation, name := range []string{"read_uncommitted", "read_committed"} {
		t.Run(name, func(t *testing.T) {
			ready, polled := fmt.Sprint("ready-", isolation), fmt.Sprint("polled-", isolation)
			n.topic(ready, 1)
			n.topic(polled, 1)
			traffic(ready)
			p, err := n.Env().Replicas.Partition(ready, 0)
			require.NoError(t, err)
			require.Eventually(t, func() bool { o := p.Offsets(); return o.LogEnd == 5 && o.LastStable == 5 }, patience, 1e6, "both markers")
			atOnce, err := ask(ready, int8(isolation), 1)
			require.NoError(t, err)
			// The same bytes come over there, so this is answered when all are there.
			var late kmsg.FetchResponseTopicPartition
			waited := make(chan error, 1)
			go func() {
				var err error
				late, err = ask(polled, int8(isolation), len(atOnce.RecordBatches))
				waited <- err
			}()
			traffic(polled)
			require.NoError(t, <-waited)
			require.Len(t, late.RecordBatches, len(atOnce.RecordBatches))
			require.EqualValues(t, 5, late.HighWatermark)
			for _, part := range []kmsg.FetchResponseTopicPartition{atOnce, late} {
				if isolation == 0 {
					require.Empty(t, part.AbortedTransactions)
					continue
				}
				require.Len(t, part.AbortedTransactions, 1)
				require.Zero(t, part.AbortedTransactions[0].FirstOffset)
			}
			for _, topic := range []string{ready, polled} {
				if isolation == 1 {
					require.Equal(t, []string{"committed"}, n.consume(topic, 1, kgo.ReadCommitted()))
				} else {
					require.Equal(t, []string{"aborted 1", "aborted 2", "committed"}, n.consume(topic, 3, kgo.ReadUncommitted()))
				}
			}
		})
	}
}
