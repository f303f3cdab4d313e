package quorum

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// questions are what was asked of raft and is not answered yet.
//
// Raft answers as long as it runs, with the loss of its leadership at the latest, but
// forgets at its shutdown what waits for the machine that is being applied to (raft
// 1.8.0, runFSM). Whoever waited for such an answer would do so for ever. So a node
// takes no question any more and waits for the answers before it shuts raft down.
type questions struct {
	mu   sync.Mutex
	over bool
	open sync.WaitGroup
}

// begin reports whether a question may be asked, which done ends then.
func (q *questions) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return false
	}
	q.open.Add(1)
	return true
}

func (q *questions) done() { q.open.Done() }

// end has no question be asked any more, and waits for the answers.
func (q *questions) end() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	q.open.Wait()
}

// await asks raft and waits for its answer or for ctx. The answer may come after ctx
// has ended.
func await[F raft.Future](ctx context.Context, q *questions, ask func() F) (future F, err error) {
	if !q.begin() {
		return future, raft.ErrRaftShutdown
	}
	future = ask()
	done := make(chan error, 1)
	go func() {
		defer q.done()
		done <- future.Error()
	}()
	select {
	case err := <-done:
		return future, err
	case <-ctx.Done():
		return future, context.Cause(ctx)
	}
}
