package txn

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/replica"
)

var (
	a0 = Partition{"a", 0}
	a1 = Partition{"a", 1}
	b0 = Partition{"b", 0}
)

func TestIdempotentProducersCountFromZero(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	for want := range int64(25) {
		id, epoch, err := c.InitProducerID(t.Context(), InitRequest{ProducerID: -1, Epoch: -1})
		require.NoError(t, err)
		require.Equal(t, identity{want, 0}, identity{id, epoch})
	}
	stop()
	// A new process goes on with a new block.
	c, stop = w.start(t)
	defer stop()
	id, _, err := c.InitProducerID(t.Context(), InitRequest{ProducerID: -1, Epoch: -1})
	require.NoError(t, err)
	require.Equal(t, int64(30), id)
}

func TestInitProducerIDRefusals(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	id, empty := "x", ""
	for _, r := range []struct {
		req  InitRequest
		want error
	}{
		{InitRequest{TransactionalID: &empty, TimeoutMillis: 1, ProducerID: -1, Epoch: -1}, kerr.InvalidRequest},
		{InitRequest{TransactionalID: &id, TimeoutMillis: 0, ProducerID: -1, Epoch: -1}, kerr.InvalidTransactionTimeout},
		{InitRequest{TransactionalID: &id, TimeoutMillis: 15*60_000 + 1, ProducerID: -1, Epoch: -1}, kerr.InvalidTransactionTimeout},
		{InitRequest{TransactionalID: &id, TimeoutMillis: 1, ProducerID: 5, Epoch: -1}, kerr.InvalidRequest},
	} {
		_, _, err := c.InitProducerID(t.Context(), r.req)
		require.ErrorIs(t, err, r.want)
	}
}

func TestCommitAndAbortReachEveryPartition(t *testing.T) {
	for _, version := range []int16{0, 2} {
		w := newWorld(3)
		w.set(func() { w.epochs = []int32{4, 4, 4} })
		c, stop := w.start(t)
		have := initNew(t, c, "x")
		for i, commit := range []bool{true, false, true} {
			require.Equal(t, []error{nil, nil}, addTo(c, "x", have, version, a0, b0))
			next, err := end(t, c, "x", have, version, commit)
			require.NoError(t, err)
			txn := await(t, c, "x", settledDown)
			require.Empty(t, txn.Partitions)
			marker := Marker{ProducerID: have.id, Epoch: next.epoch, CoordinatorEpoch: 4, Version: version, Commit: commit}
			for _, p := range []Partition{a0, b0} {
				require.Len(t, w.markersOf(p), i+1)
				require.Equal(t, marker, w.markersOf(p)[i])
			}
			if version == 2 {
				require.Equal(t, identity{have.id, have.epoch + 1}, next)
			} else {
				require.Equal(t, have, next)
			}
			again, err := end(t, c, "x", have, version, commit)
			require.NoError(t, err, "a repeated EndTxn is answered as before")
			require.Equal(t, next, again)
			have = next
		}
		require.Empty(t, w.markersOf(a1))
		stop()
	}
}

func TestUnknownAndReadOnlyPartitionsStayOut(t *testing.T) {
	w := newWorld(1)
	w.set(func() { w.parts[b0] = PartitionState{Exists: true, ReadOnly: true} })
	c, stop := w.start(t)
	defer stop()
	have := initNew(t, c, "x")
	gone := Partition{"gone", 0}
	for _, version := range []int16{0, 2} {
		require.Equal(t, []error{kerr.OperationNotAttempted, replica.ErrReadOnly, kerr.UnknownTopicOrPartition},
			addTo(c, "x", have, version, a0, b0, gone))
	}
	require.Equal(t, Empty, await(t, c, "x", settledDown).State)

	// By producing, only the partitions concerned are refused.
	errs := produceTo(t.Context(), c, "x", have, true, a0, b0, gone)
	require.Equal(t, []error{nil, replica.ErrReadOnly, kerr.UnknownTopicOrPartition}, errs)
	require.Equal(t, []Partition{a0}, await(t, c, "x", settledDown).Partitions)
}

