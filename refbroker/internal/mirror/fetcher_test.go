package mirror

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/host"
)

// A partition that leaves while the fetcher dials calls the dial off, and
// nothing else: the others stay, and are fetched over the next connection.
func TestAPartitionThatLeavesDuringADialLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var dials atomic.Int64
		f := newFetcher(WayTo(host.Host{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, errors.New("dial tcp: operation was canceled") // what package net says, whatever the cause
		}}, nil), slog.New(slog.DiscardHandler), "source:9092", "cluster", false)
		ended := make(chan struct{})
		go func() { defer close(ended); f.run(ctx) }()
		register := func(index int32) *registration {
			r := &registration{
				topic: "t", index: index, waiting: func(error) {},
				seen: func(_ int64, err error) { t.Errorf("partition %d was told %v", index, err) },
			}
			f.add(r)
			return r
		}
		leaves, stays := register(0), register(1)
		synctest.Wait()
		require.Positive(t, dials.Load())
		before := dials.Load()
		leaves.remove()
		for dials.Load() == before { // after removedPause
			select {
			case <-stays.out:
				t.Fatal("the other partition was given back")
			default:
			}
			synctest.Wait()
			sleep(ctx, removedPause)
		}
		require.Empty(t, stays.out)
		cancel()
		<-ended
	})
}
