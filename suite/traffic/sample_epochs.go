package traffic

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/suite/history"
)

// mostEpochs is how many leader epochs, the latest ones, a sample asks for.
const mostEpochs = 16

// OffsetsAndEpochs is Offsets with where the leader says that each leader epoch ends,
// which is its epoch cache as far as others get to see it (LOG-5). What a
// broker that does not serve OffsetForLeaderEpoch says is noted.
func (r *Raw) OffsetsAndEpochs(ctx context.Context, p Partition) (history.Offsets, error) {
	s, err := r.offsets(ctx, p)
	if err != nil {
		return s, err
	}
	if s.LeaderEpoch != nil {
		for asked := max(0, *s.LeaderEpoch-mostEpochs+1); asked <= *s.LeaderEpoch; asked++ {
			end, err := r.epochEnd(ctx, p, asked)
			if err != nil && ctx.Err() == nil && !changing(err) {
				r.rec.Note("where leader epochs end in %s on cluster %s is not told: %v", p, r.cluster.Name, err)
				s.EpochEnds = nil
				break
			}
			if err != nil {
				return s, err
			}
			s.EpochEnds = append(s.EpochEnds, end)
		}
	}
	r.rec.Add(history.Event{Kind: history.KindListOffsets, Offsets: &s})
	return s, nil
}

// epochEnd asks the leader of p where a leader epoch ends, again while leaders change.
func (r *Raw) epochEnd(ctx context.Context, p Partition, asked int32) (end history.EpochEnd, err error) {
	err = again(ctx, func() error {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.Partition, part.LeaderEpoch, part.CurrentLeaderEpoch = p.Index, asked, -1
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = p.Topic
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		resp, _, err := r.ask(ctx, p, req)
		if err != nil {
			return err
		}
		topics := resp.(*kmsg.OffsetForLeaderEpochResponse).Topics
		if len(topics) == 0 || len(topics[0].Partitions) == 0 {
			return fmt.Errorf("raw client %s: end of leader epoch %d of %s: the answer holds no partition", r.name, asked, p)
		}
		got := topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			r.forget(p)
			return fmt.Errorf("raw client %s: end of leader epoch %d of %s: %w", r.name, asked, p, err)
		}
		end = history.EpochEnd{Asked: asked, Epoch: got.LeaderEpoch, End: got.EndOffset}
		return nil
	})
	return end, err
}
