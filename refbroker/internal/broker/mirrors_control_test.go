package broker

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
)

// Every API of KIP-1279 is served, or listed with the reason why it is not.
func TestMirrorAPIsAreServedOrListed(t *testing.T) {
	n := startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA")
	served := map[int16]bool{}
	for _, a := range n.table.APIs() {
		served[a.Key] = true
	}
	for _, a := range mirrorAPIsNotServed() {
		require.False(t, served[a.key], a.name)
		require.NotEmpty(t, a.why, a.name)
		served[a.key] = true
	}
	for key := mirrorrpc.KeyCreateClusterMirror; key <= mirrorrpc.KeyBumpLeaderEpochs; key++ {
		require.Equal(t, mirrorrpc.RequestForKey(key) != nil, served[key], "api key %d", key)
	}
}

func TestPauseResumeStopAndDelete(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, lso := sourceWithTraffic(t)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	c := b.mirrorFrom(a)
	below := a.batches()
	plain := a.client(kgo.DisableIdempotentWrite())
	refused := func() {
		t.Helper()
		err := b.client(kgo.RecordRetries(0)).ProduceSync(ctx, kgo.StringRecord("too early")).FirstErr()
		require.Error(t, err)
		require.Equal(t, below, b.batches())
	}

	require.NoError(t, c.Resume(ctx, "m", "t"), "mirrors already")
	for range 2 {
		require.NoError(t, c.Pause(ctx, "m", "t"))
		awaitMirror(t, c, "PAUSED")
		refused()
	}
	send(t, plain, "while it is paused")
	require.NoError(t, b.Close())
	b.start()
	c = b.mirrors()
	require.Equal(t, "PAUSED", awaitMirror(t, c, "PAUSED").StateValue, "after a restart")
	refused()
	states, err := c.ReadStates(ctx, "m", "t", 0)
	require.NoError(t, err)
	require.Equal(t, []mirrorrpc.ReadState{{State: int8(quorum.Paused), LastMirrorEpoch: -1, PreviousState: mirrorrpc.NoPreviousState}}, states)
	require.ErrorIs(t, c.Delete(ctx, "m"), mirrorrpc.ErrMirrorNotEmpty)

	for range 2 {
		require.NoError(t, c.Resume(ctx, "m", "t"))
		awaitMirror(t, c, "MIRRORING")
		below = a.batches()
		require.Eventually(t, func() bool { return len(b.batches()) == len(below) }, 10*time.Second, time.Millisecond)
		refused()
	}
	require.ErrorIs(t, c.Delete(ctx, "m"), mirrorrpc.ErrMirrorNotEmpty)

	// OPS-1: a stop is accepted while it is paused, and ends the pause.
	require.NoError(t, c.Pause(ctx, "m", "t"))
	require.NoError(t, c.Stop(ctx, "m", "t"))
	awaitMirror(t, c, "STOPPED")
	b.requireFailedOver(belowOffset(t, below, lso), lso)
	size := len(b.batches())
	require.ErrorIs(t, c.Resume(ctx, "m", "t"), mirrorrpc.ErrMirrorTopicNotPaused)
	require.ErrorIs(t, c.Pause(ctx, "m", "t"), mirrorrpc.ErrMirrorTopicBeingStopped)
	require.NoError(t, c.Stop(ctx, "m", "t"))
	require.Len(t, b.batches(), size)
	send(t, b.client(), "own")

	// OPS-5: without the mirror, without the source, after a restart.
	require.NoError(t, c.Delete(ctx, "m"))
	require.ErrorIs(t, c.Delete(ctx, "m"), mirrorrpc.ErrUnknownMirror)
	require.ErrorIs(t, c.Stop(ctx, "m", "t"), mirrorrpc.ErrUnknownMirror)
	send(t, b.client(), "without the mirror")
	require.NoError(t, a.Close())
	require.NoError(t, b.Kill())
	b.start()
	send(t, b.client(), "after a crash")
	require.Len(t, b.batches(), size+3)
	mirrors, err := b.mirrors().List(ctx)
	require.NoError(t, err)
	require.Empty(t, mirrors)
}

