package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// bareLog is a partition that only keeps what is appended to it.
type bareLog struct {
	replica.API
	mu      sync.Mutex
	raw     [][]byte
	options []replica.AppendOptions
	refuse  error
}

func (l *bareLog) Append(_ context.Context, raw []byte, o replica.AppendOptions) (replica.AppendResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return replica.AppendResult{}, fmt.Errorf("append: %w", l.refuse)
	}
	at := int64(len(l.raw))
	binary.BigEndian.PutUint64(raw, uint64(at))
	l.raw, l.options = append(l.raw, raw), append(l.options, o)
	return replica.AppendResult{BaseOffset: at, LastOffset: at}, nil
}

func (l *bareLog) Read(o replica.ReadOptions) (replica.ReadResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return replica.ReadResult{Raw: l.raw[o.Offset]}, nil
}

func (l *bareLog) Settle(context.Context) (replica.Offsets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return replica.Offsets{LogEnd: int64(len(l.raw))}, nil
}

// markers tells the markers in the log: producer id, epoch, outcome,
// coordinator epoch and transactions version.
func (l *bareLog) markers(t *testing.T) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for i, raw := range l.raw {
		var b kmsg.RecordBatch
		require.NoError(t, b.ReadFrom(raw))
		require.Equal(t, replica.ForMarker, l.options[i].Purpose)
		require.Equal(t, int16(-1), l.options[i].Acks)
		var r kmsg.Record
		require.NoError(t, r.ReadFrom(b.Records))
		c, err := psm.DecodeControlRecord(r.Key, r.Value)
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%d/%d %s coordinator %d v%d", b.ProducerID, b.ProducerEpoch, c.Type, c.CoordinatorEpoch, l.options[i].TransactionVersion))
	}
	return all
}

// bareNode is a real quorum with logs that only keep what they get.
type bareNode struct {
	env    *env.Env
	apis   map[int16]wire.API
	c      *txn.Coordinator
	mu     sync.Mutex
	logs   map[txn.Partition]*bareLog
	quorum *quorum.Node
}

func (n *bareNode) Partition(topic string, index int32) (replica.API, error) {
	if _, _, err := n.quorum.Image().Partition(topic, index); err != nil {
		return nil, err
	}
	return n.log(topic, index), nil
}

func (n *bareNode) log(topic string, index int32) *bareLog {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := txn.Partition{Topic: topic, Index: index}
	if n.logs[p] == nil {
		n.logs[p] = &bareLog{}
	}
	return n.logs[p]
}

func (n *bareNode) CreateTopic(ctx context.Context, t env.NewTopic) (*quorum.Topic, error) {
	assignment := make([][]int32, t.Partitions)
	for i := range assignment {
		assignment[i] = []int32{1}
	}
	got, err := n.quorum.Apply(ctx, quorum.CreateTopic{
		Name: t.Name, ID: [16]byte{byte(len(t.Name)), t.Name[0]}, Internal: t.Internal, Assignment: assignment, Configs: t.Configs,
	})
	if err != nil {
		return nil, err
	}
	return got.(*quorum.Topic), nil
}

func newBareNode(t *testing.T) *bareNode {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	h := host.Host{
		Dial:   (&net.Dialer{}).DialContext,
		Listen: (&net.ListenConfig{}).Listen,
		FS:     afero.NewMemMapFs(),
		Now:    time.Now,
		RaftStores: func(string) (host.RaftStores, error) {
			s := raft.NewInmemStore()
			return host.RaftStores{Log: s, Stable: s, Close: io.NopCloser(nil)}, nil
		},
	}
	q, err := quorum.Open(t.Context(), quorum.Config{Host: h, Log: log, Dir: "/quorum", ClusterID: "c", NodeID: 1, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	n := &bareNode{logs: map[txn.Partition]*bareLog{}, quorum: q, apis: map[int16]wire.API{}}
	n.env = &env.Env{NodeID: 1, ClusterID: "c", Host: h, Log: log, Quorum: q, Replicas: n, Topics: n, TransactionVersion: 2}
	n.c = txn.NewForNode(n.env)
	for _, api := range transactionAPIs(n.env, n.c) {
		n.apis[api.Key] = api
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); n.c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; require.NoError(t, q.Close()) })
	require.NoError(t, q.WaitReady(t.Context()))
	_, err = q.Apply(t.Context(), quorum.RegisterBroker{ID: 1, Incarnation: "i"})
	require.NoError(t, err)
	_, err = n.CreateTopic(t.Context(), env.NewTopic{Name: "a", Partitions: 3})
	require.NoError(t, err)
	return n
}

