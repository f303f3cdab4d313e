package main

import (
	"context"
	"slices"
	"sync"

	"github.com/IBM/sarama"

	"watershed.example/ci/conformance/script"
)

// member is one consumer of a group, which commits what it has read.
type member struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	assigned int
	read     []string
	err      error
}

func join(ctx context.Context, k *script.Kit, name string) (*member, error) {
	g, err := sarama.NewConsumerGroup(brokers(k), k.Name("g"), config(k, func(c *sarama.Config) {
		c.Consumer.Offsets.AutoCommit.Enable = false
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	}))
	if err != nil {
		return nil, err
	}
	m := &member{group: g, done: make(chan struct{})}
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{name}, m); err != nil && ctx.Err() == nil {
				m.mu.Lock()
				m.err = err
				m.mu.Unlock()
				return
			}
		}
	}()
	return m, nil
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assigned = 0
	for _, partitions := range s.Claims() {
		m.assigned += len(partitions)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.mu.Lock()
			m.read = append(m.read, string(record.Value))
			s.MarkMessage(record, "m")
			s.Commit()
			m.mu.Unlock()
		case <-s.Context().Done():
			return nil
		}
	}
}

func (m *member) has(n int) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assigned == n, m.err
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
	_ = m.group.Close() // a second time it says that it is closed
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
