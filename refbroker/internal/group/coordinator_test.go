package group

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/txn"
)

func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

func TestCommitsOfNoMembers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commit(nobody(), t0, 5))
		require.NoError(t, w.c.Commit(t.Context(), "g", nobody(), -1, []Offset{w.offset(t0, 6), w.offset(u0, 7)}))
		require.Equal(t, []int64{6, -1, 7}, w.fetch(true, t0, t1, u0))
		all, err := w.c.Fetch(t.Context(), "g", nil, true)
		require.NoError(t, err)
		require.Equal(t, []Offset{w.offset(t0, 6), w.offset(u0, 7)}, all)
		require.ErrorIs(t, w.commit(Committer{MemberID: "m", Generation: 3}, t0, 9), kerr.UnknownMemberID)
		require.ErrorIs(t, w.c.Commit(t.Context(), "other", Committer{MemberID: "m", Generation: 3}, -1, nil), kerr.GroupIDNotFound)

		w.restart()
		require.Equal(t, []int64{6, -1, 7}, w.fetch(true, t0, t1, u0))
		d, err := w.c.Describe(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, Description{ID: "g", State: Empty}, d)
		none, err := w.c.Fetch(t.Context(), "other", []Partition{t0}, true)
		require.NoError(t, err)
		require.Equal(t, []Offset{{Partition: t0, Offset: -1, LeaderEpoch: -1}}, none)
	})
}

func TestMembersOverRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member(static("i"))
		m.InstanceID = "i"
		require.NoError(t, w.commit(m, t0, 5))
		w.restart()
		d, err := w.c.Describe(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, Stable, d.State)
		require.Equal(t, []MemberDescription{{ID: m.MemberID, InstanceID: "i", Metadata: subscription("t"), Assignment: []byte("all")}}, d.Members)
		require.NoError(t, w.beat(m))
		require.NoError(t, w.commit(m, t0, 6))
		time.Sleep(session + time.Second)
		require.ErrorIs(t, w.beat(m), kerr.UnknownMemberID, "its session ended")
		d, err = w.c.Describe(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, Empty, d.State)
		w.restart()
		n := w.member()
		require.Equal(t, m.Generation+2, n.Generation, "generations go on")
		require.Equal(t, []int64{6}, w.fetch(true, t0))
	})
}

func TestHeartbeatsKeepAMember(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member()
		for range 100 {
			time.Sleep(session - time.Second)
			require.NoError(t, w.beat(m))
		}
		for range 100 {
			time.Sleep(session - time.Second)
			require.NoError(t, w.commit(m, t0, 1), "a commit is as good")
		}
	})
}

func TestPendingOffsets(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commit(nobody(), t0, 1))
		require.NoError(t, w.commitIn(7, nobody(), t0, 2))
		require.NoError(t, w.commitIn(8, nobody(), t1, 3))
		require.Equal(t, []bool{true, true}, w.asked)
		require.Equal(t, []int64{-2, -2, -1}, w.fetch(true, t0, t1, u0))
		require.Equal(t, []int64{1, -1}, w.fetch(false, t0, t1))
		w.restart()
		require.Equal(t, []int64{-2, -2}, w.fetch(true, t0, t1), "what is open stays so")
		w.log().marker(8, false)
		w.log().marker(9, true) // of a transaction without this group
		synctest.Wait()
		require.Equal(t, []int64{-2, -1}, w.fetch(true, t0, t1))
		w.log().marker(7, true)
		synctest.Wait()
		require.Equal(t, []int64{2, -1}, w.fetch(true, t0, t1))
		w.restart()
		require.Equal(t, []int64{2, -1}, w.fetch(true, t0, t1))
	})
}

// A marker that comes while a commit of its transaction waits for replicas
// takes the commit along.
func TestMarkerOvertakesTheAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commitIn(7, nobody(), t0, 2))
		w.log().hold(true)
		late := make(chan error)
		go func() { late <- w.commitIn(7, nobody(), t1, 3) }()
		synctest.Wait()
		w.log().marker(7, true)
		require.Equal(t, []int64{-2, -1}, w.fetch(true, t0, t1), "nothing is seen before it is replicated")
		w.log().hold(false)
		require.NoError(t, <-late)
		require.Equal(t, []int64{2, 3}, w.fetch(true, t0, t1))
		w.log().marker(7, false)
		synctest.Wait()
		require.Equal(t, []int64{2, 3}, w.fetch(true, t0, t1))
	})
}

