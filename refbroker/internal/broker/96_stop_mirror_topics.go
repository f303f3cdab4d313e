package broker

import (
	"context"

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
		err := stopPatterns(ctx, e, r.MirrorName, r.Patterns)
		if err == nil {
			r.Topics, err = matched(e, r.MirrorName, r.Topics, r.Patterns, func(*quorum.Topic) bool { return true })
		}
		if err != nil {
			return refusedAll(req, err)
		}
		if err := refuseStop(ctx, e, r); err != nil {
			return stopRefused(req, r, err)
		}
		stopOthers(ctx, e, r.MirrorName)
		if r.Topics = stopsAtAll(e, r.Topics); len(r.Topics) == 0 {
			return req.Response(), nil
		}
		return desireTopics(ctx, e, req, r.Topics, quorum.SetMirrorTopics{Mirror: r.MirrorName, Desired: quorum.Stopped})
	})
}
