package txn

import (
	"context"

	"watershed.example/refbroker/internal/lock"
)

// idBlock hands out producer ids from blocks that the quorum gave this node.
// What is left of a block is lost at a restart, as in Kafka.
type idBlock struct {
	lock     lock.Mutex
	allocate func(ctx context.Context) (first int64, n int, err error)
	next     *int64
	left     *int
}

func newIDBlock(allocate func(context.Context) (int64, int, error)) idBlock {
	return idBlock{lock: lock.New(), allocate: allocate, next: new(int64), left: new(int)}
}

// take returns a producer id that nobody else gets.
func (b idBlock) take(ctx context.Context) (int64, error) {
	if err := b.lock.LockContext(ctx); err != nil {
		return noProducerID, err
	}
	defer b.lock.Unlock()
	if *b.left == 0 {
		first, n, err := b.allocate(ctx)
		if err != nil {
			return noProducerID, err
		}
		*b.next, *b.left = first, n
	}
	id := *b.next
	*b.next++
	*b.left--
	return id, nil
}
