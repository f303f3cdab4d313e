package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/wire"
)

// DeleteRecords (key 21), versions 0 to 2: raises the start of logs, -1 for the
// high watermark, and answers once every replica that lives has followed, or with
// REQUEST_TIMED_OUT. Of a partition that mirrors it is refused with
// READ_ONLY_TOPIC, as a write is (RO-3); the API has no field for words.
func deleteRecords(e *env.Env) wire.API {
	return wire.Of("DeleteRecords", 0, 2, func(ctx context.Context, req *wire.Request, r *kmsg.DeleteRecordsRequest) (wire.Response, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, millis(r.TimeoutMillis), fmt.Errorf("replicas have not followed: %w", kerr.RequestTimedOut))
		defer cancel()
		resp := kmsg.NewPtrDeleteRecordsResponse()
		resp.Version = req.Version
		img := e.Quorum.Image()
		// First all of them, then the wait: it is one for all.
		var waits []func()
		for _, t := range r.Topics {
			out := kmsg.NewDeleteRecordsResponseTopic()
			out.Topic = t.Topic
			out.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(t.Partitions))
			for i, want := range t.Partitions {
				res := &out.Partitions[i]
				res.Partition, res.LowWatermark = want.Partition, -1
				p, start, err := deleteRecordsOf(e, img, t.Topic, want)
				answer := func() {
					if err == nil {
						res.LowWatermark, err = p.AwaitDeleted(ctx, start)
					}
					if err != nil {
						e.Log.Info("records are not deleted", "topic", t.Topic, "partition", want.Partition, "offset", want.Offset, "error", err)
					}
					res.ErrorCode = codeOf(err)
				}
				waits = append(waits, answer)
			}
			resp.Topics = append(resp.Topics, out)
		}
		for _, wait := range waits {
			wait()
		}
		return resp, nil
	})
}

// deleteRecordsOf raises the start of one leader's log.
func deleteRecordsOf(e *env.Env, img *quorum.Image, topic string, want kmsg.DeleteRecordsRequestTopicPartition) (p replica.API, start int64, err error) {
	if t, ok := img.Topics[topic]; ok && t.Internal {
		// A coordinator's state is its topic.
		return nil, 0, fmt.Errorf("topic %q is internal: %w", topic, kerr.InvalidTopicException)
	}
	if p, err = e.Replicas.Partition(topic, want.Partition); err != nil {
		return nil, 0, err
	}
	start, err = p.DeleteRecords(want.Offset)
	return p, start, err
}
