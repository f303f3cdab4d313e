package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// DescribeGroups (key 15), versions 0 to 6: from 4 on static members are told
// (KIP-345), from 6 on GROUP_ID_NOT_FOUND is; before, an unknown group is a
// dead one (KIP-1043).
func describeGroups(c *group.Coordinator) wire.API {
	return wire.Of("DescribeGroups", 0, 6, func(ctx context.Context, req *wire.Request, r *kmsg.DescribeGroupsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		resp.Version = req.Version
		for _, id := range r.Groups {
			d, err := c.Describe(ctx, id)
			if req.Version < 6 && errors.Is(err, kerr.GroupIDNotFound) {
				err = nil
			}
			out := kmsg.NewDescribeGroupsResponseGroup()
			out.Group = id
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			if err == nil || errors.Is(err, kerr.GroupIDNotFound) {
				out.State, out.ProtocolType, out.Protocol = d.State.String(), d.ProtocolType, d.Protocol
			}
			for _, m := range d.Members {
				out.Members = append(out.Members, kmsg.DescribeGroupsResponseGroupMember{
					MemberID: m.ID, InstanceID: named(m.InstanceID), ClientID: m.ClientID, ClientHost: m.ClientHost,
					ProtocolMetadata: m.Metadata, MemberAssignment: m.Assignment,
				})
			}
			resp.Groups = append(resp.Groups, out)
		}
		return resp, nil
	})
}
