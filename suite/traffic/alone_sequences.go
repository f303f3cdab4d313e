package traffic

import (
	"context"
	"math"
	"time"

	"watershed.example/suite/history"
)

// Sequences tries what idempotent producers are promised on one cluster: the
// window of five batches, gaps, the wrap of sequences, and epochs (SC-1, SC-2).
//
// When to call: Run once on a partition; Again whenever the state of producers
// has to have outlived something (SC-7).
type Sequences struct {
	raw     *Raw
	part    Partition
	payload []byte
	// window, wrapped and fenced are producers with all they have sent.
	window, wrapped, fenced sequence
}

// sequence is one idempotent producer in one partition.
type sequence struct {
	id    int64
	epoch int16
	next  int32
	sent  []Write
}

// NewSequences prepares the trials on part; raw's name is the writer's.
func NewSequences(raw *Raw, part Partition, payload []byte) *Sequences {
	return &Sequences{raw: raw, part: part, payload: payload}
}

// after is the sequence that follows n records from sequence on: they wrap.
func after(sequence, n int32) int32 {
	next := int64(sequence) + int64(n)
	if next > math.MaxInt32 {
		next -= math.MaxInt32 + 1
	}
	return int32(next)
}

// next makes a batch of a producer.
func (s *Sequences) next(q *sequence, trial history.Trial, epoch int16, sequence, n int32) Write {
	return Write{
		Partition: s.part, Mode: history.Idempotent, Trial: trial,
		Batch: Batch{
			ID:        history.BatchID{ProducerID: q.id, Epoch: epoch, BaseSequence: sequence},
			Timestamp: time.Now().UnixMilli(), Count: n, Payload: s.payload,
			First: s.raw.Tag(s.part, history.NoTxn, history.IntentNone, n),
		},
	}
}

func (s *Sequences) write(ctx context.Context, q *sequence, trial history.Trial, epoch int16, sequence, n int32) *history.Result {
	w := s.next(q, trial, epoch, sequence, n)
	_, res := s.raw.produceAgain(ctx, w)
	if res.Outcome == history.OK {
		q.sent = append(q.sent, w)
		q.epoch, q.next = epoch, after(sequence, n)
	}
	return res
}

func (s *Sequences) goOn(ctx context.Context, q *sequence, n int32) {
	s.write(ctx, q, history.TrialFirst, q.epoch, q.next, n)
}

// retry sends a batch again that was acknowledged before, back batches from the
// newest.
func (s *Sequences) retry(ctx context.Context, q *sequence, back int) {
	if i := len(q.sent) - 1 - back; i >= 0 {
		w := q.sent[i]
		w.Trial = history.TrialRetry
		s.raw.produceAgain(ctx, w)
	}
}

// window is how many batches of a producer a broker knows.
const window = 5

// Run makes the trials. What brokers answer is in the history.
func (s *Sequences) Run(ctx context.Context) error {
	for _, q := range []*sequence{&s.window, &s.wrapped, &s.fenced} {
		var err error
		if q.id, _, err = s.raw.InitProducerID(ctx, ""); err != nil {
			return err
		}
	}
	// Field case FA-02: six batches, and each of them again.
	for range window + 1 {
		s.goOn(ctx, &s.window, 1)
	}
	for back := window; back >= 0; back-- {
		s.retry(ctx, &s.window, back)
	}
	s.write(ctx, &s.window, history.TrialGap, 0, after(s.window.next, 1), 1)
	// Batches of several records, whose retries name the first one's offset.
	for n := range int32(window) {
		s.goOn(ctx, &s.window, 2+n)
	}
	for back := range window {
		s.retry(ctx, &s.window, back)
	}
	// Field case FA-01: the wrap lies inside a batch.
	s.write(ctx, &s.wrapped, history.TrialFirst, 0, math.MaxInt32-3, 2)
	s.goOn(ctx, &s.wrapped, 4)
	s.retry(ctx, &s.wrapped, 0)
	s.write(ctx, &s.wrapped, history.TrialGap, 0, after(s.wrapped.next, 1), 1)
	s.goOn(ctx, &s.wrapped, 1)
	s.retry(ctx, &s.wrapped, 1)
	s.retry(ctx, &s.wrapped, 2)
	s.epochs(ctx, 5)
	return context.Cause(ctx)
}

// epochs goes from an epoch to the next one, with what must be refused on the way.
func (s *Sequences) epochs(ctx context.Context, epoch int16) {
	s.write(ctx, &s.fenced, history.TrialFirst, epoch, 0, 2)
	s.write(ctx, &s.fenced, history.TrialZombie, epoch-1, 0, 1)
	s.write(ctx, &s.fenced, history.TrialZombie, epoch-1, 2, 1)
	s.write(ctx, &s.fenced, history.TrialGap, epoch+1, 2, 1) // a new epoch begins at 0
	s.write(ctx, &s.fenced, history.TrialNewEpoch, epoch+1, 0, 3)
	s.write(ctx, &s.fenced, history.TrialZombie, epoch, 2, 1)
	s.retry(ctx, &s.fenced, 1) // a batch of the epoch before is no retry any more
	s.retry(ctx, &s.fenced, 0)
	s.goOn(ctx, &s.fenced, 1)
}

// Again tries the same against what the broker knows by now: retries of each
// producer's newest batches, gaps, an older epoch, and the next batch of each.
func (s *Sequences) Again(ctx context.Context) error {
	for _, q := range []*sequence{&s.window, &s.wrapped, &s.fenced} {
		for back := range window {
			s.retry(ctx, q, back)
		}
		s.write(ctx, q, history.TrialGap, q.epoch, after(q.next, 7), 1)
	}
	s.write(ctx, &s.fenced, history.TrialZombie, s.fenced.epoch-1, 0, 1)
	for _, q := range []*sequence{&s.window, &s.wrapped, &s.fenced} {
		s.goOn(ctx, q, 1)
		s.retry(ctx, q, 0)
	}
	return context.Cause(ctx)
}
