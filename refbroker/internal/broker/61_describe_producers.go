package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/wire"
)

// DescribeProducers (key 61), version 0: the producers that a partition's
// leader knows (KIP-664). After a stop it shows that the barrier expired those
// from before (PSM-1).
func describeProducers(e *env.Env) wire.API {
	return wire.Of("DescribeProducers", 0, 0, func(_ context.Context, req *wire.Request, r *kmsg.DescribeProducersRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDescribeProducersResponse()
		resp.Version = req.Version
		for _, t := range r.Topics {
			out := kmsg.NewDescribeProducersResponseTopic()
			out.Topic = t.Topic
			for _, index := range t.Partitions {
				out.Partitions = append(out.Partitions, producersOf(e, t.Topic, index))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func producersOf(e *env.Env, topic string, index int32) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = index
	p, err := e.Replicas.Partition(topic, index)
	if err == nil {
		err = p.CheckLeader(-1)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = errorOf(err)
		return out
	}
	for _, known := range p.Producers() {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch = known.ProducerID, int32(known.Epoch)
		a.LastSequence, a.LastTimestamp = known.LastSequence, known.LastTimestamp
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = known.CoordinatorEpoch, known.CurrentTxnFirstOffset
		out.ActiveProducers = append(out.ActiveProducers, a)
	}
	return out
}
