package broker

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who asks a node that does not lead is told who does and where that is (KIP-951): a client
// that is told of an epoch alone asks the same node again, at once, for as long as metadata
// that lag behind send it there.
func TestTheLeaderIsNamedWithItsAddress(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.topic("t", 1, nil)
	leader := c.leader("t", 0)
	led := c.partition("t", 0)
	other := c.nodes[(leader+1)%3]
	host, text, err := net.SplitHostPort(c.nodes[leader].cfg.Listeners[0].Listen)
	require.NoError(t, err)
	port, err := strconv.ParseInt(text, 10, 32)
	require.NoError(t, err)
	c.eventually("the other node knows that leader", func() bool {
		_, p, err := other.Env().Quorum.Image().Partition("t", 0)
		return err == nil && p.LeaderEpoch == led.LeaderEpoch
	})

	fetch := fetchOf("t", 0)
	fetch.Topics[0].Topic, fetch.Topics[0].TopicID = "", other.Env().Quorum.Image().Topics["t"].ID
	fetched := serveOne[*kmsg.FetchResponse](other, 17, fetch)
	got := fetched.Topics[0].Partitions[0]
	require.Equal(t, kerr.NotLeaderForPartition.Code, got.ErrorCode)
	require.Equal(t, []int32{leader, led.LeaderEpoch}, []int32{got.CurrentLeader.LeaderID, got.CurrentLeader.LeaderEpoch})
	require.Equal(t, []kmsg.FetchResponseBroker{{NodeID: leader, Host: host, Port: int32(port)}}, fetched.Brokers)

	produced := serveOne[*kmsg.ProduceResponse](other, 12, produceOf(1, "t", 0, batchOf("v")))
	wrote := produced.Topics[0].Partitions[0]
	require.Equal(t, kerr.NotLeaderForPartition.Code, wrote.ErrorCode)
	require.Equal(t, []int32{leader, led.LeaderEpoch}, []int32{wrote.CurrentLeader.LeaderID, wrote.CurrentLeader.LeaderEpoch})
	require.Equal(t, []kmsg.ProduceResponseBroker{{NodeID: leader, Host: host, Port: int32(port)}}, produced.Brokers)

	// Where nobody has to move, nothing is said.
	own := fetchOf("t", 0)
	own.Topics[0].Topic, own.Topics[0].TopicID = "", fetch.Topics[0].TopicID
	require.Empty(t, serveOne[*kmsg.FetchResponse](c.nodes[leader], 17, own).Brokers)
}
