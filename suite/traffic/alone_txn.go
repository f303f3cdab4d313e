package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/history"
)

// HandTxn is a transactional producer made by hand, of either version of
// transactions, in as many partitions as it likes. Unlike a client library's it
// can say later what an earlier transaction of its said.
type HandTxn struct {
	raw     *Raw
	txnID   string
	version int16
	payload []byte
	timeout time.Duration

	id     int64
	epoch  int16
	number int64 // of the open transaction, or of the next one
	intent history.Intent
	next   map[Partition]int32
	joined map[Partition]int64 // of the open transaction: partition to its newest offset, -1 before it wrote
	ended  handTxnState        // the transaction that ended last
}

// handTxnState is what a transaction was sent under.
type handTxnState struct {
	id     int64
	epoch  int16
	number int64
	commit bool
	intent history.Intent
	next   map[Partition]int32
}

// handTimeout is how long a transaction by hand may stay open: a busy broker must
// not end what the story is to end, but in the end it does.
const handTimeout = 10 * time.Minute

// NewHandTxn makes a producer of transactions version 1 or 2. raw must be a
// client of its own: [NewRaw], or [NewRawVersion1].
func NewHandTxn(ctx context.Context, raw *Raw, txnID string, version int16, payload []byte) (*HandTxn, error) {
	t := &HandTxn{raw: raw, txnID: txnID, version: version, payload: payload, intent: history.IntentNone, timeout: handTimeout}
	return t, t.Init(ctx)
}

// NewRawVersion1 makes a raw client that speaks transactions version 1.
func NewRawVersion1(ctx context.Context, rec *Recorder, cluster Cluster, name string) (*Raw, error) {
	return newRaw(ctx, rec, cluster, name, version1())
}

// Init asks for a producer id and epoch, which fences who had it before.
func (t *HandTxn) Init(ctx context.Context) error {
	var err error
	t.id, t.epoch, err = t.raw.initProducerID(ctx, t.txnID, t.timeout)
	t.next, t.joined = map[Partition]int32{}, map[Partition]int64{}
	return err
}

// ID is the producer's id and epoch.
func (t *HandTxn) ID() (int64, int16) { return t.id, t.epoch }

func (t *HandTxn) event(number int64, intent history.Intent, r *history.Result, late bool) *history.Txn {
	return &history.Txn{
		Writer: t.raw.name, Cluster: t.raw.cluster.Name, TransactionalID: t.txnID,
		Number: number, Intent: intent, Result: r, Version: t.version, Late: late,
	}
}

// Begin opens a transaction.
func (t *HandTxn) Begin(intent history.Intent) {
	t.intent = intent
	t.joined = map[Partition]int64{}
	t.raw.rec.Add(history.Event{Kind: history.KindTxnBegin, Txn: t.event(t.number, intent, nil, false)})
}

// Join adds p to the open transaction without writing to it: its marker will be
// alone there.
func (t *HandTxn) Join(ctx context.Context, p Partition) error {
	if err := t.raw.join(ctx, t.txnID, t.id, t.epoch, p); err != nil {
		return err
	}
	if _, wrote := t.joined[p]; !wrote {
		t.joined[p] = -1
	}
	return nil
}

// Send writes n records of the open transaction to p. Anything but an
// acknowledgement is an error.
func (t *HandTxn) Send(ctx context.Context, p Partition, n int32) error {
	if _, joined := t.joined[p]; t.version < 2 && !joined {
		if err := t.Join(ctx, p); err != nil {
			return err
		}
	}
	offset, res := t.produce(ctx, p, n, history.TrialFirst, handTxnState{t.id, t.epoch, t.number, false, t.intent, t.next})
	if res.Outcome != history.OK {
		return fmt.Errorf("raw client %s: write to %s in transaction %d of %s: code %d %s", t.raw.name, p, t.number, t.txnID, res.Code, res.Message)
	}
	t.joined[p] = offset + int64(n) - 1
	return nil
}

// batch makes the next batch of a transaction.
func (t *HandTxn) batch(p Partition, n int32, trial history.Trial, s handTxnState) Write {
	return Write{
		Partition: p, Mode: history.Transactional, Trial: trial, TransactionalID: t.txnID,
		Batch: Batch{
			ID:            history.BatchID{ProducerID: s.id, Epoch: s.epoch, BaseSequence: s.next[p]},
			Transactional: true, Timestamp: time.Now().UnixMilli(), Count: n, Payload: t.payload,
			First: t.raw.Tag(p, s.number, s.intent, n),
		},
	}
}

