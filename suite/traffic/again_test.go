package traffic

import (
	"context"
	"fmt"
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
		require.ErrorIs(t, again(t.Context(), func() error { return kerr.TopicAuthorizationFailed }), kerr.TopicAuthorizationFailed)

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
