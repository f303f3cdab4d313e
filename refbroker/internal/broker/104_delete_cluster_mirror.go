package broker

import (
	"context"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// DeleteClusterMirror (key 104), version 0: removes a mirror all of whose topics
// are stopped. The topics stay, and stay writable (OPS-5).
func deleteClusterMirror(e *env.Env) wire.API {
	return wire.Of("DeleteClusterMirror", 0, 0, func(ctx context.Context, _ *wire.Request, r *mirrorrpc.DeleteClusterMirrorRequest) (wire.Response, error) {
		resp := &mirrorrpc.DeleteClusterMirrorResponse{}
		_, err := e.Quorum.Apply(ctx, quorum.DeleteMirror{Name: r.MirrorName})
		resp.ErrorCode, resp.ErrorMessage = mirrorError(err)
		return resp, nil
	})
}
