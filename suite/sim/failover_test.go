//go:build synctests

package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/memnet"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

const (
	idA = "AAAAAAAAAAAAAAAAAAAAAA"
	idB = "BBBBBBBBBBBBBBBBBBBBBA"
)

// exercised are the requirements that this short story exercises.
var exercised = []string{
	"LOG-1", "LOG-2", "LOG-3", "BAR-1", "BAR-2", "BAR-3", "BAR-4", "PSM-1", "IDEM-1", "IDEM-2", "IDEM-4", "TXN-1", "TXN-2", "TXN-3",
	"LINK-2",
}

// TestAFailoverInVirtualTime mirrors from A to B, stops with a transaction
// open and the source gone (FA-10), produces on B with A's producer ids, at once
// and after half a minute (FA-07), and judges the logs that both left behind.
func TestAFailoverInVirtualTime(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "30 s later": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			evidence := t.TempDir()
			var virtual time.Duration
			began := time.Now()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				failOver(t, evidence, wait)
				virtual = time.Since(start)
			})
			require.GreaterOrEqual(t, virtual, wait)
			t.Logf("%s of virtual time in %s", virtual, time.Since(began).Round(time.Millisecond))

			ev, err := check.Load(evidence)
			require.NoError(t, err)
			held := map[string]check.Verdict{}
			for _, v := range check.All(ev) {
				held[v.Requirement] = v
			}
			for _, id := range exercised {
				v := held[id]
				require.Equal(t, check.Held, v.Outcome, "%s: %s\n%+v", id, v.Reason, v.Findings)
			}
		})
	}
}