// askTxn sends a request of a version through the codec and the handler.
func askTxn[R kmsg.Response](t *testing.T, n *bareNode, version int16, r kmsg.Request, _ R) R {
	t.Helper()
	r.SetVersion(version)
	api := n.apis[r.Key()]
	require.True(t, api.Min <= version && version <= api.Max)
	body := api.New()
	body.SetVersion(version)
	require.NoError(t, body.ReadFrom(r.AppendTo(nil)))
	got, err := api.Handle(t.Context(), &wire.Request{Key: r.Key(), Version: version, Body: body})
	require.NoError(t, err)
	resp := r.ResponseKind()
	resp.SetVersion(version)
	require.NoError(t, resp.ReadFrom(got.AppendTo(nil)))
	return resp.(R)
}

func (n *bareNode) init(t *testing.T, version int16, id string, pid int64, epoch int16) *kmsg.InitProducerIDResponse {
	t.Helper()
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &id, 60_000, pid, epoch
	var resp *kmsg.InitProducerIDResponse
	require.Eventually(t, func() bool {
		resp = askTxn(t, n, version, r, resp)
		err := kerr.ErrorForCode(resp.ErrorCode)
		return !errors.Is(err, kerr.ConcurrentTransactions) && !errors.Is(err, kerr.CoordinatorLoadInProgress)
	}, 10*time.Second, time.Millisecond)
	return resp
}

func (n *bareNode) add(t *testing.T, version int16, id string, pid int64, epoch int16, ps ...int32) map[int32]int16 {
	t.Helper()
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = id, pid, epoch
	r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a", Partitions: ps}}
	codes := map[int32]int16{}
	var resp *kmsg.AddPartitionsToTxnResponse
	for _, topic := range askTxn(t, n, version, r, resp).Topics {
		for _, p := range topic.Partitions {
			codes[p.Partition] = p.ErrorCode
		}
	}
	return codes
}

func (n *bareNode) end(t *testing.T, version int16, id string, pid int64, epoch int16, commit bool) *kmsg.EndTxnResponse {
	t.Helper()
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = id, pid, epoch, commit
	var resp *kmsg.EndTxnResponse
	return askTxn(t, n, version, r, resp)
}

func (n *bareNode) describe(t *testing.T, id string) kmsg.DescribeTransactionsResponseTransactionState {
	t.Helper()
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{id}
	var resp *kmsg.DescribeTransactionsResponse
	return askTxn(t, n, 0, r, resp).TransactionStates[0]
}

func (n *bareNode) awaitState(t *testing.T, id, state string) {
	t.Helper()
	require.Eventually(t, func() bool { return n.describe(t, id).State == state }, 10*time.Second, time.Millisecond)
}

