package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// RO-1, RO-2, RO-4, RO-5: only the quorum's STOPPED makes a mirrored
// partition writable.
func TestReadOnlyWindow(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	add(t, p, plain("before"), anyEpoch(ForClient))
	purposes := []Purpose{ForClient, ForMarker, ForInternal, ForOwedMarker}
	raw := func(purpose Purpose) []byte {
		if purpose == ForMarker || purpose == ForOwedMarker {
			return marker(1, 0, false)
		}
		return plain("x")
	}
	for _, state := range []quorum.MirrorState{
		quorum.Unknown, quorum.LogTruncation, quorum.EpochFencing, quorum.Mirroring, quorum.Pausing, quorum.Paused, quorum.Failed, quorum.Stopping,
	} {
		for _, aligned := range []bool{true, false} {
			w.edit("t", func(q *quorum.Topic, p *quorum.Partition) {
				q.Mirror, p.Mirror.State, p.Mirror.Aligned = "m", state, aligned
			})
			require.True(t, p.ReadOnly())
			before := p.Offsets()
			for _, purpose := range purposes {
				_, err := p.Append(t.Context(), raw(purpose), anyEpoch(purpose))
				if purpose == ForOwedMarker && state == quorum.Stopping && !aligned {
					require.NoError(t, err)
					before = p.Offsets()
					continue
				}
				require.ErrorIs(t, err, ErrReadOnly, "%s, purpose %d", state, purpose)
				var coded *kerr.Error
				require.ErrorAs(t, err, &coded)
				require.EqualValues(t, 134, coded.Code)
			}
			require.Equal(t, before, p.Offsets(), "nothing is appended")
		}
	}
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Mirror.State = quorum.Stopped })
	require.False(t, p.ReadOnly())
	for _, purpose := range purposes {
		add(t, p, raw(purpose), anyEpoch(purpose))
	}
	_, err := p.BeginMirror()
	require.ErrorContains(t, err, "writable")
}

func TestMirroredBatchesAreKeptByteForByte(t *testing.T) {
	w := newWorld(t)
	w.topic("t", nil, node)
	p := w.mirrored("t", 10)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	raw := append(at(records(7, 1, 5, false, "a", "b"), 0, 3), at(records(8, 0, 9, true, "c"), 2, 6)...)
	res, err := p.AppendMirrored(s, raw)
	require.NoError(t, err)
	require.Equal(t, AppendResult{BaseOffset: 0, LastOffset: 2, LogAppendTime: -1}, res)
	require.Equal(t, raw, read(t, p, consumer(0)).Raw)
	require.Equal(t, Offsets{LastStable: 2, HighWatermark: 3, LogEnd: 3, LeaderEpoch: 10, LogEpoch: 6}, p.Offsets())

	t.Run("what is there already is skipped", func(t *testing.T) {
		more := append(raw, at(plain("d"), 3, 6)...)
		res, err := p.AppendMirrored(s, more)
		require.NoError(t, err)
		require.Equal(t, AppendResult{BaseOffset: 3, LastOffset: 3, LogAppendTime: -1}, res)
		res, err = p.AppendMirrored(s, raw)
		require.NoError(t, err)
		require.Equal(t, AppendResult{BaseOffset: 4, LastOffset: 3, LogAppendTime: -1, Duplicate: true}, res)
		require.Equal(t, more, read(t, p, consumer(0)).Raw)
	})
	t.Run("refused", func(t *testing.T) {
		before := read(t, p, consumer(0)).Raw
		var back *storage.OffsetError
		_, err := p.AppendMirrored(s, at(plain("x", "y"), 3, 6))
		require.ErrorAs(t, err, &back)
		require.Equal(t, storage.OffsetError{Offset: 3, LogEnd: 4}, *back)
		_, err = p.AppendMirrored(s, append(at(plain("x"), 6, 6), at(plain("y"), 5, 6)...))
		require.ErrorAs(t, err, &back)
		require.Equal(t, storage.OffsetError{Offset: 5, LogEnd: 7}, *back)
		var above *EpochAboveError
		_, err = p.AppendMirrored(s, append(at(plain("x"), 4, 10), at(plain("y"), 5, 11)...))
		require.ErrorAs(t, err, &above)
		require.Equal(t, EpochAboveError{Batch: 11, Leader: 10}, *above)
		var older *storage.EpochOrderError
		_, err = p.AppendMirrored(s, at(plain("x"), 4, 5))
		require.ErrorAs(t, err, &older)
		bad := at(plain("x"), 4, 6)
		bad[len(bad)-1]++
		_, err = p.AppendMirrored(s, bad)
		require.ErrorIs(t, err, kerr.CorruptMessage)
		_, err = p.AppendMirrored(s, at(plain("x"), 4, 6)[:40])
		require.Error(t, err)
		require.Equal(t, before, read(t, p, consumer(0)).Raw)
	})
	t.Run("gaps of a compacted source", func(t *testing.T) {
		before := read(t, p, consumer(0)).Raw
		gapped := append(at(plain("x"), 7, 6), at(plain("y"), 9, 6)...)
		res, err := p.AppendMirrored(s, gapped)
		require.NoError(t, err)
		require.Equal(t, AppendResult{BaseOffset: 7, LastOffset: 9, LogAppendTime: -1}, res)
		require.Equal(t, append(before, gapped...), read(t, p, consumer(0)).Raw)
		require.Equal(t, gapped, read(t, p, consumer(5)).Raw)
	})
}

