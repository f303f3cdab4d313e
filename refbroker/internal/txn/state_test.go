package txn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The table, told the other way round: which states may come before which, as
// Kafka lists them, and by which event.
func TestStateTable(t *testing.T) {
	idle := []State{Empty, CompleteCommit, CompleteAbort}
	want := map[Event]map[State]State{}
	may := func(e Event, to State, from ...State) {
		for _, f := range from {
			if want[e] == nil {
				want[e] = map[State]State{}
			}
			want[e][f] = to
		}
	}
	may(Init, Empty, idle...)
	may(Add, Ongoing, append([]State{Ongoing}, idle...)...)
	may(Commit, PrepareCommit, Ongoing)
	may(Abort, PrepareAbort, Ongoing, PrepareEpochFence)
	may(AbortNothing, PrepareAbort, idle...)
	may(Fence, PrepareEpochFence, Ongoing)
	may(Marked, CompleteCommit, PrepareCommit)
	may(Marked, CompleteAbort, PrepareAbort)
	may(Expire, Dead, idle...)

	for s := Empty; s <= PrepareEpochFence; s++ {
		for e := range Event(events) {
			got, ok := s.After(e)
			to, allowed := want[e][s]
			require.Equal(t, allowed, ok, "%s in %s", e, s)
			if ok {
				require.Equal(t, to, got, "%s in %s", e, s)
			}
		}
	}
	require.Equal(t, "State(9)", State(9).String())
	require.Equal(t, "Event(9)", Event(9).String())
	require.Equal(t, "PrepareEpochFence", PrepareEpochFence.String())
}

// What the operations answer in each state, to the current producer, to one
// epoch before, and to others. The codes are those of Kafka's coordinator.
func TestEndTxnInEachState(t *testing.T) {
	const commit, abort = true, false
	type row struct {
		state   State
		version int16 // the client's, and that of the transaction before
		epoch   int16 // the transactional id has 5, and 4 before
		commit  bool
		want    string
	}
	rows := []row{
		{Empty, 0, 5, commit, "INVALID_TXN_STATE"},
		{Empty, 0, 5, abort, "INVALID_TXN_STATE"},
		{Empty, 2, 5, commit, "INVALID_TXN_STATE"},
		{Empty, 2, 5, abort, "PrepareAbort 6"},
		{Empty, 2, 4, abort, "PRODUCER_FENCED"},
		{Ongoing, 0, 5, commit, "PrepareCommit 5"},
		{Ongoing, 0, 5, abort, "PrepareAbort 5"},
		{Ongoing, 0, 4, commit, "PRODUCER_FENCED"},
		{Ongoing, 0, 6, commit, "PRODUCER_FENCED"},
		{Ongoing, 2, 5, commit, "PrepareCommit 6"},
		{Ongoing, 2, 5, abort, "PrepareAbort 6"},
		// A late EndTxn must not end the next transaction (SC-6).
		{Ongoing, 2, 4, commit, "PRODUCER_FENCED"},
		{Ongoing, 2, 4, abort, "PRODUCER_FENCED"},
		{PrepareCommit, 0, 5, commit, "CONCURRENT_TRANSACTIONS"},
		{PrepareCommit, 0, 5, abort, "INVALID_TXN_STATE"},
		{PrepareAbort, 0, 5, abort, "CONCURRENT_TRANSACTIONS"},
		{PrepareAbort, 0, 5, commit, "INVALID_TXN_STATE"},
		{PrepareCommit, 2, 4, commit, "CONCURRENT_TRANSACTIONS"},
		{PrepareCommit, 2, 4, abort, "INVALID_TXN_STATE"},
		{PrepareAbort, 2, 4, commit, "INVALID_TXN_STATE"},
		{PrepareCommit, 2, 5, abort, "CONCURRENT_TRANSACTIONS"},
		{PrepareCommit, 2, 3, commit, "PRODUCER_FENCED"},
		{CompleteCommit, 0, 5, commit, "NONE 5"},
		{CompleteCommit, 0, 5, abort, "INVALID_TXN_STATE"},
		{CompleteAbort, 0, 5, abort, "NONE 5"},
		{CompleteAbort, 0, 5, commit, "INVALID_TXN_STATE"},
		{CompleteCommit, 2, 4, commit, "NONE 5"},
		{CompleteCommit, 2, 4, abort, "INVALID_TXN_STATE"},
		{CompleteAbort, 2, 4, abort, "NONE 5"},
		{CompleteAbort, 2, 4, commit, "INVALID_TXN_STATE"},
		{CompleteCommit, 2, 5, commit, "INVALID_TXN_STATE"},
		{CompleteCommit, 2, 5, abort, "PrepareAbort 6"},
		{CompleteAbort, 2, 5, abort, "PrepareAbort 6"},
		{CompleteAbort, 2, 3, abort, "PRODUCER_FENCED"},
	}
	for _, r := range rows {
		txn := newTxn("x", 7)
		txn.State, txn.Epoch, txn.LastEpoch, txn.Version = r.state, 5, 4, r.version
		txn.Partitions = []Partition{{"a", 0}}
		got := txn.end(identity{7, r.epoch}, r.commit, r.version, noProducerID, 1)
		require.Equal(t, r.want, describe(got), "%+v", r)

		got = txn.end(identity{8, r.epoch}, r.commit, r.version, noProducerID, 1)
		require.Equal(t, "INVALID_PRODUCER_ID_MAPPING", describe(got), "other producer id: %+v", r)
	}
}

