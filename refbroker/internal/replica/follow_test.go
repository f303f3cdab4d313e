package replica

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/quorum"
)

const leader = int32(2)

// follow has p append batches of the leader in its epoch.
func follow(t *testing.T, p *Partition, high int64, batches ...[]byte) {
	t.Helper()
	f, ok := p.Following()
	require.True(t, ok)
	var raw []byte
	for _, b := range batches {
		raw = append(raw, b...)
	}
	require.NoError(t, p.AppendFetched(Fetched{LeaderEpoch: f.LeaderEpoch, Raw: raw, High: high}))
}

func elect(w *world, name string, who, epoch int32) {
	w.edit(name, func(_ *quorum.Topic, p *quorum.Partition) { p.Leader, p.LeaderEpoch = who, epoch })
}

func TestAFollowerKeepsWhatTheLeaderSends(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	f, ok := p.Following()
	require.True(t, ok)
	require.Equal(t, FetchFrom{Leader: leader, LastEpoch: -1}, f)
	follow(t, p, 1, at(records(7, 0, 0, false, "a"), 0, 0), at(plain("b", "c"), 1, 0))
	follow(t, p, 99, at(plain("d"), 5, 0)) // a gap that the leader's cleaner left
	o := p.Offsets()
	require.EqualValues(t, 6, o.LogEnd)
	require.EqualValues(t, 6, o.HighWatermark, "never beyond the log's end")
	follow(t, p, 2)
	require.EqualValues(t, 6, p.Offsets().HighWatermark, "it does not fall")
	require.Len(t, p.Producers(), 1)
	_, err := p.Append(t.Context(), plain("x"), anyEpoch(ForClient))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)
	_, err = p.Read(consumer(0))
	require.ErrorIs(t, err, kerr.NotLeaderForPartition)

	// The leader's log start comes with its answers.
	require.NoError(t, p.AppendFetched(Fetched{High: 6, LogStart: 3}))
	require.EqualValues(t, 3, p.Offsets().LogStart)
	require.Len(t, p.Producers(), 1, "producers stay known")

	// What comes late, of another epoch, is no longer taken.
	elect(w, "t", 3, 1)
	require.ErrorIs(t, p.AppendFetched(Fetched{LeaderEpoch: 0, Raw: at(plain("late"), 6, 0)}), ErrNotFollowing)
	require.ErrorIs(t, p.Diverged(0, 0, 4), ErrNotFollowing)
	require.ErrorIs(t, p.OutOfRange(0, 4, nil), ErrNotFollowing)
	elect(w, "t", node, 2)
	require.ErrorIs(t, p.AppendFetched(Fetched{LeaderEpoch: 2, Raw: at(plain("late"), 6, 2)}), ErrNotFollowing)
	require.EqualValues(t, 6, p.Offsets().LogEnd)
}

// KAFKA-18723: a batch of an epoch that this replica has not heard of is left
// for later, with what follows it.
func TestABatchAboveTheLeaderEpochIsLeft(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 0, at(plain("a"), 0, 0), at(plain("b"), 1, 1), at(plain("c"), 2, 0))
	require.EqualValues(t, 1, p.Offsets().LogEnd)
}

func TestAFollowerGivesUpWhatTheLeaderLacks(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 2, at(plain("a"), 0, 0), at(plain("b"), 1, 0))
	elect(w, "t", leader, 3)
	follow(t, p, 2, at(plain("c"), 2, 3), at(plain("d"), 3, 3))
	elect(w, "t", leader, 5)
	// The leader knows epoch 1, which ended at 7: here the latest at or below is
	// 0, which ended at 2.
	require.NoError(t, p.Diverged(5, 1, 7))
	require.EqualValues(t, 2, p.Offsets().LogEnd)
	require.EqualValues(t, 0, p.Offsets().LogEpoch)
	require.NoError(t, p.Diverged(5, 0, 1))
	require.EqualValues(t, 1, p.Offsets().LogEnd)
	require.EqualValues(t, 1, p.Offsets().HighWatermark)
}

