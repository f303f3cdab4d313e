package txn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The coordinator keeps its timers in a bubble's virtual time: the sweeper
// aborts by itself, and markers are tried again for as long as it takes.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(4)
		c := New(Config{Cluster: w, Markers: w, Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		defer func() { cancel(); <-done }()

		id := "x"
		pid, epoch, err := c.InitProducerID(ctx, InitRequest{TransactionalID: &id, TimeoutMillis: 60_000, ProducerID: -1, Epoch: -1})
		require.NoError(t, err)
		require.Equal(t, []error{nil}, addTo(c, id, identity{pid, epoch}, 2, a0))
		w.set(func() { w.refuse[a0] = kerr.NotLeaderForPartition })

		state := func() State {
			x, err := c.Describe(id)
			require.NoError(t, err)
			return x.State
		}
		time.Sleep(59 * time.Second)
		require.Equal(t, Ongoing, state())
		time.Sleep(2 * time.Second)
		require.Equal(t, PrepareAbort, state())
		time.Sleep(time.Hour)
		require.Equal(t, PrepareAbort, state())
		w.set(func() { delete(w.refuse, a0) })
		time.Sleep(time.Second)
		require.Equal(t, CompleteAbort, state())
		require.Equal(t, []Marker{{ProducerID: pid, Epoch: epoch + 1, Version: 2}}, w.markersOf(a0))
	})
}
