package psm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/psm"
)

// picture is everything that copies of a log must agree on at one offset.
type picture struct {
	Entries    []psm.SnapshotEntry
	Open       []psm.OpenTxn
	Remembered map[int64][]psm.Remembered
	Aborted    []psm.AbortedTxn
}

func pictureOf(s *psm.State, aborted []psm.AbortedTxn) picture {
	p := picture{Entries: s.SnapshotEntries(), Open: s.OpenTransactions(), Aborted: slices.Clone(aborted)}
	p.Remembered = map[int64][]psm.Remembered{}
	for _, e := range p.Entries {
		if r := s.RememberedOf(e.ProducerID); r != nil {
			p.Remembered[e.ProducerID] = r
		}
	}
	return p
}

// fromSnapshot is p but for what a snapshot does not carry: of the remembered
// batches it keeps the last, with the producer's own timestamp.
func (p picture) fromSnapshot(got picture) picture {
	p.Remembered = got.Remembered
	return p
}

// lastRemembered is each producer's last sequence and offset.
func (p picture) requireKeptBatches(t require.TestingT, got picture) {
	require.Len(t, got.Remembered, len(p.Remembered))
	for pid, want := range p.Remembered {
		have := got.Remembered[pid]
		require.NotEmpty(t, have, "producer %d", pid)
		require.LessOrEqual(t, len(have), len(want))
		for i, r := range have {
			w := want[len(want)-len(have)+i]
			r.Timestamp, w.Timestamp = 0, 0
			require.Equal(t, w, r, "producer %d", pid)
		}
	}
}

func aborted(index []psm.AbortedTxn, done []psm.Completed) []psm.AbortedTxn {
	for _, c := range done {
		if c.Aborted {
			index = append(index, c.IndexEntry())
		}
	}
	return index
}

// leader writes a random log: periods of mirroring (replicated batches, other
// clusters' barriers among them) and of being writable, each stop with its own
// barrier. It keeps a picture of every offset.
type leader struct {
	t        *rapid.T
	g        *gen
	cfg      psm.Config
	state    *psm.State
	m        *model // to draw sensible batches from
	batches  []psm.Batch
	stops    []psm.Stop
	aborted  []psm.AbortedTxn
	pictures map[int64]picture
	epoch    int32
}

func (l *leader) append(o psm.Origin, b *psm.Batch) {
	b.LeaderEpoch = l.epoch
	done, dup, err := try(l.state, psm.Append{Origin: o, TransactionVersion: int8(1 + l.g.intn(2))}, b)
	if err != nil || dup.Found {
		return
	}
	l.m = hints(l.state)
	l.batches = append(l.batches, *b)
	l.aborted = aborted(l.aborted, done)
	l.pictures[l.state.End()] = pictureOf(l.state, l.aborted)
}

func (l *leader) write() {
	l.pictures[0] = pictureOf(l.state, nil)
	mirroring := l.g.intn(2) == 0
	for range rapid.IntRange(1, 40).Draw(l.t, "batches") {
		offset := l.state.End()
		if mirroring {
			if l.g.intn(8) > 0 {
				l.append(psm.Replication, l.g.batch(l.m, offset+int64(l.g.intn(8)/7)))
				continue
			}
			// Stop: cut to the LSO would come here; its effect is the same
			// as ending what is open.
			for _, o := range l.state.OpenTransactions() {
				l.append(psm.Replication, marker(l.state.End(), o.ProducerID, o.Epoch, 9, false))
			}
			l.epoch++
			at := l.state.End()
			l.stops = append(l.stops, psm.Stop{L: at, BarrierOffset: at, Epoch: l.epoch, SourceClusterID: "src"})
			l.state.SetStops(l.stops)
			l.append(psm.Coordinator, barrier(at, l.epoch, "src"))
			mirroring = false
			continue
		}
		b := l.g.batch(l.m, offset)
		switch {
		case b.IsBarrier():
			mirroring = true
			l.epoch++
		case b.IsControl():
			l.append(psm.Coordinator, b)
		default:
			l.append(psm.Client, b)
		}
	}
}

