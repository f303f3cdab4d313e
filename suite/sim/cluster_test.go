//go:build synctests

package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/fixtures/memnet"
	"watershed.example/refbroker/cli"
)

// sea is a network of nodes that can be cut off from everybody, each by itself.
type sea struct {
	*memnet.Network

	mu    sync.Mutex // never held while waiting
	cut   map[string]bool
	conns map[net.Conn][2]string // and between which hosts
}

// from is how a host dials.
func (s *sea) from(host string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		refused := s.cut[host] || s.cut[to]
		s.mu.Unlock()
		if refused {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		c, err := s.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns[c] = [2]string{host, to}
		return c, nil
	}
}

// set cuts a host off, or brings it back.
func (s *sea) set(host string, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[host] = cut
	for c, ends := range s.conns {
		if cut && (ends[0] == host || ends[1] == host) {
			_ = c.Close()
			delete(s.conns, c)
		}
	}
}

// Three brokers of one cluster in a bubble: a leader is cut off, another leads
// within the time that is promised, and once it is back all replicas hold the
// same bytes, with each acknowledged record once.
func TestAClusterInVirtualTime(t *testing.T) {
	began := time.Now()
	var virtual time.Duration
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		replicate(t)
		virtual = time.Since(start)
	})
	t.Logf("%s of virtual time in %s", virtual, time.Since(began).Round(time.Millisecond))
}

func replicate(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Minute, fmt.Errorf("the test took more than 10 virtual minutes"))
	defer cancel()
	network := &sea{Network: memnet.New(), cut: map[string]bool{}, conns: map[net.Conn][2]string{}}
	var nodes []*node
	var hosts []string
	var voters []string
	for id := range 3 {
		voters = append(voters, "--voter", fmt.Sprintf("%d=127.0.1.%d:9191", id, id+1))
	}
	defer func() { // else a failure is reported as a deadlock of the bubble
		for _, n := range nodes {
			n.stop()
		}
		for _, n := range nodes {
			require.Equal(t, cli.ExitOK, <-n.ended)
		}
	}()
	for id := range 3 {
		hosts = append(hosts, fmt.Sprintf("127.0.1.%d", id+1))
		n := &node{name: "A", id: idA, address: fmt.Sprintf("127.0.1.%d:9092", id+1), fs: afero.NewMemMapFs(), ended: make(chan int, 1)}
		nodes = append(nodes, n)
		store := raft.NewInmemStore()
		h := cli.RealHost()
		h.Dial, h.Listen, h.FS, h.Now = network.from(hosts[id]), network.Listen, n.fs, time.Now
		h.RaftStores = func(string) (cli.RaftStores, error) {
			return cli.RaftStores{Log: store, Stable: store, Close: io.NopCloser(nil)}, nil
		}
		h.Signals, h.Stdin, h.Stdout, h.Stderr = false, nil, io.Discard, io.Discard
		args := append([]string{
			"serve", "--data-dir", "/data", "--cluster-id", idA, "--node-id", fmt.Sprint(id), "--listen", n.address,
			"--raft-listen", fmt.Sprintf("127.0.1.%d:9191", id+1), "--log-level", "error",
		}, voters...)
		var life context.Context
		life, n.stop = context.WithCancel(context.Background())
		go func() { n.ended <- cli.Main(life, args, h) }()
	}
	client := func(seeds ...string) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.Dialer(network.from("client")), kgo.DisableClientMetrics(),
			kgo.MetadataMinAge(10*time.Millisecond), kgo.DefaultProduceTopic("t"), kgo.ProduceRequestTimeout(time.Second),
			kgo.UnknownTopicRetries(-1))
		require.NoError(t, err)
		return cl
	}
	cl := client(nodes[0].address, nodes[1].address, nodes[2].address)
	defer cl.Close()
	admin := kadm.NewClient(cl)
	metadata := func() (kadm.Metadata, kadm.PartitionDetail) {
		m, err := admin.Metadata(ctx, "t")
		if err != nil || len(m.Topics["t"].Partitions) == 0 {
			return m, kadm.PartitionDetail{Leader: -1}
		}
		return m, m.Topics["t"].Partitions[0]
	}
	until := func(what string, ok func() bool) time.Duration {
		t.Helper()
		from := time.Now()
		for !ok() {
			require.Less(t, time.Since(from), time.Minute, "no %s within a virtual minute", what)
			time.Sleep(10 * time.Millisecond)
		}
		return time.Since(from)
	}
	until("three brokers", func() bool { m, _ := metadata(); return len(m.Brokers) == 3 })
	two := "2"
	made, err := admin.CreateTopic(ctx, 1, 3, map[string]*string{"min.insync.replicas": &two}, "t")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	until("in-sync replicas", func() bool { _, p := metadata(); return len(p.ISR) == 3 })

	var acked []string
	write := func(value string) {
		t.Helper()
		require.NoError(t, cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
		acked = append(acked, value)
	}
	for round := range 3 {
		for i := range 20 {
			write(fmt.Sprintf("round %d, %d", round, i))
		}
		_, p := metadata()
		old := p.Leader
		network.set(hosts[old], true)
		others := client(nodes[(old+1)%3].address, nodes[(old+2)%3].address)
		took := until("another leader", func() bool {
			m, err := kadm.NewClient(others).Metadata(ctx, "t")
			return err == nil && m.Topics["t"].Partitions[0].Leader != old && m.Topics["t"].Partitions[0].Leader >= 0
		})
		others.Close()
		t.Logf("round %d: %s of virtual time without a leader", round, took)
		require.Less(t, took, 3*time.Second)
		write(fmt.Sprintf("round %d, without node %d", round, old))
		network.set(hosts[old], false)
		until("in-sync replicas again", func() bool { _, p := metadata(); return len(p.ISR) == 3 })
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(nodes[0].address), kgo.Dialer(network.from("client")), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer reader.Close()
	var read []string
	for len(read) < len(acked) {
		fs := reader.PollFetches(ctx)
		require.NoError(t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) { read = append(read, string(r.Value)) })
	}
	require.Equal(t, acked, read)
	var first []byte
	until("same bytes on all", func() bool {
		first = log(t, nodes[0], "t-0")
		return bytes.Equal(first, log(t, nodes[1], "t-0")) && bytes.Equal(first, log(t, nodes[2], "t-0"))
	})
	require.NotEmpty(t, first)
}

// log is what a node's segments of a partition hold.
func log(t *testing.T, n *node, partition string) []byte {
	t.Helper()
	dir := filepath.Join("/data/logs", partition)
	files, err := afero.ReadDir(n.fs, dir)
	require.NoError(t, err)
	var all []byte
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".log") {
			raw, err := afero.ReadFile(n.fs, filepath.Join(dir, f.Name()))
			require.NoError(t, err)
			all = append(all, raw...)
		}
	}
	return all
}
