package broker

import (
	"context"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// PauseMirrorTopics (key 102), version 0: removes the fetchers of topics, which
// stay read-only (RO-1). It may be repeated; of topics that are stopped or being
// stopped it is refused.
func pauseMirrorTopics(e *env.Env) wire.API {
	return wire.Of("PauseMirrorTopics", 0, 0, func(ctx context.Context, req *wire.Request, r *mirrorrpc.PauseMirrorTopicsRequest) (wire.Response, error) {
		topics, err := matched(e, r.MirrorName, r.Topics, r.Patterns, notStopped)
		if err != nil {
			return refusedAll(req, err)
		}
		return desireTopics(ctx, e, req, topics, quorum.SetMirrorTopics{Mirror: r.MirrorName, Desired: quorum.Paused})
	})
}