func (t *HandTxn) produce(ctx context.Context, p Partition, n int32, trial history.Trial, s handTxnState) (int64, *history.Result) {
	w := t.batch(p, n, trial, s)
	send := t.raw.Produce
	if trial == history.TrialFirst {
		send = t.raw.produceAgain
	}
	for {
		offset, res := send(ctx, w)
		// The transaction before this one may still be ending.
		if trial == history.TrialFirst && res.Code != 0 && busy(ctx, kerr.ErrorForCode(res.Code)) {
			continue
		}
		if res.Outcome == history.OK {
			s.next[p] = after(s.next[p], n)
		}
		return offset, res
	}
}

// End ends the open transaction, and returns when its markers are in every
// partition of it: a coordinator answers before they are.
func (t *HandTxn) End(ctx context.Context, commit bool) error {
	state := handTxnState{t.id, t.epoch, t.number, commit, t.intent, t.next}
	resp, err := t.endTxn(ctx, state, false)
	if err != nil {
		return err
	}
	for p, last := range t.joined {
		if err := t.raw.awaitMarker(ctx, p, t.id, last); err != nil {
			return fmt.Errorf("raw client %s: transaction %d of %s: %w", t.raw.name, t.number, t.txnID, err)
		}
	}
	t.ended = state
	t.number++
	t.intent, t.joined = history.IntentNone, map[Partition]int64{}
	if t.version >= 2 && resp.Version >= 5 && resp.ProducerID >= 0 {
		t.id, t.epoch, t.next = resp.ProducerID, resp.ProducerEpoch, map[Partition]int32{}
		t.raw.rec.Add(history.Event{Kind: history.KindInitProducerID, InitPID: &history.InitPID{
			Writer: t.raw.name, Cluster: t.raw.cluster.Name, TransactionalID: t.txnID,
			ProducerID: t.id, Epoch: t.epoch, ByEndTxn: true, Result: resultOf(nil),
		}})
	}
	return nil
}

func (t *HandTxn) endTxn(ctx context.Context, s handTxnState, late bool) (*kmsg.EndTxnResponse, error) {
	asked := history.IntentAbort
	if s.commit {
		asked = history.IntentCommit
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.raw.cluster.named(t.txnID), s.id, s.epoch, s.commit
	op := t.raw.rec.Op()
	t.raw.rec.Add(history.Event{Kind: history.KindTxnEndBegin, Op: op, Txn: t.event(s.number, asked, nil, late)})
	lost := false
	for {
		resp, err := req.RequestWith(ctx, t.raw.client())
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		// A client says it once more where the answer was lost (KIP-890 has the
		// coordinator know it again); one that comes late is said once.
		if !(late && broken(err)) && busy(ctx, err) {
			lost = lost || broken(err)
			continue
		}
		t.raw.rec.Add(history.Event{Kind: history.KindTxnEnd, Op: op, Txn: t.event(s.number, asked, lastOf(lost, resultOf(err)), late)})
		if err != nil {
			return nil, fmt.Errorf("raw client %s: end transaction %d of %s on cluster %s: %w", t.raw.name, s.number, t.txnID, t.raw.cluster.Name, err)
		}
		return resp, nil
	}
}

// LateEnd delivers the EndTxn of the transaction that ended last once more, with
// the opposite outcome of what the open one is to have (SC-6).
func (t *HandTxn) LateEnd(ctx context.Context) error {
	s := t.ended
	s.commit = t.intent == history.IntentAbort
	if _, err := t.endTxn(ctx, s, true); err != nil && ended(ctx) {
		return err
	}
	return nil // what it was answered is in the history
}

// LateProduce delivers one more batch of the transaction that ended last.
func (t *HandTxn) LateProduce(ctx context.Context, p Partition) {
	t.produce(ctx, p, 1, history.TrialLate, t.ended)
}

// awaitMarker waits until p holds a marker of the producer id behind an offset.
func (r *Raw) awaitMarker(ctx context.Context, p Partition, id, after int64) error {
	for {
		headers, err := r.HeadersFrom(ctx, p, max(after, 0))
		if err != nil {
			return err
		}
		for _, h := range headers {
			if h.Control && h.ID.ProducerID == id && h.BaseOffset > after {
				return nil
			}
		}
		if !pause(ctx, askAgainAfter) {
			return fmt.Errorf("no marker of producer id %d in %s: %w", id, p, context.Cause(ctx))
		}
	}
}
