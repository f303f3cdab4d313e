package psm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// beforeBarrier is a state with producer 1, that wrote once, and producer 2 in
// an open transaction, and the stop whose barrier comes at 4.
func beforeBarrier(t *testing.T, f psm.Faults) *psm.State {
	s := psm.New(psm.Config{Faults: f})
	s.SetStops([]psm.Stop{stop(4, 7)})
	apply(t, s, psm.Replication, data(0, 1, 0, 0, 2))
	apply(t, s, psm.Replication, txn(2, 2, 0, 0, 2))
	return s
}

func TestFaultsAreWrongInOneWayEach(t *testing.T) {
	replicated := func(t *testing.T, f psm.Faults) *psm.State {
		s := beforeBarrier(t, f)
		apply(t, s, psm.Replication, barrier(4, 7, "src"))
		return s
	}
	t.Run("none", func(t *testing.T) {
		s := replicated(t, psm.Faults{})
		require.Empty(t, ids(s))
		require.Equal(t, int64(5), s.LSO(5))
		dup := add(t, s, data(5, 1, 0, 0, 2))
		require.False(t, dup.Found)
	})
	t.Run("keep open", func(t *testing.T) {
		s := replicated(t, psm.Faults{KeepOpen: true})
		require.Equal(t, []int64{2}, ids(s))
		require.Equal(t, int64(2), s.LSO(5), "it is pinned")
		s = beforeBarrier(t, psm.Faults{KeepOpen: true})
		apply(t, s, psm.Coordinator, barrier(4, 7, "src")) // nor does the leader refuse
	})
	t.Run("drop open", func(t *testing.T) {
		s := beforeBarrier(t, psm.Faults{DropOpen: true})
		s.Begin(psm.Append{Origin: psm.Coordinator})
		_, err := s.Add(barrier(4, 7, "src"))
		require.NoError(t, err)
		require.Empty(t, s.Commit(), "nothing is entered into the aborted index")
		require.Empty(t, ids(s))
		require.Equal(t, int64(5), s.LSO(5))
	})
	t.Run("over open", func(t *testing.T) {
		s := beforeBarrier(t, psm.Faults{OverOpen: true})
		s.Begin(psm.Append{Origin: psm.Coordinator})
		_, err := s.Add(barrier(4, 7, "src"))
		require.NoError(t, err, "a healthy leader refuses it")
		done := s.Commit()
		require.Len(t, done, 1)
		require.True(t, done[0].Aborted && done[0].ByBarrier, "%+v", done)
		require.Empty(t, ids(s))
		require.Equal(t, int64(5), s.LSO(5))
	})
	t.Run("stale duplicates", func(t *testing.T) {
		s := replicated(t, psm.Faults{StaleDuplicates: true})
		require.Empty(t, ids(s))
		require.Equal(t, psm.Duplicate{Found: true, BaseOffset: 0, LastOffset: 1, Timestamp: data(0, 1, 0, 0, 2).MaxTimestamp}, add(t, s, data(5, 1, 0, 0, 2)))
		require.False(t, add(t, s, data(5, 1, 1, 0, 2)).Found, "another epoch")
		require.False(t, add(t, s, data(7, 1, 1, 2, 1)).Found)
	})
	t.Run("stale epochs", func(t *testing.T) {
		s := psm.New(psm.Config{Faults: psm.Faults{StaleEpochs: true}})
		s.SetStops([]psm.Stop{stop(2, 7)})
		apply(t, s, psm.Replication, data(0, 1, 3, 0, 2), barrier(2, 7, "src"))
		require.Empty(t, ids(s))
		s.Begin(psm.Append{Origin: psm.Client})
		_, err := s.Add(data(3, 1, 2, 0, 1))
		require.ErrorContains(t, err, "epoch 2, known was 3")
		require.False(t, add(t, s, data(3, 1, 3, 0, 1)).Found, "the same epoch")
		require.False(t, add(t, s, data(4, 2, 0, 0, 1)).Found, "another producer")
	})
	t.Run("put back", func(t *testing.T) {
		s := psm.New(psm.Config{Faults: psm.Faults{PutBack: true}})
		s.SetStops([]psm.Stop{stop(2, 7)})
		log := []*psm.Batch{data(0, 1, 0, 0, 2), barrier(2, 7, "src"), data(3, 2, 0, 0, 1)}
		for _, b := range log { // one append each
			apply(t, s, psm.Replication, b)
		}
		require.Equal(t, []int64{2}, ids(s))
		s = psm.New(psm.Config{Faults: psm.Faults{PutBack: true}})
		s.SetStops([]psm.Stop{stop(2, 7)})
		apply(t, s, psm.Replication, log...)
		require.Equal(t, []int64{1, 2}, ids(s))
		require.NoError(t, s.Reload(psm.NewSnapshots(psm.OSDir(t.TempDir()), nil), psm.Reload{Target: 4, Replay: func(_, _ int64, each func(*psm.Batch) error) error {
			for _, b := range log {
				if err := each(b); err != nil {
					return err
				}
			}
			return nil
		}}))
		require.Equal(t, []int64{1, 2}, ids(s))
		require.Equal(t, int64(4), s.End())
	})
}