// The next transaction of a producer has nothing to do with the marker of the
// one before.
func TestMarkerEndsOnlyWhatLiesBeforeIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.commitIn(7, nobody(), t0, 2))
		w.log().marker(7, true)
		require.NoError(t, w.commitIn(7, nobody(), t1, 3))
		synctest.Wait()
		require.Equal(t, []int64{2, -2}, w.fetch(true, t0, t1))
		w.log().marker(7, false)
		synctest.Wait()
		require.Equal(t, []int64{2, -1}, w.fetch(true, t0, t1))
	})
}

func TestTransactionsAreVerified(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for told, want := range map[error]error{
			kerr.InvalidProducerEpoch:   kerr.InvalidProducerEpoch,
			kerr.TransactionAbortable:   kerr.TransactionAbortable,
			kerr.ConcurrentTransactions: kerr.ConcurrentTransactions,
			kerr.NotEnoughReplicas:      kerr.CoordinatorNotAvailable,
		} {
			w.set(func() { w.verify = told })
			require.Equal(t, want, w.commitIn(7, nobody(), t0, 2))
		}
		w.set(func() { w.verify = nil })
		m := w.member()
		require.NoError(t, w.commitIn(7, m, t0, 2))
		require.NoError(t, w.commitIn(7, nobody(), t0, 2), "a client from before KIP-447")
		require.ErrorIs(t, w.commitIn(7, Committer{MemberID: m.MemberID, Generation: 7}, t0, 2), kerr.IllegalGeneration)
		require.ErrorIs(t, w.commitIn(7, Committer{MemberID: "x", Generation: m.Generation}, t0, 2), kerr.UnknownMemberID)
		require.ErrorIs(t, w.commitIn(7, Committer{MemberID: "x", InstanceID: "i", Generation: m.Generation}, t0, 2), kerr.UnknownMemberID)
		require.ErrorIs(t, w.c.CommitInTransaction(t.Context(), "", m, Transaction{}, nil), kerr.InvalidGroupID)
	})
}

func TestWritesThatFail(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member()
		for told, want := range map[error]error{
			kerr.NotEnoughReplicas:     kerr.CoordinatorNotAvailable,
			kerr.NotLeaderForPartition: kerr.NotCoordinator,
			kerr.KafkaStorageError:     kerr.NotCoordinator,
			kerr.MessageTooLarge:       kerr.InvalidCommitOffsetSize,
		} {
			w.log().set(func() { w.log().refuse = told })
			require.Equal(t, want, w.commit(m, t0, 2))
			require.Equal(t, []int64{-1}, w.fetch(true, t0))
		}
		w.log().set(func() { w.log().refuse = nil })
		w.log().hold(true)
		began := time.Now()
		require.Equal(t, kerr.CoordinatorNotAvailable, w.commit(m, t0, 3))
		require.Equal(t, 5*time.Second, time.Since(began), "a write waits that long for replicas")
		require.Equal(t, []int64{-1}, w.fetch(true, t0))
		w.log().hold(false)
		synctest.Wait()
		require.Equal(t, []int64{3}, w.fetch(true, t0), "it is in the log all the same, and the next coordinator would have it")
	})
}

func TestWritesKeepTheOrderOfDecisions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member()
		w.log().hold(true)
		answers := make(chan error, 3)
		for i := range int64(3) {
			go func() { answers <- w.commit(m, t0, i) }()
			synctest.Wait()
		}
		_, err := w.c.Leave(t.Context(), "g", []Leaver{{MemberID: m.MemberID}})
		require.NoError(t, err)
		w.log().hold(false)
		for range 3 {
			require.NoError(t, <-answers)
		}
		synctest.Wait()
		records := w.log().records(t)
		require.Len(t, records, 5)
		for i := range int64(3) {
			require.Equal(t, i, records[1+i].Commit.Offset)
		}
		require.Empty(t, records[4].Metadata.Members)
	})
}