// replay gives the log's batches as storage does.
func (l *leader) replay(from, to int64, each func(*psm.Batch) error) error {
	for i := range l.batches {
		if b := l.batches[i]; b.LastOffset >= from && b.LastOffset < to {
			if err := each(&b); err != nil {
				return err
			}
		}
	}
	return nil
}

// Proof that leader, follower, restarted, truncated and reloaded copies of one
// log hold the same state at every offset, however the log came in.
func TestCopiesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := psm.Config{AnyBarrierExpires: rapid.IntRange(0, 3).Draw(t, "any") == 0}
		g := &gen{t: t}
		l := &leader{t: t, g: g, cfg: cfg, state: psm.New(cfg), m: newModel(cfg), pictures: map[int64]picture{}}
		l.write()
		dir := newCrashDir()
		st := psm.NewSnapshots(dir, nil)

		// A follower gets the log in chunks, loses some to failed writes, and
		// takes snapshots now and then.
		f := psm.New(cfg)
		f.SetStops(l.stops)
		var index []psm.AbortedTxn
		for at := 0; at < len(l.batches); {
			n := min(len(l.batches)-at, 1+g.intn(6))
			f.Begin(psm.Append{Origin: psm.Replication})
			for i := range n {
				_, err := f.Add(&l.batches[at+i])
				require.NoError(t, err)
			}
			if g.intn(4) == 0 {
				f.Discard()
				require.Equal(t, l.pictures[f.End()], pictureOf(f, index))
				continue
			}
			index = aborted(index, f.Commit())
			at += n
			require.Equal(t, l.pictures[f.End()], pictureOf(f, index), "follower at %d", f.End())
			if g.intn(3) == 0 {
				require.NoError(t, st.Write(f))
			}
		}

		// The leader's own snapshot is, byte for byte, the follower's.
		require.Equal(t, psm.EncodeSnapshot(l.state.SnapshotEntries()), psm.EncodeSnapshot(f.SnapshotEntries()))

		// Restarts without snapshots: all is as it was, at every offset.
		ends := []int64{0}
		for i := range l.batches {
			ends = append(ends, l.batches[i].LastOffset+1)
		}
		for _, target := range ends {
			r := psm.New(cfg)
			r.SetStops(psm.CutStops(l.stops, target))
			var index []psm.AbortedTxn
			require.NoError(t, r.Reload(psm.NewSnapshots(newCrashDir(), nil), psm.Reload{
				Target: target, Replay: l.replay,
				Completed: func(c psm.Completed) error { index = aborted(index, []psm.Completed{c}); return nil },
			}))
			require.Equal(t, l.pictures[target], pictureOf(r, index), "restarted at %d", target)
		}

		// The follower is truncated, lower and lower, snapshots in use; each
		// time it also restarts, and goes on to the end.
		for target := f.End(); ; {
			f.SetStops(psm.CutStops(l.stops, target))
			require.NoError(t, f.Reload(st, psm.Reload{Target: target, Replay: l.replay}))
			want := l.pictures[target]
			want.Aborted = psm.TruncateTxnIndex(index, target)
			if len(want.Aborted) == 0 {
				want.Aborted = nil
			}
			got := pictureOf(f, want.Aborted)
			require.Equal(t, want.fromSnapshot(got), got, "truncated to %d", target)
			want.requireKeptBatches(t, got)
			for hw := int64(0); hw <= target; hw++ {
				require.LessOrEqual(t, f.LSO(hw), hw)
			}

			again := psm.New(cfg)
			again.SetStops(l.stops)
			require.NoError(t, again.Reload(st, psm.Reload{Target: target, Replay: l.replay}))
			for i := range l.batches {
				if b := l.batches[i]; b.BaseOffset >= target {
					apply(t, again, psm.Replication, &b)
				}
			}
			got = pictureOf(again, nil)
			end := l.pictures[l.state.End()]
			end.Aborted = nil
			require.Equal(t, end.fromSnapshot(got), got, "from %d on", target)
			end.requireKeptBatches(t, got)

			if target == 0 {
				return
			}
			i := slices.Index(ends, target)
			target = ends[max(0, i-1-g.intn(4))]
		}
	})
}
