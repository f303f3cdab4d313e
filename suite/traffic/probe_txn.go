package traffic

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kversion"

	"watershed.example/suite/history"
)

// HeldOpen is a transaction of the promoted cluster that is open while the
// source link heals or the source comes back, and commits afterwards (TXN-5).
//
// When to call: HoldOpen after STOPPED and the first accepted write, before the
// fault heals (or the source is started again); Commit after the link has been
// watched. Only scenarios whose fault outlasts the stop exercise TXN-5.
type HeldOpen struct {
	p     *Producer
	parts []Partition
}

// HoldOpen begins the transaction and writes to each of parts.
func HoldOpen(ctx context.Context, rec *Recorder, cluster Cluster, name string, parts []Partition, payload []byte) (*HeldOpen, error) {
	p, err := NewProducer(rec, cluster, ProducerOptions{Name: name, Mode: history.Transactional, Attempts: Patiently, Payload: payload})
	if err != nil {
		return nil, err
	}
	h := &HeldOpen{p: p, parts: parts}
	err = p.Begin(history.IntentCommit)
	if err == nil {
		err = p.Send(ctx, 2, parts...)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return h, nil
}

// Commit writes once more and commits. What became of it is in the history.
func (h *HeldOpen) Commit(ctx context.Context) error {
	if err := h.p.Send(ctx, 1, h.parts...); err != nil {
		return err
	}
	return h.p.End(ctx, true)
}

// Close closes the producer.
func (h *HeldOpen) Close() { h.p.Close() }

// LateProduces delivers batches after their transactions ended (TXN-6): one
// committed, one aborted, for each version of transactions. None may open a
// transaction again.
//
// When to call: once on the promoted cluster, after the transactional
// collisions (it takes producer ids), on a partition that the mirror carried.
func LateProduces(ctx context.Context, rec *Recorder, cluster Cluster, name string, part Partition, payload []byte) error {
	for _, v := range []struct {
		name     string
		versions *kversion.Versions
		byHand   bool
	}{{"-v1", version1(), true}, {"-v2", rawVersions(), false}} {
		if err := lateProduce(ctx, rec, cluster, name+v.name, part, payload, v.versions, v.byHand); err != nil {
			return fmt.Errorf("late produce: %w", err)
		}
	}
	return nil
}

func lateProduce(ctx context.Context, rec *Recorder, cluster Cluster, name string, part Partition, payload []byte, versions *kversion.Versions, byHand bool) error {
	raw, err := newRaw(ctx, rec, cluster, name, versions)
	if err != nil {
		return err
	}
	defer raw.Close()
	for number, commit := range []bool{true, false} {
		t, err := newRawTxn(ctx, raw, name, part, payload)
		if err != nil {
			return err
		}
		t.byHand, t.number = byHand, int64(number)
		intent := history.IntentAbort
		if commit {
			intent = history.IntentCommit
		}
		t.begin(intent)
		t.send(ctx, history.TrialFirst)
		if err := t.end(ctx, commit); err != nil {
			return err
		}
		// The coordinator answers before its marker is in the log.
		if err := t.awaitMarker(ctx); err != nil {
			return err
		}
		t.send(ctx, history.TrialLate)
	}
	return nil
}