// A leader's epoch without a record goes too: the next leader may not know it,
// and the logs would seem to diverge for ever.
func TestAnEpochWithoutARecordIsGivenUp(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 0, at(plain("a"), 0, 0))
	elect(w, "t", node, 1)
	elect(w, "t", leader, 2)
	f, ok := p.Following()
	require.True(t, ok)
	require.EqualValues(t, 1, f.LastEpoch)
	require.NoError(t, p.Diverged(2, 0, 1))
	f, _ = p.Following()
	require.EqualValues(t, 0, f.LastEpoch)
	require.EqualValues(t, 1, f.Offset)
}

func TestAFollowerStartsAnewWhereTheLeaderStarts(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 1, at(records(7, 0, 0, false, "a"), 0, 0))
	below := []Barrier{{Offset: 4, LeaderEpoch: 0, SourceClusterID: source, Writer: "somebody"}}
	require.NoError(t, p.OutOfRange(0, 10, below))
	o := p.Offsets()
	require.EqualValues(t, 10, o.LogStart)
	require.EqualValues(t, 10, o.LogEnd)
	require.Equal(t, below, p.Barriers())
	follow(t, p, 11, at(plain("k"), 10, 0))
	w.restart(false)
	o = w.get("t").Offsets()
	require.EqualValues(t, 10, o.LogStart)
	require.EqualValues(t, 11, o.LogEnd)
}

// Source and destination elect the same leader epochs. A follower that holds
// this cluster's own epoch 4, and whose leader then aligned its log at 1 and
// mirrored the source's epoch 4, finds no epoch that differs: it is the quorum's
// list of cuts that tells it (LOG-4), whenever it hears of it, and once only.
func TestAFollowerFollowsACutThatEpochsDontShow(t *testing.T) {
	for _, c := range []struct {
		name string
		down bool // it hears of the cut only after mirroring went on
	}{{"at once", false}, {"after it was down", true}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.topic("t", nil, leader, node)
			elect(w, "t", leader, 4)
			follow(t, p, 2, at(plain("shared"), 0, 4), at(plain("own"), 1, 4), at(plain("own"), 2, 4))
			cut := quorum.AlignRecord{At: 1, Epoch: 5}
			aligned := func(t *quorum.Topic, q *quorum.Partition) {
				t.Mirror, q.Mirror.State, q.Mirror.Aligned, q.Mirror.AlignedAt = "m", quorum.LogTruncation, true, 1
				q.Mirror.Cutting, q.Cuts, q.LeaderEpoch = &cut, []quorum.AlignRecord{cut}, 5
			}
			if c.down {
				require.NoError(t, w.m.Close(false))
				w.start()
				w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
					aligned(top, q)
					q.Mirror.State, q.Mirror.Cutting = quorum.Mirroring, nil
				})
			} else {
				w.edit("t", aligned)
				w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.Mirror.State, q.Mirror.Cutting = quorum.Mirroring, nil })
			}
			p = w.get("t")
			f, ok := p.Following()
			require.True(t, ok)
			require.EqualValues(t, 1, f.Offset)
			follow(t, p, 3, at(plain("source's"), 1, 4), at(plain("source's"), 2, 4))

			// The list stays, and cuts nothing any more: not after a restart, and
			// not when this replica leads.
			w.restart(false)
			require.EqualValues(t, 3, w.get("t").Offsets().LogEnd)
			elect(w, "t", node, 6)
			p = w.get("t")
			require.EqualValues(t, 3, p.Offsets().LogEnd)
			require.NoError(t, w.m.Close(false))
			w.start()
			w.apply()
			require.EqualValues(t, 3, w.get("t").Offsets().LogEnd)
		})
	}
}

