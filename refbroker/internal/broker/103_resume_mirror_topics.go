package broker

import (
	"context"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// ResumeMirrorTopics (key 103), version 0: goes on after a pause, or where
// partitions FAILED, at the log's end. It may be repeated. It starts nothing that was
// stopped: that would cut what was written since.
func resumeMirrorTopics(e *env.Env) wire.API {
	return wire.Of("ResumeMirrorTopics", 0, 0, func(ctx context.Context, req *wire.Request, r *mirrorrpc.ResumeMirrorTopicsRequest) (wire.Response, error) {
		topics, err := matched(e, r.MirrorName, r.Topics, r.Patterns, notStopped)
		if err != nil {
			return refusedAll(req, err)
		}
		return desireTopics(ctx, e, req, topics, quorum.SetMirrorTopics{Mirror: r.MirrorName, Desired: quorum.Mirroring, Resume: true})
	})
}
