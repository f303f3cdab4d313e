package traffic

import (
	"context"
	"fmt"
	"slices"

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
		s.EpochEnds, err = r.epochEnds(ctx, p, *s.LeaderEpoch)
		switch {
		case err != nil && ctx.Err() == nil && !changing(err):
			r.rec.Note("where leader epochs end in %s on cluster %s is not told: %v", p, r.cluster.Name, err)
			s.EpochEnds = nil
		case err != nil:
			return s, err
		}
	}
	if len(s.EpochEnds) > 0 { // they are of the log that was sampled, unless it was cut since
		hw, _, err := r.listOffsetAgain(ctx, p, 0, latest)
		if err != nil {
			return s, err
		}
		if hw < s.HighWatermark {
			s.EpochEnds = nil
		}
	}
	r.rec.Add(history.Event{Kind: history.KindListOffsets, Offsets: &s})
	return s, nil
}

// epochEnds asks from the latest leader epoch on downwards, for each one that the leader
// knows. Of those above the last one in its log it may know nothing.
func (r *Raw) epochEnds(ctx context.Context, p Partition, leaderEpoch int32) (ends []history.EpochEnd, err error) {
	for asked := leaderEpoch; asked >= 0 && len(ends) < mostEpochs; {
		end, err := r.epochEnd(ctx, p, asked)
		if err != nil {
			return ends, err
		}
		ends = append(ends, end)
		if end.Epoch >= 0 {
			asked = min(asked, end.Epoch) - 1
			continue
		}
		known, unknown := int32(-1), asked // halved until they meet at the last one that is known
		for unknown-known > 1 {
			half := known + (unknown-known)/2
			if end, err = r.epochEnd(ctx, p, half); err != nil {
				return ends, err
			}
			if end.Epoch < 0 {
				unknown = half
			} else {
				known = half
			}
		}
		asked = known
	}
	slices.Reverse(ends) // in their order
	return ends, nil
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