// LINK-1: what was in flight when the session ended is not appended, however
// the two race.
func TestNothingIsAppendedAfterTheSession(t *testing.T) {
	for range 50 {
		w := newWorld(t)
		w.topic("t", nil, node)
		p := w.mirrored("t", 1)
		s, err := p.BeginMirror()
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range int64(100) {
				if _, err := p.AppendMirrored(s, at(plain("x"), i, 0)); err != nil {
					require.ErrorIs(t, err, ErrSessionEnded)
					return
				}
			}
		})
		p.EndMirror()
		end := p.Offsets().LogEnd
		wg.Wait()
		require.Equal(t, end, p.Offsets().LogEnd)
		require.NoError(t, w.m.Close(false))
	}
}

func TestEndMirrorWaitsForAnAppendInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.topic("t", nil, node)
		p := w.mirrored("t", 1)
		_, err := p.BeginMirror()
		require.NoError(t, err)
		p.order.Lock() // as an append holds it
		ended := make(chan struct{})
		go func() {
			p.EndMirror()
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("EndMirror did not wait")
		default:
		}
		p.order.Unlock()
		<-ended
	})
}

func TestSessionsEnd(t *testing.T) {
	for name, end := range map[string]func(w *world, p *Partition){
		"a newer one": func(_ *world, p *Partition) { _, _ = p.BeginMirror() },
		"end":         func(_ *world, p *Partition) { p.EndMirror() },
		"stopped": func(w *world, _ *Partition) {
			w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Mirror.State = quorum.Stopped })
		},
		"stopped, mirroring": func(w *world, p *Partition) {
			w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Mirror.State = quorum.Stopped })
			w.mirrored("t", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.topic("t", nil, node)
			p := w.mirrored("t", 1)
			s, err := p.BeginMirror()
			require.NoError(t, err)
			end(w, p)
			_, err = p.AppendMirrored(s, at(plain("x"), 0, 0))
			require.ErrorIs(t, err, ErrSessionEnded)
			require.EqualValues(t, 0, p.Offsets().LogEnd)
		})
	}
	w := newWorld(t)
	p := w.topic("t", nil, 2, node)
	_, err := p.BeginMirror()
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	_, err = p.AppendMirrored(0, at(plain("x"), 0, 0))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
}

