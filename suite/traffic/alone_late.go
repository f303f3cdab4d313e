package traffic

import (
	"context"
	"fmt"

	"watershed.example/suite/history"
)

// LateEnds delivers an EndTxn and a Produce of one transaction while the next
// one of the same producer is open, for each version of transactions and both
// outcomes (SC-6). Only version 2 is to tell them apart.
func LateEnds(ctx context.Context, rec *Recorder, cluster Cluster, name string, part Partition, payload []byte) error {
	for _, version := range []int16{1, 2} {
		make := NewRaw
		if version == 1 {
			make = NewRawVersion1
		}
		raw, err := make(ctx, rec, cluster, fmt.Sprintf("%s-v%d", name, version))
		if err != nil {
			return err
		}
		err = lateEnds(ctx, raw, version, part, payload)
		raw.Close()
		if err != nil {
			return fmt.Errorf("late ends of transactions version %d: %w", version, err)
		}
	}
	return nil
}

func lateEnds(ctx context.Context, raw *Raw, version int16, part Partition, payload []byte) error {
	t, err := NewHandTxn(ctx, raw, raw.name, version, payload)
	if err != nil {
		return err
	}
	for _, intent := range []history.Intent{history.IntentCommit, history.IntentAbort} {
		t.Begin(intent)
		if err := t.Send(ctx, part, 1); err != nil {
			return err
		}
		if err := t.End(ctx, intent == history.IntentCommit); err != nil {
			return err
		}
		t.Begin(intent)
		if err := t.Send(ctx, part, 1); err != nil {
			return err
		}
		if version >= 2 {
			// With version 1 it would be taken for the next batch, and nobody could
			// say who wrote what comes after.
			t.LateProduce(ctx, part)
		}
		if err := t.LateEnd(ctx); err != nil {
			return err
		}
		err := t.Send(ctx, part, 1)
		if err == nil {
			err = t.End(ctx, intent == history.IntentCommit)
		}
		if err != nil {
			if version >= 2 || ctx.Err() != nil {
				return err
			}
			// The late EndTxn has ended it, as is known of version 1.
			rec := raw.rec
			rec.Note("%v", err)
			if err := t.Init(ctx); err != nil {
				return err
			}
			t.number++
		}
	}
	return nil
}
