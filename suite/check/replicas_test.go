package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
	"watershed.example/suite/wirelog"
)

// replicaIDs are what clusters of several nodes are judged by.
var replicaIDs = []string{"LOG-4", "BAR-5", "PSM-2"}

// newReplicaWorld is a run on two nodes. Node 1 leads; it is killed after the
// first local writes, with node 2 in sync, and node 2 leads then.
func newReplicaWorld() *world {
	return newWorldWith(0, func(w *world, log *[]spec, leader int32, cluster string) {
		if cluster != "B" {
			return
		}
		w.run.Clusters[0].Nodes, w.run.Clusters[1].Nodes = []int32{1, 2}, []int32{1, 2}
		w.run.Exercises = append(unprobed(), replicaIDs...)
		w.ends(1, *log)
		w.node(1, history.NodeKilled)
		w.node(1, history.NodeStarted)
		w.describe("t", history.ProducerState{ProducerID: 2, LastSequence: 2, CurrentTxnStart: -1})
		w.events[len(w.events)-1].Producers.Node = 2
		w.data(log, leader, "B", "raw", history.Idempotent, 9, 3, 0, 2, history.NoTxn, history.IntentNone, history.SameHeader) // 23..24
		w.ends(2, *log)
	})
}

func (w *world) node(n int32, what history.NodeEvent) {
	w.add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "B", Node: n, What: what}})
}

// ends samples t-0's ends at its leader, with both replicas in sync.
func (w *world) ends(leader int32, log []spec) {
	last := log[len(log)-1]
	hw := last.base + last.count()
	w.add(history.Event{Kind: history.KindListOffsets, Offsets: &history.Offsets{
		Cluster: "B", Node: leader, Topic: "t", HighWatermark: hw, LastStableOffset: hw, LogEndOffset: hw, InSync: []int32{1, 2},
	}})
}

// twoReplicas gives every log a second replica, which spoil may change.
func twoReplicas(t *testing.T, w *world, spoil func(second *Replica)) *Evidence {
	ev := w.evidence(t)
	for _, r := range slices.Clone(ev.Replicas) {
		second := &Replica{Cluster: r.Cluster, Node: 2, Topic: r.Topic, Partition: r.Partition, Dir: LogDir(r.Cluster, 2, r.Topic, r.Partition), Batches: slices.Clone(r.Batches)}
		if spoil != nil && r.Cluster == "B" && r.Topic == "t" {
			spoil(second)
		}
		ev.Replicas = append(ev.Replicas, second)
	}
	return ev
}

func batchAt(r *Replica, base int64) int {
	return slices.IndexFunc(r.Batches, func(b wirelog.Batch) bool { return b.BaseOffset == base })
}

// replaced makes another batch of the one at base.
func replaced(t *testing.T, r *Replica, base int64, with spec) {
	with.base = base
	for b, err := range wirelog.Segment("00000000000000000000.log", with.encode()) {
		require.NoError(t, err)
		r.Batches[batchAt(r, base)] = b
	}
}

func TestAGoodRunOnTwoNodesHoldsEverything(t *testing.T) {
	got := judged(twoReplicas(t, newReplicaWorld(), nil))
	for _, id := range append(unprobed(), replicaIDs...) {
		if id == "AP-1" {
			continue // node 1 was not asked for its producers when it had come back
		}
		require.Equal(t, Held, got[id].Outcome, "%s: %s %v", id, got[id].Reason, got[id].Findings)
	}
}

