package group

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// owe has a cut at an offset be known.
func (w *world) owe(p Partition, to int64) {
	w.set(func() { w.owed = map[Partition]int64{p: to} })
}

func TestCommitsAboveACutAreLowered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commit(nobody(), t0, 150))
		require.NoError(t, w.commit(nobody(), t1, 150))
		w.owe(t0, 100)
		synctest.Wait()
		require.Equal(t, []int64{100, 150}, w.fetch(false, t0, t1))
		synctest.Wait()
		require.Equal(t, []uint64{7}, w.paid)
		// What is committed from then on stays, also for the next coordinator.
		require.NoError(t, w.commit(nobody(), t0, 120))
		w.restart()
		require.Equal(t, []int64{120, 150}, w.fetch(false, t0, t1))
		synctest.Wait()
		require.Equal(t, []uint64{7}, w.paid)
	})
}

func TestACommitBelowACutStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commit(nobody(), t0, 99))
		before := len(w.log().records(t))
		w.owe(t0, 100)
		synctest.Wait()
		require.Equal(t, []int64{99}, w.fetch(false, t0))
		require.Len(t, w.log().records(t), before, "written for nothing")
		synctest.Wait()
		require.Equal(t, []uint64{7}, w.paid)
	})
}

// Groups with members are lowered too: they were left alone only while the
// partition mirrored.
func TestAnActiveGroupIsLowered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member()
		require.NoError(t, w.commit(m, t0, 150))
		w.owe(t0, 100)
		synctest.Wait()
		require.Equal(t, []int64{100}, w.fetch(false, t0))
		require.NoError(t, w.commit(m, t0, 130))
		require.Equal(t, []int64{130}, w.fetch(false, t0))
	})
}

// Before it has lowered a commit, a coordinator neither tells it nor takes
// another: the one could be skipped by, the other be lowered though it is new.
func TestNothingAboveACutIsToldBeforeItIsLowered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commit(nobody(), t0, 150))
		require.NoError(t, w.commit(nobody(), t1, 50))
		w.log().set(func() { w.log().refuse = kerr.NotEnoughReplicas })
		w.owe(t0, 100)
		synctest.Wait()
		_, err := w.c.Fetch(t.Context(), "g", []Partition{t0}, false)
		require.ErrorIs(t, err, kerr.CoordinatorLoadInProgress)
		_, err = w.c.Fetch(t.Context(), "g", nil, false)
		require.ErrorIs(t, err, kerr.CoordinatorLoadInProgress)
		require.ErrorIs(t, w.commit(nobody(), t0, 120), kerr.CoordinatorLoadInProgress)
		require.Equal(t, []int64{50}, w.fetch(false, t1), "another partition is none of its business")
		synctest.Wait()
		require.Empty(t, w.paid)
		w.log().set(func() { w.log().refuse = nil })
		time.Sleep(10 * time.Second)
		require.Equal(t, []int64{100}, w.fetch(false, t0))
		require.NoError(t, w.commit(nobody(), t0, 120))
	})
}

// A coordinator that dies between lowering and saying so leaves both to the
// next; nothing was taken meanwhile that it could lower by mistake.
func TestTheNextCoordinatorLowers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commit(nobody(), t0, 150))
		w.set(func() { w.unpaid = errors.New("the quorum has no leader") })
		w.owe(t0, 100)
		time.Sleep(time.Second)
		require.Equal(t, []int64{100}, w.fetch(false, t0), "it is low enough already")
		require.ErrorIs(t, w.commit(nobody(), t0, 120), kerr.CoordinatorLoadInProgress)
		w.restart()
		synctest.Wait()
		require.Empty(t, w.paid)
		w.set(func() { w.unpaid = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []uint64{7}, w.paid)
		require.NoError(t, w.commit(nobody(), t0, 120))
		require.Equal(t, []int64{120}, w.fetch(false, t0))
	})
}

// An offset that a transaction holds back does not come to be above the cut
// when the transaction commits.
func TestPendingOffsetsAreLowered(t *testing.T) {
	for _, c := range []struct {
		name           string
		before, during int64 // -1: none before
		want           int64
	}{
		{"a commit below", 80, 150, 80},
		{"a commit above", 140, 150, 100},
		{"none", -1, 150, -1},
		{"pending below", 80, 90, 90},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if c.before >= 0 {
					require.NoError(t, w.commit(nobody(), t0, c.before))
				}
				require.NoError(t, w.commitIn(9, nobody(), t0, c.during))
				w.owe(t0, 100)
				synctest.Wait()
				w.log().marker(9, true)
				synctest.Wait()
				require.Equal(t, []int64{c.want}, w.fetch(true, t0))
				w.restart()
				require.Equal(t, []int64{c.want}, w.fetch(true, t0))
			})
		})
	}
}

