package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// StopMirrorTopics (key 96), version 0: fails topics over. It is accepted in
// every state and may be repeated (OPS-1), and answers once the stop is
// recorded; it asks nothing of the source (LINK-2).
func stopMirrorTopics(e *env.Env) wire.API {
	return wire.Of("StopMirrorTopics", 0, 0, func(ctx context.Context, req *wire.Request, r *mirrorrpc.StopMirrorTopicsRequest) (wire.Response, error) {
		resp, ok := req.Response().(*mirrorrpc.TopicsResponse)
		if !ok {
			return nil, fmt.Errorf("response of StopMirrorTopics is %T", req.Response())
		}
		img := e.Quorum.Image()
		switch _, found := img.Mirrors[r.MirrorName]; {
		case !found:
			resp.ErrorCode, resp.ErrorMessage = mirrorError(fmt.Errorf("mirror %q: %w", r.MirrorName, quorum.ErrNoMirror))
			return resp, nil
		case len(r.Patterns) > 0:
			resp.ErrorCode, resp.ErrorMessage = mirrorError(fmt.Errorf("topic patterns are not served; name the topics: %w", kerr.InvalidRequest))
			return resp, nil
		}
		record := quorum.SetMirrorTopics{Mirror: r.MirrorName, Desired: quorum.Stopped}
		errs := make([]error, len(r.Topics))
		for i, t := range r.Topics {
			here, err := img.Topic(t.TopicName)
			switch {
			case err != nil:
				errs[i] = err
			case here.Mirror != r.MirrorName:
				errs[i] = fmt.Errorf("topic %q: %w %q", t.TopicName, quorum.ErrTopicNotInMirror, r.MirrorName)
			default:
				record.Topics = append(record.Topics, t.TopicName)
			}
		}
		var all error
		if len(record.Topics) > 0 {
			_, all = e.Quorum.Apply(ctx, record)
		}
		for i, t := range r.Topics {
			if errs[i] == nil {
				errs[i] = all
			}
			res := mirrorrpc.TopicResult{Name: t.TopicName}
			res.ErrorCode, res.ErrorMessage = mirrorError(errs[i])
			resp.Topics = append(resp.Topics, res)
		}
		return resp, nil
	})
}
