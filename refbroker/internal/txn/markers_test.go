package txn

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/replica"
)

// RO-2: a mirror began on a partition of an open transaction.
func TestMirroringPartitionOwesItsMarker(t *testing.T) {
	mirroring := PartitionState{Exists: true, ReadOnly: true}
	open := func(t *testing.T) (*world, *Coordinator, identity, func()) {
		w := newWorld(1)
		c, stop := w.start(t)
		have := initNew(t, c, "x")
		require.Equal(t, []error{nil, nil}, addTo(c, "x", have, 0, a0, b0))
		w.set(func() { w.refuse[a0], w.parts[a0] = replica.ErrReadOnly, mirroring })
		_, err := end(t, c, "x", have, 0, true)
		require.NoError(t, err)
		require.Equal(t, CompleteCommit, await(t, c, "x", settledDown).State, "the id is not wedged")
		require.Equal(t, []Marker{{ProducerID: have.id, Epoch: have.epoch, Commit: true}}, w.markersOf(b0))
		require.Empty(t, w.markersOf(a0))
		// The id works at once; the debt is carried along, also over a restart.
		require.Equal(t, []error{nil}, addTo(c, "x", have, 0, b0))
		_, err = end(t, c, "x", have, 0, false)
		require.NoError(t, err)
		await(t, c, "x", settledDown)
		stop()
		w.set(func() { w.epochs[0]++ })
		c, stop = w.start(t)
		awaitLoaded(t, c, 0).sweep()
		require.Equal(t, []Debt{{Partition: a0, ProducerID: have.id, Epoch: have.epoch, Commit: true}}, await(t, c, "x", settledDown).Debts)
		return w, c, have, stop
	}
	paid := func(have identity) []Marker {
		return []Marker{{ProducerID: have.id, Epoch: have.epoch, CoordinatorEpoch: 1, Commit: true, Owed: true}}
	}

	t.Run("aligned", func(t *testing.T) {
		w, c, _, stop := open(t)
		defer stop()
		w.set(func() { w.parts[a0] = PartitionState{Exists: true, ReadOnly: true, Aligned: true} })
		awaitLoaded(t, c, 0).sweep()
		require.Empty(t, await(t, c, "x", settledDown).Debts)
		require.Empty(t, w.markersOf(a0))
	})
	t.Run("stopped before alignment", func(t *testing.T) {
		w, c, have, stop := open(t)
		defer stop()
		require.NoError(t, c.SettleDebts(t.Context(), b0))
		require.Empty(t, w.markersOf(a0))
		require.NoError(t, c.SettleDebts(t.Context(), a0))
		require.Equal(t, paid(have), w.markersOf(a0))
		require.Empty(t, await(t, c, "x", settledDown).Debts)
		require.NoError(t, c.SettleDebts(t.Context(), a0))
		require.Len(t, w.markersOf(a0), 1)
	})
	t.Run("stopped while it is being ended", func(t *testing.T) {
		w := newWorld(1)
		c, stop := w.start(t)
		defer stop()
		have := initNew(t, c, "x")
		require.Equal(t, []error{nil, nil}, addTo(c, "x", have, 0, a0, b0))
		w.set(func() {
			w.refuse[a0], w.parts[a0] = replica.ErrReadOnly, mirroring
			w.refuse[b0] = kerr.NotEnoughReplicas // keeps it from being ended
		})
		_, err := end(t, c, "x", have, 0, true)
		require.NoError(t, err)
		require.NoError(t, c.SettleDebts(t.Context(), a0))
		require.Equal(t, []Marker{{ProducerID: have.id, Epoch: have.epoch, Commit: true, Owed: true}}, w.markersOf(a0))
		w.set(func() { delete(w.refuse, b0) })
		require.Equal(t, CompleteCommit, await(t, c, "x", settledDown).State)
	})
	t.Run("payment fails", func(t *testing.T) {
		w, c, _, stop := open(t)
		defer stop()
		w.set(func() { w.refuse[a0] = kerr.NotEnoughReplicas })
		require.ErrorIs(t, c.SettleDebts(t.Context(), a0), kerr.NotEnoughReplicas)
		require.Len(t, await(t, c, "x", settledDown).Debts, 1)
	})
	t.Run("found writable", func(t *testing.T) {
		w, c, have, stop := open(t)
		defer stop()
		w.set(func() { delete(w.refuse, a0); w.parts[a0] = PartitionState{Exists: true} })
		require.Equal(t, []error{kerr.ConcurrentTransactions}, addTo(c, "x", have, 0, a0), "the transaction before is still open there")
		awaitLoaded(t, c, 0).sweep()
		require.Equal(t, []error{nil}, addTo(c, "x", have, 0, a0))
		require.Equal(t, paid(have), w.markersOf(a0))
		require.Empty(t, await(t, c, "x", settledDown).Debts)
	})
	t.Run("deleted", func(t *testing.T) {
		w, c, _, stop := open(t)
		defer stop()
		w.set(func() { delete(w.parts, a0) })
		awaitLoaded(t, c, 0).sweep()
		require.Empty(t, await(t, c, "x", settledDown).Debts)
		require.Empty(t, w.markersOf(a0))
	})
}

func TestAlignedPartitionOwesNothing(t *testing.T) {
	w := newWorld(1)
	c, stop := w.start(t)
	defer stop()
	have := initNew(t, c, "x")
	require.Equal(t, []error{nil}, addTo(c, "x", have, 2, a0))
	w.set(func() {
		w.refuse[a0] = replica.ErrReadOnly
		w.parts[a0] = PartitionState{Exists: true, ReadOnly: true, Aligned: true}
	})
	_, err := end(t, c, "x", have, 2, false)
	require.NoError(t, err)
	require.Empty(t, await(t, c, "x", settledDown).Debts)
}

func TestMarkersAreRepeatedUntilWritten(t *testing.T) {
	for name, r := range map[string]struct {
		refusal error
		heals   bool
		want    int
	}{
		"not leader":     {kerr.NotLeaderForPartition, true, 1},
		"few replicas":   {kerr.NotEnoughReplicas, true, 1},
		"something odd":  {errors.New("odd"), true, 1},
		"deleted topic":  {kerr.UnknownTopicOrPartition, false, 0},
		"newer producer": {kerr.InvalidProducerEpoch, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			c, stop := w.start(t)
			defer stop()
			have := initNew(t, c, "x")
			require.Equal(t, []error{nil, nil}, addTo(c, "x", have, 0, a0, b0))
			w.set(func() {
				w.refuse[a0] = r.refusal
				if errors.Is(r.refusal, kerr.UnknownTopicOrPartition) {
					delete(w.parts, a0)
				}
			})
			sent := w.sent
			_, err := end(t, c, "x", have, 0, true)
			require.NoError(t, err)
			<-sent
			if r.heals {
				require.Equal(t, []error{kerr.ConcurrentTransactions}, addTo(c, "x", have, 0, a1))
				_, err = end(t, c, "x", have, 0, true)
				require.ErrorIs(t, err, kerr.ConcurrentTransactions)
				w.set(func() { delete(w.refuse, a0) })
			}
			require.Equal(t, CompleteCommit, await(t, c, "x", settledDown).State)
			require.Len(t, w.markersOf(a0), r.want)
			require.Len(t, w.markersOf(b0), 1)
		})
	}
}
