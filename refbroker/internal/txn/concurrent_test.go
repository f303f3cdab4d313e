package txn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/shards"
)

// Many producers at once, while the leadership of every shard moves on: what a
// producer was told is what the partitions got.
func TestConcurrentProducersOverLeaderChanges(t *testing.T) {
	w := newWorld(3)
	c, stop := w.start(t)
	defer stop()

	told := make([]map[identity]bool, 6) // by the epoch of the marker: committed
	var producers sync.WaitGroup
	for i := range told {
		told[i] = map[identity]bool{}
		producers.Go(func() {
			id := fmt.Sprintf("id-%d", i)
			have := insist(t, c, id)
			for n := range 40 {
				if !again(t, func() error { return addTo(c, id, have, version2, a0, b0)[0] }) {
					t.Errorf("%s: not added", id)
					return
				}
				commit := n%3 != 0
				var next identity
				if !again(t, func() (err error) { next, err = end(t, c, id, have, version2, commit); return err }) {
					t.Errorf("%s: not ended", id)
					return
				}
				told[i][next] = commit
				have = next
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mover sync.WaitGroup
	mover.Go(func() {
		for i := 0; shards.Pause(ctx, 3*time.Millisecond); i++ {
			w.set(func() { w.epochs[i%3] += 2 })
		}
	})
	producers.Wait()
	cancel()
	mover.Wait()
	for i := range told {
		id := fmt.Sprintf("id-%d", i)
		require.Eventually(t, func() bool {
			x, err := c.Describe(id)
			return err == nil && settledDown(x)
		}, 10*time.Second, time.Millisecond)
	}

	want := map[identity]bool{}
	for _, m := range told {
		for who, commit := range m {
			want[who] = commit
		}
	}
	require.Len(t, want, 6*40)
	for _, p := range []Partition{a0, b0} {
		got := map[identity]bool{}
		for _, m := range w.markersOf(p) {
			who := identity{m.ProducerID, m.Epoch}
			if commit, repeated := got[who]; repeated {
				require.Equal(t, commit, m.Commit, "a repeated marker says otherwise")
			}
			got[who] = m.Commit
		}
		require.Equal(t, want, got, "%s", p)
	}
}

// again calls f until it does not fail with an error that passes by itself.
func again(t *testing.T, f func() error) bool {
	t.Helper()
	var err error
	for range 20_000 {
		err = f()
		if err == nil {
			return true
		}
		if !slices.Contains([]error{
			kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		}, err) {
			t.Errorf("refused: %v", err)
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Errorf("still refused: %v", err)
	return false
}

func insist(t *testing.T, c *Coordinator, id string) identity {
	var got identity
	if !again(t, func() error {
		pid, epoch, err := c.InitProducerID(t.Context(), InitRequest{TransactionalID: &id, TimeoutMillis: 60_000, ProducerID: -1, Epoch: -1})
		got = identity{pid, epoch}
		return err
	}) {
		t.Errorf("%s: not initialized", id)
	}
	return got
}
