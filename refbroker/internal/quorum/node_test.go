package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"

	"watershed.example/refbroker/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// alone starts the only voter of a cluster, with its files in dir.
func alone(t *testing.T, dir string) *Node {
	t.Helper()
	n, err := Open(within(t), Config{
		Host: host.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Dir: dir, ClusterID: "c", NodeID: 1, Listen: "127.0.0.1:0",
	})
	require.NoError(t, err)
	require.NoError(t, n.WaitReady(within(t)))
	return n
}

func proposed[R any](t *testing.T, n *Node, c Command) R {
	t.Helper()
	result, err := n.Apply(within(t), c)
	require.NoError(t, err)
	r, _ := result.(R)
	return r
}

func registered(id int32) RegisterBroker {
	return RegisterBroker{ID: id, Incarnation: fmt.Sprintf("run of %d", id), Listeners: map[string]string{"client": "h:1"}, Clean: true}
}

func TestARestartHasTheSameImage(t *testing.T) {
	dir := t.TempDir()
	n := alone(t, dir)
	proposed[any](t, n, registered(1))
	made := proposed[*Topic](t, n, CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{1}, {1}}})
	require.Equal(t, made, n.Image().Topics["t"])
	require.Equal(t, ProducerIDBlock{0, 1000}, proposed[ProducerIDBlock](t, n, AllocateProducerIDs{Broker: 1}))
	require.Equal(t, ProducerIDBlock{1000, 1000}, proposed[ProducerIDBlock](t, n, AllocateProducerIDs{Broker: 1}))
	before := n.Image()
	require.NoError(t, n.Close())

	n = alone(t, dir)
	require.Equal(t, before, n.Image())
	require.Equal(t, ProducerIDBlock{2000, 1000}, proposed[ProducerIDBlock](t, n, AllocateProducerIDs{Broker: 1}))
	// Once more from a snapshot.
	require.NoError(t, n.raft.Snapshot().Error())
	before = n.Image()
	require.NoError(t, n.Close())
	n = alone(t, dir)
	require.Equal(t, before, n.Image())
	require.NoError(t, n.Close())
}

func TestARefusedCommandChangesNothing(t *testing.T) {
	n := alone(t, t.TempDir())
	defer func() { require.NoError(t, n.Close()) }()
	before := n.Image()
	_, err := n.Apply(within(t), AllocateProducerIDs{Broker: 9})
	require.ErrorIs(t, err, kerr.BrokerIDNotRegistered)
	after := n.Image()
	require.Greater(t, after.Index, before.Index)
	after = after.clone()
	after.Index = before.Index
	require.Equal(t, before, after)
}

