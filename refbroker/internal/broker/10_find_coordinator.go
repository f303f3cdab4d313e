package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/txn"
	"watershed.example/refbroker/internal/wire"
)

// The kinds of coordinators.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
)

// FindCoordinator (key 10), versions 0 to 6: from 1 on for transactional ids,
// from 4 on for many at a time (KIP-699), from 6 on for share groups, which are
// not served (KIP-932).
func findCoordinator(e *env.Env) wire.API {
	return wire.Of("FindCoordinator", 0, 6, func(ctx context.Context, req *wire.Request, r *kmsg.FindCoordinatorRequest) (wire.Response, error) {
		resp := kmsg.NewPtrFindCoordinatorResponse()
		resp.Version = req.Version
		kind := r.CoordinatorType
		if req.Version == 0 {
			kind = groupCoordinator
		}
		keys := r.CoordinatorKeys
		if req.Version < 4 {
			keys = []string{r.CoordinatorKey}
		}
		for _, key := range keys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key = key
			id, host, port, err := coordinatorOf(ctx, e, kind, key, req.Listener)
			c.NodeID, c.Host, c.Port = id, host, port
			c.ErrorCode, c.ErrorMessage = errorOf(err)
			resp.Coordinators = append(resp.Coordinators, c)
		}
		if req.Version < 4 {
			c := resp.Coordinators[0]
			resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
			resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
			resp.Coordinators = nil
		}
		return resp, nil
	})
}

// coordinatorOf is where a coordinator is: on the leader of the partition of its
// topic that the key belongs to. The topic is made when needed.
func coordinatorOf(ctx context.Context, e *env.Env, kind int8, key, listener string) (id int32, host string, port int32, err error) {
	var topic, what string
	var ensure func(context.Context, *env.Env) error
	switch kind {
	case groupCoordinator:
		topic, what, ensure = group.TopicName, "group", group.EnsureTopic
	case transactionCoordinator:
		topic, what, ensure = txn.TopicName, "transactional id", txn.EnsureTopic
	default:
		return -1, "", -1, fmt.Errorf("coordinator type %d: %w", kind, kerr.InvalidRequest)
	}
	if err := ensure(ctx, e); err != nil {
		return -1, "", -1, fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err)
	}
	img := e.Quorum.Image()
	t, err := img.Topic(topic)
	if err != nil {
		return -1, "", -1, fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err)
	}
	// Both kinds of keys are hashed alike.
	leader := t.Partitions[txn.PartitionFor(key, len(t.Partitions))].Leader
	if b, ok := img.Brokers[leader]; ok && !b.Fenced {
		if host, port, ok := advertised(b, listener); ok {
			return leader, host, port, nil
		}
	}
	return -1, "", -1, fmt.Errorf("%s %q: no leader: %w", what, key, kerr.CoordinatorNotAvailable)
}