func TestAddInEachState(t *testing.T) {
	for _, r := range []struct {
		state State
		have  identity
		want  string
	}{
		{Empty, identity{7, 5}, "Ongoing 5"},
		{Ongoing, identity{7, 5}, "Ongoing 5"},
		{CompleteAbort, identity{7, 5}, "Ongoing 5"},
		{CompleteCommit, identity{7, 5}, "Ongoing 5"},
		{PrepareCommit, identity{7, 5}, "CONCURRENT_TRANSACTIONS"},
		{PrepareAbort, identity{7, 5}, "CONCURRENT_TRANSACTIONS"},
		{PrepareAbort, identity{7, 4}, "PRODUCER_FENCED"},
		{Ongoing, identity{7, 4}, "PRODUCER_FENCED"},
		{Ongoing, identity{7, 6}, "PRODUCER_FENCED"},
		{Ongoing, identity{8, 5}, "INVALID_PRODUCER_ID_MAPPING"},
		// The next producer id of an exhausted one, before the end is complete.
		{PrepareCommit, identity{9, 0}, "CONCURRENT_TRANSACTIONS"},
	} {
		txn := newTxn("x", 7)
		txn.State, txn.Epoch, txn.NextProducerID = r.state, 5, 9
		txn.Partitions = []Partition{{"a", 0}}
		require.Equal(t, r.want, describe(txn.add(r.have, []Partition{{"a", 1}}, 0, 1)), "%+v", r)
	}
}

func TestInitInEachState(t *testing.T) {
	none := noIdentity()
	for _, r := range []struct {
		name  string
		state State
		epoch int16
		last  int16
		have  identity
		fresh int64
		want  string
	}{
		{"first", Empty, -1, -1, none, -1, "Empty 0 last -1"},
		{"first, of a producer that believes more", Empty, -1, -1, identity{3, 9}, -1, "Empty 0 last -1"},
		{"new producer", CompleteCommit, 5, 4, none, -1, "Empty 6 last -1"},
		{"recovering", CompleteAbort, 5, 4, identity{7, 5}, -1, "Empty 6 last 5"},
		{"recovering again", CompleteAbort, 5, 4, identity{7, 4}, -1, "Empty 5 last 4"},
		{"recovering, fenced", CompleteAbort, 5, -1, identity{7, 4}, -1, "PRODUCER_FENCED"},
		{"recovering, other id", CompleteAbort, 5, 4, identity{8, 5}, -1, "PRODUCER_FENCED"},
		{"open, new producer", Ongoing, 5, 4, none, -1, "PrepareAbort 6 last -1 then CONCURRENT_TRANSACTIONS"},
		{"open, recovering", Ongoing, 5, 4, identity{7, 5}, -1, "PrepareAbort 6 last 5 then CONCURRENT_TRANSACTIONS"},
		{"open, replaced one", Ongoing, 5, 4, identity{7, 4}, -1, "PRODUCER_FENCED"},
		{"ending", PrepareCommit, 5, 4, none, -1, "CONCURRENT_TRANSACTIONS"},
		{"exhausted", CompleteCommit, 32766, 4, none, -1, "rotate"},
		{"exhausted, with id", CompleteCommit, 32766, 4, none, 9, "Empty 0 last -1"},
		{"exhausted, recovering", CompleteCommit, 32766, 4, identity{7, 32766}, 9, "Empty 0 last 32766"},
		{"fenced in the last epoch", CompleteAbort, 32767, 32766, identity{7, 32766}, 9, "Empty 0 last 32766"},
		{"after rotation, again", Empty, 0, 32766, identity{6, 32766}, -1, "Empty 0 last 32766"},
		{"after rotation, replaced one", Empty, 0, -1, identity{6, 32766}, -1, "PRODUCER_FENCED"},
		{"last usable", CompleteCommit, 32765, 4, none, -1, "Empty 32766 last -1"},
		{"open in the last epoch", Ongoing, 32766, 4, none, -1, "PrepareAbort 32767 last -1 then CONCURRENT_TRANSACTIONS"},
	} {
		txn := newTxn("x", 7)
		txn.State, txn.Epoch, txn.LastEpoch, txn.PrevProducerID = r.state, r.epoch, r.last, 6
		got := txn.initProducer(r.have, 500, r.fresh, 1)
		require.Equal(t, r.want, describeLast(got), r.name)
	}
}

// An exhausted epoch ends its transaction with the epoch that is kept for it,
// and the producer goes on with a new id (KIP-890).
func TestEndInLastEpoch(t *testing.T) {
	txn := newTxn("x", 7)
	txn.State, txn.Epoch, txn.Version, txn.Partitions = Ongoing, 32766, 2, []Partition{{"a", 0}}
	require.True(t, txn.end(identity{7, 32766}, true, 2, noProducerID, 1).rotate)
	o := txn.end(identity{7, 32766}, true, 2, 9, 1)
	require.NoError(t, o.err)
	require.Equal(t, identity{9, 0}, o.answer)
	require.Equal(t, identity{7, 32767}, o.write.identity(), "the marker's")
	done, err := o.write.complete(nil, 2)
	require.NoError(t, err)
	require.Equal(t, identity{9, 0}, done.identity())

	again := done.end(identity{7, 32766}, true, 2, noProducerID, 3)
	require.NoError(t, again.err)
	require.Nil(t, again.write)
	require.Equal(t, identity{9, 0}, again.answer)
	require.Equal(t, "INVALID_TXN_STATE", describe(done.end(identity{7, 32766}, false, 2, noProducerID, 3)))
}
