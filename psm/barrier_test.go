package psm_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

func stop(at int64, epoch int32) psm.Stop {
	return psm.Stop{L: at, BarrierOffset: at, Epoch: epoch, SourceClusterID: "src"}
}

// PSM-7: in one append that holds batch, barrier, batch, only what comes
// after the barrier stays.
func TestBarrierInsideAnAppend(t *testing.T) {
	batches := func() []*psm.Batch {
		return []*psm.Batch{data(2, 1, 0, 2, 1), data(3, 2, 0, 0, 1), barrier(4, 7, "src"), data(5, 2, 3, 9, 1), data(6, 3, 0, 0, 1)}
	}
	s := psm.New(psm.Config{})
	s.SetStops([]psm.Stop{stop(4, 7)})
	apply(t, s, psm.Replication, data(0, 1, 0, 0, 2))

	s.Begin(psm.Append{Origin: psm.Replication})
	for _, b := range batches() {
		_, err := s.Add(b)
		require.NoError(t, err)
	}
	require.Equal(t, []int64{1}, ids(s), "not before the commit")
	s.Discard()
	require.Equal(t, []int64{1}, ids(s))
	require.Equal(t, int64(2), s.End())

	apply(t, s, psm.Replication, batches()...)
	require.Equal(t, []int64{2, 3}, ids(s))
	p, _ := s.Lookup(2)
	require.Equal(t, int16(3), p.Epoch)
	require.Equal(t, int32(9), p.LastSequence)
	// IDEM-1, IDEM-2: nothing of before is remembered.
	apply(t, s, psm.Client, data(7, 1, 0, 0, 2))
}

func TestOwnAndInheritedBarriers(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     psm.Config
		stops   []psm.Stop
		origin  psm.Origin
		b       *psm.Batch
		expires bool
	}{
		"own, as leader":               {psm.Config{}, nil, psm.Coordinator, barrier(1, 7, "src"), true},
		"own, as replica":              {psm.Config{}, []psm.Stop{stop(1, 7)}, psm.Replication, barrier(1, 7, "src"), true},
		"own, a later leader wrote it": {psm.Config{}, []psm.Stop{stop(1, 7)}, psm.Replication, barrier(1, 9, "src"), true},
		"own, one of several stops":    {psm.Config{}, []psm.Stop{stop(9, 8), stop(1, 7), stop(0, 1)}, psm.Replication, barrier(1, 7, "src"), true},
		"own, behind ABORT markers":    {psm.Config{}, []psm.Stop{{L: 0, BarrierOffset: 1, Epoch: 7, SourceClusterID: "src"}}, psm.Replication, barrier(1, 7, "src"), true},
		"inherited, no stop":           {psm.Config{}, nil, psm.Replication, barrier(1, 7, "src"), false},
		"inherited, stop elsewhere":    {psm.Config{}, []psm.Stop{stop(2, 7)}, psm.Replication, barrier(1, 7, "src"), false},
		"inherited, any expires":       {psm.Config{AnyBarrierExpires: true}, nil, psm.Replication, barrier(1, 7, "src"), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := psm.New(c.cfg)
			s.SetStops(c.stops)
			apply(t, s, psm.Replication, data(0, 1, 0, 0, 1))
			apply(t, s, c.origin, c.b)
			require.Equal(t, int64(2), s.End())
			if c.expires {
				require.Empty(t, s.Producers())
			} else {
				require.Equal(t, []int64{1}, ids(s))
			}
		})
	}
}

// An inherited barrier may lie where a stop's own was, before the truncation
// that the stop ordered: what follows is past the stop all the same.
func TestWhatIsPastAStopForgetsTheRest(t *testing.T) {
	for name, b := range map[string]*psm.Batch{
		"lower epoch":    barrier(1, 6, "src"),
		"another source": barrier(1, 7, "other"),
		"data":           data(1, 2, 0, 0, 1),
		"over it":        data(1, 2, 0, 0, 3),
		"cleaned away":   data(2, 3, 0, 0, 1),
	} {
		t.Run(name, func(t *testing.T) {
			s := psm.New(psm.Config{})
			s.SetStops([]psm.Stop{stop(1, 7)})
			apply(t, s, psm.Replication, data(0, 1, 0, 0, 1))
			apply(t, s, psm.Replication, b)
			if b.BaseOffset > 1 {
				require.Equal(t, []int64{3}, ids(s))
			} else {
				require.Empty(t, s.Producers())
			}
		})
	}
}