func TestLeadershipMoves(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member()
		require.NoError(t, w.commit(m, t0, 2))
		joined := make(chan JoinAnswer)
		go func() {
			joined <- w.c.Join(t.Context(), "g", w.joinRequest("", func(r *JoinRequest) { r.Protocols[0].Metadata = subscription("u") }))
		}()
		synctest.Wait()
		w.set(func() { w.epochs[0] = -1 })
		require.Equal(t, kerr.NotCoordinator, (<-joined).Err)
		require.Equal(t, kerr.NotCoordinator, w.beat(m))
		require.Equal(t, kerr.NotCoordinator, w.commit(m, t0, 3))
		_, err := w.c.Fetch(t.Context(), "g", []Partition{t0}, true)
		require.Equal(t, kerr.NotCoordinator, err)
		_, err = w.c.Describe(t.Context(), "g")
		require.Equal(t, kerr.NotCoordinator, err)
		all, err := w.c.List(func(Description) bool { return true })
		require.NoError(t, err)
		require.Empty(t, all)

		w.log().set(func() { w.log().broken = kerr.KafkaStorageError })
		w.set(func() { w.epochs[0] = 5 })
		require.Equal(t, kerr.CoordinatorLoadInProgress, w.beat(m))
		require.Equal(t, kerr.CoordinatorLoadInProgress, w.c.Join(t.Context(), "g", w.joinRequest("")).Err)
		_, err = w.c.List(func(Description) bool { return true })
		require.Equal(t, kerr.CoordinatorLoadInProgress, err)
		w.log().set(func() { w.log().broken = nil })
		time.Sleep(time.Second)
		require.NoError(t, w.beat(m))
		require.Equal(t, []int64{2}, w.fetch(true, t0))
	})
}

// The node leads on, in another epoch: so did somebody else meanwhile, perhaps.
func TestLeaderEpochMoves(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.member()
		require.NoError(t, w.commit(m, t0, 2))
		w.set(func() { w.epochs[0]++ })
		synctest.Wait()
		require.NoError(t, w.commit(m, t0, 3))
		require.Equal(t, []int64{3}, w.fetch(true, t0))
	})
}

func TestNoTopicYet(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.set(func() { w.logs = nil })
		require.Equal(t, kerr.CoordinatorNotAvailable, w.beat(nobody()))
	})
}

func TestClientsThatGoAwayWhileTheyWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		joined := make(chan JoinAnswer)
		go func() { joined <- w.c.Join(ctx, "g", w.joinRequest("")) }()
		synctest.Wait()
		cancel()
		require.Equal(t, kerr.NotCoordinator, (<-joined).Err)
		time.Sleep(time.Hour)
		d, err := w.c.Describe(t.Context(), "g")
		require.ErrorIs(t, err, kerr.GroupIDNotFound, "the ghost is gone, and so is its group: %v", d)
	})
}

func TestJoinIsChecked(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		join := func(group, id string, change ...func(*JoinRequest)) error {
			return w.c.Join(t.Context(), group, w.joinRequest(id, change...)).Err
		}
		require.ErrorIs(t, join("", ""), kerr.InvalidGroupID)
		require.ErrorIs(t, join("g", "x"), kerr.UnknownMemberID)
		require.ErrorIs(t, join("g", "", func(r *JoinRequest) { r.SessionTimeout = 5 * time.Second }), kerr.InvalidSessionTimeout)
		require.ErrorIs(t, join("g", "", func(r *JoinRequest) { r.SessionTimeout = time.Hour }), kerr.InvalidSessionTimeout)
		require.ErrorIs(t, join("g", "", func(r *JoinRequest) { r.ProtocolType = "" }), kerr.InconsistentGroupProtocol)
		require.ErrorIs(t, w.c.Sync(t.Context(), "", SyncRequest{}).Err, kerr.InvalidGroupID)
		require.ErrorIs(t, w.c.Sync(t.Context(), "g", SyncRequest{}).Err, kerr.UnknownMemberID)
		require.ErrorIs(t, w.c.Heartbeat(t.Context(), "", "", "", 0), kerr.InvalidGroupID)
		require.ErrorIs(t, w.beat(nobody()), kerr.UnknownMemberID)
		_, err := w.c.Leave(t.Context(), "", nil)
		require.ErrorIs(t, err, kerr.InvalidGroupID)
		errs, err := w.c.Leave(t.Context(), "g", []Leaver{{MemberID: "x"}})
		require.NoError(t, err)
		require.Equal(t, []error{kerr.UnknownMemberID}, errs)
		all, err := w.c.List(func(Description) bool { return true })
		require.NoError(t, err)
		require.Empty(t, all, "a refused request leaves no group behind")
	})
}

