package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// Heartbeat (key 12), versions 0 to 4: from 3 on static members are known
// (KIP-345).
func heartbeat(c *group.Coordinator) wire.API {
	return wire.Of("Heartbeat", 0, 4, func(ctx context.Context, req *wire.Request, r *kmsg.HeartbeatRequest) (wire.Response, error) {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.Version = req.Version
		resp.ErrorCode = codeOf(c.Heartbeat(ctx, r.Group, r.MemberID, textOf(r.InstanceID), r.Generation))
		return resp, nil
	})
}
