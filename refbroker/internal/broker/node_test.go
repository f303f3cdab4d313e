package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/refbroker/internal/host"
)

func TestTheFirstProduceIsAcknowledgedSoon(t *testing.T) {
	began := time.Now()
	n := startNode(t)
	serving := time.Since(began)
	n.topic("t", 1)
	require.Equal(t, []int64{0}, n.produce(n.client(), "t", "v"))
	t.Logf("serving after %s, first produce acknowledged after %s", serving, time.Since(began))
}

func TestPlainAndIdempotentRecordsComeBackInOrder(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	require.Equal(t, []int64{0, 1}, n.produce(n.client(kgo.DisableIdempotentWrite()), "t", "plain-0", "plain-1"))
	require.Equal(t, []int64{2, 3}, n.produce(n.client(), "t", "idempotent-0", "idempotent-1"))
	want := []string{"plain-0", "plain-1", "idempotent-0", "idempotent-1"}
	require.Equal(t, want, n.consume("t", len(want), kgo.ReadUncommitted()))
	require.Equal(t, want, n.consume("t", len(want), kgo.ReadCommitted()))
}

func TestReadCommittedShowsCommittedTransactionsOnly(t *testing.T) {
	for _, version := range []int16{1, 2} {
		t.Run(fmt.Sprintf("transaction.version=%d", version), func(t *testing.T) {
			n := startNode(t, func(c *Config) { c.TransactionVersion = version })
			n.topic("t", 1)
			cl := n.client(kgo.TransactionalID("tx"))
			for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
				require.NoError(t, cl.BeginTransaction())
				n.produce(cl, "t", fmt.Sprintf("tx-%d-a", i), fmt.Sprintf("tx-%d-b", i))
				require.NoError(t, cl.EndTransaction(n.ctx(), end))
			}
			// A read_committed reader is held at an open transaction.
			require.NoError(t, cl.BeginTransaction())
			n.produce(cl, "t", "open")
			committed := []string{"tx-0-a", "tx-0-b", "tx-2-a", "tx-2-b"}
			require.Equal(t, committed, n.consume("t", len(committed), kgo.ReadCommitted()))
			all := []string{"tx-0-a", "tx-0-b", "tx-1-a", "tx-1-b", "tx-2-a", "tx-2-b", "open"}
			require.Equal(t, all, n.consume("t", len(all), kgo.ReadUncommitted()))

			adm := kadm.NewClient(n.client())
			stable, err := adm.ListCommittedOffsets(n.ctx(), "t")
			require.NoError(t, err)
			end, err := adm.ListEndOffsets(n.ctx(), "t")
			require.NoError(t, err)
			require.Equal(t, int64(9), stable["t"][0].Offset)
			require.Equal(t, int64(10), end["t"][0].Offset)
			require.NoError(t, cl.EndTransaction(n.ctx(), kgo.TryCommit))
			require.Equal(t, append(committed, "open"), n.consume("t", 5, kgo.ReadCommitted()))
		})
	}
}

// endings are the ways in which a node's run ends.
var endings = map[string]func(*Node) error{"closed": (*Node).Close, "killed": (*Node).Kill}

func TestARestartKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			n := startNode(t)
			n.topic("t", 2)
			cl := n.client()
			n.produce(cl, "t", "a", "b", "c")
			id, epoch, err := cl.ProducerID(n.ctx())
			require.NoError(t, err)
			require.Equal(t, []any{int64(0), int16(0)}, []any{id, epoch}, "ids count from zero")
			before := serveOne[*kmsg.MetadataResponse](n, 12, metadataOf("t"))
			cl.Close()
			require.NoError(t, end(n.Node))
			n.start()

			after := serveOne[*kmsg.MetadataResponse](n, 12, metadataOf("t"))
			require.Equal(t, *before.ClusterID, *after.ClusterID)
			require.Equal(t, before.Topics[0].TopicID, after.Topics[0].TopicID)
			require.Greater(t, after.Topics[0].Partitions[0].LeaderEpoch, before.Topics[0].Partitions[0].LeaderEpoch)
			require.Equal(t, []string{"a", "b", "c"}, n.consume("t", 3, kgo.ReadCommitted()))
			cl = n.client()
			require.Equal(t, []int64{3}, n.produce(cl, "t", "d"))
			id, _, err = cl.ProducerID(n.ctx())
			require.NoError(t, err)
			require.Equal(t, int64(1000), id, "a block that was begun is never used again")
		})
	}
}

func metadataOf(topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = &name
		r.Topics = append(r.Topics, mt)
	}
	return r
}

func TestOffsetForLeaderEpochTellsWhereAnEpochEnds(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	n.produce(n.client(), "t", "a", "b")
	require.NoError(t, n.Close())
	n.start()
	n.produce(n.client(), "t", "c")
	for _, c := range []struct {
		name           string
		current, asked int32
		code           int16
		epoch          int32
		end            int64
	}{
		{"of the first leader", -1, 0, 0, 0, 2},
		{"of the current leader", 1, 1, 0, 1, 3},
		{"of a leader to come", -1, 7, 0, -1, -1},
		{"with an old leader epoch", 0, 0, kerr.FencedLeaderEpoch.Code, -1, -1},
		{"with a leader epoch to come", 9, 0, kerr.UnknownLeaderEpoch.Code, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := kmsg.NewPtrOffsetForLeaderEpochRequest()
			r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
				{CurrentLeaderEpoch: c.current, LeaderEpoch: c.asked},
			}}}
			p := serveOne[*kmsg.OffsetForLeaderEpochResponse](n, 4, r).Topics[0].Partitions[0]
			require.Equal(t, []any{c.code, c.epoch, c.end}, []any{p.ErrorCode, p.LeaderEpoch, p.EndOffset})
		})
	}
}