func TestDeleteGroup(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.ErrorIs(t, w.c.Delete(t.Context(), "g"), kerr.GroupIDNotFound)
		m := w.member()
		require.NoError(t, w.commit(m, t0, 5))
		require.NoError(t, w.commitIn(7, m, t1, 6))
		require.ErrorIs(t, w.c.Delete(t.Context(), "g"), kerr.NonEmptyGroup)
		_, err := w.c.Leave(t.Context(), "g", []Leaver{{MemberID: m.MemberID}})
		require.NoError(t, err)

		w.log().set(func() { w.log().refuse = kerr.NotEnoughReplicas })
		require.ErrorIs(t, w.c.Delete(t.Context(), "g"), kerr.CoordinatorNotAvailable)
		require.Equal(t, []int64{5, -2}, w.fetch(true, t0, t1), "it is still there")
		w.log().set(func() { w.log().refuse = nil })

		// A commit that was decided before the deletion is deleted with it.
		w.log().hold(true)
		before, deleted := make(chan error), make(chan error)
		go func() { before <- w.commit(nobody(), u0, 9) }()
		synctest.Wait()
		go func() { deleted <- w.c.Delete(t.Context(), "g") }()
		synctest.Wait()
		require.Equal(t, kerr.CoordinatorNotAvailable, w.commit(nobody(), t0, 7), "a group that is being deleted")
		require.ErrorIs(t, w.c.Delete(t.Context(), "g"), kerr.GroupIDNotFound)
		w.log().hold(false)
		require.NoError(t, <-before)
		require.NoError(t, <-deleted)
		w.log().marker(7, true)
		synctest.Wait()
		for range 2 {
			require.Equal(t, []int64{-1, -1, -1}, w.fetch(true, t0, t1, u0))
			_, err = w.c.Describe(t.Context(), "g")
			require.ErrorIs(t, err, kerr.GroupIDNotFound)
			w.restart()
		}
		require.Equal(t, int32(1), w.member().Generation, "its name is free")
	})
}

func TestDeleteOffsets(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, err := w.c.DeleteOffsets(t.Context(), "g", []Partition{t0})
		require.ErrorIs(t, err, kerr.GroupIDNotFound)
		_, err = w.c.DeleteOffsets(t.Context(), "", []Partition{t0})
		require.ErrorIs(t, err, kerr.InvalidGroupID)
		m := w.member()
		require.NoError(t, w.commit(m, t0, 5))
		require.NoError(t, w.commit(m, u0, 6))
		errs, err := w.c.DeleteOffsets(t.Context(), "g", []Partition{t0, u0, t1})
		require.NoError(t, err)
		require.Equal(t, []error{kerr.GroupSubscribedToTopic, nil, kerr.GroupSubscribedToTopic}, errs)
		require.Equal(t, []int64{5, -1}, w.fetch(true, t0, u0))
		w.restart()
		require.Equal(t, []int64{5, -1}, w.fetch(true, t0, u0))
		_, err = w.c.Leave(t.Context(), "g", []Leaver{{MemberID: m.MemberID}})
		require.NoError(t, err)
		errs, err = w.c.DeleteOffsets(t.Context(), "g", []Partition{t0})
		require.NoError(t, err)
		require.Equal(t, []error{nil}, errs)
		require.Equal(t, []int64{-1}, w.fetch(true, t0))

		w.member(func(r *JoinRequest) { r.ProtocolType = "connect" })
		_, err = w.c.DeleteOffsets(t.Context(), "g", []Partition{t0})
		require.ErrorIs(t, err, kerr.NonEmptyGroup)
	})
}

