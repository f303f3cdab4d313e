package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/quorum"
)

func TestLeadershipIsChecked(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node, 2)
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch, p.ISR = 5, []int32{node} })
	for _, c := range []struct {
		leader, epoch int32
		want          error
	}{
		{node, -1, nil},
		{node, 5, nil},
		{node, 4, kerr.FencedLeaderEpoch},
		{node, 6, kerr.UnknownLeaderEpoch},
		{2, -1, kerr.NotLeaderForPartition},
		{2, 5, kerr.NotLeaderForPartition},
		{2, 4, kerr.FencedLeaderEpoch},
	} {
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Leader = c.leader })
		_, err := p.Append(t.Context(), plain("x"), AppendOptions{LeaderEpoch: c.epoch})
		require.ErrorIs(t, err, c.want, "append, %+v", c)
		o := consumer(0)
		o.CurrentLeaderEpoch = c.epoch
		_, err = p.Read(o)
		require.ErrorIs(t, err, c.want, "read, %+v", c)
		require.ErrorIs(t, p.CheckLeader(c.epoch), c.want)
	}
	leader, epoch := p.Leader()
	require.Equal(t, [2]int32{2, 5}, [2]int32{leader, epoch})
}

// The high watermark is what every in-sync replica has fetched in this leader
// epoch; acks=-1 waits for it.
func TestHighWatermarkFollowsTheISR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.topic("t", map[string]string{"min.insync.replicas": "2"}, node, 2, 3)
		done := make(chan error, 1)
		go func() {
			_, err := p.Append(t.Context(), plain("a", "b"), AppendOptions{Acks: -1, LeaderEpoch: -1})
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, all(t, p), "nothing is committed yet")
		fetch := func(id int32, offset int64) ReadResult {
			o := consumer(offset)
			o.ReplicaID, o.CurrentLeaderEpoch = id, 0
			return read(t, p, o)
		}
		require.Equal(t, []string{"0:a", "1:b"}, values(t, fetch(2, 0).Raw), "followers see the log's end")
		fetch(2, 2)
		fetch(3, 0)
		synctest.Wait()
		require.Empty(t, done)
		require.EqualValues(t, 0, p.Offsets().HighWatermark)
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.ISR = []int32{node, 2} })
		require.NoError(t, <-done)
		require.EqualValues(t, 2, p.Offsets().HighWatermark)
		require.Equal(t, []string{"0:a", "1:b"}, all(t, p))

		// Ends fetched in an earlier leader epoch count no more.
		_, err := p.Append(t.Context(), plain("c"), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.ISR = []int32{node, 2, 3} })
		fetch(2, 3)
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch = 1 })
		again := func(id int32) {
			o := consumer(3)
			o.ReplicaID, o.CurrentLeaderEpoch = id, 1
			read(t, p, o)
		}
		again(3)
		require.EqualValues(t, 2, p.Offsets().HighWatermark)
		again(2)
		require.EqualValues(t, 3, p.Offsets().HighWatermark)

		_, err = p.Read(ReadOptions{Offset: 0, ReplicaID: 9, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
		require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	})
}

func TestMinInSyncReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.topic("t", map[string]string{"min.insync.replicas": "2"}, node, 2)
		done := make(chan error, 1)
		go func() {
			_, err := p.Append(t.Context(), plain("a"), AppendOptions{Acks: -1, LeaderEpoch: -1})
			done <- err
		}()
		synctest.Wait()
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.ISR = []int32{node} })
		require.ErrorIs(t, <-done, kerr.NotEnoughReplicasAfterAppend)
		_, err := p.Append(t.Context(), plain("b"), AppendOptions{Acks: -1, LeaderEpoch: -1})
		require.ErrorIs(t, err, kerr.NotEnoughReplicas)
		require.Equal(t, []string{"0:a"}, all(t, p))
		require.EqualValues(t, 1, add(t, p, plain("c"), AppendOptions{Acks: 1, LeaderEpoch: -1}).BaseOffset)
	})
}