func TestVerifyForProduce(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	have := initNew(t, c, "x")
	verify := func(who identity, id string, p Partition) error {
		return produceTo(t.Context(), c, id, who, false, p)[0]
	}
	require.Equal(t, kerr.TransactionAbortable, verify(have, "x", a0))
	require.Equal(t, []error{nil}, addTo(c, "x", have, 0, a0))
	require.NoError(t, verify(have, "x", a0))
	require.Equal(t, kerr.TransactionAbortable, verify(have, "x", a1))
	require.Equal(t, kerr.InvalidProducerIDMapping, verify(identity{99, 0}, "x", a0))
	require.Equal(t, kerr.InvalidProducerIDMapping, verify(have, "other", a0))
	require.Equal(t, kerr.InvalidProducerEpoch, verify(identity{have.id, 1}, "x", a0), "PRODUCER_FENCED is for coordinator APIs")

	// While markers are being written, old clients are told to try again.
	w.set(func() { w.refuse[a0] = kerr.NotLeaderForPartition })
	_, err := end(t, c, "x", have, 0, true)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := produceTo(ctx, c, "x", have, false, a0)
	require.Equal(t, []error{kerr.NotEnoughReplicas}, errs)
	w.set(func() { delete(w.refuse, a0) })
	await(t, c, "x", settledDown)
	require.Equal(t, kerr.TransactionAbortable, verify(have, "x", a0), "a late write of an ended transaction (TXN-6)")
}

// A version-2 producer that goes on at once waits for the end of its
// transaction before, inside its Produce.
func TestImplicitAddWaitsForTheMarkers(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	have := initNew(t, c, "x")
	require.Equal(t, []error{nil}, addTo(c, "x", have, 2, a0))
	w.set(func() { w.refuse[a0] = kerr.NotLeaderForPartition })
	next, err := end(t, c, "x", have, 2, true)
	require.NoError(t, err)
	got := make(chan []error)
	go func() {
		got <- produceTo(t.Context(), c, "x", next, true, a1)
	}()
	w.set(func() { delete(w.refuse, a0) })
	require.Equal(t, []error{nil}, <-got)
	require.Len(t, w.markersOf(a0), 1)
	late := produceTo(t.Context(), c, "x", have, true, a1)
	require.Equal(t, []error{kerr.InvalidProducerEpoch}, late, "SC-6")
}

func TestNewProducerFencesAndAborts(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	for _, version := range []int16{0, 2} {
		old := initNew(t, c, "x")
		require.Equal(t, []error{nil}, addTo(c, "x", old, version, a0))
		id := "x"
		_, _, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: -1, Epoch: -1})
		require.ErrorIs(t, err, kerr.ConcurrentTransactions)
		require.Equal(t, CompleteAbort, await(t, c, "x", settledDown).State)
		markers := w.markersOf(a0)
		require.Equal(t, Marker{ProducerID: old.id, Epoch: old.epoch + 1, Version: version}, markers[len(markers)-1])
		now := initNew(t, c, "x")
		require.Equal(t, identity{old.id, old.epoch + 2}, now)

		for _, commit := range []bool{true, false} {
			_, err = end(t, c, "x", old, version, commit)
			require.ErrorIs(t, err, kerr.ProducerFenced)
		}
		require.Equal(t, []error{kerr.ProducerFenced}, addTo(c, "x", old, version, a0))
		_, _, err = c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: old.id, Epoch: old.epoch})
		require.ErrorIs(t, err, kerr.ProducerFenced)
	}
}

func TestTimeout(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	have := initNew(t, c, "x")
	require.Equal(t, []error{nil}, addTo(c, "x", have, 0, a0))
	s := awaitLoaded(t, c, 0)
	w.set(func() { w.clock += 999 })
	s.sweep()
	require.Equal(t, Ongoing, await(t, c, "x", settledDown).State)
	w.set(func() { w.clock++ })
	s.sweep()
	require.Equal(t, CompleteAbort, await(t, c, "x", settledDown).State)
	require.Equal(t, []Marker{{ProducerID: have.id, Epoch: have.epoch + 1}}, w.markersOf(a0))
	require.Equal(t, []error{kerr.ProducerFenced}, addTo(c, "x", have, 0, a0))

	// The producer was not replaced, so it may come back (KIP-588).
	id := "x"
	pid, epoch, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: have.id, Epoch: have.epoch})
	require.NoError(t, err)
	require.Equal(t, identity{have.id, have.epoch + 1}, identity{pid, epoch})
}

