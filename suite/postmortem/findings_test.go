package postmortem

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared is what both sides of a failover have: an idempotent producer, a
// committed transaction (version 2), records without an id.
func shared(more ...spec) []spec {
	return append([]spec{
		data(0, 4, 0, 0, "k0", "k1"), data(0, 4, 0, 2, "k2"), inTxn(data(0, 5, 0, 0, "t0")), commit(0, 5, 1), plain(0, "p"), inTxn(data(0, 6, 3, 0, "x")), abort(0, 6, 4),
	}, more...)
}

// onward is what the source has above L.
func onward() []spec {
	return []spec{{epoch: 0, pid: 4, seq: 3, keys: []string{"late1", "late2"}, value: "s", time: 20_000}, {epoch: 0, pid: -1, pepoch: -1, seq: -1, keys: []string{"q"}, time: 21_000}}
}

// local is what the promoted side writes: producers whose ids collide.
func local(leader int32) []spec {
	return []spec{
		{epoch: leader, pid: 4, keys: []string{"n0"}, value: "b", time: 31_000},
		{epoch: leader, pid: 5, keys: []string{"n1"}, value: "b", attributes: transactional, time: 32_000},
		commit(leader, 5, 1),
	}
}

func join(all ...[]spec) []byte { return log(slices.Concat(all...)...) }

// brief are a report's findings from sureness at least on, as KIND SURENESS SIDE OFFSET.
func brief(r *Report, least Sureness) []string {
	var all []string
	for _, f := range r.Findings {
		if f.Sure >= least {
			all = append(all, strings.Join([]string{string(f.Kind), f.Sure.String(), f.Side, strconv.FormatInt(f.Offset, 10), strings.Join(f.Requirements, "+")}, " "))
		}
	}
	return all
}

func TestAFailoverThatWentWell(t *testing.T) {
	r := ofTwo(t, join(shared(), onward()), join(shared(), []spec{reset(1, idA)}, local(1)))
	require.Empty(t, brief(r, Possible))
	require.Equal(t, Clean, r.Outcome)
	require.Equal(t, []string{"lost-tail measured A 8 "}, brief(r, Measured))
	tail := r.Findings[0]
	require.Equal(t, int64(3), tail.Affected)
	require.Equal(t, "late1", *tail.Records[0].Key)
	require.Contains(t, tail.What, "3 records")
	require.Equal(t, Parting{Sides: [2]string{"A", "B"}, Common: 7, Offset: 8}, r.Partitions[0].Partings[0])
	story := strings.Join(r.Partitions[0].Story, "\n")
	require.Contains(t, story, "Producer ids 4 and 5 are of mirrored producers and of local ones: the barrier kept them apart")
	require.Contains(t, story, "offset 8: its own barrier")
	require.Equal(t, idA, r.Sides[0].ClusterID)
}