// The answer says how each topic fared, and one that can't be given keeps no
// other from it.
func TestPauseSpeaksOfEachTopic(t *testing.T) {
	ctx := t.Context()
	a := startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA")
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	for _, topic := range []string{"t", "stopped"} {
		makeTopic(t, a, topic)
	}
	makeTopic(t, b, "own")
	c := b.mirrors()
	require.NoError(t, c.Create(ctx, "m", map[string]string{mirrorrpc.ConfigBootstrap: a.addr()}))
	require.ErrorIs(t, c.Pause(ctx, "n", "t"), mirrorrpc.ErrUnknownMirror)
	require.NoError(t, c.Start(ctx, "m", "t", "stopped"))
	require.NoError(t, c.Stop(ctx, "m", "stopped"))
	req := mirrorrpc.NewPauseMirrorTopicsRequest()
	req.MirrorName = "m"
	for _, topic := range []string{"t", "stopped", "own", "nowhere"} {
		req.Topics = append(req.Topics, mirrorrpc.NamedTopic{TopicName: topic})
	}
	resp, err := c.R.Request(ctx, req)
	require.NoError(t, err)
	r := resp.(*mirrorrpc.TopicsResponse)
	require.Zero(t, r.ErrorCode)
	codes := map[string]int16{}
	for _, res := range r.Topics {
		codes[res.Name] = res.ErrorCode
		require.Equal(t, res.ErrorCode != 0, res.ErrorMessage != nil, res.Name)
	}
	require.Equal(t, map[string]int16{"t": 0, "stopped": 142, "own": 139, "nowhere": 3}, codes)
	require.Eventually(t, func() bool {
		return b.Env().Quorum.Image().Topics["t"].Partitions[0].Mirror.State == quorum.Paused
	}, 10*time.Second, time.Millisecond)

	_, err = c.ReadStates(ctx, "m", "own", 0)
	require.ErrorIs(t, err, mirrorrpc.ErrTopicNotInMirror)
	_, err = c.ReadStates(ctx, "m", "t", 1)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	_, err = c.ReadStates(ctx, "n", "t", 0)
	require.ErrorIs(t, err, mirrorrpc.ErrUnknownMirror)
}

func TestBumpLeaderEpochs(t *testing.T) {
	ctx := t.Context()
	n := startMirrorNode(t, "AAAAAAAAAAAAAAAAAAAAAA")
	makeTopic(t, n, "t")
	c := n.mirrors()
	id := n.part().TopicID()
	require.NoError(t, c.Bump(ctx, id, 7, 0))
	_, epoch := n.part().Leader()
	require.EqualValues(t, 8, epoch)
	require.NoError(t, c.Bump(ctx, id, 3, 0), "it is above that")
	_, epoch = n.part().Leader()
	require.EqualValues(t, 8, epoch)
	send(t, n.client(), "in the new epoch")
	require.EqualValues(t, 8, n.part().Offsets().LogEpoch)
	require.ErrorIs(t, c.Bump(ctx, id, 9, 1), kerr.UnknownTopicOrPartition)
	require.ErrorIs(t, c.Bump(ctx, id, 9, -1), kerr.UnknownTopicOrPartition)
	require.ErrorIs(t, c.Bump(ctx, [16]byte{1}, 9, 0), kerr.UnknownTopicID)
	require.ErrorIs(t, c.Bump(ctx, id, math.MaxInt32, 0), kerr.InvalidRequest)
	require.ErrorIs(t, c.Bump(ctx, id, -1, 0), kerr.InvalidRequest)
	// One that fails keeps no other from it.
	require.Error(t, c.Bump(ctx, id, 20, 1, 0))
	_, epoch = n.part().Leader()
	require.EqualValues(t, 21, epoch)
}

func makeTopic(t *testing.T, n *mirrorNode, name string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	resp, err := req.RequestWith(t.Context(), n.client())
	require.NoError(t, err)
	require.Zero(t, resp.Topics[0].ErrorCode)
}

func (n *mirrorNode) deleteRecords(offset int64) (int64, error) {
	n.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
	resp, err := req.RequestWith(n.t.Context(), n.client())
	require.NoError(n.t, err)
	p := resp.Topics[0].Partitions[0]
	return p.LowWatermark, mirrorrpc.ErrorForCode(req.Key(), p.ErrorCode)
}

