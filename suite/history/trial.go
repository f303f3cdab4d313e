package history

// Trial says what a write of the raw producer tries on purpose against the
// state that a writer of the same cluster left in the same writable period. It
// is empty for ordinary traffic; a [Collision] meets a mirrored producer's state
// instead.
type Trial string

// The trials (contract IDEM-3, TXN-6).
const (
	TrialFirst    Trial = "first"        // the batch that a retry, a gap or a zombie follows; to be appended
	TrialRetry    Trial = "retry"        // the very same batch again, with the same tag
	TrialGap      Trial = "gap"          // a sequence above the next one
	TrialNewEpoch Trial = "newer-epoch"  // the first batch of a newer epoch, which fences the older ones
	TrialZombie   Trial = "zombie"       // an older epoch, after a newer one was handed out or wrote
	TrialLate     Trial = "late-produce" // a batch of a transaction that has ended
)

func (t Trial) validate() error {
	return oneOf("trial", t, "", TrialFirst, TrialRetry, TrialGap, TrialNewEpoch, TrialZombie, TrialLate)
}
