package main

import (
	"context"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/ci/conformance/script"
)

// member is one consumer of a group, which commits what it reads after each poll.
type member struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	assigned map[int32]bool
	read     []string
	err      error
}

func join(ctx context.Context, k *script.Kit, name string) (*member, error) {
	m := &member{done: make(chan struct{}), assigned: map[int32]bool{}}
	set := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range partitions[name] {
				if delete(m.assigned, p); has {
					m.assigned[p] = true
				}
			}
		}
	}
	cl, err := client(k, kgo.ConsumerGroup(k.Name("g")), kgo.ConsumeTopics(name), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsAssigned(set(true)), kgo.OnPartitionsRevoked(set(false)), kgo.OnPartitionsLost(set(false)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(500_000_000))
	if err != nil {
		return nil, err
	}
	m.cl = cl
	ctx, m.cancel = context.WithCancel(ctx)
	go m.run(ctx)
	return m, nil
}

func (m *member) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		fetches := m.cl.PollFetches(ctx)
		var values []string
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		var err error
		if len(values) > 0 {
			err = m.cl.CommitUncommittedOffsets(context.WithoutCancel(ctx))
		}
		m.mu.Lock()
		m.read = append(m.read, values...)
		if m.err == nil {
			m.err = err
		}
		m.mu.Unlock()
		m.cl.AllowRebalance()
	}
}

func (m *member) has(n int) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.assigned) == n, m.err
}

func (m *member) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.assigned)
}

func (m *member) values() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.read...)
}

// close leaves the group. A second close does nothing.
func (m *member) close() {
	m.cancel()
	<-m.done
	m.cl.CloseAllowingRebalance()
}

// distinct are the records that members have read: whoever gets a partition in a
// rebalance may read anew what was not committed yet.
func distinct(members ...*member) []string {
	var all []string
	for _, m := range members {
		all = append(all, m.values()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
