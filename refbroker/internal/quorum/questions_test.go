package quorum

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Raft forgets at its shutdown what it has committed and not applied: a node that closes
// in the middle of commands, which their clients may have given up, leaves nobody waiting.
func TestClosingLeavesNobodyWaiting(t *testing.T) {
	for range 30 {
		n := alone(t, t.TempDir())
		before := goleak.IgnoreCurrent()
		ctx, giveUp := context.WithCancel(within(t))
		var clients sync.WaitGroup
		for range 64 {
			clients.Go(func() {
				for ctx.Err() == nil {
					if _, err := n.Apply(ctx, Sync{}); err != nil {
						return
					}
				}
			})
		}
		_, err := n.WaitIndex(within(t), n.Image().Index+200)
		require.NoError(t, err, "commands on their way")
		giveUp()
		require.NoError(t, n.Close())
		clients.Wait()
		require.NoError(t, goleak.Find(before))
	}
}
