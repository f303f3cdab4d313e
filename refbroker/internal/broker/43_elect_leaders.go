package broker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// uncleanElection is the type of election of ElectLeaders that takes a replica
// that is not in sync.
const uncleanElection = 1

// ElectLeaders (key 43), versions 0 to 2: the preferred replica, from 1 on
// (KIP-460) also any that lives where none in sync does. No topics means all;
// partitions that need no election are then left out of the answer.
func electLeaders(e *env.Env) wire.API {
	return wire.Of("ElectLeaders", 0, 2, func(ctx context.Context, req *wire.Request, r *kmsg.ElectLeadersRequest) (wire.Response, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, millis(r.TimeoutMillis), kerr.RequestTimedOut)
		defer cancel()
		resp := kmsg.NewPtrElectLeadersResponse()
		resp.Version = req.Version
		unclean := req.Version >= 1 && r.ElectionType == uncleanElection
		topics, all := r.Topics, r.Topics == nil
		if all {
			topics = allPartitions(e.Quorum.Image())
		}
		for _, t := range topics {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = t.Topic
			for _, index := range t.Partitions {
				_, err := e.Quorum.Apply(ctx, quorum.ElectLeader{Topic: t.Topic, Partition: index, Unclean: unclean})
				if all && errors.Is(err, kerr.ElectionNotNeeded) {
					continue
				}
				p := kmsg.NewElectLeadersResponseTopicPartition()
				p.Partition = index
				p.ErrorCode, p.ErrorMessage = errorOf(err)
				out.Partitions = append(out.Partitions, p)
			}
			if len(out.Partitions) > 0 {
				resp.Topics = append(resp.Topics, out)
			}
		}
		return resp, nil
	})
}

func allPartitions(img *quorum.Image) []kmsg.ElectLeadersRequestTopic {
	var all []kmsg.ElectLeadersRequestTopic
	for _, name := range slices.Sorted(maps.Keys(img.Topics)) {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic = name
		for i := range img.Topics[name].Partitions {
			t.Partitions = append(t.Partitions, int32(i))
		}
		all = append(all, t)
	}
	return all
}
