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
func again(ctx context.Context, ask func() error) error {
	return repeat(ctx, settleWithin, changing, ask)
}

// answeredAgain is again for a client that by itself repeats what got no answer: only
// what was answered is asked for again.
func answeredAgain(ctx context.Context, ask func() error) error {
	return repeat(ctx, settleWithin, settling, ask)
}

func repeat(ctx context.Context, within time.Duration, passes func(error) bool, ask func() error) error {
	until := time.Now().Add(within)
	for wait := askAgainAfter; ; wait = min(2*wait, askAgainAtLast) {
		err := ask()
		if !passes(err) || time.Now().After(until) || !pause(ctx, wait) {
			return err
		}
	}
}

// onceAgain is repeat for a request that is to be carried out once. Where an answer left
// open whether it was, what says later that it was is no error.
func onceAgain(ctx context.Context, passes func(error) bool, was error, ask func() error) error {
	open := false
	return repeat(ctx, settleWithin, passes, func() error {
		err := ask()
		if open && errors.Is(err, was) {
			return nil
		}
		open = open || errors.Is(err, kerr.RequestTimedOut) || broken(err)
		return err
	})
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

// produceAgain is Produce, for as long as the partition's leader changes: the batch is
// sent again as it is, as a producer does by itself, and all of it is one operation with
// the last answer. NOT_LEADER_OR_FOLLOWER is also what a leader says that was deposed while
// it waited for its followers, of a batch that it had appended. After that only an
// acknowledgement tells (lastOf). A batch without a producer id would be there twice, so it
// is not sent again then: see plainAgain.
func (r *Raw) produceAgain(ctx context.Context, w Write) (int64, *history.Result) {
	return r.produceFor(ctx, settleWithin, w)
}

// produceFor is produceAgain for so long.
func (r *Raw) produceFor(ctx context.Context, within time.Duration, w Write) (int64, *history.Result) {
	return r.operation(w, func() (offset int64, res *history.Result) {
		open := false
		_ = repeat(ctx, within, settling, func() error { // what was answered at last is the result
			offset, res = r.produce(ctx, w)
			moved := res.Code == kerr.NotLeaderForPartition.Code
			open = open || moved
			nobody := res.Code == kerr.LeaderNotAvailable.Code // to send it to
			if res.Outcome == history.Refused || nobody || moved && w.Batch.ID.ProducerID >= 0 {
				return kerr.ErrorForCode(res.Code)
			}
			return nil
		})
		return offset, lastOf(open, res)
	})
}

// lastOf is what the last of several answers to one request tells: where an earlier one
// left open whether it was carried out, only success (history.OutcomeOf).
func lastOf(open bool, res *history.Result) *history.Result {
	if open && res.Outcome == history.Refused {
		res.Outcome = history.Unknown
	}
	return res
}

// plainAgain is produceAgain of a batch without a producer id. Where its leader was
// deposed it may have been appended: what is sent then is another one, with other records.
func (r *Raw) plainAgain(ctx context.Context, next func() Write) (res *history.Result) {
	_ = again(ctx, func() error {
		_, res = r.produceAgain(ctx, next())
		if res.Code == kerr.NotLeaderForPartition.Code {
			return kerr.NotLeaderForPartition
		}
		return nil
	})
	return res
}
