package traffic

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestARequestIsRepeatedWhileLeadersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name  string
			err   error
			times int
		}{
			{"answered", nil, 1},
			{"refused for good", kerr.TopicAuthorizationFailed, 1},
			{"the quorum's leader changes", fmt.Errorf("start: %w", kerr.RequestTimedOut), 4},
			{"another leads", kerr.NotLeaderForPartition, 4},
			{"another coordinates", fmt.Errorf("join: %w", kerr.NotCoordinator), 4},
			{"the coordinator loads", kerr.CoordinatorLoadInProgress, 4},
			{"nobody coordinates", kerr.CoordinatorNotAvailable, 4},
			{"a replica is behind", kerr.NotEnoughReplicas, 4},
			{"the one to lead is behind", kerr.PreferredLeaderNotAvailable, 4},
			{"the connection broke", fmt.Errorf("fetch: %w", io.EOF), 4},
			{"the answer took too long", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, 4},
		} {
			asked := 0
			require.NoError(t, again(t.Context(), func() error {
				if asked++; asked == c.times {
					return nil
				}
				return c.err
			}), c.name)
			require.Equal(t, c.times, asked, c.name)
		}
		for _, final := range []error{
			kerr.TopicAuthorizationFailed, kerr.UnknownTopicOrPartition, kerr.OutOfOrderSequenceNumber,
			&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, // the node is down
		} {
			asked := 0
			require.ErrorIs(t, again(t.Context(), func() error { asked++; return final }), final)
			require.Equal(t, 1, asked, "%v", final)
		}

		began := time.Now()
		require.ErrorIs(t, again(t.Context(), func() error { return kerr.NotController }), kerr.NotController, "not for good")
		require.InDelta(t, settleWithin, time.Since(began), float64(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		require.ErrorIs(t, again(ctx, func() error { return kerr.NotController }), kerr.NotController)
		require.Equal(t, time.Second, time.Since(began), "no longer than its caller waits")
	})
}