// A waiting append ends with leadership, with its context, and with the node.
func TestWaitingAppendEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *world, cancel context.CancelCauseFunc)
		want error
	}{
		"leader elsewhere": {func(w *world, _ context.CancelCauseFunc) {
			w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.Leader, p.LeaderEpoch = 2, 1 })
		}, kerr.NotLeaderForPartition},
		"new epoch": {func(w *world, _ context.CancelCauseFunc) {
			w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch = 1 })
		}, kerr.NotLeaderForPartition},
		"context": {func(_ *world, cancel context.CancelCauseFunc) { cancel(kerr.RequestTimedOut) }, kerr.RequestTimedOut},
		"closed":  {func(w *world, _ context.CancelCauseFunc) { require.NoError(w.t, w.m.Close(true)) }, kerr.NotLeaderForPartition},
		"deleted": {func(w *world, _ context.CancelCauseFunc) { delete(w.tops, "t"); w.apply() }, kerr.NotLeaderForPartition},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := w.topic("t", nil, node, 2)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan error, 1)
				go func() {
					_, err := p.Append(ctx, plain("a"), AppendOptions{Acks: -1, LeaderEpoch: -1})
					done <- err
				}()
				synctest.Wait()
				c.end(w, cancel)
				require.ErrorIs(t, <-done, c.want)
			})
		})
	}
}

func TestChangedWakesAtEachChange(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	changes := map[string]func(){
		"append":     func() { add(t, p, plain("a"), anyEpoch(ForClient)) },
		"leadership": func() { w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch++ }) },
		"mirror":     func() { w.mirrored("t", 3) },
	}
	for _, name := range []string{"append", "leadership", "mirror"} {
		c := p.Changed()
		select {
		case <-c:
			t.Fatalf("woken before %s", name)
		default:
		}
		changes[name]()
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatalf("not woken by %s", name)
		}
	}
	c := p.Changed()
	require.NoError(t, w.m.Close(true))
	<-c
	<-p.Changed()
}

func TestReadCommitted(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	txn := func(pid int64, seq int32, v string) {
		g, ongoing, err := p.StartVerification(pid, 0, seq, false)
		require.NoError(t, err)
		require.Equal(t, seq > 0, ongoing)
		o := anyEpoch(ForClient)
		o.Guard = g
		add(t, p, records(pid, 0, seq, true, v), o)
	}
	txn(1, 0, "a")
	txn(2, 0, "b")
	txn(1, 1, "c")
	add(t, p, marker(1, 0, false), anyEpoch(ForMarker))
	o := consumer(0)
	o.ReadCommitted = true
	res := read(t, p, o)
	require.Equal(t, []string{"0:a"}, values(t, res.Raw))
	require.Equal(t, []AbortedTxn{{1, 0}}, res.Aborted)
	require.EqualValues(t, 1, res.LastStableOffset)
	require.EqualValues(t, 4, res.HighWatermark)

	add(t, p, marker(2, 0, true), anyEpoch(ForMarker))
	res = read(t, p, o)
	require.Equal(t, []string{"0:a", "1:b", "2:c", "3:ABORT", "4:COMMIT"}, values(t, res.Raw))
	require.Equal(t, []AbortedTxn{{1, 0}}, res.Aborted)
	o.Offset = 4
	require.Equal(t, []AbortedTxn{}, read(t, p, o).Aborted)
	require.Nil(t, read(t, p, consumer(0)).Aborted, "read_uncommitted gets no list")

	_, err := p.Append(t.Context(), records(3, 0, 0, true, "x"), anyEpoch(ForClient))
	require.ErrorIs(t, err, kerr.InvalidTxnState, "a transaction that nobody verified")
	require.Len(t, p.Producers(), 2)
}

func TestOutOfRange(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	add(t, p, plain("a"), anyEpoch(ForClient))
	for _, offset := range []int64{-1, 2} {
		res, err := p.Read(consumer(offset))
		require.ErrorIs(t, err, kerr.OffsetOutOfRange)
		require.EqualValues(t, 1, res.HighWatermark)
	}
	require.Empty(t, read(t, p, consumer(1)).Raw)
}