func TestEachDefectIsFound(t *testing.T) {
	stopped := []spec{reset(1, idA)}
	open := []spec{inTxn(data(0, 7, 2, 0, "o"))}
	tests := []struct {
		name string
		a, b []byte
		want []string
	}{
		{"no barrier", join(shared(), onward()), join(shared(), local(1)), []string{
			"missing-barrier certain B 8 BAR-1", "producer-epoch-back certain B 9 SC-2", "sequence-gap certain B 8 SC-1",
		}},
		{"two barriers", join(shared(), onward()), join(shared(), stopped, stopped, local(1)), []string{"second-barrier certain B 9 BAR-1"}},
		{"two barriers, two leaders", join(shared(), onward()), join(shared(), stopped, []spec{reset(2, idA)}, local(2)), []string{"second-barrier certain B 9 BAR-1"}},
		{"a fetch that came late, as it was", join(shared(), onward()), join(shared(), stopped, onward()[:1], local(1)), []string{
			"interleaved certain B 9 LINK-1+BAR-3", "leader-epoch-back certain B 9 LOG-3", "sequence-gap certain B 11 IDEM-3+SC-1", "stale-producer likely B 9 IDEM-1",
		}},
		{"open across the barrier", join(shared(), open, onward()), join(shared(), open, stopped, local(1)), []string{"open-at-barrier certain B 8 PSM-8+TXN-3+TXN-1"}},
		{"a marker for one of before the barrier", join(shared(), open, onward()), join(shared(), open, stopped, []spec{commit(1, 7, 3)}), []string{
			"open-at-barrier certain B 8 PSM-8+TXN-3+TXN-1", "foreign-marker likely B 10 TXN-2+TXN-1",
		}},
		{"written to before the barrier", join(shared(), onward()), join(shared(), []spec{plain(1, "early")}, stopped, local(1)), []string{"late-barrier certain B 8 RO-5+BAR-3"}},
		{"a marker of the local coordinator", join(shared(), onward()), join(shared(), []spec{abort(1, 99, 0)}, onward(), stopped), []string{
			"diverged-by-marker certain B 8 RO-2+RO-5+BAR-3+LOG-1", "interleaved certain B 9 LINK-1+BAR-3", "interleaved likely B 11 LINK-1+BAR-3", "leader-epoch-back certain B 9 LOG-3", "leader-epoch-back certain B 11 LOG-3",
		}},
		{"ids rewritten", join(shared(), onward()), join([]spec{data(0, -6, 0, 0, "k0", "k1")}, shared()[1:], stopped), []string{
			"negative-id certain B 0 LOG-2", "rewritten certain B 0 LOG-1",
		}},
		{"stale deduplication", join(shared(), onward()), join(shared(), stopped, []spec{{epoch: 1, pid: 4, seq: 3, keys: []string{"third"}, value: "b"}}), []string{"stale-producer likely B 9 IDEM-1"}},
		{"epochs go back", join(shared(), onward()), join(shared(), []spec{reset(5, idA)}, local(4)), []string{
			"leader-epoch-back certain B 9 LOG-3", "leader-epoch-back certain B 10 LOG-3", "leader-epoch-back certain B 11 LOG-3",
		}},
		{"records lost amid", join(shared(), onward()), join(shared()[:4], []spec{{epoch: 0, pid: 6, pepoch: 3, attributes: transactional, keys: []string{"x"}, skip: 1, time: 6000}, {epoch: 0, pid: 6, pepoch: 4, seq: -1, attributes: control | transactional, control: abort(0, 6, 4).control, time: 7000}}, stopped), []string{"missing-records likely B 5 LOG-1+LOG-3"}},
		{"a barrier with bytes behind it", join(shared(), onward()), join(shared(), []spec{padded(reset(1, idA))}), []string{"bad-barrier certain B 8 BAR-2"}},
		{"a producer that was fenced", join(shared(data(0, 4, 1, 0, "a"), data(0, 4, 0, 3, "zombie"))), nil, []string{"producer-epoch-back certain A 9 SC-2"}},
		{"a batch twice", join(shared(data(0, 4, 0, 2, "k2"))), nil, []string{"sequence-gap certain A 8 SC-1"}},
		{"an old coordinator", join(shared(inTxn(data(0, 8, 0, 0, "a")), marker(0, 8, 0, 1, 5), inTxn(data(0, 8, 0, 1, "b")), marker(0, 8, 0, 1, 4))), nil, []string{"old-coordinator certain A 11 SC-5"}},
		{"an old marker", join(shared(inTxn(data(0, 8, 4, 0, "a")), commit(0, 8, 3))), nil, []string{"old-marker certain A 9 TXN-2+SC-5"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var r *Report
			if test.b == nil {
				r = judged(t, Side{Name: "A", Folders: []string{write(t, t.TempDir(), "a", "orders-0", test.a)}})
			} else {
				r = ofTwo(t, test.a, test.b)
			}
			require.ElementsMatch(t, test.want, brief(r, Likely))
		})
	}
}

func padded(s spec) spec {
	s.control[1] = append(slices.Clone(s.control[1]), 0xAA, 0xBB)
	return s
}

// A stop that aborts what is open, and that a crash interrupted, as in profile
// kip1279-latest.
func TestStopThatAborts(t *testing.T) {
	open := []spec{inTxn(data(0, 7, 2, 0, "o")), inTxn(data(0, 8, 0, 0, "o2"))}
	r := ofTwo(t, join(shared(), open, onward()), join(shared(), open, []spec{abort(1, 7, 2), abort(2, 8, 0), reset(3, idA)}, local(3)))
	require.Empty(t, brief(r, Possible))
	b := r.Partitions[0].Logs[1].Barriers[0]
	require.Equal(t, int64(10), b.L)
	require.Equal(t, 2, b.Aborted)
}

// The source's own ABORT markers right before the barrier are none of the stop's.
func TestMarkersOfTheSourceBeforeTheBarrier(t *testing.T) {
	same := shared(inTxn(data(0, 7, 2, 0, "o")), abort(1, 7, 2))
	r := ofTwo(t, join(same, onward()[1:]), join(same, []spec{reset(2, idA)}, local(2)))
	b := r.Partitions[0].Logs[1].Barriers[0]
	require.Equal(t, int64(10), b.L)
	require.Zero(t, b.Aborted)
}

