package engine

import (
	"context"
	"errors"
	"fmt"

	"watershed.example/fixtures"
	"watershed.example/mirrorrpc"
)

// Space begins the names of all that the certification makes on the clusters.
func (c Certification) Space() string { return c.Target.Prefix + runOf(c.Seed) + "-" }

// calledOff says that a certification was, in the midst of its scenarios.
func calledOff(ctx context.Context, played, of int) error {
	return fmt.Errorf("stopped early, after %d of %d scenarios: %w", played, of, context.Cause(ctx))
}

// before is what keeps a certification from beginning. Where it was called off, all that is
// told beside that is what stays on the clusters.
func before(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	left, _ := fixtures.Left(err)
	return errors.Join(fmt.Errorf("stopped before the first scenario: %w", context.Cause(ctx)), left)
}

// hopeless says why no more scenarios are to be played after one that had trouble; "" where
// the next may well have none.
func (t *Target) hopeless(ctx context.Context, left, trouble error) string {
	switch {
	case trouble == nil:
		return ""
	case errors.Is(trouble, mirrorrpc.ErrNever):
		return "a command of the target's file never works"
	}
	for i, c := range t.file.Clusters {
		if err := fixtures.Answers(ctx, c, t.seen[i]); err != nil {
			return err.Error()
		}
	}
	if left != nil {
		return "the clusters are not as they were found"
	}
	return ""
}
