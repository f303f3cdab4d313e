package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Faults that are about who holds a partition's replicas, and who of them leads.

// placed is one partition as a node's metadata has it.
type placed struct {
	partition
	leader        int32
	replicas, isr []int32
}

// placements asks a node where partitions of topics that clients write are.
func (n *nemesis) placements(ctx context.Context, node int32) ([]placed, error) {
	m, err := n.client.metadataOf(ctx, node)
	if err != nil {
		return nil, err
	}
	var all []placed
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if t.Topic != nil && !t.IsInternal && p.Leader >= 0 {
				all = append(all, placed{partition{*t.Topic, p.Partition}, p.Leader, p.Replicas, p.ISR})
			}
		}
	}
	return all, nil
}

// until asks a node again and again, until ok says that it is as wanted.
func (n *nemesis) until(within time.Duration, node int32, ok func([]placed) bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for ctx.Err() == nil {
		if all, err := n.placements(ctx, node); err == nil && ok(all) {
			return true
		}
		pause(ctx, 5*time.Millisecond)
	}
	return false
}

// slowLink is the most that a message between a replica that comes back and the
// others is held up: so long it lacks what it was not sent yet, while the leader
// knows already where it stands.
const slowLink = time.Second

// joinerLeads is the fault of a leader and its follower that are lost at the very
// moment at which a third replica, which was away, has come back into sync. What
// was acknowledged before has to be there.
func joinerLeads() fault {
	return fault{name: "a replica that has just joined leads", alone: true, do: func(n *nemesis) (func() error, error) {
		nothing := func() error { return nil }
		joiner := n.one()
		var others []int32
		var links []*link
		for id := range n.size {
			if id != joiner {
				others = append(others, id)
				links = append(links, n.data[way{joiner, id}])
			}
		}
		ask := others[n.rng.IntN(len(others))]
		if n.running[joiner] == nil || n.running[ask] == nil {
			return nothing, nil
		}
		if _, err := n.killed(joiner); err != nil {
			return nil, err
		}
		in := func(all []placed) bool {
			return slices.ContainsFunc(all, func(p placed) bool { return slices.Contains(p.isr, joiner) })
		}
		n.until(5*time.Second, ask, func(all []placed) bool { return len(all) > 0 && !in(all) })
		pause(context.Background(), time.Duration(n.rng.Int64N(int64(500*time.Millisecond))))
		for _, l := range links {
			l.slow(slowLink)
		}
		defer func() {
			for _, l := range links {
				l.slow(-1)
			}
		}()
		if err := n.start(joiner); err != nil {
			return nil, err
		}
		if !n.until(20*time.Second, ask, in) {
			n.history.notef("node %d has joined nowhere", joiner)
			return nothing, nil
		}
		n.history.notef("node %d has joined", joiner)
		return n.killed(others...)
	}}
}

// replicaMoves takes a replica of one partition away, and gives it back, empty, and
// first in the order of preference.
func replicaMoves() fault {
	return fault{name: "a replica is moved away and back", alone: true, do: func(n *nemesis) (func() error, error) {
		nothing := func() error { return nil }
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		all, err := n.placements(ctx, n.one())
		if err != nil || len(all) == 0 {
			return nothing, nil
		}
		p := all[n.rng.IntN(len(all))]
		if len(p.replicas) < 3 {
			return nothing, nil
		}
		gone := p.replicas[n.rng.IntN(len(p.replicas))]
		left := slices.DeleteFunc(slices.Clone(p.replicas), func(id int32) bool { return id == gone })
		n.history.notef("%s moves away from node %d", p.partition, gone)
		if err := n.reassign(ctx, p.partition, left); err != nil {
			n.history.notef("it may not have: %v", err)
		}
		return func() error {
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("a minute is over"))
			defer cancel()
			for {
				err := n.reassign(ctx, p.partition, append([]int32{gone}, left...))
				if err == nil {
					return nil
				}
				if ctx.Err() != nil {
					return fmt.Errorf("move a replica of %s back: %w", p.partition, errors.Join(err, context.Cause(ctx)))
				}
				pause(ctx, 50*time.Millisecond)
			}
		}, nil
	}}
}

func (n *nemesis) reassign(ctx context.Context, p partition, replicas []int32) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 1000
	part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	part.Partition, part.Replicas = p.Index, replicas
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic, topic.Partitions = p.Topic, []kmsg.AlterPartitionAssignmentsRequestTopicPartition{part}
	req.Topics = append(req.Topics, topic)
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	if err := n.client.ask(ctx, n.one(), req, resp); err != nil {
		return err
	}
	err := kerr.ErrorForCode(resp.ErrorCode)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	return err
}