func TestBadReplicasAreFound(t *testing.T) {
	for _, tc := range []struct {
		id, name string
		anomaly  Anomaly
		offset   int64
		change   func(w *world)
		spoil    func(t *testing.T, w *world, second *Replica)
	}{
		{id: "LOG-4", name: "a batch differs", anomaly: DivergedLogs, offset: 7, spoil: func(t *testing.T, w *world, r *Replica) {
			other := *at(w.b, 7)
			other.payload = "another"
			replaced(t, r, 7, other)
		}},
		{id: "LOG-4", name: "a leader epoch differs", anomaly: DivergedLogs, offset: 17, spoil: func(t *testing.T, w *world, r *Replica) {
			other := *at(w.b, 17)
			other.epoch = 6
			replaced(t, r, 17, other)
		}},
		{id: "LOG-4", name: "the source's records lie where the leader has its barrier", anomaly: DivergedLogs, offset: 11, spoil: func(t *testing.T, w *world, r *Replica) {
			replaced(t, r, 11, *at(w.a, 11))
		}},
		{id: "LOG-4", name: "an in-sync replica lacks the end", anomaly: MissingBatch, offset: 22, spoil: func(_ *testing.T, _ *world, r *Replica) {
			r.Batches = r.Batches[:batchAt(r, 22)]
		}},
		{id: "LOG-4", name: "a cleaned log holds another record", anomaly: DivergedLogs, offset: 7, change: compacted, spoil: func(t *testing.T, w *world, r *Replica) {
			other := *at(w.b, 7)
			other.payload = "another"
			replaced(t, r, 7, other)
		}},
		{id: "LOG-4", name: "a cleaned log lacks a key's newest record", anomaly: DivergedLogs, offset: 24, change: compacted, spoil: func(_ *testing.T, w *world, r *Replica) {
			k := batchAt(r, 23)
			r.Batches[k] = r.Batches[k-1] // the newest one's is gone, and its end with it
			r.Batches = append(r.Batches[:k], emptied(w.b, 23))
		}},
		{id: "BAR-5", name: "the barrier went with its leader", anomaly: MissingBarrier, offset: 11, spoil: func(_ *testing.T, _ *world, r *Replica) {
			k := batchAt(r, 11)
			r.Batches = slices.Delete(r.Batches, k, k+1)
		}},
		{id: "BAR-5", name: "a record went with its leader", anomaly: LostWrite, offset: 17, spoil: func(_ *testing.T, _ *world, r *Replica) {
			k := batchAt(r, 17)
			r.Batches = slices.Delete(r.Batches, k, k+1)
		}},
		{id: "PSM-2", name: "a follower that leads knows a mirrored producer", anomaly: BarrierResurrect, offset: 4, change: func(w *world) {
			for _, e := range w.events {
				if e.Producers != nil && e.Producers.Node == 2 {
					e.Producers.Active[0].LastSequence = 3
				}
			}
		}},
		{id: "PSM-2", name: "it takes a local batch for a mirrored one's retry", anomaly: StaleDedupe, offset: 8, change: func(w *world) { w.editLater(8, ok) }},
		{id: "PSM-2", name: "it fences a local batch", anomaly: StaleFence, offset: -1, change: func(w *world) { w.editLater(-1, refusedBy(47)) }},
	} {
		t.Run(tc.id+"/"+tc.name, func(t *testing.T) {
			w := newReplicaWorld()
			if tc.change != nil {
				tc.change(w)
			}
			v := judged(twoReplicas(t, w, func(r *Replica) {
				if tc.spoil != nil {
					tc.spoil(t, w, r)
				}
			}))[tc.id]
			require.Equal(t, Violated, v.Outcome, v.Reason)
			require.True(t, slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Anomaly == tc.anomaly && f.Offset == tc.offset }), "%v", v.Findings)
		})
	}
}

func compacted(w *world) { w.run.Topics[0].Compacted = true }

// emptied is what a cleaner leaves of a batch whose records are all gone.
func emptied(log []spec, base int64) wirelog.Batch {
	s := *at(log, base)
	var made wirelog.Batch
	for b := range wirelog.Segment("00000000000000000000.log", spec{base: s.base + s.count() - 1, epoch: s.epoch, pid: s.pid, pepoch: s.pepoch, seq: s.seq, attributes: control, key: []byte{0, 0, 0, 0}, value: []byte{0, 0, 0, 0, 0, 0}}.encode()) {
		made = b
	}
	return made
}

// editLater changes the answer to the batch that met node 2.
func (w *world) editLater(offset int64, res history.Result) {
	for i := len(w.events) - 1; i >= 0; i-- {
		if p := w.events[i].Produce; p != nil && p.Result != nil && p.Collision == history.SameHeader {
			p.Offset, p.Result = offset, &res
			return
		}
	}
}

