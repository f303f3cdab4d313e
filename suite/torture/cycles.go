package torture

import (
	"context"
	"fmt"
	"time"
)

// killCycles kills one node at a random moment, sometimes two or all, starts
// them again at another, and waits until all replicas are in sync, again and
// again. Each time all that was acknowledged has to be below a high watermark.
func killCycles(count int, within time.Duration) func(context.Context, *nemesis, []partition) error {
	return func(ctx context.Context, n *nemesis, parts []partition) error {
		for i := range count {
			ids := []int32{n.one()}
			switch n.rng.IntN(10) {
			case 0:
				ids = []int32{0, 1, 2}
			case 1, 2:
				a, b := n.two()
				ids = []int32{a, b}
			}
			pause(ctx, time.Duration(n.rng.Int64N(int64(300*time.Millisecond))))
			n.history.notef("cycle %d: %v", i, ids)
			n.done[fmt.Sprintf("kill -9 of %d", len(ids))]++
			undo, err := n.killed(ids...)
			if err != nil {
				return err
			}
			before := n.history.ends()
			pause(ctx, time.Duration(n.rng.Int64N(int64(400*time.Millisecond))))
			if err := undo(); err != nil {
				return err
			}
			if err := n.back(ctx, i, within, parts, before); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

// back waits until a cycle is over.
func (n *nemesis) back(ctx context.Context, cycle int, within time.Duration, parts []partition, before map[partition]int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("cycle %d is not over within %s", cycle, within))
	defer cancel()
	if err := n.whole(ctx, n.client); err != nil {
		return err
	}
	for _, p := range parts {
		for {
			end, err := n.client.end(ctx, p, false)
			if err == nil && end >= before[p] {
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("%s: acknowledged up to offset %d, high watermark %d (%s): %w", p, before[p], end, fmt.Sprint(err), context.Cause(ctx))
			}
		}
	}
	return nil
}

// ends are the offsets behind the last acknowledged records.
func (h *history) ends() map[partition]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[partition]int64{}
	for _, o := range h.Operations {
		if o.Kind == "append" && o.Outcome == acknowledged && o.Offset >= 0 {
			out[o.Partition] = max(out[o.Partition], o.Offset+int64(len(o.Records)))
		}
	}
	return out
}