// stopped mirrors a log with an open transaction and takes its stop up to the
// quorum's record of the cut.
func stopping(t *testing.T, w *world) (*Partition, psm.Stop) {
	w.topic("t", nil, node)
	p := w.mirrored("t", 4)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	raw := at(records(1, 0, 0, false, "a", "b"), 0, 3)
	raw = append(raw, at(records(2, 0, 0, true, "open"), 2, 3)...)
	raw = append(raw, at(plain("c"), 3, 3)...)
	_, err = p.AppendMirrored(s, raw)
	require.NoError(t, err)
	p.EndMirror()
	o, err := p.Settle(t.Context())
	require.NoError(t, err)
	require.Equal(t, Offsets{LastStable: 2, HighWatermark: 4, LogEnd: 4, LeaderEpoch: 4, LogEpoch: 3}, o)
	require.ErrorIs(t, p.Cut(2, 5), kerr.UnknownLeaderEpoch, "before the image has it")
	stop := psm.Stop{L: 2, BarrierOffset: 2, Epoch: 5, SourceClusterID: source}
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) {
		p.LeaderEpoch, p.Mirror.State = 5, quorum.Stopping
		p.Mirror.Current = &quorum.StopRecord{L: 2, Epoch: 5, SourceClusterID: source}
		p.Mirror.Stops = append(p.Mirror.Stops, stop)
	})
	return p, stop
}

// LOG-4: in the epoch that an alignment began a leader serves nothing of what
// it has yet to cut, or a follower would keep it.
func TestNoFetchBetweenTheRecordOfAnAlignmentAndItsCut(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	add(t, p, plain("a"), anyEpoch(ForClient))
	add(t, p, plain("own"), anyEpoch(ForClient))
	w.edit("t", func(top *quorum.Topic, p *quorum.Partition) {
		top.Mirror, p.LeaderEpoch = "m", 7
		p.Mirror = quorum.MirrorPartition{State: quorum.LogTruncation, Aligned: true, AlignedAt: 1, Cutting: &quorum.AlignRecord{At: 1, Epoch: 7}}
	})
	_, err := p.Read(consumer(0))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	require.NoError(t, p.Cut(1, 7))
	require.Equal(t, []string{"0:a"}, all(t, p))
}

// What the quorum says of the log's end must outlive the machine: a checkpoint
// above a cut would have recovery trust what is written there later, and a log
// that lost what lay below L could never take its barrier.
func TestWhatAStopRecordsIsOnDisk(t *testing.T) {
	w := newWorld(t)
	disk := &fullFs{Fs: w.fs}
	require.NoError(t, w.m.Close(false))
	w.fs = disk
	w.start()
	p, _ := stopping(t, w)
	require.EqualValues(t, 4, p.log.RecoveryPoint(), "settled")
	require.NoError(t, w.m.saveMarks())
	require.EqualValues(t, 2, w.m.saved.recovery["t-0"], "what a stop may cut is not said to be on disk")
	w.m.saved.recovery["t-0"] = 4 // as from before it was a mirror's
	disk.refuse = fileRecovery
	require.Error(t, p.Cut(2, 5))
	require.EqualValues(t, 2, p.Offsets().LogEnd)
	disk.refuse = ""
	require.NoError(t, p.Cut(2, 5))
	saved, err := loadMarks(disk, "/data/logs")
	require.NoError(t, err)
	require.EqualValues(t, 2, saved.recovery["t-0"])
}