func TestWaitersSeeTheImageThatTheyWaitFor(t *testing.T) {
	n := alone(t, t.TempDir())
	defer func() { require.NoError(t, n.Close()) }()
	got := make(chan *Image, 1)
	go func() {
		img, err := n.Wait(within(t), func(img *Image) bool { return img.Brokers[1] != nil })
		if err != nil {
			t.Error(err)
		}
		got <- img
	}()
	changed := n.Changed()
	proposed[any](t, n, registered(1))
	<-changed
	require.Equal(t, int32(1), (<-got).Brokers[1].ID)
	_, err := n.WaitIndex(within(t), n.Image().Index)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	_, err = n.WaitIndex(ctx, n.Image().Index+1)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestARecordOfALaterBuildStopsTheMember(t *testing.T) {
	n := alone(t, t.TempDir())
	defer func() { require.NoError(t, n.Close()) }()
	changed := n.Changed()
	require.NoError(t, n.raft.Apply([]byte(`{"type":"FlyToTheMoon","version":1,"data":{}}`), 0).Error())
	<-changed
	require.ErrorIs(t, n.Err(), ErrUnknownCommand)
	before := n.Image()
	_, err := n.Apply(within(t), registered(1))
	require.ErrorIs(t, err, ErrUnknownCommand)
	require.Same(t, before, n.Image(), "nothing is applied after what could not be")
	_, err = n.WaitIndex(within(t), 1<<40)
	require.ErrorIs(t, err, ErrUnknownCommand)
}

// keptStores are raft stores that outlive the member that uses them.
type keptStores struct {
	mu sync.Mutex
	by map[string]*raft.InmemStore
}

func (k *keptStores) open(dir string) (host.RaftStores, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by[dir] == nil {
		k.by[dir] = raft.NewInmemStore()
	}
	return host.RaftStores{Log: k.by[dir], Stable: k.by[dir]}, nil
}

func TestThreeVotersAgreeAndOutliveTheirLeader(t *testing.T) {
	h := host.Real()
	h.RaftStores = (&keptStores{by: map[string]*raft.InmemStore{}}).open
	voters := map[int32]string{}
	for id := range int32(3) {
		// A port that was free a moment ago, below those that the system gives to
		// whoever asks for any; raft needs all addresses at once.
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 2000+rand.IntN(2000)))
		for err != nil {
			l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 2000+rand.IntN(2000)))
		}
		voters[id] = l.Addr().String()
		require.NoError(t, l.Close())
	}
	dir := t.TempDir()
	nodes := map[int32]*Node{}
	open := func(id int32) {
		n, err := Open(within(t), Config{
			Host: h, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Dir: filepath.Join(dir, fmt.Sprint(id)),
			ClusterID: "c", NodeID: id, Listen: voters[id], Voters: voters,
		})
		require.NoError(t, err)
		nodes[id] = n
	}
	for id := range voters {
		open(id)
	}
	defer func() {
		for _, n := range nodes {
			require.NoError(t, n.Close())
		}
	}()
	// leader waits for the one leader that all open nodes know.
	leader := func() int32 {
		for {
			seen := map[int32]bool{}
			for _, n := range nodes {
				require.NoError(t, n.WaitReady(within(t)))
				seen[n.Leader()] = true
			}
			for id := range seen {
				if n := nodes[id]; len(seen) == 1 && n != nil && n.raft.State() == raft.Leader {
					return id
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	agree := func(want *Image) {
		for id, n := range nodes {
			img, err := n.WaitIndex(within(t), want.Index)
			require.NoError(t, err)
			require.Equal(t, want, img, "node %d", id)
		}
	}
	first := leader()
	for id := range voters {
		proposed[any](t, nodes[first], registered(id))
	}
	agree(nodes[first].Image())
	// Any node takes commands: results and refusals come from the leader.
	var block int64
	for id, n := range nodes {
		require.Equal(t, ProducerIDBlock{block, 1000}, proposed[ProducerIDBlock](t, n, AllocateProducerIDs{Broker: id}))
		require.Equal(t, block+1000, n.Image().NextProducerID, "node %d sees what it did", id)
		block += 1000
		made := proposed[*Topic](t, n, CreateTopic{Name: fmt.Sprint("t", id), ID: [16]byte{byte(id), 7}, Assignment: [][]int32{{id}}})
		require.Equal(t, n.Image().Topics[made.Name], made)
		_, err := n.Apply(within(t), CreateTopic{Name: "a b", ID: [16]byte{9}, Assignment: [][]int32{{id}}})
		require.ErrorIs(t, err, kerr.InvalidTopicException)
		require.ErrorContains(t, err, `topic name "a b"`)
		_, err = n.Apply(within(t), DeleteMirror{Name: "m"})
		require.ErrorIs(t, err, ErrNoMirror)
	}
	agree(nodes[first].Image())
	require.NoError(t, nodes[first].Close())
	delete(nodes, first)
	second := leader()
	require.NotEqual(t, first, second)
	proposed[*Topic](t, nodes[second], CreateTopic{Name: "t", ID: [16]byte{1}, Assignment: [][]int32{{2, 0, 1}}})
	open(first)
	agree(nodes[second].Image())
	require.Len(t, nodes[first].Image().Topics, 4)
}

func TestGarbageAtTheQuorumsPortHarmsNobody(t *testing.T) {
	n := alone(t, t.TempDir())
	for name, bytes := range map[string]string{
		"nothing":                   "",
		"http":                      "GET / HTTP/1.1\r\n\r\n",
		"forwarded length too high": "\xf5\xff\xff\xff\xff",
		"forwarded and cut":         "\xf5\x00\x00\x00\x09{}",
		"forwarded garbage":         "\xf5\x00\x00\x00\x02{}",
	} {
		c, err := net.Dial("tcp", n.stream.Addr().String())
		require.NoError(t, err)
		_, err = c.Write([]byte(bytes))
		require.NoError(t, err)
		tcp, ok := c.(*net.TCPConn)
		require.True(t, ok)
		_ = tcp.CloseWrite() // it may be closed already
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		answer, _ := io.ReadAll(c) // it ends: that is what matters
		if name == "forwarded garbage" {
			require.Contains(t, string(answer), ErrUnknownCommand.Error())
		}
		require.NoError(t, c.Close())
		proposed[any](t, n, registered(1))
	}
	require.NoError(t, n.Err())
	require.NoError(t, n.Close())
}

func TestNobodySeesAnImageThatIsNotInForce(t *testing.T) {
	n := alone(t, t.TempDir())
	proposed[any](t, n, registered(1))
	var mu sync.Mutex
	var inForce uint64
	broken := errors.New("disk full")
	fail := 0
	require.NoError(t, n.Install(within(t), func(img *Image) error {
		mu.Lock()
		defer mu.Unlock()
		if inForce > img.Index {
			t.Errorf("image %d after image %d", img.Index, inForce)
		}
		inForce = img.Index
		if fail > 0 {
			fail--
			return broken
		}
		return nil
	}))
	shownIsInForce := func() uint64 {
		shown := n.Image().Index
		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(t, inForce, shown)
		return shown
	}
	first := shownIsInForce()
	require.Positive(t, first, "the image at hand was installed")
	proposed[ProducerIDBlock](t, n, AllocateProducerIDs{Broker: 1})
	require.Greater(t, shownIsInForce(), first)

	mu.Lock()
	fail = 1
	mu.Unlock()
	changed := n.Changed()
	proposed[ProducerIDBlock](t, n, AllocateProducerIDs{Broker: 1})
	<-changed
	select { // shown all the same, and installed again before long
	case <-n.Changed():
	case <-within(t).Done():
		t.Fatal("what failed is not tried again")
	}
	mu.Lock()
	require.Zero(t, fail)
	mu.Unlock()

	require.NoError(t, n.Close())
	_, err := n.WaitIndex(within(t), 1<<40)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, n.Install(within(t), nil), ErrClosed)
}

// A pipeline of this raft can block its sender for good once an answer was an
// error: that member is sent nothing more, and the leader can't be closed.
func TestEntriesAreNotPipelined(t *testing.T) {
	n := alone(t, t.TempDir())
	defer func() { require.NoError(t, n.Close()) }()
	_, err := n.transport.AppendEntriesPipeline("2", "127.0.0.1:1")
	require.ErrorIs(t, err, raft.ErrPipelineReplicationNotSupported)
}