// Where a run broke off, a replica that was being restarted is behind: the records
// that it has not fetched yet are not lost as long as another one has them.
func TestARunThatBrokeOffDoesNotWaitForReplicas(t *testing.T) {
	short := func(r *Replica) { r.Batches = r.Batches[:batchAt(r, 20)] }
	inSync := func() *world {
		w := newReplicaWorld()
		w.drop(isPhase(history.Settled))
		return w
	}
	broken := func() *world {
		w := inSync()
		w.node(2, history.NodeKilled)
		return w
	}
	lost := func(ev *Evidence) bool {
		return slices.ContainsFunc(judged(ev)["IDEM-4"].Findings, func(f Finding) bool { return f.Anomaly == LostWrite })
	}
	require.False(t, lost(twoReplicas(t, broken(), short)), "behind")
	require.True(t, lost(twoReplicas(t, newReplicaWorld(), short)), "settled, and still behind")
	require.True(t, lost(twoReplicas(t, inSync(), short)), "in sync, and nothing has befallen its node")

	ev := twoReplicas(t, broken(), short)
	for _, r := range ev.Replicas {
		if r.Cluster == "B" && r.Topic == "t" {
			r.Batches = r.Batches[:min(len(r.Batches), batchAt(r, 19)+1)]
		}
	}
	require.True(t, lost(ev), "no replica has it")

	require.True(t, lost(twoReplicas(t, broken(), func(r *Replica) {
		k := batchAt(r, 17)
		r.Batches = slices.Delete(r.Batches, k, k+1)
	})), "below its end")
}

// A replica that is not in sync may lack or hold what it likes.
func TestAReplicaOutOfSyncIsLeftAlone(t *testing.T) {
	w := newReplicaWorld()
	for _, e := range w.events {
		if e.Offsets != nil && len(e.Offsets.InSync) > 0 {
			e.Offsets.InSync = []int32{1}
		}
	}
	got := judged(twoReplicas(t, w, func(r *Replica) { r.Batches = r.Batches[:5] }))
	require.NotEqual(t, Violated, got["LOG-4"].Outcome, got["LOG-4"].Findings)
	require.Equal(t, Inconclusive, got["BAR-5"].Outcome)
}

// A run that ends in trouble within a stop leaves logs that were cut below what
// was replicated before.
func TestALogThatAStopHasCutMayEndBelowAnEarlierHighWatermark(t *testing.T) {
	w := newReplicaWorld()
	stopping := false
	w.drop(func(e *history.Event) bool { // the run ends before STOPPED
		stopping = stopping || e.Phase != nil && e.Phase.Name == history.StopRequested
		return stopping && (e.Mirror != nil || e.Offsets != nil || e.Fetch != nil)
	})
	cut := func(r *Replica) { r.Batches = r.Batches[:batchAt(r, 11)] }
	ev := twoReplicas(t, w, cut)
	for _, r := range ev.Replicas {
		if r.Cluster == "B" && r.Topic == "t" && r.Node != 2 {
			cut(r)
		}
	}
	v := judged(ev)["LOG-4"]
	require.NotEqual(t, Violated, v.Outcome, v.Findings)
}

func TestWhatOneReplicaCanNotShowIsInconclusive(t *testing.T) {
	for _, tc := range []struct {
		id, says string
		spoil    func(w *world)
	}{
		{"LOG-4", "several replicas in sync", func(w *world) { w.drop(func(e *history.Event) bool { return e.Offsets != nil || e.Fetch != nil }) }},
		{"BAR-5", "no leader was killed", func(w *world) { w.drop(func(e *history.Event) bool { return e.Node != nil }) }},
		{"BAR-5", "no leader was killed", func(w *world) { // it was a follower
			for _, e := range w.events {
				if e.Node != nil {
					e.Node.Node = 2
				}
			}
		}},
		{"PSM-2", "several leaders", func(w *world) {
			w.drop(func(e *history.Event) bool { return e.Producers != nil && e.Producers.Node == 2 })
		}},
		{"PSM-2", "no batch with the header", func(w *world) {
			w.drop(func(e *history.Event) bool {
				return e.Produce != nil && e.Produce.Collision == history.SameHeader && e.Produce.Batch.ProducerID == 9
			})
		}},
	} {
		t.Run(tc.id+"/"+tc.says, func(t *testing.T) {
			w := newReplicaWorld()
			tc.spoil(w)
			v := judged(twoReplicas(t, w, nil))[tc.id]
			require.Equal(t, Inconclusive, v.Outcome, "%s %v", v.Reason, v.Findings)
			require.Contains(t, v.Reason, tc.says)
		})
	}
	one := judged(newReplicaWorld().evidence(t))
	require.Equal(t, Inconclusive, one["LOG-4"].Outcome)
	require.Equal(t, Inconclusive, one["BAR-5"].Outcome)
}