// A fetcher whose last batch is not in this log learns where the logs part.
func TestDivergingFetch(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	for _, epoch := range []int32{2, 2, 5} {
		w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch = epoch })
		add(t, p, plain("a", "b"), anyEpoch(ForClient))
	}
	w.edit("t", func(_ *quorum.Topic, p *quorum.Partition) { p.LeaderEpoch = 9 })
	for _, c := range []struct {
		offset    int64
		last      int32
		wantEpoch int32
		wantEnd   int64
	}{
		{4, 2, -1, -1},
		{6, 5, -1, -1},
		{5, 2, 2, 4},
		{4, 3, 2, 4},
		{6, 7, 5, 6},
		{6, 9, -1, -1},
		{2, 1, 1, 0},
	} {
		o := consumer(c.offset)
		o.LastFetchedEpoch = c.last
		res := read(t, p, o)
		require.Equal(t, [2]int64{int64(c.wantEpoch), c.wantEnd}, [2]int64{int64(res.DivergingEpoch), res.DivergingEnd}, "%+v", c)
		if c.wantEpoch >= 0 {
			require.Empty(t, res.Raw)
		}
	}
	o := consumer(0)
	o.LastFetchedEpoch = 10
	_, err := p.Read(o)
	require.ErrorIs(t, err, kerr.OffsetOutOfRange)
}

func TestEndOffsetForEpoch(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	check := func(epoch, wantEpoch int32, wantEnd int64) {
		t.Helper()
		e, end := p.EndOffsetForEpoch(epoch)
		require.Equal(t, [2]int64{int64(wantEpoch), wantEnd}, [2]int64{int64(e), end}, "epoch %d", epoch)
	}
	check(0, 0, 0)
	check(1, -1, -1)
	w.mirrored("t", 7)
	s, err := p.BeginMirror()
	require.NoError(t, err)
	_, err = p.AppendMirrored(s, at(plain("a", "b"), 0, 3))
	require.NoError(t, err)
	require.EqualValues(t, 3, p.Offsets().LogEpoch, "epochs enter with the batches")
	require.EqualValues(t, 7, p.Offsets().LeaderEpoch)
	check(3, 3, 2)
	check(5, 3, 2)
	check(7, 7, 2)
	check(8, -1, -1)
	check(2, 2, 0)
}

func TestTimes(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	offset, ts, epoch, err := p.MaxTimestamp()
	require.NoError(t, err)
	require.Equal(t, [3]int64{-1, -1, -1}, [3]int64{offset, ts, int64(epoch)})
	add(t, p, plain("a", "b"), anyEpoch(ForClient))
	offset, ts, epoch, err = p.OffsetForTime(1000)
	require.NoError(t, err)
	require.Equal(t, [3]int64{0, 1000, 0}, [3]int64{offset, ts, int64(epoch)})
	offset, _, _, err = p.OffsetForTime(1001)
	require.NoError(t, err)
	require.EqualValues(t, -1, offset)
}

func TestDeleteRecords(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", map[string]string{"segment.bytes": "100"}, node)
	for seq := range int32(4) {
		add(t, p, records(1, 0, seq, false, "a"), anyEpoch(ForClient))
	}
	start, err := p.DeleteRecords(2)
	require.NoError(t, err)
	require.EqualValues(t, 2, start)
	_, err = p.DeleteRecords(5)
	require.ErrorIs(t, err, kerr.OffsetOutOfRange)
	start, err = p.DeleteRecords(-1)
	require.NoError(t, err)
	require.EqualValues(t, 4, start)
	for _, clean := range []bool{true, false} {
		w.restart(clean)
		p = w.get("t")
		require.EqualValues(t, 4, p.Offsets().LogStart)
		_, err = p.Read(consumer(3))
		require.ErrorIs(t, err, kerr.OffsetOutOfRange)
		require.True(t, add(t, p, records(1, 0, 3, false, "a"), anyEpoch(ForClient)).Duplicate, "FA-04")
	}
	w.mirrored("t", 1)
	_, err = p.DeleteRecords(4)
	require.ErrorIs(t, err, ErrReadOnly, "RO-3")
}

func TestAppendWaitsForItsTurnWithContext(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node)
	p.order.Lock()
	defer p.order.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer wanted")
	cancel(why)
	_, err := p.Append(ctx, plain("a"), anyEpoch(ForClient))
	require.ErrorIs(t, err, why)
}
