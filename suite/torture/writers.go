package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// worker is one client of a run, with what it does in its own time.
type worker struct {
	*client
	number  int
	history *history
	rng     *rand.Rand
	parts   []partition
	think   time.Duration // most between two operations
	padding int           // most per record
	made    int           // names so far
	// strange counts answers that a stale leader may give, but not many of.
	strange int
	// twin sends what has a sequence a second time, at the same time.
	twin *client
	// earlier are acknowledged batches with a sequence, to be sent again.
	earlier []sent
	// wrong are answers that contradict each other.
	wrong []string
}

// sent is a batch and where it lies.
type sent struct {
	to     partition
	raw    []byte
	offset int64
}

func (w *worker) name() string {
	w.made++
	return fmt.Sprintf("c%d-%d", w.number, w.made)
}

func (w *worker) names() []string {
	n := 1
	if w.rng.IntN(4) == 0 {
		n += w.rng.IntN(5)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = w.name()
	}
	return out
}

func (w *worker) somewhere() partition { return w.parts[w.rng.IntN(len(w.parts))] }

func (w *worker) rest(ctx context.Context) {
	pause(ctx, time.Duration(w.rng.Int64N(int64(w.think)+1)))
}

// patience is how long one operation may take.
func (w *worker) patience() time.Duration {
	return 500*time.Millisecond + time.Duration(w.rng.Int64N(int64(8*time.Second)))
}

// write appends a batch, trying again where that can do no harm, and records
// what came of it. again: the batch has a sequence, so that a broker that has
// it knows it again.
func (w *worker) write(ctx context.Context, p partition, names []string, of producer, txn *string, transaction string) string {
	o := w.history.call(operation{
		Client: w.number, Name: w.client.name, Kind: "append", Partition: p, Records: names, Offset: -1,
		Transaction: transaction, Producer: of.id, Epoch: of.epoch,
	})
	again := of.id >= 0
	padding := 0
	if w.padding > 0 {
		padding = w.rng.IntN(w.padding)
	}
	raw := encode(names, of, txn != nil, padding, time.Now().UnixMilli())
	ctx, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	outcome, last := refused, ""
	for ctx.Err() == nil {
		o.Tries++ // this goroutine's alone until it returns
		got, err := w.send(ctx, p, txn, raw, again)
		code := kerr.TypedErrorForCode(got.code)
		switch {
		case errors.Is(err, errNotSent):
			last = err.Error()
		case err != nil:
			outcome, last = unknown, err.Error()
		case code == nil, errors.Is(code, kerr.DuplicateSequenceNumber):
			if code != nil {
				got.offset = -1
			}
			w.history.returned(o, acknowledged, func(o *operation) { o.Offset = got.offset })
			if again && txn == nil && got.offset >= 0 {
				w.earlier = append(w.earlier, sent{p, raw, got.offset})
			}
			return acknowledged
		case refusedBefore(got.code):
			last = code.Message + ": " + got.text
			if errors.Is(code, kerr.OutOfOrderSequenceNumber) {
				w.strange++
			}
			if txn != nil && !code.Retriable && !errors.Is(code, kerr.OutOfOrderSequenceNumber) {
				w.history.returned(o, outcome, func(o *operation) { o.Error = last })
				return outcome
			}
		default:
			outcome, last = unknown, code.Message+": "+got.text
		}
		if outcome == unknown && !again {
			break
		}
		pause(ctx, 10*time.Millisecond)
	}
	w.history.returned(o, outcome, func(o *operation) { o.Error = last })
	return outcome
}

// send sends a batch, and now and then twice at a time, over two connections:
// it may be appended once only, and both answers have to say where.
func (w *worker) send(ctx context.Context, p partition, txn *string, raw []byte, again bool) (produced, error) {
	if !again || w.twin == nil || w.rng.IntN(4) > 0 {
		return w.produce(ctx, p, txn, raw)
	}
	type answer struct {
		produced
		err error
	}
	other := make(chan answer, 1)
	go func() {
		got, err := w.twin.produce(ctx, p, txn, raw)
		other <- answer{got, err}
	}()
	got, err := w.produce(ctx, p, txn, raw)
	second := <-other
	switch {
	case second.err != nil && errors.Is(second.err, errNotSent):
	case err == nil && got.code == 0:
		if second.err == nil && second.code == 0 && second.offset != got.offset {
			w.wrong = append(w.wrong, fmt.Sprintf("%s: one batch of %s was acknowledged at offset %d and at %d", p, w.client.name, got.offset, second.offset))
		}
	case second.err == nil && second.code == 0:
		return second.produced, nil
	case err != nil && errors.Is(err, errNotSent), err == nil && refusedBefore(got.code):
		return second.produced, second.err // which may know less
	}
	return got, err
}

// repeat sends a batch again that was acknowledged some time ago. Whether its
// producer is still known for it or not, it must not be appended.
func (w *worker) repeat(ctx context.Context) {
	if len(w.earlier) == 0 {
		return
	}
	const window = 8 // brokers know a producer's last five
	s := w.earlier[len(w.earlier)-1-w.rng.IntN(min(window, len(w.earlier)))]
	got, err := w.produce(ctx, s.to, nil, s.raw)
	if err == nil && got.code == 0 && got.offset >= 0 && got.offset != s.offset {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: a batch of %s that lies at offset %d was acknowledged again at %d", s.to, w.client.name, s.offset, got.offset))
	}
}

// plain writes records without a producer id.
func (w *worker) plain(ctx context.Context) {
	for ctx.Err() == nil {
		w.write(ctx, w.somewhere(), w.names(), nobody, nil, "")
		w.rest(ctx)
	}
}

// idempotent writes with sequences; after an outcome that is not known it goes
// on as another producer.
func (w *worker) idempotent(ctx context.Context) {
	for ctx.Err() == nil {
		me, ok := w.become(ctx, "")
		next := map[partition]int32{}
		for ok && ctx.Err() == nil {
			p, names := w.somewhere(), w.names()
			of := me
			of.sequence = next[p]
			ok = w.write(ctx, p, names, of, nil, "") == acknowledged
			next[p] += int32(len(names))
			if w.rng.IntN(8) == 0 {
				w.repeat(ctx)
			}
			w.rest(ctx)
		}
		w.earlier = nil
	}
}

// read reads here and there, most often at the end.
func (w *worker) read(ctx context.Context) {
	at := map[partition]int64{}
	for ctx.Err() == nil {
		p := w.somewhere()
		from := at[p]
		if from > 0 && w.rng.IntN(4) == 0 {
			from = w.rng.Int64N(from)
		}
		o := w.history.call(operation{Client: w.number, Name: w.client.name, Kind: "read", Partition: p, Offset: from})
		got, err := w.fetch(ctx, p, from, false, 16<<10)
		var entries []entry
		if err == nil && got.code == 0 {
			if entries, err = entriesOf(got.raw, from); err != nil {
				entries = nil
				w.history.notef("read of %s at %d: %v", p, from, err)
			}
		}
		w.history.returned(o, acknowledged, func(o *operation) { o.Entries = entries })
		if n := len(entries); n > 0 && from == at[p] {
			at[p] = entries[n-1].Offset + 1
		}
		w.rest(ctx)
	}
}
