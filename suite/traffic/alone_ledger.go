package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"watershed.example/suite/history"
)

// Ledger writes interleaved transactions of several producers, with every
// outcome, and fetches after each step: last stable offset and aborted list must
// be right all along (SC-3, field cases FA-14 and FA-15).
//
// When to call: Run once; Again behind whatever the state has to outlive. One
// transaction is open in between, and after Close nobody will end it.
type Ledger struct {
	raw, plainRaw *Raw
	part          Partition
	payload       []byte
	first, second *HandTxn
	open          *HandTxn
	raws          []*Raw
}

// NewLedger makes the producers; prefix begins their names.
func NewLedger(ctx context.Context, rec *Recorder, cluster Cluster, prefix string, part Partition, payload []byte) (*Ledger, error) {
	l := &Ledger{part: part, payload: payload}
	var err error
	client := func(name string) *Raw {
		raw, e := NewRaw(ctx, rec, cluster, prefix+name)
		if e != nil {
			err = e
			return nil
		}
		l.raws = append(l.raws, raw)
		return raw
	}
	l.raw, l.plainRaw = client("look"), client("plain")
	for _, t := range []struct {
		to   **HandTxn
		name string
	}{{&l.first, "first"}, {&l.second, "second"}, {&l.open, "open"}} {
		raw := client(t.name)
		if err != nil {
			break
		}
		if *t.to, err = NewHandTxn(ctx, raw, prefix+t.name, 2, payload); err != nil {
			break
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// OpenID is the transactional id of the producer that leaves its transactions
// open.
func (l *Ledger) OpenID() string { return l.open.txnID }

// Close closes the clients.
func (l *Ledger) Close() {
	for _, r := range l.raws {
		r.Close()
	}
}

// Renew gives up the connections of all clients, after a restart.
func (l *Ledger) Renew() error {
	for _, r := range l.raws {
		if err := r.Renew(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) plain(ctx context.Context, n int32) error {
	if res := l.plainRaw.plainAgain(ctx, func() Write {
		return Write{Partition: l.part, Mode: history.Plain, Batch: Batch{
			ID: PlainID, Timestamp: time.Now().UnixMilli(), Count: n, Payload: l.payload,
			First: l.plainRaw.Tag(l.part, history.NoTxn, history.IntentNone, n),
		}}
	}); res.Outcome != history.OK {
		return fmt.Errorf("raw client %s: write to %s: code %d %s", l.plainRaw.name, l.part, res.Code, res.Message)
	}
	return nil
}

// look fetches all there is, in both isolation levels.
func (l *Ledger) look(ctx context.Context) error {
	o, err := l.raw.Offsets(ctx, l.part)
	if err != nil {
		return err
	}
	for _, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
		if _, err := l.raw.FetchAgain(ctx, l.part, FetchOptions{Offset: o.LogStartOffset, Isolation: level}); err != nil {
			return err
		}
	}
	return nil
}

// steps does one thing after the other, and looks after each.
func (l *Ledger) steps(ctx context.Context, steps ...func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func begin(t *HandTxn, intent history.Intent) func() error {
	return func() error { t.Begin(intent); return nil }
}

func (l *Ledger) send(ctx context.Context, t *HandTxn, n int32) func() error {
	return func() error { return t.Send(ctx, l.part, n) }
}

func end(ctx context.Context, t *HandTxn, commit bool) func() error {
	return func() error { return t.End(ctx, commit) }
}

// Run writes the transactions, and leaves one open.
func (l *Ledger) Run(ctx context.Context) error {
	const commit, abort = history.IntentCommit, history.IntentAbort
	a, b := l.first, l.second
	if err := l.waiting(ctx); err != nil {
		return err
	}
	return l.steps(ctx,
		func() error { return l.plain(ctx, 2) },
		// Two that overlap: the later one ends first.
		begin(a, abort), l.send(ctx, a, 2), begin(b, commit), l.send(ctx, b, 1), func() error { return l.plain(ctx, 1) },
		end(ctx, b, true), l.send(ctx, a, 1), end(ctx, a, false),
		// FA-15: one producer commits, aborts and commits.
		begin(a, commit), l.send(ctx, a, 1), end(ctx, a, true),
		begin(a, abort), l.send(ctx, a, 1), end(ctx, a, false),
		begin(a, commit), l.send(ctx, a, 1), end(ctx, a, true),
		// An aborted one within a committed one.
		begin(b, commit), l.send(ctx, b, 1), begin(a, abort), l.send(ctx, a, 2), end(ctx, a, false), l.send(ctx, b, 1), end(ctx, b, true),
		func() error { return l.plain(ctx, 1) },
		begin(l.open, commit), l.send(ctx, l.open, 2), func() error { return l.plain(ctx, 1) },
	)
}

// Again ends the transaction that is open, lets others go on, and leaves one open
// again.
func (l *Ledger) Again(ctx context.Context) error {
	const commit, abort = history.IntentCommit, history.IntentAbort
	a := l.first
	return l.steps(ctx,
		l.send(ctx, l.open, 1), end(ctx, l.open, l.open.intent == history.IntentCommit),
		begin(a, abort), l.send(ctx, a, 1), end(ctx, a, false),
		begin(a, commit), l.send(ctx, a, 1), end(ctx, a, true),
		begin(l.open, abort), l.send(ctx, l.open, 1),
	)
}

// Finish ends the transaction that is open: the log ends with its marker.
func (l *Ledger) Finish(ctx context.Context) error {
	return l.steps(ctx, end(ctx, l.open, l.open.intent == history.IntentCommit))
}

// waiting has fetches of both isolation levels wait on the log, empty or not,
// while an aborted and a committed transaction are written: what they are
// answered must be what a fetch at once is (FA-14). It goes on until both held
// some of it.
func (l *Ledger) waiting(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		o, err := l.raw.Offsets(ctx, l.part)
		if err != nil {
			return err
		}
		from := o.HighWatermark
		var wg sync.WaitGroup
		var answers [2]*Fetched
		var errs [2]error
		for i, level := range []history.Isolation{history.ReadCommitted, history.ReadUncommitted} {
			raw := []*Raw{l.first.raw, l.open.raw}[i] // connections that nothing else needs now
			wg.Go(func() {
				answers[i], errs[i] = raw.FetchAgain(ctx, l.part, FetchOptions{Offset: from, Isolation: level, LongPoll: true, Wait: wait})
			})
		}
		wrote := l.outcomes(ctx)
		wg.Wait()
		for _, err := range append(errs[:], wrote) {
			if err != nil {
				return err
			}
		}
		// One answer may hold no more than one segment's batches.
		if answers[0].NextOffset > from && answers[1].NextOffset > from {
			return nil
		}
	}
}

// outcomes writes an aborted transaction and a committed one.
func (l *Ledger) outcomes(ctx context.Context) error {
	for _, commit := range []bool{false, true} {
		intent := history.IntentAbort
		if commit {
			intent = history.IntentCommit
		}
		l.second.Begin(intent)
		if err := l.second.Send(ctx, l.part, 2); err != nil {
			return err
		}
		if err := l.second.End(ctx, commit); err != nil {
			return err
		}
	}
	return nil
}
