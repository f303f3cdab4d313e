package broker

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
)

// startThree starts three nodes in one process that are one cluster; the test's
// end closes them.
func startThree(t *testing.T, change ...func(*Config)) []*testNode {
	t.Helper()
	voters := map[int32]string{}
	for id := range int32(3) {
		// A port that was free a moment ago; raft needs all addresses at once.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		voters[id] = l.Addr().String()
		require.NoError(t, l.Close())
	}
	nodes := make([]*testNode, 3)
	var starting sync.WaitGroup
	for id := range nodes {
		nodes[id] = &testNode{t: t, cfg: Config{
			Host: host.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)).With("node", id), DataDir: t.TempDir(),
			NodeID: int32(id), ClusterID: "three", Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
			RaftListen: voters[int32(id)], Voters: voters,
		}}
		for _, c := range change {
			c(&nodes[id].cfg)
		}
		starting.Go(func() {
			n, err := Start(nodes[id].ctx(), nodes[id].cfg)
			if err != nil {
				t.Errorf("node %d: %v", id, err)
				return
			}
			nodes[id].Node = n
		})
	}
	starting.Wait()
	t.Cleanup(func() {
		for _, n := range nodes {
			if n.Node != nil {
				require.NoError(t, n.Close())
			}
		}
	})
	require.False(t, t.Failed())
	return nodes
}

func TestThreeNodesAreOneCluster(t *testing.T) {
	t.Parallel()
	other := startNode(t)
	nodes := startThree(t)
	for i, n := range nodes {
		topic := fmt.Sprint("made-by-", i)
		n.topic(topic, 3)
		for _, m := range nodes { // each hears of it in its own time
			_, err := m.Env().Quorum.Wait(m.ctx(), func(i *quorum.Image) bool { return i.Topics[topic] != nil })
			require.NoError(t, err)
		}
		cl := n.client()
		for p := range int32(3) {
			r := &kgo.Record{Topic: topic, Partition: p, Value: []byte("v")}
			require.NoError(t, cl.ProduceSync(n.ctx(), r).FirstErr())
		}
		seen, err := kadm.NewClient(cl).Metadata(n.ctx(), topic)
		require.NoError(t, err)
		require.Equal(t, "three", seen.Cluster)
		require.Equal(t, []int32{0, 1, 2}, seen.Brokers.NodeIDs())
		leaders := map[int32]bool{}
		for _, p := range seen.Topics[topic].Partitions {
			leaders[p.Leader] = true
		}
		require.Len(t, leaders, 3, "leaders go round the nodes")
	}
	require.Empty(t, other.Env().Quorum.Image().Topics)
}

// A cluster follows one text of KIP-1279 for good: a node that was started with
// another one is refused, and what it has stays as it is.
func TestAnotherProfileIsRefused(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Profile = quorum.Latest })
	n.topic("t", 1)
	n.produce(n.client(), "t", "kept")
	require.NoError(t, n.Close())
	cfg := n.cfg
	cfg.Profile = quorum.V42
	_, err := Start(n.ctx(), cfg)
	require.ErrorContains(t, err, "data folder "+cfg.DataDir)
	require.ErrorContains(t, err, "the cluster follows profile kip1279-latest, and node 1 was started with kip1279-v42")
	n.start()
	require.Equal(t, []string{"kept"}, n.consume("t", 1, kgo.ReadCommitted()))
	require.Equal(t, quorum.Latest, n.Env().Quorum.Image().Profile)
}