func TestLeaderRefusesBarrierOverAnOpenTransaction(t *testing.T) {
	s := psm.New(psm.Config{})
	apply(t, s, psm.Replication, txn(0, 1, 0, 0, 1))
	requireCode(t, s, psm.Append{Origin: psm.Coordinator}, psm.CodeInvalidTxnState, barrier(1, 7, "src"))
	require.Equal(t, int64(1), s.End())
	// Within one append the open transaction may be an earlier batch's…
	_, _, err := try(s, psm.Append{Origin: psm.Coordinator}, marker(1, 1, 0, 0, false), txn(2, 2, 0, -1, 1), barrier(3, 7, "src"))
	require.Equal(t, psm.CodeInvalidTxnState, psm.Code(err))
	// …and so may its end.
	twice := psm.New(psm.Config{})
	apply(t, twice, psm.Coordinator, txn(0, 1, 0, -1, 1), txn(1, 1, 0, -1, 1), marker(2, 1, 0, 0, true), barrier(3, 7, "src"))
	require.Zero(t, twice.Len())
	done := apply(t, s, psm.Coordinator, marker(1, 1, 0, 0, false), barrier(2, 7, "src"))
	require.Equal(t, []psm.Completed{{ProducerID: 1, FirstOffset: 0, LastOffset: 1, LSO: 2, Aborted: true}}, done)
	require.Empty(t, s.Producers())
}

// PSM-8: a replica that finds an own barrier over open transactions completes
// them as aborted and says so.
func TestReplicaAbortsWhatABarrierFindsOpen(t *testing.T) {
	var logged bytes.Buffer
	s := psm.New(psm.Config{Log: slog.New(slog.NewTextHandler(&logged, nil))})
	s.SetStops([]psm.Stop{stop(6, 7)})
	apply(t, s, psm.Replication, txn(0, 1, 0, 0, 2), data(2, 2, 0, 0, 1))
	done := apply(t, s, psm.Replication, txn(3, 3, 0, 0, 3), barrier(6, 7, "src"), txn(7, 3, 0, 0, 1))
	require.Equal(t, []psm.Completed{
		{ProducerID: 1, FirstOffset: 0, LastOffset: 6, LSO: 3, Aborted: true, ByBarrier: true},
		{ProducerID: 3, FirstOffset: 3, LastOffset: 6, LSO: 7, Aborted: true, ByBarrier: true},
	}, done)
	require.Equal(t, int64(0), s.LSO(6))
	require.Equal(t, int64(7), s.LSO(8))
	s.OnHighWatermark(7)
	first, ok := s.FirstUnstable()
	require.True(t, ok)
	require.Equal(t, int64(7), first)
	require.Equal(t, []psm.OpenTxn{{ProducerID: 3, FirstOffset: 7, LastTimestamp: 1007}}, s.OpenTransactions())
	require.Equal(t, 2, bytes.Count(logged.Bytes(), []byte("level=ERROR")))

	var index []psm.AbortedTxn
	for _, c := range done {
		index = append(index, c.IndexEntry())
	}
	// A fetch up to the barrier needs both, though they end at one offset.
	got, more := psm.CollectAborted(nil, index, 0, 7)
	require.Equal(t, index, got)
	require.True(t, more)
	var file []byte
	for _, a := range index {
		file = a.Append(file)
	}
	again, err := psm.DecodeTxnIndex(file)
	require.NoError(t, err)
	require.Equal(t, index, again)
}

// PSM-9: cutting a barrier away brings back what was before it.
func TestTruncationBelowABarrier(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		l := newLog(t, psm.Config{})
		l.append(psm.Client, data(0, 1, 0, 0, 1))
		if snapshots {
			require.NoError(t, l.snapshots.Write(l.state))
		}
		l.append(psm.Client, data(1, 1, 0, 1, 1), data(2, 2, 0, 0, 1))
		l.setStops(stop(3, 7))
		l.append(psm.Coordinator, barrier(3, 7, "src"))
		require.Empty(t, l.state.Producers())
		if snapshots {
			require.NoError(t, l.snapshots.Write(l.state))
		}
		want := l.reopen(0, 3).SnapshotEntries()
		l.truncate(3)
		require.Equal(t, []int64{1, 2}, ids(l.state))
		require.Equal(t, want, l.state.SnapshotEntries())
		requireDup(t, l.state, data(3, 2, 0, 0, 1), 2, 2)
		l.append(psm.Client, data(3, 1, 0, 2, 1))

		// The stop went with its barrier: the same bytes are now inherited.
		l.truncate(3)
		l.append(psm.Replication, barrier(3, 7, "src"))
		require.Equal(t, []int64{1, 2}, ids(l.state))
	}
}