func TestAFolderIsRefusedToOthers(t *testing.T) {
	n := startNode(t, func(c *Config) { c.ClusterID = "first-cluster" })
	dir := n.cfg.DataDir
	n.topic("t", 1)
	n.produce(n.client(), "t", "kept")

	other := func(change func(*Config)) error {
		cfg := n.cfg
		cfg.Listeners = []Listener{{Name: "client", Listen: "127.0.0.1:0"}}
		change(&cfg)
		_, err := Start(n.ctx(), cfg)
		return err
	}
	require.ErrorIs(t, other(func(*Config) {}), host.ErrInUse)
	require.EqualError(t, other(func(c *Config) { c.ClusterID = "second" }),
		fmt.Sprintf("data folder %s belongs to cluster first-cluster, not to second", dir))
	require.EqualError(t, other(func(c *Config) { c.NodeID = 2 }),
		fmt.Sprintf("data folder %s belongs to node 1, not to node 2", dir))
	taken := other(func(c *Config) { c.Listeners[0].Listen = n.Addrs()["client"]; c.DataDir = t.TempDir() })
	require.ErrorContains(t, taken, "address already in use")

	require.Equal(t, []string{"kept"}, n.consume("t", 1, kgo.ReadCommitted()), "none of this touched the owner")
}

// A folder whose meta.properties was lost is not taken for one of a new cluster.
func TestAFolderWithoutItsMetaProperties(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	n.produce(n.client(), "t", "kept")
	id := n.ClusterID()
	require.NoError(t, n.Close())
	path := filepath.Join(n.cfg.DataDir, metaFile)
	lost, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	for _, given := range []string{"", id} {
		cfg := n.cfg
		cfg.ClusterID = given
		_, err = Start(n.ctx(), cfg)
		require.ErrorContains(t, err, "meta.properties is missing, and there is metadata of a cluster: put the file back")
		require.NoFileExists(t, path)
	}
	require.NoError(t, os.WriteFile(path, lost, 0o600))
	n.start()
	require.Equal(t, id, n.ClusterID())
	require.Equal(t, []string{"kept"}, n.consume("t", 1, kgo.ReadCommitted()))
}

func TestAReadOnlyDiskIsToldAtTheStart(t *testing.T) {
	cfg := Config{Host: host.Real(), DataDir: "/data", NodeID: 1, Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}}}
	cfg.Host.FS = afero.NewReadOnlyFs(afero.NewMemMapFs())
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "data folder /data: ")
	require.ErrorContains(t, err, "operation not permitted")
}

func TestADamagedMetaFileIsNamed(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "no node": "cluster.id=x\n", "bad node": "cluster.id=x\nnode.id=one\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, afero.WriteFile(afero.NewOsFs(), filepath.Join(dir, metaFile), []byte(text), 0o644))
			_, err := Start(t.Context(), Config{Host: host.Real(), DataDir: dir, NodeID: 1, Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}}})
			require.ErrorContains(t, err, metaFile)
		})
	}
}

func TestClientsAreToldTheAddressOfTheirListener(t *testing.T) {
	n := startNode(t, func(c *Config) {
		c.Listeners = append(c.Listeners, Listener{Name: "link", Listen: "127.0.0.1:0", Advertise: "proxy.example:7777"})
	})
	told := func(addr string) kmsg.MetadataResponseBroker {
		cl := n.client(kgo.SeedBrokers(addr))
		resp, err := metadataOf().RequestWith(n.ctx(), cl)
		require.NoError(t, err)
		require.Len(t, resp.Brokers, 1)
		return resp.Brokers[0]
	}
	direct, proxied := told(n.Addrs()["client"]), told(n.Addrs()["link"])
	require.Equal(t, n.Addrs()["client"], fmt.Sprintf("%s:%d", direct.Host, direct.Port))
	require.Equal(t, "proxy.example:7777", fmt.Sprintf("%s:%d", proxied.Host, proxied.Port))
}

func TestALongPollAnswersWhenRecordsCome(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	r := fetchOf("t", 0)
	r.MaxWaitMillis, r.MinBytes = 15_000, 1
	got := make(chan *kmsg.FetchResponse, 1)
	cl := n.client(kgo.MaxVersions(kversion.V3_0_0())) // topics by name
	go func() {
		resp, err := r.RequestWith(n.ctx(), cl)
		if err != nil {
			t.Error(err)
		}
		got <- resp
	}()
	// Another connection's Produce is not held up by it.
	n.produce(n.client(), "t", "v")
	p := (<-got).Topics[0].Partitions[0]
	require.NotEmpty(t, p.RecordBatches)
	require.Equal(t, int64(1), p.HighWatermark)
}

// fetchOf is a sessionless fetch of partition 0.
func fetchOf(topic string, offset int64) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.MaxBytes = 1 << 20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = topic
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes = offset, 1<<20
	ft.Partitions = append(ft.Partitions, fp)
	r.Topics = append(r.Topics, ft)
	r.Version = 12
	return r
}

func TestCloseDoesNotWaitForALongPoll(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	r := fetchOf("t", 0)
	r.MaxWaitMillis, r.MinBytes = 1<<30, 1
	ended := make(chan error, 1)
	cl := n.client(kgo.RequestRetries(0), kgo.MaxVersions(kversion.V3_0_0()))
	ctx, cancel := context.WithCancelCause(n.ctx())
	defer cancel(nil)
	go func() {
		_, err := r.RequestWith(ctx, cl)
		ended <- err
	}()
	// The fetch is in the handler or still on its way: both must end.
	require.NoError(t, n.Close())
	cancel(errors.New("the node is closed"))
	<-ended
}