// A transaction of each version through every API of the coordinator.
func TestTransactionAPIs(t *testing.T) {
	n := newBareNode(t)
	plain := kmsg.NewPtrInitProducerIDRequest()
	plain.ProducerID, plain.ProducerEpoch = -1, -1
	var init *kmsg.InitProducerIDResponse
	for want := range int64(3) {
		init = askTxn(t, n, 5, plain, init)
		require.Zero(t, init.ErrorCode)
		require.Equal(t, want, init.ProducerID)
		require.Zero(t, init.ProducerEpoch)
	}

	got := n.init(t, 4, "one", -1, -1)
	require.Zero(t, got.ErrorCode)
	require.Equal(t, int64(3), got.ProducerID)
	require.Equal(t, map[int32]int16{0: 0, 2: 0}, n.add(t, 3, "one", 3, 0, 0, 2))
	state := n.describe(t, "one")
	require.Equal(t, "Ongoing", state.State)
	require.Equal(t, []int32{0, 2}, state.Topics[0].Partitions)
	require.Equal(t, int32(60_000), state.TimeoutMillis)

	list := kmsg.NewPtrListTransactionsRequest()
	list.StateFilters, list.DurationFilterMillis = []string{"Ongoing", "Unheard"}, -1
	var listed *kmsg.ListTransactionsResponse
	require.Eventually(t, func() bool {
		listed = askTxn(t, n, 2, list, listed)
		return listed.ErrorCode != kerr.CoordinatorLoadInProgress.Code
	}, 10*time.Second, time.Millisecond)
	require.Zero(t, listed.ErrorCode)
	require.Equal(t, []string{"Unheard"}, listed.UnknownStateFilters)
	require.Len(t, listed.TransactionStates, 1)
	require.Equal(t, "one", listed.TransactionStates[0].TransactionalID)
	pattern := "o"
	list.StateFilters, list.TransactionalIDPattern = nil, &pattern
	require.Empty(t, askTxn(t, n, 2, list, listed).TransactionStates)

	ended := n.end(t, 4, "one", 3, 0, true)
	require.Zero(t, ended.ErrorCode)
	n.awaitState(t, "one", "CompleteCommit")
	require.Equal(t, []string{"3/0 COMMIT coordinator 0 v0"}, n.log("a", 0).markers(t))
	require.Equal(t, []string{"3/0 COMMIT coordinator 0 v0"}, n.log("a", 2).markers(t))
	require.Empty(t, n.log("a", 1).markers(t))

	// Version 2: Produce adds, the end raises the epoch.
	errs := n.c.VerifyOrAdd(t.Context(), "one", 3, 0, []env.TopicPartition{{Topic: "a", Partition: 1}}, true)
	require.Equal(t, []error{nil}, errs)
	ended = n.end(t, 5, "one", 3, 0, false)
	require.Zero(t, ended.ErrorCode)
	require.Equal(t, int64(3), ended.ProducerID)
	require.Equal(t, int16(1), ended.ProducerEpoch)
	n.awaitState(t, "one", "CompleteAbort")
	require.Equal(t, []string{"3/1 ABORT coordinator 0 v2"}, n.log("a", 1).markers(t))

	require.Equal(t, kerr.TransactionalIDNotFound.Code, n.describe(t, "nobody").ErrorCode)
}

// The same refusal has other names in older versions.
func TestFencedInOlderVersions(t *testing.T) {
	n := newBareNode(t)
	require.Zero(t, n.init(t, 1, "x", -1, -1).ErrorCode)
	require.Equal(t, int16(1), n.init(t, 5, "x", -1, -1).ProducerEpoch)
	for version, want := range map[int16]int16{0: 47, 1: 47, 2: 90, 3: 90} {
		require.Equal(t, map[int32]int16{0: want}, n.add(t, version, "x", 0, 0, 0), "AddPartitionsToTxn v%d", version)
		require.Equal(t, want, n.end(t, version, "x", 0, 0, true).ErrorCode, "EndTxn v%d", version)
	}
	require.Equal(t, int16(47), n.init(t, 3, "x", 0, 0).ErrorCode)
	require.Equal(t, int16(90), n.init(t, 4, "x", 0, 0).ErrorCode)
}

