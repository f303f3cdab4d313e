package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
)

// readCommitted reads topic "t" with read_committed, from its start up to its last
// stable offset.
func (n *mirrorNode) readCommitted() []string {
	n.t.Helper()
	values := []string{}
	end := n.part().Offsets().LastStable
	cl := n.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"t": {0: kgo.NewOffset().AtStart()},
	}))
	for at := n.part().Offsets().LogStart; at < end; {
		fs := cl.PollFetches(n.t.Context())
		require.NoError(n.t, fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}

// FA-08: a mirrored transaction holds back the last stable offset while it is
// open, as it does at the source, for its batches keep their producer id; once the
// source has aborted it, nothing of it is visible.
func TestAnOpenMirroredTransactionHoldsReadersBack(t *testing.T) {
	t.Parallel()
	a, b := newSource(t, clusterA), startMirrorNode(t, clusterB)
	for range 5 { // that its producer id is not the first
		send(t, a.client(), "before")
	}
	producer := leaveOpen(t, a, "a-txn")
	begun := a.part().Offsets().LastStable
	b.mirrorOf(a)
	b.equalsAt(a, 0)
	require.Equal(t, begun, b.part().Offsets().LastStable)
	require.Greater(t, b.part().Offsets().HighWatermark, begun)
	require.Equal(t, []string{"before", "before", "before", "before", "before"}, b.readCommitted())
	open := false
	for _, raw := range b.batches() {
		d, err := psm.DecodeBatch(raw) // which checks the CRC
		require.NoError(t, err)
		open = open || d.Transactional() && d.ProducerID > 0
	}
	require.True(t, open, "it was mirrored with its producer id")

	require.NoError(t, producer.EndTransaction(t.Context(), kgo.TryAbort))
	require.Eventually(t, func() bool { o := a.part().Offsets(); return o.LastStable == o.LogEnd }, patience, time.Millisecond)
	b.equalsAt(a, 0)
	o := b.part().Offsets()
	require.Equal(t, o.LogEnd, o.LastStable)
	require.Equal(t, []string{"before", "before", "before", "before", "before"}, b.readCommitted())
}

// FA-10: a transaction that is open when the source is lost hides nothing that is
// written after the failover: its records are cut, or aborted.
func TestATransactionOpenAtAFailoverHidesNothing(t *testing.T) {
	t.Parallel()
	for _, profile := range []quorum.Profile{quorum.V42, quorum.Latest} {
		t.Run(string(profile), func(t *testing.T) {
			a := newSource(t, clusterA)
			conf := startMirrorConfig(t, clusterB)
			conf.Profile = profile
			b := &mirrorNode{t: t, conf: conf}
			b.start()
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			producer := a.client(kgo.TransactionalID("a-txn"), kgo.TransactionTimeout(10*time.Minute))
			require.NoError(t, producer.BeginTransaction())
			for i := range 5 {
				send(t, producer, fmt.Sprint("open ", i))
			}
			b.mirrorOf(a)
			b.equalsAt(a, 0)
			require.Empty(t, b.readCommitted())
			name := b.linkTo(a)
			require.NoError(t, a.Kill())
			require.NoError(t, b.mirrors().Stop(t.Context(), name, "t"))
			awaitNamed(t, b.mirrors(), name, "STOPPED")
			var want []string
			for i := range 5 {
				want = append(want, fmt.Sprint("plain ", i))
				send(t, b.client(kgo.DisableIdempotentWrite()), want[i])
			}
			o := b.part().Offsets()
			require.Equal(t, o.LogEnd, o.LastStable)
			require.Equal(t, want, b.readCommitted())
			aborts := 0
			for _, raw := range b.batches() {
				d, err := psm.DecodeBatch(raw)
				require.NoError(t, err)
				if d.IsControl() && d.Control.Type == psm.ControlAbort {
					aborts++
				}
			}
			require.Equal(t, profile == quorum.Latest, aborts == 1)
		})
	}
}
