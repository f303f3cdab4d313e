package broker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
)

// applier brings the metadata to the node's partitions, image after image.
type applier struct {
	node     int32
	quorum   *quorum.Node
	replicas *replica.Manager
	log      *slog.Logger

	mu    sync.Mutex // never held while waiting
	index uint64
	next  chan struct{}
}

func newApplier(node int32, q *quorum.Node, m *replica.Manager, log *slog.Logger) *applier {
	return &applier{node: node, quorum: q, replicas: m, log: log, next: make(chan struct{})}
}

// retryApply is the pause before what could not be applied (a full disk, say)
// is tried again.
const retryApply = time.Second

// run follows the metadata until ctx ends, or until the quorum can't be
// followed any further, which it returns.
func (a *applier) run(ctx context.Context) error {
	for {
		changed := a.quorum.Changed()
		var retry <-chan time.Time
		if err := a.apply(); err != nil {
			a.log.Error("metadata is not in force on this node", "error", err)
			retry = time.After(retryApply)
		}
		if err := a.quorum.Err(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return nil
		}
	}
}

// apply applies the current image and tells who waits for it.
func (a *applier) apply() error {
	img := a.quorum.Image()
	err := a.replicas.Apply(img)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index = img.Index
	close(a.next)
	a.next = make(chan struct{})
	return err
}

// applied waits until img, or a later image, is in force on this node.
func (a *applier) applied(ctx context.Context, img *quorum.Image) error {
	for {
		a.mu.Lock()
		index, next := a.index, a.next
		a.mu.Unlock()
		if index >= img.Index {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// served waits until the partitions that img gave to this node are served.
func (a *applier) served(ctx context.Context, img *quorum.Image, t *quorum.Topic) error {
	if err := a.applied(ctx, img); err != nil {
		return fmt.Errorf("topic %q is made but not served yet: %w", t.Name, err)
	}
	for i, p := range t.Partitions {
		if !slices.Contains(p.Replicas, a.node) {
			continue
		}
		if _, err := a.replicas.Partition(t.Name, int32(i)); err != nil {
			return fmt.Errorf("%s-%d is made but can't be served: %w (%w)", t.Name, i, kerr.KafkaStorageError, err)
		}
	}
	return nil
}
