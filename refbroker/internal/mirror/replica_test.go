package mirror

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/gate"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// records makes a whole batch, as a client would.
func records(base int64, epoch int32, pid int64, seq int32, transactional bool, values ...string) []byte {
	b := kmsg.RecordBatch{
		FirstOffset: base, PartitionLeaderEpoch: epoch, Magic: 2, LastOffsetDelta: int32(len(values) - 1),
		ProducerID: pid, FirstSequence: seq, NumRecords: int32(len(values)), FirstTimestamp: 1e12, MaxTimestamp: 1e12,
	}
	if pid < 0 {
		b.ProducerEpoch, b.FirstSequence = -1, -1
	}
	if transactional {
		b.Attributes = 0x10
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// realReplicas replaces a destination's fake partition by real ones, which
// follow the quorum until end.
type realReplicas struct {
	*replica.Manager
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func openReplicas(t *testing.T, d *destination) *realReplicas {
	m, err := replica.NewManager(replica.Config{Host: d.host, NodeID: 1, Dir: "/logs", Defects: d.faults, Profile: d.profile})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &realReplicas{Manager: m, cancel: cancel}
	require.NoError(t, m.Apply(d.quorum.Image()))
	r.wg.Go(func() {
		for {
			changed := d.quorum.Changed()
			if err := m.Apply(d.quorum.Image()); err != nil {
				t.Errorf("apply: %v", err)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	return r
}

func (r *realReplicas) crash(t *testing.T) {
	r.cancel()
	r.wg.Wait()
	require.NoError(t, r.Close(false))
}

// run starts a process over the real replicas, and returns how to kill it.
func (d *destination) runReal(g gate.Gate) (*Manager, *realReplicas, context.CancelCauseFunc, func()) {
	d.started++
	d.apply(quorum.RegisterBroker{ID: 1, Incarnation: fmt.Sprint(d.started), Profile: d.profile})
	r := openReplicas(d.t, d)
	m := newManager(&env.Env{
		NodeID: 1, ClusterID: ownID, Host: d.host, Log: slog.New(slog.DiscardHandler),
		Replicas: r, Gate: g, Defects: d.faults,
	}, d.quorum, d)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return m, r, cancel, func() {
		cancel(errCrash)
		require.NoError(d.t, <-done)
		r.crash(d.t)
	}
}

// Below offset 3 plain and idempotent records, from 3 on an open transaction
// with other records behind it.
func openAtThree() [][]byte {
	return [][]byte{
		records(0, 1, 5, 0, false, "a", "b"),
		records(2, 2, -1, 0, false, "c"),
		records(3, 2, 7, 0, true, "open 1", "open 2"),
		records(5, 3, 5, 2, false, "behind"),
	}
}

func consumer(offset int64) replica.ReadOptions {
	return replica.ReadOptions{Offset: offset, MaxBytes: 1 << 20, ReplicaID: -1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}
}

// rawLog reads all batches below the high watermark, segment by segment.
func rawLog(t *testing.T, p replica.API) []byte {
	var all []byte
	for at := p.Offsets().LogStart; at < p.Offsets().HighWatermark; {
		res, err := p.Read(consumer(at))
		require.NoError(t, err)
		require.NotEmpty(t, res.Raw)
		all = append(all, res.Raw...)
		for raw := res.Raw; len(raw) > 0; raw = raw[header(raw).Size:] {
			at = header(raw).LastOffset + 1
		}
	}
	return all
}

// T2 begins at 5 and ends at 9, above the beginning, at 7, of T1, which never
// ends: the last stable offset is 7, but a cut there would leave T2 open.
func straddling() [][]byte {
	commit := psm.EndTxnMarker{ProducerID: 8, Commit: true, Timestamp: 1e12}.Append(nil)
	psm.SetOffsets(commit, 9, 3)
	return [][]byte{
		records(0, 1, 5, 0, false, "a", "b"),
		records(2, 2, -1, 0, false, "c", "d", "e"),
		records(5, 2, 8, 0, true, "T2", "T2"),
		records(7, 3, 7, 0, true, "T1"),
		records(8, 3, -1, 0, false, "f"),
		commit,
		records(10, 3, 5, 2, false, "behind"),
	}
}

func TestARealLogIsStoppedOnceWhereverItCrashed(t *testing.T) {
	three := append(openAtThree(), records(6, 3, 2, 0, true, "open too"), records(7, 3, 9, 0, true, "and this"))
	for _, c := range []struct {
		name    string
		profile quorum.Profile
		batches [][]byte
		lso, l  int64   // the last stable offset before, and where the stop ends what is mirrored
		below   int     // batches below l
		aborted []int64 // producers of the ABORT markers that begin at l
	}{
		{"open at the end", quorum.V42, openAtThree(), 3, 3, 2, nil},
		{"straddling", quorum.V42, straddling(), 7, 5, 2, nil},
		{"nothing open", quorum.V42, openAtThree()[:2], 3, 3, 2, nil},
		{"empty", quorum.V42, nil, 0, 0, 0, nil},
		{"latest, open at the end", quorum.Latest, openAtThree(), 3, 6, 4, []int64{7}},
		{"latest, three open", quorum.Latest, three, 3, 8, 6, []int64{2, 7, 9}},
		{"latest, straddling", quorum.Latest, straddling(), 7, 11, 7, []int64{7}},
		{"latest, nothing open", quorum.Latest, openAtThree()[:2], 3, 3, 2, nil},
		{"latest, empty", quorum.Latest, nil, 0, 0, 0, nil},
	} {
		points := []string{"", PointRecorded}
		for _, step := range StepsIn(c.profile) {
			points = append(points, "before:"+step, "after:"+step)
		}
		if c.profile == quorum.Latest && len(c.aborted) < 3 {
			points = []string{"", PointRecorded, "after:" + StepAborted} // the rest is as in the other cases
		}
		for _, point := range points {
			t.Run(c.name+", crash "+point, func(t *testing.T) {
				d := newDestinationIn(t, c.profile)
				d.crash()
				g := &stoppingGate{point: point}
				_, r, end, kill := d.runReal(g)
				s := newFakeSource(t, "127.0.0.1:0", sourceID)
				s.put(3, c.batches...)
				d.create(s.addr())
				d.desire(quorum.Mirroring)
				d.awaitState(quorum.Mirroring)
				part, err := r.Partition("t", 0)
				require.NoError(t, err)
				all := slices.Concat(c.batches...)
				d.await("the source's records", func() bool {
					// The replicas follow the quorum here a little later.
					_, err := part.Read(consumer(0))
					return err == nil && bytes.Equal(all, rawLog(t, part))
				})
				require.Equal(t, c.lso, part.Offsets().LastStable)

				g.mu.Lock()
				g.crash = end
				g.mu.Unlock()
				s.kill()
				d.desire(quorum.Stopped)
				if point != "" {
					d.await("the crash", func() bool {
						g.mu.Lock()
						defer g.mu.Unlock()
						return len(g.passed) > 0 && g.passed[len(g.passed)-1] == point
					})
					kill()
					_, r, _, kill = d.runReal(gate.Open{})
					part, err = r.Partition("t", 0)
					require.NoError(t, err)
				}
				defer func() { kill() }()
				d.awaitState(quorum.Stopped)
				requireCutOnce(t, part, slices.Concat(c.batches[:c.below]...), c.l, c.aborted...)
				barrier := c.l + int64(len(c.aborted))
				m := d.mirror()
				require.Len(t, m.Stops, 1)
				require.Equal(t, c.l, m.Stops[0].L)
				require.Equal(t, barrier, m.Stops[0].BarrierOffset)
				require.Len(t, part.Barriers(), 1)
				require.Equal(t, c.l, part.Barriers()[0].Fork(), "logs part where this cluster began to write")
				require.Equal(t, c.l-1, m.LastMirroredOffset)

				// The very batch header that the source's producer used is new here.
				d.await("writable", func() bool { return !part.ReadOnly() })
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				res, err := part.Append(ctx, records(0, 0, 5, 0, false, "a", "b"), replica.AppendOptions{Acks: -1, LeaderEpoch: -1})
				require.NoError(t, err)
				require.Equal(t, barrier+1, res.BaseOffset)
				require.False(t, res.Duplicate)
			})
		}
	}
}

// requireCutOnce checks that a log holds the source's bytes below l, an ABORT
// marker from l on for each producer given, then one own barrier and nothing
// else, and that nothing of the source is known.
func requireCutOnce(t *testing.T, part replica.API, below []byte, l int64, aborted ...int64) {
	t.Helper()
	got := rawLog(t, part)
	require.Equal(t, string(below), string(got[:len(below)]))
	rest := got[len(below):]
	for _, pid := range aborted {
		b, err := psm.DecodeBatch(rest)
		require.NoError(t, err)
		require.Equal(t, psm.ControlAbort, b.Control.Type)
		require.Equal(t, pid, b.ProducerID)
		require.True(t, b.Transactional())
		require.Equal(t, l, b.BaseOffset)
		rest = rest[b.Size:]
		l++
	}
	b, err := psm.DecodeBatch(rest)
	require.NoError(t, err)
	require.True(t, b.IsBarrier())
	require.Equal(t, l, b.BaseOffset)
	require.Equal(t, sourceID, b.Control.SourceClusterID)
	require.Len(t, rest, b.Size, "something lies behind the barrier")
	require.Empty(t, part.Producers())
	o := part.Offsets()
	require.Equal(t, l+1, o.LogEnd)
	require.Equal(t, o.LogEnd, o.HighWatermark)
	require.Equal(t, o.HighWatermark, o.LastStable)
}

// A stop, a pause or a crash that comes between the record of an alignment and
// its cut leaves nothing of what this cluster wrote above it (BAR-3).
func TestAnAlignmentIsCutWhateverComesNext(t *testing.T) {
	for _, anew := range []bool{false, true} {
		for _, next := range []quorum.MirrorState{quorum.Stopped, quorum.Paused, quorum.Mirroring} {
			t.Run(fmt.Sprintf("%s, anew %v", next, anew), func(t *testing.T) { cutWhateverComesNext(t, next, anew) })
		}
	}
}

func cutWhateverComesNext(t *testing.T, next quorum.MirrorState, anew bool) {
	d := newDestination(t)
	d.crash()
	_, r, _, kill := d.runReal(gate.Open{})
	s := newFakeSource(t, "127.0.0.1:0", sourceID)
	s.put(3, openAtThree()...)
	d.create(s.addr())
	d.desire(quorum.Mirroring)
	part, err := r.Partition("t", 0)
	require.NoError(t, err)
	d.await("the source's records", func() bool { return part.Offsets().LogEnd == 6 })
	d.desire(quorum.Stopped)
	d.await("writable", func() bool { return d.mirror().State == quorum.Stopped && !part.ReadOnly() })
	_, err = part.Append(t.Context(), records(0, 0, 5, 0, false, "own"), replica.AppendOptions{LeaderEpoch: -1})
	require.NoError(t, err)
	require.EqualValues(t, 5, part.Offsets().LogEnd)

	// Its process dies once the next start's alignment is recorded.
	kill()
	s.kill()
	d.desire(quorum.Mirroring)
	_, q, err := d.quorum.Image().Partition("t", 0)
	require.NoError(t, err)
	at, below := int64(3), slices.Concat(openAtThree()[:2]...)
	if anew {
		at, below = 40, nil
	}
	d.apply(quorum.AlignMirror{Topic: "t", LeaderEpoch: q.LeaderEpoch, Target: at, LogEpoch: q.LeaderEpoch, Anew: anew})
	if next != quorum.Mirroring {
		d.desire(next)
	}
	_, r, _, kill = d.runReal(gate.Open{})
	defer func() { kill() }()
	part, err = r.Partition("t", 0)
	require.NoError(t, err)
	d.awaitState(next)
	if next == quorum.Stopped {
		requireCutOnce(t, part, below, at)
		require.Len(t, d.mirror().Stops, 1)
		return
	}
	require.EqualValues(t, at, part.Offsets().LogEnd)
	require.Nil(t, d.mirror().Cutting)
	d.desire(quorum.Stopped)
	d.awaitState(quorum.Stopped)
	requireCutOnce(t, part, below, at)
}
