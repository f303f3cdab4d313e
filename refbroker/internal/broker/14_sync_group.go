package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// SyncGroup (key 14), versions 0 to 5: from 3 on static members are known
// (KIP-345), from 5 on the protocol's type and name are checked and answered
// (KIP-559).
func syncGroup(c *group.Coordinator) wire.API {
	return wire.Of("SyncGroup", 0, 5, func(ctx context.Context, req *wire.Request, r *kmsg.SyncGroupRequest) (wire.Response, error) {
		in := group.SyncRequest{
			MemberID: r.MemberID, InstanceID: textOf(r.InstanceID), Generation: r.Generation,
			ProtocolType: r.ProtocolType, Protocol: r.Protocol, Assignments: map[string][]byte{},
		}
		for _, a := range r.GroupAssignment {
			in.Assignments[a.MemberID] = a.MemberAssignment
		}
		a := c.Sync(ctx, r.Group, in)
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.Version = req.Version
		resp.ErrorCode = codeOf(a.Err)
		resp.ProtocolType, resp.Protocol, resp.MemberAssignment = named(a.ProtocolType), named(a.Protocol), a.Assignment
		return resp, nil
	})
}