func TestAddPartitionsFromBrokers(t *testing.T) {
	n := newBareNode(t)
	require.Zero(t, n.init(t, 4, "x", -1, -1).ErrorCode)
	codes := func(version int16, verify bool, ps ...int32) (all []int16) {
		r := kmsg.NewPtrAddPartitionsToTxnRequest()
		r.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
			TransactionalID: "x", VerifyOnly: verify,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "a", Partitions: ps}},
		}}
		var resp *kmsg.AddPartitionsToTxnResponse
		for _, p := range askTxn(t, n, version, r, resp).Transactions[0].Topics[0].Partitions {
			all = append(all, p.ErrorCode)
		}
		return all
	}
	require.Equal(t, []int16{kerr.TransactionAbortable.Code}, codes(5, true, 0))
	require.Equal(t, []int16{kerr.InvalidTxnState.Code}, codes(4, true, 0))
	require.Equal(t, []int16{0, 0}, codes(5, false, 0, 1))
	require.Equal(t, []int16{0, kerr.TransactionAbortable.Code}, codes(5, true, 1, 2))
	require.Equal(t, []int16{kerr.OperationNotAttempted.Code, kerr.UnknownTopicOrPartition.Code}, codes(5, false, 2, 9))
}

// RO-1 and RO-2 by what the quorum says of the partition.
func TestMirroringPartition(t *testing.T) {
	n := newBareNode(t)
	require.Zero(t, n.init(t, 4, "x", -1, -1).ErrorCode)
	require.Equal(t, map[int32]int16{0: 0}, n.add(t, 3, "x", 0, 0, 0))

	for _, c := range []quorum.Command{
		quorum.CreateMirror{Name: "m", SourceClusterID: "s"},
		quorum.SetMirrorTopics{Mirror: "m", Topics: []string{"a"}, Desired: quorum.Mirroring},
	} {
		_, err := n.quorum.Apply(t.Context(), c)
		require.NoError(t, err)
	}
	n.log("a", 0).refuse = replica.ErrReadOnly
	require.Equal(t, map[int32]int16{1: 134}, n.add(t, 3, "x", 0, 0, 1))
	errs := n.c.VerifyOrAdd(t.Context(), "x", 0, 0, []env.TopicPartition{{Topic: "a", Partition: 1}}, true)
	require.ErrorIs(t, errs[0], replica.ErrReadOnly)

	require.Zero(t, n.end(t, 4, "x", 0, 0, false).ErrorCode)
	n.awaitState(t, "x", "CompleteAbort")
	x, err := n.c.Describe("x")
	require.NoError(t, err)
	require.Equal(t, []txn.Debt{{Partition: txn.Partition{Topic: "a", Index: 0}, ProducerID: 0}}, x.Debts)

	_, err = n.quorum.Apply(t.Context(), quorum.AlignMirror{Topic: "a", Partition: 0, LogEpoch: -1})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		x, err := n.c.Describe("x")
		require.NoError(t, err)
		return len(x.Debts) == 0
	}, 10*time.Second, time.Millisecond)
	require.Empty(t, n.log("a", 0).markers(t))
}

func TestWriteTxnMarkers(t *testing.T) {
	n := newBareNode(t)
	n.log("a", 1).refuse = replica.ErrReadOnly
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	r.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: 5, ProducerEpoch: 6, Committed: true, CoordinatorEpoch: 7, TransactionVersion: 2,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "a", Partitions: []int32{0, 1}}, {Topic: "gone", Partitions: []int32{0}}},
	}}
	for _, version := range []int16{1, 2} {
		var resp *kmsg.WriteTxnMarkersResponse
		resp = askTxn(t, n, version, r, resp)
		require.Equal(t, int64(5), resp.Markers[0].ProducerID)
		var codes []int16
		for _, topic := range resp.Markers[0].Topics {
			for _, p := range topic.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		require.Equal(t, []int16{0, 134, kerr.UnknownTopicOrPartition.Code}, codes)
	}
	require.Equal(t, []string{"5/6 COMMIT coordinator 7 v0", "5/6 COMMIT coordinator 7 v2"}, n.log("a", 0).markers(t))
}

func (n *bareNode) GrowMirrored(context.Context, string, string, int) error { return nil }
