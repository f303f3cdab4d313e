package engine

import (
	"context"
	"errors"
	"fmt"

	"watershed.example/fixtures"
)

// Allowed finds out, before a story begins, whether we may do on each cluster what
// every story does, and leaves nothing behind.
func (t *Target) Allowed(ctx context.Context) error {
	for _, c := range t.file.Clusters {
		if err := fixtures.TryOut(ctx, c, t.file.Prefix+t.run+"-try"); err != nil {
			left, other := fixtures.Left(err)
			if left != nil {
				left = &fixtures.LeftError{Err: fmt.Errorf("cluster %s: %w", c.Name, left)}
			}
			if other != nil {
				other = fmt.Errorf("cluster %s: %w", c.Name, other)
			}
			return errors.Join(other, left)
		}
	}
	return nil
}