// The three collisions that KIP-1279 names: two producers under one rewritten
// id, as a downstream of both finds them in its log.
func TestCollisionsUnderARewrittenID(t *testing.T) {
	fresh := func() *psm.State { return psm.New(psm.Config{Faults: psm.Faults{NegativeIDs: true}}) }
	t.Run("same epoch, wrong sequence", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Replication, data(0, -7, 0, 40, 1), data(1, -7, 0, 0, 1))
		p, ok := s.Lookup(-7)
		require.True(t, ok)
		require.Equal(t, int32(0), p.LastSequence, "whatever came last")
	})
	t.Run("different epochs", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Replication, data(0, -7, 5, 0, 1), data(1, -7, 0, 0, 1))
		p, _ := s.Lookup(-7)
		require.Equal(t, int16(0), p.Epoch, "the lower one is accepted")
	})
	t.Run("a marker ends the other's transaction", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Replication, txn(0, -7, 0, 0, 2), txn(2, -7, 0, 0, 1))
		require.Equal(t, int64(0), s.LSO(3))
		apply(t, s, psm.Replication, marker(3, -7, 0, 0, true))
		require.Equal(t, int64(4), s.LSO(4), "the first producer's records are committed by the second's marker")
	})
	t.Run("snapshots keep them", func(t *testing.T) {
		s := fresh()
		apply(t, s, psm.Replication, data(0, -7, 5, 0, 1), data(1, 7, 0, 0, 1))
		st := psm.NewSnapshots(psm.OSDir(t.TempDir()), nil)
		require.NoError(t, st.Write(s))
		again := fresh()
		require.NoError(t, again.Reload(st, psm.Reload{Target: 2}))
		require.Equal(t, []int64{-7, 7}, ids(again))
	})
	t.Run("a right state keeps none", func(t *testing.T) {
		s := psm.New(psm.Config{})
		apply(t, s, psm.Replication, data(0, -7, 5, 0, 1))
		require.Empty(t, ids(s))
	})
}

func add(t *testing.T, s *psm.State, b *psm.Batch) psm.Duplicate {
	t.Helper()
	s.Begin(psm.Append{Origin: psm.Client})
	dup, err := s.Add(b)
	require.NoError(t, err)
	s.Commit()
	return dup
}

func TestFaultsWithoutABarrier(t *testing.T) {
	t.Run("one batch", func(t *testing.T) {
		for _, wrong := range []bool{false, true} {
			s := psm.New(psm.Config{Faults: psm.Faults{OneBatch: wrong}})
			apply(t, s, psm.Client, data(0, 1, 0, 0, 1))
			apply(t, s, psm.Client, data(1, 1, 0, 1, 1))
			requireDup(t, s, data(2, 1, 0, 1, 1), 1, 1)
			if wrong {
				requireCode(t, s, psm.Append{Origin: psm.Client}, psm.CodeOutOfOrderSequenceNumber, data(2, 1, 0, 0, 1))
			} else {
				requireDup(t, s, data(2, 1, 0, 0, 1), 0, 0)
			}
		}
	})
	t.Run("old coordinators", func(t *testing.T) {
		for _, wrong := range []bool{false, true} {
			s := psm.New(psm.Config{Faults: psm.Faults{OldCoordinators: wrong}})
			apply(t, s, psm.Coordinator, marker(0, 1, 0, 5, false))
			if wrong {
				apply(t, s, psm.Coordinator, marker(1, 1, 0, 4, false))
			} else {
				requireCode(t, s, psm.Append{Origin: psm.Coordinator}, psm.CodeTransactionCoordinatorFenced, marker(1, 1, 0, 4, false))
			}
		}
	})
	t.Run("forget deleted", func(t *testing.T) {
		for _, wrong := range []bool{false, true} {
			s := psm.New(psm.Config{Faults: psm.Faults{ForgetDeleted: wrong}})
			apply(t, s, psm.Client, data(0, 1, 0, 0, 1))
			apply(t, s, psm.Client, data(1, 2, 0, 0, 1))
			s.OnLogStart(1)
			if wrong {
				require.Equal(t, []int64{2}, ids(s))
			} else {
				require.Equal(t, []int64{1, 2}, ids(s))
			}
		}
	})
}
