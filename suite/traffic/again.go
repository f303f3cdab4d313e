package traffic

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// settleWithin bounds how long a request is repeated that a cluster can't answer just
// now: a few times as long as one may take (requestTimeout), and no longer than its
// caller waits.
const settleWithin = 5 * requestTimeout

// again repeats a request that a cluster refuses as long as its leaders, or its quorum's,
// change: on a busy machine that happens of itself, and an operator would ask again too.
// The request has to be one that is harmless when it was carried out after all. The
// error is that of the last time.
func again(ctx context.Context, ask func() error) error {
	until := time.Now().Add(settleWithin)
	for {
		err := ask()
		if !changing(err) || time.Now().After(until) || !pause(ctx, askAgainAfter) {
			return err
		}
	}
}

// changing says whether an error is that of a cluster whose leaders change.
func changing(err error) bool {
	for _, code := range []error{kerr.RequestTimedOut, kerr.NotController, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