// A consumer that had read what was cut commits late: it has not seen what is
// there now.
func TestALateCommitOfWhatWasCutIsLowered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.set(func() { w.stopped = map[Partition]int64{t0: 100} })
		for _, c := range []struct {
			offset int64
			epoch  int32
			want   int64
		}{{150, 4, 100}, {90, 4, 90}, {150, 5, 150}, {150, -1, 150}} {
			o := w.offset(t0, c.offset)
			o.LeaderEpoch = c.epoch
			require.NoError(t, w.c.Commit(t.Context(), "g", nobody(), -1, []Offset{o}))
			require.Equal(t, []int64{c.want}, w.fetch(false, t0), "%+v", c)
		}
	})
}

func TestMirroredCommits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.set(func() { w.mirrors = map[Partition]bool{t0: true} })
		mirrored := func(offsets ...Offset) int {
			n, err := w.c.CommitMirrored(t.Context(), "g", offsets)
			require.NoError(t, err)
			return n
		}
		require.Equal(t, 1, mirrored(w.offset(t0, 40), w.offset(t1, 40)), "t-1 does not mirror")
		require.Equal(t, []int64{40, -1}, w.fetch(false, t0, t1))
		require.Zero(t, mirrored(w.offset(t0, 40)), "it is no news")
		require.Equal(t, 1, mirrored(w.offset(t0, 30)))
		require.Equal(t, []int64{30}, w.fetch(false, t0))

		another := w.offset(t0, 50)
		another.TopicID = [16]byte{9}
		require.Zero(t, mirrored(another), "a topic of that name that is no more")

		m := w.member()
		require.Zero(t, mirrored(w.offset(t0, 50)), "the group is active here")
		require.Equal(t, []int64{30}, w.fetch(false, t0))
		_, err := w.c.Leave(t.Context(), "g", []Leaver{{MemberID: m.MemberID}})
		require.NoError(t, err)
		require.Equal(t, 1, mirrored(w.offset(t0, 50)))

		w.set(func() { w.mirrors = nil })
		require.Zero(t, mirrored(w.offset(t0, 60)), "the stop came before the answer of the source")
		require.Equal(t, []int64{50}, w.fetch(false, t0))
	})
}

// Whatever a group holds, after the records nothing of it is above its debt, and
// nothing else has changed.
func TestLoweredProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger()
		at := int64(0)
		parts := []Partition{t0, t1, u0}
		for range rapid.IntRange(0, 12).Draw(t, "commits") {
			at++
			l.Commit(rapid.Int64Range(-1, 2).Draw(t, "producer"), rapid.SampledFrom(parts).Draw(t, "partition"),
				Commit{Offset: rapid.Int64Range(0, 20).Draw(t, "offset"), Record: at})
		}
		debts := map[Partition]int64{}
		for _, p := range parts {
			if rapid.Bool().Draw(t, "owed") {
				debts[p] = rapid.Int64Range(0, 20).Draw(t, "to")
			}
		}
		before := map[Partition]Commit{}
		for _, p := range l.Partitions() {
			before[p], _, _ = l.Lookup(p)
		}
		for _, r := range l.lowered("g", debts) {
			at++
			require.Contains(t, debts, *r.Partition)
			if r.Tombstone() {
				l.Delete(*r.Partition)
				continue
			}
			r.Commit.Record = at
			l.Commit(-1, *r.Partition, *r.Commit)
		}
		for p, to := range debts {
			if c, ok := before[p]; ok {
				got, there, _ := l.Lookup(p)
				require.True(t, there)
				require.Equal(t, min(c.Offset, to), got.Offset)
			}
		}
		for _, p := range parts {
			if _, owed := debts[p]; !owed {
				c, ok := before[p]
				got, there, _ := l.Lookup(p)
				require.Equal(t, ok, there)
				require.Equal(t, c, got)
			}
		}
		for producer := range int64(3) {
			l.End(producer, true)
		}
		for p, to := range debts {
			if c, ok, _ := l.Lookup(p); ok {
				require.LessOrEqual(t, c.Offset, to)
			}
		}
	})
}
