package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// keyDescribeLed is the key of a request that only nodes of one cluster send
// each other: see [describeLed].
const keyDescribeLed = 32101

// describeLedRequest is a DescribeClusterMirrors of which a node answers what it
// knows itself.
type describeLedRequest struct {
	mirrorrpc.DescribeClusterMirrorsRequest
}

// Key is the API key.
func (*describeLedRequest) Key() int16 { return keyDescribeLed }

// describeLed (a key of our own, between nodes only) describes the mirrors of
// topics that this node leads: offsets, phases and errors are known to leaders
// alone.
func describeLed(e *env.Env, m *mirror.Manager) wire.API {
	return wire.Of("DescribeLedMirrors", 0, 0, func(_ context.Context, _ *wire.Request, r *describeLedRequest) (wire.Response, error) {
		resp := &mirrorrpc.DescribeClusterMirrorsResponse{}
		img := e.Quorum.Image()
		for _, name := range r.MirrorNames {
			resp.Mirrors = append(resp.Mirrors, describeMirror(e, m, img, name))
		}
		return resp, nil
	})
}

// describeTimeout bounds the wait for another node's word; the quorum's is given
// without it.
const describeTimeout = time.Second

// askLeaders puts the leaders' own word in the place of the quorum's, for the
// partitions that other nodes lead.
func askLeaders(ctx context.Context, e *env.Env, img *quorum.Image, mirrors []mirrorrpc.DescribedMirror) {
	type place struct{ mirror, topic, partition int }
	led := map[int32]map[mirrorPartitionName]place{}
	for i, m := range mirrors {
		for j, t := range m.Topics {
			for k, p := range t.Partitions {
				leader := img.Topics[t.TopicName].Partitions[p.PartitionIndex].Leader
				if leader == e.NodeID || leader < 0 {
					continue
				}
				if led[leader] == nil {
					led[leader] = map[mirrorPartitionName]place{}
				}
				led[leader][mirrorPartitionName{m.MirrorName, t.TopicName, p.PartitionIndex}] = place{i, j, k}
			}
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, describeTimeout, fmt.Errorf("no answer within %s", describeTimeout))
	defer cancel()
	answers := map[int32]*mirrorrpc.DescribeClusterMirrorsResponse{}
	errs := map[int32]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for leader := range led {
		all.Go(func() {
			req := &describeLedRequest{*mirrorrpc.NewDescribeClusterMirrorsRequest()}
			for _, m := range mirrors {
				req.MirrorNames = append(req.MirrorNames, m.MirrorName)
			}
			resp := &mirrorrpc.DescribeClusterMirrorsResponse{}
			err := e.Peers.Request(ctx, leader, req, resp)
			mu.Lock()
			defer mu.Unlock()
			answers[leader], errs[leader] = resp, err
		})
	}
	all.Wait()
	for leader, places := range led {
		if err := errs[leader]; err != nil {
			for _, at := range places {
				p := &mirrors[at.mirror].Topics[at.topic].Partitions[at.partition]
				if p.ErrorMessage == nil {
					text := fmt.Sprintf("its leader, node %d, doesn't answer: %v", leader, err)
					p.ErrorMessage = &text
				}
			}
			continue
		}
		for _, m := range answers[leader].Mirrors {
			for _, t := range m.Topics {
				for _, p := range t.Partitions {
					if at, ok := places[mirrorPartitionName{m.MirrorName, t.TopicName, p.PartitionIndex}]; ok {
						mirrors[at.mirror].Topics[at.topic].Partitions[at.partition] = p
					}
				}
			}
		}
	}
}

type mirrorPartitionName struct {
	mirror, topic string
	index         int32
}
