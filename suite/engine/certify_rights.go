package engine

import (
	"context"
	"fmt"

	"watershed.example/fixtures"
)

// Allowed finds out, before a story begins, whether we may do on each cluster what
// every story does, and leaves nothing behind.
func (t *Target) Allowed(ctx context.Context) error {
	for _, c := range t.file.Clusters {
		if err := fixtures.TryOut(ctx, c, t.file.Prefix+t.run+"-try"); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	return nil
}
