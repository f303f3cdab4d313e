package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// LeaveGroup (key 13), versions 0 to 5: from 3 on several members leave at
// once, static ones by their instance id alone (KIP-345).
func leaveGroup(c *group.Coordinator) wire.API {
	return wire.Of("LeaveGroup", 0, 5, func(ctx context.Context, req *wire.Request, r *kmsg.LeaveGroupRequest) (wire.Response, error) {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.Version = req.Version
		var leavers []group.Leaver
		for _, m := range r.Members {
			leavers = append(leavers, group.Leaver{MemberID: m.MemberID, InstanceID: textOf(m.InstanceID)})
		}
		if req.Version < 3 {
			leavers = []group.Leaver{{MemberID: r.MemberID}}
		}
		errs, err := c.Leave(ctx, r.Group, leavers)
		resp.ErrorCode = codeOf(err)
		if err != nil {
			return resp, nil
		}
		if req.Version < 3 {
			resp.ErrorCode = codeOf(errs[0])
			return resp, nil
		}
		for i, m := range r.Members {
			resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{
				MemberID: m.MemberID, InstanceID: m.InstanceID, ErrorCode: codeOf(errs[i]),
			})
		}
		return resp, nil
	})
}