// BAR-8: the barrier's effect outlives it.
func TestBarrierGone(t *testing.T) {
	build := func(t *testing.T) *testLog {
		t.Helper()
		l := newLog(t, psm.Config{})
		l.append(psm.Client, data(0, 1, 0, 0, 5))
		l.append(psm.Client, data(5, 2, 0, 0, 5))
		require.NoError(t, l.snapshots.Write(l.state)) // at L
		l.setStops(stop(10, 7))
		l.append(psm.Coordinator, barrier(10, 7, "src"))
		return l
	}
	cutBarrier := func(l *testLog) {
		for i := range l.batches {
			if l.batches[i].IsBarrier() {
				l.batches = append(l.batches[:i:i], l.batches[i+1:]...)
				return
			}
		}
	}
	t.Run("compacted", func(t *testing.T) {
		l := build(t)
		l.append(psm.Client, data(11, 3, 0, 0, 1))
		cutBarrier(l)
		require.Equal(t, []int64{3}, ids(l.reopen(0, 12)))
		require.NoError(t, l.snapshots.DeleteAll())
		require.Equal(t, []int64{3}, ids(l.reopen(0, 12)))
	})
	t.Run("compacted, nothing behind it", func(t *testing.T) {
		l := build(t)
		cutBarrier(l)
		require.Empty(t, l.reopen(0, 11).Producers())
		require.Equal(t, []int64{1, 2}, ids(l.reopen(0, 10)))
	})
	t.Run("deleted", func(t *testing.T) {
		l := build(t)
		l.append(psm.Client, data(11, 3, 0, 0, 1))
		require.Equal(t, []int64{3}, ids(l.reopen(11, 12)))
	})
	t.Run("deleted up to L", func(t *testing.T) {
		l := build(t)
		l.append(psm.Client, data(11, 3, 0, 0, 1))
		require.Equal(t, []int64{3}, ids(l.reopen(10, 12)))
	})
	t.Run("open transactions end", func(t *testing.T) {
		l := newLog(t, psm.Config{})
		l.append(psm.Replication, txn(0, 1, 0, 0, 5))
		l.setStops(stop(5, 7))
		l.append(psm.Replication, barrier(5, 7, "src"))
		cutBarrier(l)
		var done []psm.Completed
		s := psm.New(psm.Config{})
		s.SetStops(l.stops)
		require.NoError(t, s.Reload(l.snapshots, psm.Reload{
			Target: 6, Replay: l.replay,
			Completed: func(c psm.Completed) error { done = append(done, c); return nil },
		}))
		require.Equal(t, []psm.Completed{{ProducerID: 1, FirstOffset: 0, LastOffset: 5, LSO: 6, Aborted: true, ByBarrier: true}}, done)
	})
}

func TestSetStopsAsksForReload(t *testing.T) {
	l := newLog(t, psm.Config{})
	l.append(psm.Replication, data(0, 1, 0, 0, 1), barrier(1, 7, "src"), data(2, 2, 0, 0, 1))
	require.Equal(t, []int64{1, 2}, ids(l.state))
	require.NoError(t, l.snapshots.Write(l.state)) // not to be used
	require.False(t, l.setStops(stop(3, 8)))
	require.True(t, l.setStops(stop(1, 7)))
	require.Equal(t, []psm.Stop{stop(1, 7)}, l.state.Stops())
	l.truncate(3)
	require.Equal(t, []int64{2}, ids(l.state))
	require.False(t, l.setStops(stop(1, 7)))
	require.Empty(t, psm.CutStops([]psm.Stop{stop(1, 7)}, 1))
	require.Equal(t, []psm.Stop{stop(1, 7)}, psm.CutStops([]psm.Stop{stop(1, 7), stop(2, 8)}, 2))
}
