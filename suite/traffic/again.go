package traffic

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/suite/history"
)

// settleWithin bounds how long a request is repeated that a cluster can't answer just
// now: a few times as long as one may take (requestTimeout), and no longer than its
// caller waits.
const settleWithin = 5 * requestTimeout

// askAgainAtLast is the longest pause between two of them: it is the machine's being busy
// that they wait for, and they are not to add to it.
const askAgainAtLast = 100 * time.Millisecond

// again repeats a request that a cluster refuses as long as its leaders, or its quorum's,
// change: on a busy machine that happens of itself, and an operator would ask again too.
// The request has to be one that is harmless when it was carried out after all. The
// error is that of the last time.
func again(ctx context.Context, ask func() error) error { return repeat(ctx, changing, ask) }

// answeredAgain is again for a client that by itself repeats what got no answer: only
// what was answered is asked for again.
func answeredAgain(ctx context.Context, ask func() error) error { return repeat(ctx, settling, ask) }

func repeat(ctx context.Context, passes func(error) bool, ask func() error) error {
	until := time.Now().Add(settleWithin)
	for wait := askAgainAfter; ; wait = min(2*wait, askAgainAtLast) {
		err := ask()
		if !passes(err) || time.Now().After(until) || !pause(ctx, wait) {
			return err
		}
	}
}

// unsettled are the answers of a cluster whose leaders change, its quorum's and its
// coordinators among them, or where a replica falls behind or is missed: a factor is too
// high while a broker is fenced. Each passes by itself.
// UNKNOWN_TOPIC_OR_PARTITION is none of them: it may be the truth.
var unsettled = []error{
	kerr.RequestTimedOut, kerr.NotController, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable,
	kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator,
	kerr.NotEnoughReplicas, kerr.PreferredLeaderNotAvailable, kerr.InvalidReplicationFactor,
}

// settling says whether an error is that of a cluster whose leaders change.
func settling(err error) bool {
	return slices.ContainsFunc(unsettled, func(code error) bool { return errors.Is(err, code) })
}

// changing is settling, or says that a connection broke meanwhile.
func changing(err error) bool { return settling(err) || broken(err) }

// broken says whether a connection ended before its answer came, or that took too long
// on a busy machine. One that can't be made at all is that of a node which is down, and
// does not come back of itself.
func broken(err error) bool {
	return kgo.IsRetryableBrokerErr(err)
}

// produceAgain is Produce of what next makes, sent again as it is while the partition's
// leader changes. A leader that was deposed while it waited for its followers says no
// more than one that never led, so the batch may be there already: under its id it is
// taken once, and the judge reads from the log which of the answers was for it. Any other
// answer that leaves that open is not asked for again. Each is recorded.
func (r *Raw) produceAgain(ctx context.Context, next func() Write) (w Write, offset int64, res *history.Result) {
	w = next()
	_ = again(ctx, func() error { // what was answered at last is the result
		offset, res = r.Produce(ctx, w)
		if res.Outcome != history.Refused && res.Code != kerr.NotLeaderForPartition.Code {
			return nil
		}
		return kerr.ErrorForCode(res.Code)
	})
	return w, offset, res
}