// RO-3: while it mirrors, a log is the source's, and so is its deletion.
func TestTheLogIsNotChangedWhileItMirrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, lso := sourceWithTraffic(t)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	c := b.mirrorFrom(a)
	want := a.batches()
	refused := func() {
		t.Helper()
		for _, offset := range []int64{-1, 1} {
			low, err := b.deleteRecords(offset)
			require.ErrorIs(t, err, mirrorrpc.ErrReadOnlyTopic)
			require.EqualValues(t, -1, low)
		}
		req := kmsg.NewPtrDeleteTopicsRequest()
		topic := "t"
		req.Topics, req.TimeoutMillis = []kmsg.DeleteTopicsRequestTopic{{Topic: &topic}}, 5000
		resp, err := req.RequestWith(ctx, b.client())
		require.NoError(t, err)
		require.ErrorIs(t, mirrorrpc.ErrorForCode(req.Key(), resp.Topics[0].ErrorCode), mirrorrpc.ErrReadOnlyTopic)
		require.Contains(t, *resp.Topics[0].ErrorMessage, `mirror "m"`)
		require.Contains(t, *resp.Topics[0].ErrorMessage, "stop the mirror first")
		require.Equal(t, want, b.batches())
	}
	refused()
	require.NoError(t, c.Pause(ctx, "m", "t"))
	awaitMirror(t, c, "PAUSED")
	refused()
	require.NoError(t, c.Stop(ctx, "m", "t"))
	awaitMirror(t, c, "STOPPED")
	_, err := b.deleteRecords(lso + 2)
	require.ErrorIs(t, err, kerr.OffsetOutOfRange, "above the high watermark")
	_, err = b.deleteRecords(-2)
	require.ErrorIs(t, err, kerr.OffsetOutOfRange)
	low, err := b.deleteRecords(1)
	require.NoError(t, err)
	require.EqualValues(t, 1, low)
	_, err = b.Env().Quorum.Apply(ctx, quorum.DeleteTopic{Name: "t", ID: b.part().TopicID()})
	require.NoError(t, err)
}

// SC-7, BAR-8: what DeleteRecords takes away leaves its effect: the barrier
// gone, no producer from before it comes back, and none from after it is lost.
func TestDeleteRecordsKeepsTheEffectOfWhatItTakes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, lso := sourceWithTraffic(t)
	b := startMirrorNode(t, "BBBBBBBBBBBBBBBBBBBBBB")
	c := b.mirrorFrom(a)
	require.NoError(t, c.Stop(ctx, "m", "t"))
	awaitMirror(t, c, "STOPPED")

	local := b.client()
	send(t, local, "before the cut")
	transact(t, b.client(kgo.TransactionalID("aborted")), false, "hidden")
	require.Eventually(t, func() bool { o := b.part().Offsets(); return o.LastStable == o.LogEnd }, 10*time.Second, time.Millisecond)
	start := lso + 2 // the barrier and one record are below
	low, err := b.deleteRecords(start)
	require.NoError(t, err)
	require.Equal(t, start, low)
	producers := b.part().Producers()
	require.Len(t, producers, 2)
	hidden := func() {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.IsolationLevel, req.MaxBytes, req.SessionEpoch = -1, 1, 1<<20, -1
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = start, 1<<20, -1
		req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", TopicID: b.part().TopicID(), Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		resp, err := req.RequestWith(ctx, b.client())
		require.NoError(t, err)
		got := resp.Topics[0].Partitions[0]
		require.Zero(t, got.ErrorCode)
		require.Equal(t, start, got.LogStartOffset)
		require.Equal(t, []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: producers[1].ProducerID, FirstOffset: start}}, got.AbortedTransactions)
	}
	hidden()

	snapshots := filepath.Join(b.conf.DataDir, "logs", "t-0", "*.snapshot")
	for _, end := range []func() error{b.Kill, func() error { return b.Close() }} { // a kill first: what a clean end writes would help it
		require.NoError(t, end())
		b.start()
		require.Equal(t, start, b.part().Offsets().LogStart)
		require.Equal(t, producers, b.part().Producers())
		hidden()
	}
	// With the snapshots lost, what lies below the log's start is not known any
	// more; of the mirrored producers nothing comes back either.
	require.NoError(t, b.Kill())
	found, err := filepath.Glob(snapshots)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, f := range found {
		require.NoError(t, b.conf.Host.FS.Remove(f))
	}
	b.start()
	require.Equal(t, []int64{producers[1].ProducerID}, ids(b.part().Producers()))
	hidden()
}

func ids(producers []psm.Producer) (all []int64) {
	for _, p := range producers {
		all = append(all, p.ProducerID)
	}
	return all
}
