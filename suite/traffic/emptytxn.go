package traffic

import (
	"context"
	"fmt"

	"watershed.example/suite/history"
)

// EmptyTransaction ends a transaction that has partitions, but no records there:
// all that lies in them of it is its markers. A producer that only said what it
// was about to write leaves such a one.
func EmptyTransaction(ctx context.Context, rec *Recorder, cluster Cluster, name string, commit bool, parts ...Partition) error {
	raw, err := newRaw(ctx, rec, cluster, name, version1())
	if err != nil {
		return err
	}
	defer raw.Close()
	t, err := newRawTxn(ctx, raw, name, Partition{}, nil)
	if err != nil {
		return err
	}
	intent := history.IntentAbort
	if commit {
		intent = history.IntentCommit
	}
	t.begin(intent)
	for _, p := range parts {
		if err := raw.join(ctx, name, t.id, t.epoch, p); err != nil {
			return fmt.Errorf("an empty transaction in %s: %w", p, err)
		}
	}
	return t.end(ctx, commit)
}
