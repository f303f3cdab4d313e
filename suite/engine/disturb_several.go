package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"watershed.example/fixtures"
	"watershed.example/suite/traffic"
)

// What befalls the partitions of a cluster of several nodes.

// afterLeader are a partition's replicas from the one behind its leader on, who is the
// last. Who leads is asked for: on a busy machine another may by now than was made to.
func afterLeader(at traffic.Placement) []int32 {
	i := slices.Index(at.Replicas, at.Leader) + 1 // from the first where nobody leads
	return slices.Concat(at.Replicas[i:], at.Replicas[:i])
}

// changeLeaders has the next replica of each partition lead.
func (a *alone) changeLeaders(ctx context.Context) (string, error) {
	at, err := a.raw.Placements(ctx, a.parts...)
	if err != nil {
		return "", err
	}
	want := map[traffic.Partition][]int32{}
	for p, now := range at {
		if len(now.Replicas) < 2 {
			return "", fmt.Errorf("%s has one replica: no other can lead", p)
		}
		want[p] = afterLeader(now)
	}
	return "the next replica leads each partition", a.raw.Place(ctx, want)
}

// reassign takes the leader's replica of each partition away, and gives it back
// empty: it copies the log, and leads.
func (a *alone) reassign(ctx context.Context) (string, error) {
	at, err := a.raw.Placements(ctx, a.parts...)
	if err != nil {
		return "", err
	}
	without, with := map[traffic.Partition][]int32{}, map[traffic.Partition][]int32{}
	for p, now := range at {
		if len(now.Replicas) < 3 {
			return "", fmt.Errorf("%s has %d replicas: none is to spare", p, len(now.Replicas))
		}
		// One that does not lead goes: what the next sample shows is another's.
		all := afterLeader(now)
		leader, gone := all[len(all)-1], all[len(all)-2]
		without[p] = slices.Concat([]int32{leader}, all[:len(all)-2])
		with[p] = slices.Concat([]int32{gone}, without[p])
	}
	if err := a.raw.Place(ctx, without); err != nil {
		return "", err
	}
	return "a replica that has copied each log anew leads it", a.raw.Place(ctx, with)
}

// truncate lets one node lead everything, cuts it off from the others, and writes
// to it alone. Another leads meanwhile; when the node is back it gives up what
// nobody else has, and leads again.
func (a *alone) truncate(ctx context.Context) (says string, err error) {
	c := a.story.world.env.Cluster(a.cluster.Name)
	leader, err := c.Leader(ctx, a.topic("ledger"), 0)
	if err != nil {
		return "", err
	}
	id := int32(leader.Number())
	want, err := a.led(ctx, id)
	if err != nil {
		return "", err
	}
	if err := a.raw.Place(ctx, want); err != nil {
		return "", err
	}
	if err := errors.Join(a.raw.Renew(), a.ledger.Renew()); err != nil {
		return "", err
	}
	if err := errors.Join(a.sequences.Meet(ctx), a.ledger.Meet(ctx)); err != nil {
		return "", err
	}
	others, err := a.raw.Brokers(ctx)
	if err != nil {
		return "", err
	}
	others = slices.DeleteFunc(others, func(n int32) bool { return n == id })
	c.Isolate(leader.Number())
	err = traffic.Suffix(ctx, a.sequences, a.ledger)
	if err == nil {
		err = a.raw.AwaitPlaced(ctx, others, a.parts, func(_ traffic.Partition, at traffic.Placement) bool {
			return at.Leader >= 0 && at.Leader != id
		})
	}
	c.Rejoin(leader.Number())
	if err != nil {
		return "", err
	}
	if err := c.AwaitNodes(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("node %d was cut off with a suffix of its own, and leads again without it", id), a.raw.Place(ctx, want)
}

// led are the partitions' replicas with a node first.
func (a *alone) led(ctx context.Context, node int32) (map[traffic.Partition][]int32, error) {
	at, err := a.raw.Placements(ctx, a.parts...)
	if err != nil {
		return nil, err
	}
	want := map[traffic.Partition][]int32{}
	for p, now := range at {
		others := slices.DeleteFunc(slices.Clone(now.Replicas), func(n int32) bool { return n == node })
		if len(others) == len(now.Replicas) {
			return nil, fmt.Errorf("node %d has no replica of %s", node, p)
		}
		want[p] = append([]int32{node}, others...)
	}
	return want, nil
}

// moveCoordinator kills who coordinates the open transaction, and starts it again
// when another does.
func (a *alone) moveCoordinator(ctx context.Context) (string, error) {
	w := a.story.world
	c, id := w.env.Cluster(a.cluster.Name), a.ledger.OpenID()
	old, err := c.Coordinator(ctx, id)
	if err != nil {
		return "", err
	}
	// Its producer goes on under the next coordinator; this one asks it for an id.
	asks, err := a.raw.CoordinatedBy(ctx, int32(old.Number()), "moves")
	if err != nil {
		return "", err
	}
	if err := traffic.ProducerIDs(ctx, a.raw, 1, asks); err != nil {
		return "", err
	}
	if err := old.Kill(ctx); err != nil {
		return "", err
	}
	next, err := awaitOther(ctx, c, id, old)
	if err != nil {
		return "", err
	}
	if err := old.Start(ctx); err != nil {
		return "", err
	}
	if err := errors.Join(c.AwaitNodes(ctx), a.raw.Renew()); err != nil {
		return "", err
	}
	if err := traffic.ProducerIDs(ctx, a.raw, 1, asks); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s coordinates %s instead of %s", next, id, old), w.awaitWhole(ctx, c.Name(), a.parts)
}

// awaitOther waits until another node than old coordinates a transactional id.
func awaitOther(ctx context.Context, c *fixtures.Cluster, id string, old *fixtures.Node) (*fixtures.Node, error) {
	for {
		next, err := c.Coordinator(ctx, id)
		if err != nil || next != old {
			return next, err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("%s coordinates %s after its end: %w", old, id, context.Cause(ctx))
		}
	}
}