// A replica that becomes the leader before it followed a cut follows it first,
// unless the cut is still its own to make.
func TestASuccessorFollowsACutBeforeItLeads(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 3, at(plain("a"), 0, 0), at(plain("b"), 1, 0), at(plain("c"), 2, 0))
	cut := quorum.AlignRecord{At: 1, Epoch: 1}
	w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
		top.Mirror, q.Mirror.State, q.Mirror.Aligned = "m", quorum.Mirroring, true
		q.Cuts, q.LeaderEpoch, q.Leader = []quorum.AlignRecord{cut}, 2, node
	})
	require.EqualValues(t, 1, p.Offsets().LogEnd)

	w = newWorld(t)
	p = w.topic("t", nil, leader, node)
	follow(t, p, 3, at(plain("a"), 0, 0), at(plain("b"), 1, 0), at(plain("c"), 2, 0))
	w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
		top.Mirror, q.Mirror.State, q.Mirror.Aligned, q.Mirror.Cutting = "m", quorum.Mirroring, true, &cut
		q.Cuts, q.LeaderEpoch, q.Leader = []quorum.AlignRecord{cut}, 2, node
	})
	require.EqualValues(t, 3, p.Offsets().LogEnd, "the steps of the alignment cut")
	require.NoError(t, p.Cut(1, 1))
	require.EqualValues(t, 1, p.Offsets().LogEnd)
	w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.Mirror.Cutting = nil })
	require.EqualValues(t, 1, p.Offsets().LogEnd)
}

// The note of the cuts that a log has followed may get lost with its file. What
// came since stays: this cluster's own records of the cut's leader epoch, and the
// source's, which may be of an earlier one, where nobody else has them.
func TestACutIsNotFollowedAgainWhenItsNoteIsLost(t *testing.T) {
	anew := quorum.AlignRecord{At: 40, Epoch: 3, Anew: true}
	stop := quorum.AlignRecord{At: 41, Epoch: 5}
	for _, c := range []struct {
		name    string
		cuts    []quorum.AlignRecord
		stopped bool
		want    []string
	}{
		{"copied anew and mirroring", []quorum.AlignRecord{anew}, false, []string{"40:source's", "41:source's too"}},
		{"aligned and mirroring", []quorum.AlignRecord{{At: 1, Epoch: 3}}, false, []string{"0:shared", "1:source's", "2:source's too"}},
		{"stopped", []quorum.AlignRecord{anew, stop}, true, []string{"40:source's", "41:MIRROR_PID_RESET", "42:local"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.topic("t", nil, node)
			add(t, p, plain("shared"), anyEpoch(ForClient))
			add(t, p, plain("own"), anyEpoch(ForClient))
			cut := c.cuts[0]
			w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
				top.Mirror, q.Mirror.State, q.Mirror.Aligned = "m", quorum.Mirroring, true
				q.Mirror.Cutting, q.Cuts, q.LeaderEpoch = &cut, c.cuts[:1], cut.Epoch
			})
			if cut.Anew {
				require.NoError(t, p.CutAnew(cut.At, cut.Epoch, nil))
			} else {
				require.NoError(t, p.Cut(cut.At, cut.Epoch))
			}
			w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.Mirror.Cutting = nil })
			s, err := p.BeginMirror()
			require.NoError(t, err)
			_, err = p.AppendMirrored(s, append(at(plain("source's"), cut.At, 1), at(plain("source's too"), cut.At+1, 2)...))
			require.NoError(t, err)
			if c.stopped {
				of := psm.Stop{L: stop.At, BarrierOffset: stop.At, Epoch: stop.Epoch, SourceClusterID: source}
				w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) {
					q.Mirror.State, q.Mirror.Current = quorum.Stopping, &quorum.StopRecord{L: stop.At, Epoch: stop.Epoch, SourceClusterID: source}
					q.Mirror.Stops, q.Cuts, q.LeaderEpoch = []psm.Stop{of}, c.cuts, stop.Epoch
				})
				require.NoError(t, p.Cut(stop.At, stop.Epoch))
				_, err = p.AppendBarrier(of)
				require.NoError(t, err)
				w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.Mirror.State, q.Mirror.Current = quorum.Stopped, nil })
				add(t, p, plain("local"), anyEpoch(ForClient))
			}
			first := func(p *Partition) []string { return values(t, read(t, p, consumer(p.Offsets().LogStart)).Raw) }
			require.Equal(t, c.want, first(p))

			require.NoError(t, w.m.Close(true))
			require.NoError(t, w.fs.Remove("/data/logs/t-0/mirror-stops.json"))
			w.start()
			w.apply()
			p = w.get("t")
			require.Equal(t, c.want, first(p))
			require.Equal(t, c.cuts[len(c.cuts)-1].Epoch, p.log.CutEpoch(), "it is noted again")

			// A cut that is made later is followed all the same.
			w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) {
				q.Replicas, q.ISR, q.Leader, q.LeaderEpoch = []int32{leader, node}, []int32{leader}, leader, 9
				q.Cuts = append(q.Cuts[:len(q.Cuts):len(q.Cuts)], quorum.AlignRecord{At: cut.At, Epoch: 9})
			})
			require.Equal(t, cut.At, p.Offsets().LogEnd)
		})
	}
}

