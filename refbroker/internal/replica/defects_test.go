package replica

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/quorum"
)

// both tries a defect, and the same without it.
func both(t *testing.T, name defect.Name, try func(t *testing.T, w *world, wrong bool)) {
	t.Helper()
	t.Run(string(name), func(t *testing.T) {
		t.Run("wrong", func(t *testing.T) { try(t, newWorld(t, string(name)), true) })
		t.Run("right", func(t *testing.T) { try(t, newWorld(t), false) })
	})
}

// if2 is one of two values.
func if2[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}

func producers(p *Partition) (all []int64) {
	for _, q := range p.Producers() {
		all = append(all, q.ProducerID)
	}
	return all
}

func isStopped(_ *quorum.Topic, p *quorum.Partition) {
	p.Mirror.State, p.Mirror.Current = quorum.Stopped, nil
}

// stopped takes a stop to its end; mirrored producer 1 is below L, which is 2.
func stopped(t *testing.T, w *world) *Partition {
	p, stop := stopping(t, w)
	require.NoError(t, p.Cut(2, 5))
	_, err := p.AppendBarrier(stop)
	require.NoError(t, err)
	w.edit("t", isStopped)
	return p
}

func TestDefectsOfTheBarriersEffect(t *testing.T) {
	both(t, defect.RecoveryDoesNotExpire, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		require.Empty(t, producers(p))
		add(t, p, records(9, 0, 0, false, "local"), anyEpoch(ForClient))
		w.restart(false)
		require.Equal(t, if2(wrong, []int64{1, 9}, []int64{9}), producers(w.get("t")))
	})
	both(t, defect.ExpiredEntriesPutBack, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		require.Empty(t, producers(p))
		add(t, p, records(9, 0, 0, false, "local"), anyEpoch(ForClient))
		w.restart(false)
		require.Equal(t, if2(wrong, []int64{1, 9}, []int64{9}), producers(w.get("t")))
	})
	both(t, defect.StateLostOnRestart, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		add(t, p, records(9, 0, 0, false, "local"), anyEpoch(ForClient))
		for _, clean := range []bool{false, true} {
			w.restart(clean)
			require.Equal(t, if2(wrong, nil, []int64{9}), producers(w.get("t")))
		}
		require.Equal(t, !wrong, add(t, w.get("t"), records(9, 0, 0, false, "local"), anyEpoch(ForClient)).Duplicate, "IDEM-3")
	})
	both(t, defect.StaleDedupeAck, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		require.Empty(t, producers(p))
		res := add(t, p, records(1, 0, 0, false, "a", "b"), anyEpoch(ForClient))
		want := if2(wrong, AppendResult{BaseOffset: 0, LastOffset: 1, LogAppendTime: -1, Duplicate: true}, AppendResult{BaseOffset: 3, LastOffset: 4, LogAppendTime: -1})
		require.Equal(t, want, res)
	})
	both(t, defect.StaleEpochFences, func(t *testing.T, w *world, wrong bool) {
		w.topic("t", nil, node)
		p := w.mirrored("t", 4)
		s, err := p.BeginMirror()
		require.NoError(t, err)
		_, err = p.AppendMirrored(s, at(records(1, 3, 0, false, "a"), 0, 3))
		require.NoError(t, err)
		stop := psm.Stop{L: 1, BarrierOffset: 1, Epoch: 5, SourceClusterID: source}
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) {
			p.LeaderEpoch, p.Mirror.State = 5, quorum.Stopping
			p.Mirror.Current = &quorum.StopRecord{L: 1, Epoch: 5, SourceClusterID: source}
			p.Mirror.Stops = append(p.Mirror.Stops, stop)
		})
		_, err = p.AppendBarrier(stop)
		require.NoError(t, err)
		w.edit("t", isStopped)
		require.Empty(t, producers(p))
		_, err = p.Append(t.Context(), records(1, 2, 0, false, "local"), anyEpoch(ForClient))
		if wrong {
			require.ErrorIs(t, err, kerr.InvalidProducerEpoch)
		} else {
			require.NoError(t, err)
		}
	})
	both(t, defect.InheritedBarrierExpires, func(t *testing.T, w *world, wrong bool) {
		w.topic("t", nil, node)
		p := w.mirrored("t", 4)
		s, err := p.BeginMirror()
		require.NoError(t, err)
		_, err = p.AppendMirrored(s, at(records(1, 0, 0, false, "a", "b"), 0, 3))
		require.NoError(t, err)
		_, err = p.AppendMirrored(s, at(psm.Barrier{SourceClusterID: "another"}.Append(nil), 2, 3))
		require.NoError(t, err)
		require.Equal(t, if2(wrong, nil, []int64{1}), producers(p))
	})
	for _, c := range []struct {
		profile quorum.Profile
		faults  []string
		expires bool
	}{
		{quorum.V42, nil, false}, {quorum.Latest, nil, true}, {quorum.Latest, []string{string(defect.InheritedBarrierKept)}, false},
	} {
		set, err := defect.Parse(c.faults)
		require.NoError(t, err)
		m := &Manager{cfg: Config{Profile: c.profile, Defects: set}}
		require.Equal(t, c.expires, m.anyBarrierExpires(), "%v", c)
	}
}