func TestIdleIDsAreForgotten(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	initNew(t, c, "x")
	w.set(func() { w.clock += (7 * 24 * time.Hour).Milliseconds() })
	initNew(t, c, "y")
	awaitLoaded(t, c, 0).sweep()
	stop()
	c, stop = w.start(t)
	defer stop()
	s := awaitLoaded(t, c, 0)
	_, ok, _, err := s.look("x")
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, _, _ = s.look("y")
	require.True(t, ok)
}

func TestLeadershipComesAndGoes(t *testing.T) {
	w := newWorld(1)
	w.set(func() { w.epochs[0] = -1 })
	c, stop := w.start(t)
	defer stop()
	id := "x"
	_, _, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: -1, Epoch: -1})
	require.ErrorIs(t, err, kerr.NotCoordinator)

	w.set(func() { w.epochs[0] = 3 })
	awaitLoaded(t, c, 0)
	have := initNew(t, c, "x")
	require.Equal(t, []error{nil}, addTo(c, "x", have, 0, a0))
	w.set(func() { w.refuse[a0] = kerr.NotLeaderForPartition })
	_, err = end(t, c, "x", have, 0, true)
	require.NoError(t, err)

	// The markers of what the last leader decided are the next one's to write.
	old := awaitLoaded(t, c, 0)
	w.set(func() { w.epochs[0] = -1 })
	<-old.ctx.Done()
	_, err = end(t, c, "x", have, 0, true)
	require.ErrorIs(t, err, kerr.NotCoordinator)
	w.set(func() { delete(w.refuse, a0); w.epochs[0] = 5 })
	require.Eventually(t, func() bool { return awaitLoaded(t, c, 0).epoch == 5 }, 10*time.Second, time.Millisecond)
	require.Equal(t, CompleteCommit, await(t, c, "x", settledDown).State)
	require.Equal(t, []Marker{{ProducerID: have.id, Epoch: have.epoch, CoordinatorEpoch: 5, Commit: true}}, w.markersOf(a0))
}

// A request that comes while the shard is being loaded waits for it.
func TestRequestsWaitForLoading(t *testing.T) {
	w := newWorld(1)
	c := New(Config{Cluster: w, Markers: w, Now: w.now, LoadWait: 10 * time.Second})
	id := "x"
	got := make(chan error)
	go func() {
		_, _, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: -1, Epoch: -1})
		got <- err
	}()
	require.ErrorIs(t, c.SettleDebts(t.Context(), a0), kerr.CoordinatorLoadInProgress)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	require.NoError(t, <-got)
	cancel()
	<-done

	// But not for ever.
	c = New(Config{Cluster: w, Markers: w, Now: w.now, LoadWait: time.Millisecond})
	_, _, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 1000, ProducerID: -1, Epoch: -1})
	require.ErrorIs(t, err, kerr.CoordinatorLoadInProgress)
}

func TestNoTopicYet(t *testing.T) {
	w := newWorld(0)
	c, stop := w.start(t)
	defer stop()
	_, err := end(t, c, "x", identity{0, 0}, 0, true)
	require.ErrorIs(t, err, kerr.CoordinatorNotAvailable)
}

func TestFailedWriteChangesNothing(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	have := initNew(t, c, "x")
	w.logs[0].fail(1, false)
	require.Equal(t, []error{kerr.CoordinatorNotAvailable}, addTo(c, "x", have, 0, a0))
	require.Equal(t, Empty, await(t, c, "x", settledDown).State)
	w.logs[0].fail(0, false)
	require.Equal(t, []error{nil}, addTo(c, "x", have, 0, a0))
}

func TestPartitionForIsJavas(t *testing.T) {
	// From java.lang.String.hashCode: "polygenelubricants" is the least int32,
	// whose absolute value Kafka takes for 0; "😀" counts as its surrogates.
	for id, want := range map[string]int32{"": 0, "a": 97 % 50, "polygenelubricants": 0, "😀": 1772899 % 50} {
		require.Equal(t, want, PartitionFor(id, 50), id)
	}
}
