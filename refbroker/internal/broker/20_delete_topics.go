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

// DeleteTopics (key 20), versions 1 to 6: in 6 topics may be named by id
// (KIP-516). Internal topics stay, and so do topics that mirror, with
// READ_ONLY_TOPIC: a stop comes first (RO-3).
func deleteTopics(e *env.Env) wire.API {
	return wire.Of("DeleteTopics", 1, 6, func(ctx context.Context, req *wire.Request, r *kmsg.DeleteTopicsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDeleteTopicsResponse()
		resp.Version = req.Version
		wanted := r.Topics
		if req.Version < 6 {
			for _, name := range r.TopicNames {
				wanted = append(wanted, kmsg.DeleteTopicsRequestTopic{Topic: &name})
			}
		}
		for _, want := range wanted {
			out := kmsg.NewDeleteTopicsResponseTopic()
			out.Topic, out.TopicID = want.Topic, want.TopicID
			t, err := topicToDelete(e.Quorum.Image(), want)
			if err == nil {
				out.Topic, out.TopicID = &t.Name, t.ID
				_, err = e.Quorum.Apply(ctx, quorum.DeleteTopic{Name: t.Name, ID: t.ID})
			}
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func topicToDelete(img *quorum.Image, want kmsg.DeleteTopicsRequestTopic) (*quorum.Topic, error) {
	var t *quorum.Topic
	var err error
	hasID := want.TopicID != ([16]byte{})
	switch {
	case want.Topic != nil && hasID:
		return nil, fmt.Errorf("topic %q named by id too: %w", *want.Topic, kerr.InvalidRequest)
	case want.Topic != nil:
		t, err = img.Topic(*want.Topic)
	default:
		t, err = img.TopicByID(want.TopicID)
	}
	if err != nil {
		return nil, err
	}
	if t.Internal {
		return nil, fmt.Errorf("topic %q is internal: %w", t.Name, kerr.InvalidTopicException)
	}
	return t, nil
}