// stableCut stops at the log's end, over an open transaction.
func overOpen(t *testing.T, w *world) (*Partition, error) {
	w.topic("t", nil, node)
	p := w.mirrored("t", 4)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	_, err = p.AppendMirrored(s, append(at(records(1, 0, 0, false, "a", "b"), 0, 3), at(records(2, 0, 0, true, "open"), 2, 3)...))
	require.NoError(t, err)
	stop := psm.Stop{L: 3, BarrierOffset: 3, Epoch: 5, SourceClusterID: source}
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) {
		p.LeaderEpoch, p.Mirror.State = 5, quorum.Stopping
		p.Mirror.Current = &quorum.StopRecord{L: 3, Epoch: 5, SourceClusterID: source}
		p.Mirror.Stops = append(p.Mirror.Stops, stop)
	})
	_, err = p.AppendBarrier(stop)
	return p, err
}

func TestDefectsOfOpenTransactions(t *testing.T) {
	committed := func(p *Partition) ReadResult {
		o := consumer(0)
		o.ReadCommitted = true
		return read(t, p, o)
	}
	both(t, defect.UnstableRecordsShown, func(t *testing.T, w *world, wrong bool) {
		w.topic("t", nil, node)
		p := w.get("t")
		add(t, p, records(1, 0, 0, false, "a", "b"), anyEpoch(ForClient))
		g, _, err := p.StartVerification(2, 0, 0, true)
		require.NoError(t, err)
		add(t, p, records(2, 0, 0, true, "open"), AppendOptions{LeaderEpoch: -1, Guard: g})
		res := committed(p)
		require.EqualValues(t, 3, res.HighWatermark)
		require.EqualValues(t, if2(wrong, 3, 2), res.LastStableOffset, "SC-3")
		require.Equal(t, if2(wrong, 3, 2), len(values(t, res.Raw)))
	})
	both(t, defect.OpenTransactionsKept, func(t *testing.T, w *world, wrong bool) {
		p, err := overOpen(t, w)
		if !wrong {
			require.ErrorIs(t, err, kerr.InvalidTxnState, "PSM-8")
			return
		}
		require.NoError(t, err)
		require.Equal(t, []int64{2}, producers(p))
		for range 2 {
			require.EqualValues(t, 2, w.get("t").Offsets().LastStable, "TXN-1")
			w.edit("t", isStopped)
			w.restart(false)
		}
	})
	both(t, defect.OpenTransactionsDroppedWithData, func(t *testing.T, w *world, wrong bool) {
		p, err := overOpen(t, w)
		if !wrong {
			require.ErrorIs(t, err, kerr.InvalidTxnState, "PSM-8")
			return
		}
		require.NoError(t, err)
		require.Empty(t, producers(p))
		for range 2 {
			res := committed(w.get("t"))
			require.Contains(t, values(t, res.Raw), "2:open", "TXN-3")
			require.Empty(t, res.Aborted)
			w.edit("t", isStopped)
			w.restart(false)
		}
	})
	both(t, defect.BarrierOverOpenTransaction, func(t *testing.T, w *world, wrong bool) {
		p, err := overOpen(t, w)
		if !wrong {
			require.ErrorIs(t, err, kerr.InvalidTxnState, "PSM-8")
			return
		}
		require.NoError(t, err)
		require.Empty(t, producers(p))
		for range 2 {
			p := w.get("t")
			require.EqualValues(t, p.Offsets().HighWatermark, p.Offsets().LastStable)
			require.Len(t, committed(p).Aborted, 1, "what it found open is aborted, also in recovery")
			w.edit("t", isStopped)
			w.restart(false)
		}
	})
	both(t, defect.AbortedIndexLostOnTruncation, func(t *testing.T, w *world, wrong bool) {
		w.topic("t", nil, node)
		p := w.mirrored("t", 4)
		s, err := p.BeginMirror()
		require.NoError(t, err)
		raw := append(at(records(1, 0, 0, true, "aborted"), 0, 3), at(marker(1, 0, false), 1, 3)...)
		_, err = p.AppendMirrored(s, append(raw, at(plain("cut"), 2, 3)...))
		require.NoError(t, err)
		require.Len(t, committed(p).Aborted, 1)
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) {
			p.LeaderEpoch, p.Mirror.State = 5, quorum.Stopping
			p.Mirror.Current = &quorum.StopRecord{L: 2, Epoch: 5, SourceClusterID: source}
		})
		require.NoError(t, p.Cut(2, 5))
		res := committed(p)
		require.Equal(t, []string{"0:aborted", "1:ABORT"}, values(t, res.Raw))
		require.Len(t, res.Aborted, if2(wrong, 0, 1))
	})
}