// failOver writes to B again when it has been STOPPED for so long.
func failOver(t *testing.T, evidence string, wait time.Duration) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Minute, fmt.Errorf("the failover took more than 10 virtual minutes"))
	defer cancel()
	network := memnet.New()
	a := serve(t, network, "A", idA, "127.0.1.1:9092")
	b := serve(t, network, "B", idB, "127.0.2.1:9092")
	defer a.stop() // else a failure is reported as a deadlock of the bubble
	defer b.stop()

	writer, err := history.Create(filepath.Join(evidence, check.HistoryFile), "virtual time", 1)
	require.NoError(t, err)
	rec := traffic.NewRecorder(writer)
	orders, payments := traffic.Partition{Topic: "orders"}, traffic.Partition{Topic: "payments"}
	idle := traffic.Partition{Topic: "idle"}
	parts := []traffic.Partition{orders, payments, idle}
	topics := []string{"orders", "payments", "idle"}

	// Traffic on A: committed, aborted and plain; one transaction stays open.
	rec.Phase(history.TrafficBefore)
	rawA, err := traffic.NewRaw(ctx, rec, a.cluster(network), "a-raw")
	require.NoError(t, err)
	defer rawA.Close()
	require.NoError(t, rawA.CreateTopics(ctx, map[string]int32{"orders": 1, "payments": 1, "idle": 1}))
	producer := func(n *node, name string, mode history.Mode) *traffic.Producer {
		p, err := traffic.NewProducer(rec, n.cluster(network), traffic.ProducerOptions{Name: name, Mode: mode, Attempts: 10})
		require.NoError(t, err)
		return p
	}
	idempotent, txn, open := producer(a, "a-idempotent", history.Idempotent), producer(a, "a-txn", history.Transactional), producer(a, "a-open", history.Transactional)
	forgeable := producer(a, "a-idempotent-2", history.Idempotent) // its id is none that B's own producers get
	defer forgeable.Close()
	defer idempotent.Close()
	defer txn.Close()
	defer open.Close()
	require.NoError(t, idempotent.Send(ctx, 3, orders, payments))
	require.NoError(t, txn.Transaction(ctx, true, 2, orders, payments))
	require.NoError(t, txn.Transaction(ctx, false, 2, orders, payments))
	require.NoError(t, traffic.SeedForgeries(ctx, rawA, payments, []byte("x")))
	require.NoError(t, open.Begin(history.IntentOpen))
	require.NoError(t, open.Send(ctx, 2, orders))
	require.NoError(t, forgeable.Send(ctx, 3, payments))
	headers, err := rawA.HeadersFrom(ctx, payments, 0)
	require.NoError(t, err)

	// Mirror it to B, and let B catch up.
	control, err := traffic.NewControl(rec, b.cluster(network), "a-to-b")
	require.NoError(t, err)
	defer control.Close()
	require.NoError(t, control.Create(ctx, a.address, idA))
	require.NoError(t, control.Start(ctx, topics...))
	ends := map[traffic.Partition]int64{}
	for _, p := range parts {
		o, err := rawA.Offsets(ctx, p)
		require.NoError(t, err)
		ends[p] = o.HighWatermark
	}
	_, err = control.Await(ctx, "B to catch up", parts, func(p traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateMirroring && m.DestinationOffset >= ends[p]
	})
	require.NoError(t, err)

	// A dies; B is stopped all the same.
	a.end(t)
	rec.Add(history.Event{Kind: history.KindNode, Node: &history.Node{Cluster: "A", Node: 1, What: history.NodeStopped}})
	rec.Phase(history.StopRequested)
	require.NoError(t, control.Stop(ctx, topics...))
	_, err = control.Await(ctx, "B to be STOPPED", parts, func(_ traffic.Partition, m history.Mirror) bool {
		return m.State == traffic.StateStopped
	})
	require.NoError(t, err)
	rec.Phase(history.Stopped)

	// B knows none of A's producers; then it meets their ids again.
	rawB, err := traffic.NewRaw(ctx, rec, b.cluster(network), "b-raw")
	require.NoError(t, err)
	defer rawB.Close()
	for _, p := range parts {
		_, err := rawB.Producers(ctx, p, history.WhenAfterStop)
		require.NoError(t, err)
		_, err = rawB.Offsets(ctx, p)
		require.NoError(t, err)
	}
	time.Sleep(wait) // virtual
	rec.Phase(history.TrafficAfter)
	local, localTxn := producer(b, "b-idempotent", history.Idempotent), producer(b, "b-txn", history.Transactional)
	defer local.Close()
	defer localTxn.Close()
	require.NoError(t, local.Send(ctx, 3, orders, payments))
	mirrored, ok := traffic.Reusable(headers, ends[payments])
	require.True(t, ok, "no batch to forge")
	traffic.Forge(ctx, rawB, payments, &mirrored, []byte("y"))
	require.NoError(t, localTxn.Transaction(ctx, false, 2, parts...))
	require.NoError(t, localTxn.Transaction(ctx, true, 2, parts...))
	for _, p := range parts {
		awaitStable(ctx, t, rawB, p) // EndTxn is answered before its markers are written
	}
	require.NoError(t, local.Send(ctx, 1, parts...)) // records last: a reader stands behind what it was given
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		reader, err := traffic.StartReader(ctx, rec, b.cluster(network), "b-reader-"+string(level), level, parts)
		require.NoError(t, err)
		after := map[traffic.Partition]int64{}
		for _, p := range parts {
			o, err := rawB.Offsets(ctx, p)
			require.NoError(t, err)
			after[p] = o.LastStableOffset
		}
		require.NoError(t, reader.Await(ctx, after), "ends: %v", after)
		reader.Stop()
	}
	rec.Phase(history.Settled)
	for _, p := range parts {
		_, err := rawB.Offsets(ctx, p)
		require.NoError(t, err)
	}
	require.NoError(t, rec.Err())
	require.NoError(t, writer.Close())

	b.end(t)
	for _, n := range []*node{a, b} {
		for _, p := range parts {
			n.save(t, evidence, p.Topic, p.Index)
		}
	}
	run := check.Run{
		Version: check.RunVersion, Scenario: "active-passive/virtual-time", Seed: 1, Command: "ci/virtual-time", Launcher: "sim",
		Profile:   check.ProfileV42,
		Clusters:  []check.Cluster{{Name: "A", ID: idA, Nodes: []int32{1}}, {Name: "B", ID: idB, Nodes: []int32{1}}},
		Edges:     []check.Edge{{Mirror: "a-to-b", Source: "A", Destination: "B", Topics: topics, Stops: 1}},
		Exercises: exercised,
	}
	for _, topic := range topics {
		run.Topics = append(run.Topics, check.Topic{Name: topic, Partitions: 1})
		if strings.HasPrefix(topic, "idle") {
			run.Topics[len(run.Topics)-1].Empty = []int32{0}
		}
	}
	require.NoError(t, run.Save(filepath.Join(evidence, check.RunFile)))
}

// awaitStable waits until no transaction is open on a partition.
func awaitStable(ctx context.Context, t *testing.T, raw *traffic.Raw, p traffic.Partition) {
	t.Helper()
	for {
		o, err := raw.Offsets(ctx, p)
		require.NoError(t, err)
		if o.LastStableOffset == o.HighWatermark {
			return
		}
		select {
		case <-time.After(time.Millisecond): // virtual
		case <-ctx.Done():
			t.Fatalf("%s still has an open transaction at offset %d: %v", p, o.LastStableOffset, context.Cause(ctx))
		}
	}
}
