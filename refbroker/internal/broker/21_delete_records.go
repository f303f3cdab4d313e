package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// DeleteRecords (key 21), versions 0 to 2: raises the start of logs, -1 for the
// high watermark. Of a partition that mirrors it is refused with
// READ_ONLY_TOPIC, as a write is (RO-3); the API has no field for words.
func deleteRecords(e *env.Env) wire.API {
	return wire.Of("DeleteRecords", 0, 2, func(_ context.Context, req *wire.Request, r *kmsg.DeleteRecordsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDeleteRecordsResponse()
		resp.Version = req.Version
		img := e.Quorum.Image()
		for _, t := range r.Topics {
			out := kmsg.NewDeleteRecordsResponseTopic()
			out.Topic = t.Topic
			for _, want := range t.Partitions {
				res := kmsg.NewDeleteRecordsResponseTopicPartition()
				res.Partition, res.LowWatermark = want.Partition, -1
				start, err := deleteRecordsOf(e, img, t.Topic, want)
				if err == nil {
					res.LowWatermark = start
				} else {
					e.Log.Info("records are not deleted", "topic", t.Topic, "partition", want.Partition, "offset", want.Offset, "error", err)
				}
				res.ErrorCode = codeOf(err)
				out.Partitions = append(out.Partitions, res)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func deleteRecordsOf(e *env.Env, img *quorum.Image, topic string, want kmsg.DeleteRecordsRequestTopicPartition) (start int64, err error) {
	if t, ok := img.Topics[topic]; ok && t.Internal {
		// A coordinator's state is its topic.
		return 0, fmt.Errorf("topic %q is internal: %w", topic, kerr.InvalidTopicException)
	}
	p, err := e.Replicas.Partition(topic, want.Partition)
	if err != nil {
		return 0, err
	}
	return p.DeleteRecords(want.Offset)
}
