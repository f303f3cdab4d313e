package engine

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"watershed.example/suite/history"
	"watershed.example/suite/traffic"
)

// scriptedHooks are a broker's hooks of which a test says what arrives.
type scriptedHooks struct {
	arrivals map[string]chan string
	held     []string
	stands   bool
	released []string
}

func (s *scriptedHooks) Node() int32 { return 1 }

func (s *scriptedHooks) Lives() bool { return true }

func (s *scriptedHooks) Stands() bool { return s.stands }

func (s *scriptedHooks) Hold(_ context.Context, point, partition string) error {
	s.held = append(s.held, point+" "+partition)
	return nil
}

func (s *scriptedHooks) Release(_ context.Context, point, partition string) error {
	s.released = append(s.released, point+" "+partition)
	return nil
}

func (s *scriptedHooks) Await(ctx context.Context, point string) (string, error) {
	select {
	case p := <-s.arrivals[point]:
		return p, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func TestGatesAwaitTheirPartitionsAndRecordThem(t *testing.T) {
	defer goleak.VerifyNone(t)
	const point = "before:truncated"
	h := &scriptedHooks{arrivals: map[string]chan string{point: make(chan string), "after:truncated": make(chan string)}}
	var out bytes.Buffer
	w := history.NewWriter(&out, "gates", 1, time.Now)
	watch := watchGates(context.Background(), []hooks{h})
	defer watch.close()
	rec := traffic.NewRecorder(w)
	parts := []traffic.Partition{{Topic: "t", Index: 0}, {Topic: "t", Index: 1}}
	g := watch.of(rec.In(1), "B", parts)
	other := watch.of(rec.In(2), "B", []traffic.Partition{{Topic: "u", Index: 0}})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	require.NoError(t, g.hold(ctx, point))
	h.arrivals[point] <- "t-0"
	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	err := g.await(short, point)
	stuck := new(traffic.StuckError)
	require.ErrorAs(t, err, &stuck)
	require.Equal(t, []string{"t-1 not there yet"}, stuck.Missing)

	h.arrivals[point] <- "nobody-0"
	h.arrivals[point] <- "u-0"
	require.NoError(t, other.await(ctx, point))
	h.arrivals[point] <- "t-1"
	require.NoError(t, g.await(ctx, point))
	require.NoError(t, g.release(ctx, point))
	// A later stop of the same partitions takes them over.
	again := watch.of(rec.In(3), "B", parts[:1])
	h.arrivals["after:truncated"] <- "t-0"
	require.NoError(t, again.await(ctx, "after:truncated"))
	watch.close()

	require.Equal(t, []string{point + " t-0", point + " t-1"}, h.held)
	require.Equal(t, h.held, h.released)
	require.NoError(t, w.Close())
	_, events, err := history.Read(&out)
	require.NoError(t, err)
	got := map[int32][]history.Gate{}
	for _, e := range events {
		got[e.Episode] = append(got[e.Episode], *e.Gate)
	}
	require.Equal(t, map[int32][]history.Gate{
		1: {
			{Cluster: "B", Node: 1, Point: point, Partition: "t-0", What: history.GateHeld},
			{Cluster: "B", Node: 1, Point: point, Partition: "t-1", What: history.GateHeld},
			{Cluster: "B", Node: 1, Point: point, What: history.GateReleased},
		},
		2: {{Cluster: "B", Node: 1, Point: point, Partition: "u-0", What: history.GateArrived}},
		3: {{Cluster: "B", Node: 1, Point: "after:truncated", Partition: "t-0", What: history.GateArrived}},
	}, got)
}