// A follower that has not followed a cut gives up its suffix, also when its file
// is lost: what it has is of epochs below the cut's.
func TestACutIsFollowedWhenTheFileOfItsNoteIsLost(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  quorum.AlignRecord
	}{{"kept below", quorum.AlignRecord{At: 1, Epoch: 7}}, {"anew", quorum.AlignRecord{At: 1, Epoch: 7, Anew: true}}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.topic("t", nil, leader, node)
			elect(w, "t", leader, 6)
			follow(t, p, 3, at(plain("shared"), 0, 4), at(plain("own"), 1, 5), at(plain("own"), 2, 6))
			require.NoError(t, w.m.Close(true))
			require.NoError(t, w.fs.Remove("/data/logs/t-0/mirror-stops.json"))
			w.start()
			w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
				top.Mirror, q.Mirror.State, q.Mirror.Aligned = "m", quorum.Mirroring, true
				q.Cuts, q.LeaderEpoch = []quorum.AlignRecord{c.cut}, 8
			})
			o := w.get("t").Offsets()
			require.EqualValues(t, 1, o.LogEnd)
			require.Equal(t, c.cut.Anew, o.LogStart == 1)
		})
	}
}

// A follower that led, and wrote nothing, has an epoch that the source's batches
// may be below: it goes with a cut, also where nothing lies above that.
func TestACutForgetsEpochsWithoutARecord(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 1, at(plain("a"), 0, 0))
	elect(w, "t", node, 7)
	w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
		top.Mirror, q.Mirror.State, q.Mirror.Aligned = "m", quorum.Mirroring, true
		q.Cuts, q.LeaderEpoch, q.Leader = []quorum.AlignRecord{{At: 1, Epoch: 8}}, 8, leader
	})
	follow(t, p, 2, at(plain("source's"), 1, 3))
	require.EqualValues(t, 2, p.Offsets().LogEnd)
}

// A log that is copied anew begins there on every replica, with the barriers
// that the source had before.
func TestAFollowerIsCopiedAnew(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 1, at(plain("a"), 0, 0))
	cut := quorum.AlignRecord{At: 50, Epoch: 1, Anew: true, Below: []quorum.Barrier{{Offset: 40, SourceClusterID: source, Writer: source}}}
	w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.Cuts, q.LeaderEpoch = []quorum.AlignRecord{cut}, 1 })
	o := p.Offsets()
	require.EqualValues(t, 50, o.LogStart)
	require.EqualValues(t, 50, o.LogEnd)
	require.Equal(t, []Barrier{{Offset: 40, SourceClusterID: source, Writer: source}}, p.Barriers())
}

// A follower expires producers at its own barrier, however it got it: with the
// stop's list noted before, also in one fetch with what lies around it (PSM-2,
// PSM-7).
func TestAFollowersOwnBarrierExpires(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 3, at(records(7, 0, 0, false, "source's"), 0, 0), at(records(8, 0, 0, true, "open"), 1, 0), at(plain("c"), 2, 0))
	stop := psm.Stop{L: 1, BarrierOffset: 1, Epoch: 1, SourceClusterID: source}
	w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
		top.Mirror, q.Mirror.State, q.Mirror.Aligned = "m", quorum.Stopping, true
		q.Mirror.Current = &quorum.StopRecord{L: 1, Epoch: 1, SourceClusterID: source}
		q.Mirror.Stops, q.Cuts, q.LeaderEpoch = []psm.Stop{stop}, []quorum.AlignRecord{{At: 1, Epoch: 1}}, 1
	})
	require.EqualValues(t, 1, p.Offsets().LogEnd, "its suffix is given up")
	barrier := psm.Barrier{Timestamp: 1000, SourceClusterID: source}.Append(nil)
	require.False(t, p.HoldsStrangeBarrier(plain("x")))
	require.False(t, p.HoldsStrangeBarrier(append(plain("x"), at(barrier, 1, 1)...)), "of its own stop it knows who wrote it")
	for name, other := range map[string][]byte{"elsewhere": at(barrier, 5, 1), "of an earlier epoch": at(barrier, 1, 0)} {
		require.True(t, p.HoldsStrangeBarrier(append(plain("x"), other...)), name)
	}
	follow(t, p, 3, at(barrier, 1, 1), at(records(7, 0, 0, false, "local"), 2, 1))
	require.Equal(t, []int64{7}, producerIDs(p))
	require.True(t, p.Barriers()[0].Own)
	w.restart(false)
	require.Equal(t, []int64{7}, producerIDs(w.get("t")))
}

