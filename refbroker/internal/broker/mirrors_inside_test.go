package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/mirrorrpc"
)

// five is a batch of five records, values 0 to 4.
func five(change ...func(*kmsg.RecordBatch)) []byte {
	return batchOf("", append([]func(*kmsg.RecordBatch){func(b *kmsg.RecordBatch) {
		b.NumRecords, b.LastOffsetDelta, b.Records = 5, 4, nil
		for i := range int32(5) {
			r := kmsg.Record{OffsetDelta: i, Value: []byte{'0' + byte(i)}}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			b.Records = append(b.Records, r.AppendTo(nil)...)
		}
	}}, change...)...)
}

// beginsInside is a source whose log begins at offset 2, inside its first batch.
func beginsInside(t *testing.T) *mirrorNode {
	t.Helper()
	a := newSource(t, clusterA)
	resp, err := produceOf(-1, "t", 0, five()).RequestWith(t.Context(), a.client(kgo.MaxVersions(kversion.V3_0_0())))
	require.NoError(t, err)
	require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	send(t, a.client(), "behind it")
	start, err := a.deleteRecords(2)
	require.NoError(t, err)
	require.EqualValues(t, 2, start)
	return a
}

// A source of which DeleteRecords took half of its first batch is mirrored from
// its start: the batch whole, as a follower takes it, and the log start where the
// source has it; so too into a topic that is copied anew, after a restart, and
// through a stop.
func TestASourceThatBeginsInsideABatch(t *testing.T) {
	t.Parallel()
	a := beginsInside(t)
	b := startMirrorNode(t, clusterB)
	same := func() {
		t.Helper()
		b.equalsAt(a, 0)
		require.Equal(t, a.part().Offsets().LogStart, b.part().Offsets().LogStart)
		require.Len(t, b.batches(), len(a.batches()))
	}
	values := func() (all []string) {
		t.Helper()
		end := b.part().Offsets().HighWatermark
		cl := b.client(kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
		for at := int64(-1); at < end-1; {
			cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
				if at = r.Offset; !r.Attrs.IsControl() {
					all = append(all, string(r.Value))
				}
			})
		}
		return all
	}
	c := b.mirrorFrom(a)
	same()
	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	awaitMirror(t, c, "STOPPED")
	send(t, b.client(), "b's own, which is discarded")
	require.NoError(t, c.StartAnew(t.Context(), "m", "t"))
	same()
	for _, end := range []func() error{b.Kill, func() error { return b.Close() }} {
		require.NoError(t, end())
		b.start()
		send(t, a.client(), "after a restart")
		same()
	}
	c = b.mirrors()
	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	awaitMirror(t, c, "STOPPED")
	send(t, b.client(), "local")
	require.Equal(t, []string{"2", "3", "4", "behind it", "after a restart", "after a restart", "local"}, values())
}

// The same where the batch is all there is of an open transaction: a stop cuts
// it away, and the barrier lies at the log's start.
func TestAStopAtALogStartInsideABatch(t *testing.T) {
	t.Parallel()
	a := newSource(t, clusterA)
	b := startMirrorNode(t, clusterB)
	open := a.client(kgo.TransactionalID("open"), kgo.TransactionTimeout(10*time.Minute), kgo.ProducerLinger(time.Minute))
	require.NoError(t, open.BeginTransaction())
	sent := make(chan error, 5)
	for range 5 {
		open.Produce(t.Context(), kgo.StringRecord("open"), func(_ *kgo.Record, err error) { sent <- err })
	}
	require.NoError(t, open.Flush(t.Context()))
	for range 5 {
		require.NoError(t, <-sent)
	}
	require.Len(t, a.batches(), 1)
	_, err := a.deleteRecords(2)
	require.NoError(t, err)
	c := b.mirrorFrom(a)
	require.EqualValues(t, 2, b.part().Offsets().LogStart)
	require.EqualValues(t, 2, b.part().Offsets().LastStable)
	require.NoError(t, c.Stop(t.Context(), "m", "t"))
	awaitMirror(t, c, "STOPPED")
	require.EqualValues(t, 2, b.part().Offsets().LogStart)
	b.requireFailedOver([][]byte{}, 2)
}

// On three nodes the followers take the batch whole too; so does a replica that
// is added to the source's own partition.
func TestReplicasOfALogThatBeginsInsideABatch(t *testing.T) {
	t.Parallel()
	a := beginsInside(t)
	c := startCluster(t, 3)
	c.mirror(a)
	c.inSync("t", 0)
	c.alike("t", 0, 1, 2)
	m := c.mirrors()
	require.NoError(t, m.Stop(t.Context(), "m", "t"))
	awaitMirror(t, m, "STOPPED")
	c.sameBytes("t", 0)
	c.alike("t", 0, 1, 2)
	require.Equal(t, []string{"2", "3", "4", "behind it"}, c.values("t", 0, kgo.ReadCommitted()))

	c.topicOn("own", 0, 1)
	cl := c.client(kgo.MaxVersions(kversion.V3_0_0()))
	c.insist("five records", func() error {
		resp, err := produceOf(-1, "own", 0, five()).RequestWith(t.Context(), cl)
		if err != nil {
			return err
		}
		return mirrorrpc.ErrorForCode(0, resp.Topics[0].Partitions[0].ErrorCode)
	})
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "own", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 3}}}}
	c.insist("records are deleted", func() error {
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			return err
		}
		return mirrorrpc.ErrorForCode(req.Key(), resp.Topics[0].Partitions[0].ErrorCode)
	})
	require.NoError(t, c.reassign("own", 0, 2))
	c.reassigned("own", 0, 2)
	p, err := c.nodes[2].Env().Replicas.Partition("own", 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, p.Offsets().LogStart)
	require.NoError(t, c.reassign("own", 2))
	c.reassigned("own", 2)
	require.Equal(t, []string{"3", "4"}, c.values("own", 0, kgo.ReadCommitted()))
}