func TestDefectsOfTheReadOnlyWindow(t *testing.T) {
	both(t, defect.LocalMarkersAppendedWhileMirroring, func(t *testing.T, w *world, wrong bool) {
		w.topic("t", nil, node)
		p := w.mirrored("t", 1)
		_, err := p.Append(t.Context(), marker(1, 0, false), anyEpoch(ForMarker))
		if wrong {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrReadOnly)
		}
		require.Equal(t, if2[int64](wrong, 1, 0), p.Offsets().LogEnd)
		_, err = p.Append(t.Context(), plain("a client's"), anyEpoch(ForClient))
		require.ErrorIs(t, err, ErrReadOnly)
	})
	both(t, defect.RefusedProducersStayRefused, func(t *testing.T, w *world, wrong bool) {
		p, stop := stopping(t, w)
		mine := records(8, 0, 0, false, "refused")
		_, err := p.Append(t.Context(), slices.Clone(mine), anyEpoch(ForClient))
		require.ErrorIs(t, err, ErrReadOnly)
		require.NoError(t, p.Cut(2, 5))
		_, err = p.AppendBarrier(stop)
		require.NoError(t, err)
		w.edit("t", isStopped)
		add(t, p, records(9, 0, 0, false, "another"), anyEpoch(ForClient))
		_, err = p.Append(t.Context(), mine, anyEpoch(ForClient))
		if wrong {
			require.ErrorIs(t, err, ErrReadOnly)
		} else {
			require.NoError(t, err)
		}
	})
	both(t, defect.FirstWriteLost, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		add(t, p, records(8, 0, 0, false, "not plain"), anyEpoch(ForClient))
		end := p.Offsets().LogEnd
		res := add(t, p, plain("first"), anyEpoch(ForClient))
		require.Equal(t, end, res.BaseOffset)
		require.Equal(t, if2(wrong, end, end+1), p.Offsets().LogEnd)
		add(t, p, plain("second"), anyEpoch(ForClient))
		require.Equal(t, if2(wrong, end+1, end+2), p.Offsets().LogEnd)
	})
	both(t, defect.DeleteRecordsWhileMirroring, func(t *testing.T, w *world, wrong bool) {
		p := w.topic("t", nil, node)
		add(t, p, plain("a"), anyEpoch(ForClient))
		w.mirrored("t", 1)
		_, err := p.DeleteRecords(-1)
		if wrong {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrReadOnly)
		}
		require.Equal(t, if2[int64](wrong, 1, 0), p.Offsets().LogStart)
	})
	both(t, defect.ReadOnlyAfterRestart, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		w.topic("own", nil, node)
		add(t, p, plain("x"), anyEpoch(ForClient))
		for range 2 {
			w.restart(true)
			require.Equal(t, wrong, w.get("t").ReadOnly())
			require.False(t, w.get("own").ReadOnly())
			_, err := w.get("t").Append(t.Context(), plain("y"), anyEpoch(ForClient))
			if wrong {
				require.ErrorIs(t, err, ErrReadOnly)
			} else {
				require.NoError(t, err)
			}
		}
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Mirror.State = quorum.LogTruncation })
		w.edit("t", isStopped)
		require.False(t, w.get("t").ReadOnly())
	})
	both(t, defect.WriteBeforeBarrier, func(t *testing.T, w *world, wrong bool) {
		p, stop := stopping(t, w)
		require.True(t, p.ReadOnly(), "before the cut")
		_, err := p.Append(t.Context(), plain("lost"), anyEpoch(ForClient))
		require.ErrorIs(t, err, ErrReadOnly)
		require.NoError(t, p.Cut(2, 5))
		require.Equal(t, !wrong, p.ReadOnly())
		_, err = p.Append(t.Context(), records(8, 0, 0, false, "early"), anyEpoch(ForClient))
		barrier := int64(2)
		if wrong {
			require.NoError(t, err)
			barrier = 3
		} else {
			require.ErrorIs(t, err, ErrReadOnly)
		}
		for range 2 { // it may be repeated all the same
			offset, err := p.AppendBarrier(stop)
			require.NoError(t, err)
			require.Equal(t, barrier, offset)
		}
		w.edit("t", isStopped)
		for _, clean := range []bool{false, true} {
			w.restart(clean)
			p = w.get("t")
			require.Empty(t, producers(p))
			require.Equal(t, barrier, p.Barriers()[0].Offset)
			require.True(t, p.Barriers()[0].Own)
		}
	})
	both(t, defect.EpochsGoBackwards, func(t *testing.T, w *world, wrong bool) {
		p := w.topic("t", nil, node)
		add(t, p, plain("own"), anyEpoch(ForClient)) // a log that was never stopped is not touched
		w = if2(wrong, newWorld(t, string(defect.EpochsGoBackwards)), newWorld(t))
		p = stopped(t, w)
		for range 2 {
			add(t, p, plain("local"), anyEpoch(ForClient))
			w.restart(false)
			p = w.get("t")
		}
		var epochs []int32
		for raw := read(t, p, consumer(0)).Raw; len(raw) > 0; {
			b, err := psm.DecodeHeader(raw)
			require.NoError(t, err)
			epochs, raw = append(epochs, b.LeaderEpoch), raw[b.Size:]
		}
		require.Equal(t, if2(wrong, []int32{3, 5, 4, 4}, []int32{3, 5, 5, 5}), epochs)
	})
}

