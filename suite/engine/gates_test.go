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
	released []string
}

func (s *scriptedHooks) Hold(_ context.Context, point string) error {
	s.held = append(s.held, point)
	return nil
}

func (s *scriptedHooks) Release(_ context.Context, point string) error {
	s.released = append(s.released, point)
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

func TestGatesAwaitEveryPartitionAndRecordIt(t *testing.T) {
	defer goleak.VerifyNone(t)
	const point = "before:truncated"
	h := &scriptedHooks{arrivals: map[string]chan string{point: make(chan string), "after:truncated": make(chan string)}}
	var out bytes.Buffer
	w := history.NewWriter(&out, "gates", 1, time.Now)
	g := watchGates(context.Background(), h, traffic.NewRecorder(w), "B", 1)
	defer g.close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	parts := []traffic.Partition{{Topic: "t", Index: 0}, {Topic: "t", Index: 1}}

	require.NoError(t, g.hold(ctx, point))
	h.arrivals[point] <- "t-0"
	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	err := g.await(short, point, parts)
	stuck := new(traffic.StuckError)
	require.ErrorAs(t, err, &stuck)
	require.Equal(t, []string{"t-1 not there yet"}, stuck.Missing)

	h.arrivals[point] <- "t-1"
	require.NoError(t, g.await(ctx, point, parts))
	require.NoError(t, g.release(ctx, point))
	h.arrivals["after:truncated"] <- "t-0"
	require.NoError(t, g.await(ctx, "after:truncated", parts[:1]))
	g.close()

	require.Equal(t, []string{point}, h.held)
	require.Equal(t, []string{point}, h.released)
	require.NoError(t, w.Close())
	_, events, err := history.Read(&out)
	require.NoError(t, err)
	var got []history.Gate
	for _, e := range events {
		got = append(got, *e.Gate)
	}
	require.Equal(t, []history.Gate{
		{Cluster: "B", Node: 1, Point: point, Partition: "t-0", What: history.GateHeld},
		{Cluster: "B", Node: 1, Point: point, Partition: "t-1", What: history.GateHeld},
		{Cluster: "B", Node: 1, Point: point, What: history.GateReleased},
		{Cluster: "B", Node: 1, Point: "after:truncated", Partition: "t-0", What: history.GateArrived},
	}, got)
}