func TestOffsetsExpire(t *testing.T) {
	const week = 7 * 24 * time.Hour
	groups := func(w *world) []Description {
		all, err := w.c.List(func(Description) bool { return true })
		require.NoError(t, err)
		return all
	}
	t.Run("of a group without members, counted from then", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			m := w.member()
			require.NoError(t, w.commit(m, t0, 5))
			require.NoError(t, w.commit(m, u0, 6))
			for range 2 * week / time.Hour {
				for range time.Hour / (session / 2) {
					time.Sleep(session / 2)
					require.NoError(t, w.beat(m))
				}
			}
			require.Equal(t, []int64{5, -1}, w.fetch(true, t0, u0), "only of the topic that it consumes while it has members")
			_, err := w.c.Leave(t.Context(), "g", []Leaver{{MemberID: m.MemberID}})
			require.NoError(t, err)
			time.Sleep(week - 2*time.Minute)
			w.restart()
			require.Equal(t, []int64{5}, w.fetch(true, t0))
			time.Sleep(4 * time.Minute)
			require.Equal(t, []int64{-1}, w.fetch(true, t0))
			require.Empty(t, groups(w), "nor is there a group any more")
			w.restart()
			require.Empty(t, groups(w))
		})
	})
	t.Run("of a group that never had members, counted from the commit", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.commit(nobody(), t0, 5))
			time.Sleep(week / 2)
			require.NoError(t, w.commit(nobody(), u0, 6))
			require.NoError(t, w.c.Commit(t.Context(), "g", nobody(), 3*week, []Offset{w.offset(t1, 7)}))
			require.NoError(t, w.commitIn(7, nobody(), t0, 8))
			time.Sleep(week/2 + 2*time.Minute)
			require.Equal(t, []int64{5, 6, 7}, w.fetch(false, t0, u0, t1), "one is held by a transaction")
			w.log().marker(7, false)
			time.Sleep(2 * time.Minute)
			require.Equal(t, []int64{-1, 6, 7}, w.fetch(false, t0, u0, t1))
			time.Sleep(week / 2)
			require.Equal(t, []int64{-1, -1, 7}, w.fetch(false, t0, u0, t1))
			time.Sleep(2 * week)
			require.Equal(t, []int64{-1, -1, -1}, w.fetch(false, t0, u0, t1), "a client of old had its own wish")
			require.Empty(t, groups(w))
		})
	})
	t.Run("but not those that are just being committed", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.commit(nobody(), t0, 5))
			time.Sleep(week - time.Second)
			w.log().hold(true)
			again := make(chan error)
			go func() { again <- w.commit(nobody(), t0, 6) }()
			time.Sleep(2 * time.Second) // a sweep comes by
			w.log().hold(false)
			require.NoError(t, <-again)
			time.Sleep(2 * time.Minute)
			require.Equal(t, []int64{6}, w.fetch(true, t0))
		})
	})
	t.Run("of topics that are gone", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.commit(nobody(), t0, 5))
			require.NoError(t, w.commit(nobody(), u0, 6))
			w.set(func() { w.topics["t"] = [16]byte{9} })
			require.Equal(t, []int64{-1, 6}, w.fetch(false, t0, u0), "another topic of the name")
			w.set(func() { delete(w.topics, "u") })
			require.Equal(t, []int64{-1, -1}, w.fetch(false, t0, u0))
			time.Sleep(2 * time.Minute)
			require.Empty(t, groups(w))
		})
	})
}

func TestListAndDescribe(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, w.c.Commit(t.Context(), "simple", nobody(), -1, []Offset{w.offset(t0, 1)}))
		m := w.member()
		list := func(s State) []Description {
			all, err := w.c.List(func(d Description) bool { return d.State == s })
			require.NoError(t, err)
			return all
		}
		require.Equal(t, []Description{{ID: "simple"}}, list(Empty))
		require.Equal(t, []Description{{ID: "g", State: Stable, ProtocolType: "consumer"}}, list(Stable))
		go w.c.Join(t.Context(), "g", w.joinRequest(""))
		synctest.Wait()
		d, err := w.c.Describe(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, PreparingRebalance, d.State)
		require.Equal(t, MemberDescription{ID: m.MemberID}, d.Members[0], "no more is told while it rebalances")
		require.Len(t, d.Members, 2)
		require.Empty(t, d.Protocol)
	})
}

// Nothing is kept of what is over.
func TestNothingIsLeftBehind(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range int64(3) {
			m := w.member()
			require.NoError(t, w.commitIn(i, m, t0, i))
			w.log().marker(i, true)
			_, err := w.c.Leave(t.Context(), "g", []Leaver{{MemberID: m.MemberID}})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.NoError(t, w.c.Delete(t.Context(), "g"))
		s, err := w.c.shards.Of("g")
		require.NoError(t, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Empty(t, s.groups)
		require.Empty(t, s.open)
		require.Empty(t, s.waiting)
	})
}

func TestPartitionForIsThatOfKafka(t *testing.T) {
	// "console-consumer".hashCode() and others, as Kafka places them over 50.
	for id, want := range map[string]int32{"": 0, "a": 97 % 50, "ab": 3105 % 50} {
		require.Equal(t, want, PartitionFor(id, 50))
	}
	require.Equal(t, txn.PartitionFor("x-y", 8), PartitionFor("x-y", 8))
}