// hop mirrors all of a log to the next cluster of a chain.
func hop(t *testing.T, from []byte, defects ...string) (*Partition, []byte) {
	w := newWorld(t, defects...)
	w.topic("t", nil, node)
	p := w.mirrored("t", 9)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	given := string(from)
	_, err = p.AppendMirrored(s, from)
	require.NoError(t, err)
	require.Equal(t, given, string(from), "the caller's bytes stay")
	got := read(t, p, consumer(0)).Raw
	require.Equal(t, values(t, from), values(t, got), "records stay, and CRCs are right")
	return p, got
}

func idsIn(t *testing.T, raw []byte) (all []int64) {
	for len(raw) > 0 {
		b, err := psm.DecodeHeader(raw)
		require.NoError(t, err)
		all, raw = append(all, b.ProducerID), raw[b.Size:]
	}
	return all
}

// KIP-1279's pictures of what its first design did to a chain, markers too.
func TestDefectsThatRewriteProducerIDs(t *testing.T) {
	a := at(plain("none"), 0, 0)
	a = append(a, at(records(5, 0, 0, true, "x"), 1, 0)...)
	a = append(a, at(marker(5, 0, true), 2, 0)...)
	a = append(a, at(psm.Barrier{SourceClusterID: source}.Append(nil), 3, 0)...)
	for name, want := range map[string][]int64{
		string(defect.PIDRewrite):     {5, -7, 5, -7},
		string(defect.PIDRewriteOnce): {5, -7, -7, -7},
	} {
		t.Run(name, func(t *testing.T) {
			log := a
			for _, id := range want[1:] {
				var p *Partition
				p, log = hop(t, log, name)
				require.Equal(t, []int64{-1, id, id, -1}, idsIn(t, log))
				require.Equal(t, []int64{id}, producers(p), "state is kept under the rewritten id")
				require.EqualValues(t, 4, p.Offsets().LastStable)
			}
			_, same := hop(t, a)
			require.Equal(t, string(a), string(same), "without the defect it is as it was")
		})
	}
}

