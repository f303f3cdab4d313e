//go:build synctests

package sim

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/memnet"
	"watershed.example/refbroker/cli"
	"watershed.example/suite/check"
	"watershed.example/suite/traffic"
)

// node is one broker that lives in this process: its files and its end.
type node struct {
	name, id, address string
	fs                afero.Fs
	stop              context.CancelFunc
	ended             chan int
}

// serve starts a broker in the bubble and waits until it accepts connections.
func serve(t *testing.T, network *memnet.Network, name, id, address string) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{name: name, id: id, address: address, fs: afero.NewMemMapFs(), stop: cancel, ended: make(chan int, 1)}
	h := cli.RealHost()
	h.Dial, h.Listen, h.FS, h.Now = network.Dial, network.Listen, n.fs, time.Now
	h.RaftStores = memoryStores
	h.Signals, h.Stdin, h.Stdout, h.Stderr = false, nil, io.Discard, os.Stderr
	args := []string{
		"serve", "--data-dir", "/data", "--cluster-id", id, "--listen", address, "--log-level", "error",
	}
	go func() { n.ended <- cli.Main(ctx, args, h) }()

	up, cancelUp := context.WithTimeoutCause(ctx, 30*time.Second, nil)
	defer cancelUp()
	for {
		conn, err := network.Dial(up, "tcp", address)
		if err == nil {
			require.NoError(t, conn.Close())
			return n
		}
		select {
		case code := <-n.ended:
			t.Fatalf("broker %s ended with exit code %d instead of serving", name, code)
		case <-up.Done():
			t.Fatalf("broker %s accepts no connection at %s: %v", name, address, err)
		case <-time.After(time.Millisecond): // virtual
		}
	}
}

// memoryStores keep a lone voter's log where the bubble is.
func memoryStores(string) (cli.RaftStores, error) {
	store := raft.NewInmemStore()
	return cli.RaftStores{Log: store, Stable: store, Close: io.NopCloser(nil)}, nil
}

// end stops the broker cleanly.
func (n *node) end(t *testing.T) {
	t.Helper()
	n.stop()
	select {
	case code := <-n.ended:
		require.Equal(t, cli.ExitOK, code, "broker %s", n.name)
	case <-time.After(time.Minute): // virtual
		t.Fatalf("broker %s did not end within a minute of being told to", n.name)
	}
}

// cluster is how traffic reaches the node.
func (n *node) cluster(network *memnet.Network) traffic.Cluster {
	return traffic.Cluster{
		Name: n.name, Bootstrap: []string{n.address},
		Dialer: func(string) func(context.Context, string, string) (net.Conn, error) { return network.Dial },
	}
}

// save copies the partitions of a topic out of the node's file system, into
// the evidence.
func (n *node) save(t *testing.T, evidence, topic string, partition int32) {
	t.Helper()
	from := filepath.Join("/data/logs", traffic.Partition{Topic: topic, Index: partition}.String())
	to := filepath.Join(evidence, check.LogDir(n.name, 1, topic, partition))
	require.NoError(t, os.MkdirAll(to, 0o755))
	files, err := afero.ReadDir(n.fs, from)
	require.NoError(t, err)
	for _, f := range files {
		raw, err := afero.ReadFile(n.fs, filepath.Join(from, f.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, f.Name()), raw, 0o600))
	}
}