func TestReplicasOfOneSide(t *testing.T) {
	leader := join(shared(), []spec{reset(1, idA)}, local(1))
	kept := join(shared(), onward()[1:], local(1)) // has the source's record where the leader has the barrier
	stale := join(shared(), onward()[1:])          // … and nothing behind it
	lagging := join(shared())                      // is only behind
	tests := []struct {
		name     string
		replica  []byte
		mark     string
		want     []string
		possible []string
	}{
		{"the same", leader, "", nil, nil},
		{"behind", lagging, "", nil, nil},
		{"keeps a suffix and goes on", kept, "", []string{"diverged-replica certain B 8 LOG-4"}, nil},
		{"a suffix", stale, "", []string{"diverged-replica likely B 8 LOG-4"}, nil},
		{"a suffix above the high watermark", stale, "0\n1\norders 0 8\n", nil, []string{"diverged-replica possible B 8 LOG-4"}},
		{"a suffix below the high watermark", stale, "0\n1\norders 0 9\n", []string{"diverged-replica certain B 8 LOG-4"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			one, two := write(t, root, "b1", "orders-0", leader), write(t, root, "b2", "orders-0", test.replica)
			if test.mark != "" {
				put(t, two, watermarkFile, test.mark)
			}
			r := judged(t, Side{Name: "B", Folders: []string{one, two}})
			require.Equal(t, test.want, brief(r, Likely))
			if test.possible != nil {
				require.Equal(t, test.possible, brief(r, Possible))
			}
		})
	}
}

func TestAPartitionThatItsStopPassedOver(t *testing.T) {
	root := t.TempDir()
	a, b := write(t, root, "a", "orders-0", join(shared(), onward())), write(t, root, "b", "orders-0", join(shared(), []spec{reset(1, idA)}))
	write(t, root, "a", "orders-1", nil)
	write(t, root, "b", "orders-1", nil)
	r := judged(t, Side{Name: "A", Folders: []string{a}}, Side{Name: "B", Folders: []string{b}})
	require.Equal(t, []string{"missing-barrier likely B 0 BAR-1"}, brief(r, Possible))
	require.Equal(t, int32(1), r.Findings[0].Partition)
}

func TestTransactionThatIsTorn(t *testing.T) {
	root := t.TempDir()
	part := []spec{inTxn(data(0, 5, 1, 0, "torn")), commit(0, 5, 2)}
	a := write(t, root, "a", "orders-0", join(shared(), part))
	b := write(t, root, "b", "orders-0", join(shared(), part, []spec{reset(1, idA)}))
	write(t, root, "a", "orders-1", join(shared(), part))
	write(t, root, "b", "orders-1", join(shared(), []spec{reset(1, idA)}))
	r := judged(t, Side{Name: "A", Folders: []string{a}}, Side{Name: "B", Folders: []string{b}})
	require.Equal(t, []string{"lost-tail measured A 8 ", "torn-transaction measured A 8 "}, brief(r, Measured))
	require.Contains(t, r.Findings[1].What, "orders-0 is there")
}

// The stop comes right before the transaction's marker, as it does for one that is
// open when the mirror stops.
func TestTransactionThatIsTornBeforeItsMarker(t *testing.T) {
	root := t.TempDir()
	open := inTxn(data(0, 5, 1, 0, "torn"))
	a := write(t, root, "a", "orders-0", join(shared(), []spec{open, commit(0, 5, 2)}))
	b := write(t, root, "b", "orders-0", join(shared(), []spec{open, commit(0, 5, 2), reset(1, idA)}))
	write(t, root, "a", "orders-1", join(shared(), []spec{open, commit(0, 5, 2)}))
	write(t, root, "b", "orders-1", join(shared(), []spec{open, abort(1, 5, 2), reset(1, idA)}))
	r := judged(t, Side{Name: "A", Folders: []string{a}}, Side{Name: "B", Folders: []string{b}})
	require.Contains(t, brief(r, Measured), "torn-transaction measured A 8 ")
	torn := r.Findings[slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == TornTransaction })]
	require.Equal(t, int32(1), torn.Partition)
	require.Contains(t, torn.What, "orders-0 is there (marker at 9) and this one was cut off before its marker")
}

func TestBarrierThatNamesItsOwnCluster(t *testing.T) {
	root := t.TempDir()
	a, b := write(t, root, "a", "orders-0", join(shared(), onward())), write(t, root, "b", "orders-0", join(shared(), []spec{reset(1, idB)}))
	put(t, b, metaFile, "cluster.id="+idB+"\nnode.id=1\n")
	r := judged(t, Side{Name: "A", Folders: []string{a}}, Side{Name: "B", Folders: []string{b}})
	require.Equal(t, []string{"wrong-source certain B 8 BAR-4"}, brief(r, Possible))
}