// A leader that was away wrote its own barrier, and finds that another leads,
// which wrote one at the same place: it expires what was before that one too.
func TestALeaderThatWasAwayTakesTheNewLeadersBarrier(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 1, at(records(7, 0, 0, false, "source's"), 0, 0))
	stop := psm.Stop{L: 1, BarrierOffset: 1, Epoch: 1, SourceClusterID: source}
	w.edit("t", func(top *quorum.Topic, q *quorum.Partition) {
		top.Mirror, q.Mirror.State, q.Mirror.Aligned = "m", quorum.Stopping, true
		q.Mirror.Current = &quorum.StopRecord{L: 1, Epoch: 1, SourceClusterID: source}
		q.Mirror.Stops, q.Cuts, q.LeaderEpoch = []psm.Stop{stop}, []quorum.AlignRecord{{At: 1, Epoch: 1}}, 1
	})
	barrier := psm.Barrier{Timestamp: 1000, SourceClusterID: source}.Append(nil)
	follow(t, p, 1, at(barrier, 1, 1))
	require.Empty(t, producerIDs(p))

	w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.LeaderEpoch = 2 })
	require.NoError(t, p.Diverged(2, 0, 1))
	require.EqualValues(t, 1, p.Offsets().LogEnd)
	follow(t, p, 3, at(barrier, 1, 2), at(records(8, 0, 0, false, "local"), 2, 2))
	require.Equal(t, []int64{8}, producerIDs(p))
	require.True(t, p.Barriers()[0].Own)
	w.restart(false)
	require.Equal(t, []int64{8}, producerIDs(w.get("t")))
}

func producerIDs(p *Partition) []int64 {
	var ids []int64
	for _, k := range p.Producers() {
		ids = append(ids, k.ProducerID)
	}
	return ids
}

// fetches is a follower's request as its leader reads it.
func fetches(id int32, offset int64, epoch, last int32) ReadOptions {
	return ReadOptions{Offset: offset, MaxBytes: 1 << 20, MinOne: true, ReplicaID: id, ReplicaEpoch: -1, CurrentLeaderEpoch: epoch, LastFetchedEpoch: last}
}