// The scenarios that KIP-1279 names: A's producer 5, which is -7 on B, and B's
// own producer 5 meet on C. Nothing is refused, and nobody is told. (A right B
// has cut A's open transaction and written its barrier between the two.)
func TestTheCollisionsOfARewrittenID(t *testing.T) {
	once := string(defect.PIDRewriteOnce)
	fromA := func(t *testing.T, raw []byte) []byte { // as B stores it
		_, stored := hop(t, raw, once)
		require.Equal(t, []int64{-7}, idsIn(t, stored))
		return stored
	}
	t.Run("same epoch, wrong sequence", func(t *testing.T) {
		p, _ := hop(t, append(fromA(t, at(records(5, 0, 40, false, "a"), 0, 0)), at(records(5, 0, 0, false, "b"), 1, 0)...), once)
		require.Equal(t, []int64{-7}, producers(p), "one entry for two producers")
		require.EqualValues(t, 0, p.Producers()[0].LastSequence, "of what came last")
	})
	t.Run("different epochs", func(t *testing.T) {
		p, _ := hop(t, append(fromA(t, at(records(5, 6, 0, false, "a"), 0, 0)), at(records(5, 2, 0, false, "b"), 1, 0)...), once)
		require.Equal(t, []int64{-7}, producers(p))
		require.EqualValues(t, 2, p.Producers()[0].Epoch, "the lower one")
	})
	t.Run("a marker ends the other's transaction", func(t *testing.T) {
		log := fromA(t, at(records(5, 0, 0, true, "a's, open"), 0, 0))
		log = append(log, at(records(5, 0, 0, true, "b's"), 1, 0)...)
		p, stored := hop(t, append(log, at(marker(5, 0, true), 2, 0)...), once)
		require.Equal(t, []int64{-7, -7, -7}, idsIn(t, stored))
		require.EqualValues(t, 3, p.Offsets().LastStable, "what A never committed is committed")
	})
	t.Run("with ids as they are, and the other's apart", func(t *testing.T) {
		log := at(records(5, 0, 0, true, "a's, open"), 0, 0)
		log = append(log, at(records(6, 0, 0, true, "b's"), 1, 0)...)
		p, _ := hop(t, append(log, at(marker(6, 0, true), 2, 0)...))
		require.EqualValues(t, 0, p.Offsets().LastStable)
	})
}

// Without KIP-1279 a mirrored producer stays known, also after a restart: a
// local one of its id is taken for it.
func TestDefectNoBarrier(t *testing.T) {
	w := newWorld(t, string(defect.NoBarrier))
	p, _ := stopping(t, w)
	require.NoError(t, p.Cut(2, 5))
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Mirror.State, p.Mirror.Current = quorum.Stopped, nil })
	for _, again := range []func(){func() {}, func() { w.restart(false) }, func() { w.restart(true) }} {
		again()
		p = w.get("t")
		require.Len(t, p.Producers(), 1)
		res := add(t, p, records(1, 0, 0, false, "x", "y"), anyEpoch(ForClient))
		require.Equal(t, AppendResult{BaseOffset: 0, LastOffset: 1, LogAppendTime: -1, Duplicate: true}, res)
		add(t, p, plain("behind L"), anyEpoch(ForClient))
	}
	_, err := p.Append(t.Context(), records(1, 0, 9, false, "from where a local producer is"), anyEpoch(ForClient))
	require.ErrorIs(t, err, kerr.OutOfOrderSequenceNumber)
}

func TestDefectLateFetchAppended(t *testing.T) {
	w := newWorld(t, string(defect.LateFetchAppended))
	p, stop := stopping(t, w)
	require.NoError(t, p.Cut(2, 5))
	_, err := p.AppendBarrier(stop)
	require.NoError(t, err)
	for range 2 {
		_, err = p.AppendMirrored(1, append(at(plain("late"), 2, 3), at(plain("later"), 7, 3)...))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"0:a", "1:b", "2:MIRROR_PID_RESET", "3:late", "7:later", "8:late", "9:later"}, all(t, p))
}

func TestDefectsThatOthersSeeLater(t *testing.T) {
	both(t, defect.FollowerKnowsNoProducers, func(t *testing.T, w *world, wrong bool) {
		p := w.topic("t", nil, leader, node)
		follow(t, p, 2, at(records(7, 0, 0, false, "a", "b"), 0, 0))
		elect(w, "t", node, 1)
		require.Equal(t, if2(wrong, nil, []int64{7}), producers(p))
	})
	both(t, defect.CutBarrierStillExpires, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		require.Empty(t, producers(p))
		_, err := p.log.TruncateTo(2)
		require.NoError(t, err)
		require.Equal(t, if2(wrong, nil, []int64{1}), producers(p), "PSM-9")
	})
	both(t, defect.BarrierValuePadded, func(t *testing.T, w *world, wrong bool) {
		p := stopped(t, w)
		raw := read(t, p, consumer(2)).Raw
		right := psm.Barrier{SourceClusterID: source}.Append(nil)
		require.Equal(t, wrong, len(raw) == len(right)+2)
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		require.NoError(t, psm.CheckCRC(raw))
		require.True(t, b.IsBarrier())
		require.Equal(t, source, b.Control.SourceClusterID)
	})
}