func TestStop(t *testing.T) {
	w := newWorld(t)
	p, stop := stopping(t, w)
	_, err := p.Read(consumer(0))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition, "no fetch before the cut")

	for range 2 { // every step may be repeated
		require.NoError(t, p.Cut(2, 5))
		require.Equal(t, []string{"0:a", "1:b"}, all(t, p))
	}
	require.Len(t, p.Producers(), 1)
	for range 2 {
		at, err := p.AppendBarrier(stop)
		require.NoError(t, err)
		require.EqualValues(t, 2, at)
		require.NoError(t, p.WaitCommitted(t.Context(), at))
		require.NoError(t, p.Cut(2, 5), "the cut does not take the barrier")
	}
	require.Empty(t, p.Producers(), "PSM-1")
	require.Equal(t, []string{"0:a", "1:b", "2:MIRROR_PID_RESET"}, all(t, p))
	barriers := p.Barriers()
	require.Len(t, barriers, 1)
	require.True(t, barriers[0].Own)
	require.Equal(t, [2]int64{2, 5}, [2]int64{barriers[0].Offset, int64(barriers[0].LeaderEpoch)})
	require.Equal(t, source, barriers[0].SourceClusterID)

	_, err = p.Append(t.Context(), records(1, 0, 0, false, "early"), anyEpoch(ForClient))
	require.ErrorIs(t, err, ErrReadOnly, "RO-5")
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Mirror.State, p.Mirror.Current = quorum.Stopped, nil })
	// IDEM-1: the very same header as a mirrored batch's.
	require.Equal(t, AppendResult{BaseOffset: 3, LastOffset: 4, LogAppendTime: -1}, add(t, p, records(1, 0, 0, false, "a", "b"), anyEpoch(ForClient)))

	// PSM-3, PSM-6: the same after any restart.
	for _, clean := range []bool{true, false} {
		w.restart(clean)
		p = w.get("t")
		require.Len(t, p.Producers(), 1)
		require.EqualValues(t, 1, p.Producers()[0].LastSequence)
		require.True(t, add(t, p, records(1, 0, 0, false, "a", "b"), anyEpoch(ForClient)).Duplicate)
		require.Equal(t, barriers, p.Barriers())
	}
}

// A stop goes on where it was after the node died at any of its steps.
func TestStopSurvivesACrashAtEachStep(t *testing.T) {
	for steps := range 4 {
		w := newWorld(t)
		p, stop := stopping(t, w)
		for i := range steps {
			switch i {
			case 0:
				require.NoError(t, p.Cut(2, 5))
			case 1:
				_, err := p.AppendBarrier(stop)
				require.NoError(t, err)
			}
		}
		w.restart(false)
		p = w.get("t")
		if steps == 0 {
			_, err := p.Read(consumer(0))
			require.ErrorIs(t, err, kerr.NotLeaderForPartition)
		}
		require.NoError(t, p.Cut(2, 5))
		at, err := p.AppendBarrier(stop)
		require.NoError(t, err)
		require.EqualValues(t, 2, at)
		require.Equal(t, []string{"0:a", "1:b", "2:MIRROR_PID_RESET"}, all(t, p))
		require.Empty(t, p.Producers())
	}
}

func TestBarrierIsRefused(t *testing.T) {
	w := newWorld(t)
	p, stop := stopping(t, w)
	_, err := p.AppendBarrier(stop)
	require.ErrorContains(t, err, "barrier belongs at offset 2, the log ends at 4")
	later := stop
	later.Epoch = 6
	_, err = p.AppendBarrier(later)
	require.ErrorIs(t, err, kerr.UnknownLeaderEpoch)
	// PSM-8, if ever a cut left one open.
	open := psm.Stop{L: 4, BarrierOffset: 4, Epoch: 5, SourceClusterID: source}
	_, err = p.AppendBarrier(open)
	require.ErrorIs(t, err, kerr.InvalidTxnState)
	require.EqualValues(t, 4, p.Offsets().LogEnd)
}

// Transactions that interleave: the stop cuts below one that ended above the
// last stable offset.
func TestSettleFindsWhereToCut(t *testing.T) {
	w := newWorld(t)
	w.topic("t", nil, node)
	p := w.mirrored("t", 4)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	raw := at(plain("a"), 0, 3)
	raw = append(raw, at(records(1, 0, 0, true, "committed later"), 1, 3)...)
	raw = append(raw, at(records(2, 0, 0, true, "open"), 2, 3)...)
	raw = append(raw, at(marker(1, 0, true), 3, 3)...)
	_, err = p.AppendMirrored(s, raw)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.Offsets().LastStable)
	o, err := p.Settle(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, o.LastStable)
}

func TestWaitsEnd(t *testing.T) {
	w := newWorld(t)
	w.topic("t", nil, node, 2)
	p := w.mirrored("t", 1)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	_, err = p.AppendMirrored(s, at(plain("a"), 0, 0))
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, err = p.Settle(ctx)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, p.WaitCommitted(ctx, 0), why)
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Leader = 2 })
	_, err = p.Settle(t.Context())
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	require.ErrorIs(t, p.WaitCommitted(t.Context(), 0), kerr.NotLeaderForPartition)
}