// The ISR shrinks and grows by the quorum's word; what was asked for and may be
// in force counts from the moment it is asked for.
func TestALeaderChangesItsISR(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", map[string]string{"min.insync.replicas": "2"}, node, 2, 3)
	w.live(2, 3)
	p.lag = time.Hour
	add(t, p, plain("a"), anyEpoch(ForClient))
	read(t, p, fetches(2, 1, 0, 0))
	require.EqualValues(t, 0, p.Offsets().HighWatermark, "replica 3 has fetched nothing")
	_, ok := p.ProposeISR(time.Now())
	require.False(t, ok)

	c, ok := p.ProposeISR(time.Now().Add(2 * time.Hour))
	require.True(t, ok)
	require.Equal(t, []int32{1, 2}, c.ISR)
	_, ok = p.ProposeISR(time.Now().Add(2 * time.Hour))
	require.False(t, ok, "one at a time")
	require.EqualValues(t, 0, p.Offsets().HighWatermark, "replica 3 is in the ISR until the quorum says otherwise")
	p.ISRAnswered(c, nil)
	w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.ISR, q.PartitionEpoch = []int32{1, 2}, 1 })
	require.EqualValues(t, 1, p.Offsets().HighWatermark)
	w.live(2, 3)

	add(t, p, plain("b"), anyEpoch(ForClient))
	read(t, p, fetches(2, 2, 0, 0))
	require.EqualValues(t, 2, p.Offsets().HighWatermark)
	read(t, p, fetches(3, 1, 0, 0))
	_, ok = p.ProposeISR(time.Now())
	require.False(t, ok, "1 is below the high watermark")
	read(t, p, fetches(3, 2, 0, 0))
	select {
	case <-w.m.Joining():
	default:
		t.Fatal("nobody was told that replica 3 may join")
	}
	c, ok = p.ProposeISR(time.Now())
	require.True(t, ok)
	require.Equal(t, []int32{1, 2, 3}, c.ISR)
	require.EqualValues(t, 1, c.PartitionEpoch)

	// The answer is lost: it may be in force.
	p.ISRAnswered(c, context.DeadlineExceeded)
	add(t, p, plain("c"), anyEpoch(ForClient))
	read(t, p, fetches(2, 3, 0, 0))
	require.EqualValues(t, 2, p.Offsets().HighWatermark)
	w.live(2) // and so it stays, though replica 3 may not join any more
	p.Tend()
	require.EqualValues(t, 2, p.Offsets().HighWatermark)
	c, ok = p.ProposeISR(time.Now())
	require.True(t, ok, "asked anew, so that the quorum's word is heard")
	p.ISRAnswered(c, kerr.IneligibleReplica)
	require.EqualValues(t, 2, p.Offsets().HighWatermark, "the first may come into force still")
	w.edit("t", func(_ *quorum.Topic, q *quorum.Partition) { q.PartitionEpoch = 2 })
	require.EqualValues(t, 3, p.Offsets().HighWatermark)

	// A refusal of the only one that was asked for settles it.
	w.live(2, 3)
	read(t, p, fetches(3, 3, 0, 0))
	c, ok = p.ProposeISR(time.Now())
	require.True(t, ok)
	w.live(2)
	add(t, p, plain("d"), anyEpoch(ForClient))
	read(t, p, fetches(2, 4, 0, 0))
	require.EqualValues(t, 3, p.Offsets().HighWatermark)
	p.ISRAnswered(c, kerr.IneligibleReplica)
	require.EqualValues(t, 4, p.Offsets().HighWatermark)
}

// live tells the replicas which other brokers live.
func (w *world) live(ids ...int32) {
	live := map[int32]int64{}
	for _, id := range ids {
		live[id] = 0
	}
	w.m.live.Store(&live)
}

// An append that waits for its replicas is not acknowledged by what a later
// leader put in its place.
func TestAnAckIsOfTheLeadershipThatAppended(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, node, leader)
	answered := make(chan error, 1)
	go func() {
		_, err := p.Append(t.Context(), plain("lost"), AppendOptions{Acks: -1, LeaderEpoch: -1})
		answered <- err
	}()
	require.Eventually(t, func() bool { return p.Offsets().LogEnd == 1 }, 5*time.Second, time.Millisecond)
	p.order.Lock() // nothing wakes the waiter in between
	changed := p.changed
	p.mu.Lock()
	p.changed = nil
	p.mu.Unlock()
	p.order.Unlock()
	elect(w, "t", leader, 1)
	require.NoError(t, p.Diverged(1, -1, 0))
	follow(t, p, 2, at(plain("the next leader's"), 0, 1), at(plain("more"), 1, 1))
	elect(w, "t", node, 2)
	if changed != nil {
		close(changed)
	}
	require.ErrorIs(t, <-answered, kerr.NotLeaderForPartition)
}

// What the leader has deleted stays deleted here after a kill.
func TestAFollowersLogStartOutlivesAKill(t *testing.T) {
	w := newWorld(t)
	p := w.topic("t", nil, leader, node)
	follow(t, p, 4, at(records(7, 0, 0, false, "a", "b", "c", "d"), 0, 0))
	require.NoError(t, p.AppendFetched(Fetched{High: 4, LogStart: 3}))
	w.restart(false)
	require.EqualValues(t, 3, w.get("t").Offsets().LogStart)
	require.Equal(t, []int64{7}, producers(w.get("t")))
}
