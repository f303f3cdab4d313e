package broker

import (
	"context"
	"net"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// JoinGroup (key 11), versions 0 to 9: from 1 on there is a rebalance timeout
// (KIP-62), from 4 on a member joins only under an id that it was given before
// (KIP-394), from 5 on static members are known (KIP-345), from 7 on the
// protocol's type is answered (KIP-559), from 9 on a leader may be told not to
// assign (KIP-814).
func joinGroup(c *group.Coordinator) wire.API {
	return wire.Of("JoinGroup", 0, 9, func(ctx context.Context, req *wire.Request, r *kmsg.JoinGroupRequest) (wire.Response, error) {
		in := group.JoinRequest{
			MemberID: r.MemberID, InstanceID: textOf(r.InstanceID), ClientID: req.ClientID, ClientHost: clientHost(req.Remote),
			SessionTimeout: millis(r.SessionTimeoutMillis), RebalanceTimeout: millis(r.RebalanceTimeoutMillis),
			ProtocolType: r.ProtocolType, NeedsID: req.Version >= 4, KnowsSkip: req.Version >= 9,
		}
		if r.RebalanceTimeoutMillis < 0 {
			in.RebalanceTimeout = in.SessionTimeout
		}
		for _, p := range r.Protocols {
			in.Protocols = append(in.Protocols, group.Protocol{Name: p.Name, Metadata: p.Metadata})
		}
		prefix := in.InstanceID
		if prefix == "" {
			prefix = req.ClientID
		}
		in.NewID = prefix + "-" + uuid.UUID(newUUID()).String()

		a := c.Join(ctx, r.Group, in)
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.Version = req.Version
		resp.ErrorCode = codeOf(a.Err)
		resp.MemberID, resp.Generation, resp.LeaderID, resp.SkipAssignment = a.MemberID, a.Generation, a.Leader, a.SkipAssignment
		resp.Protocol = &a.Protocol
		if req.Version >= 7 {
			resp.ProtocolType, resp.Protocol = named(a.ProtocolType), named(a.Protocol)
		}
		for _, m := range a.Members {
			resp.Members = append(resp.Members, kmsg.JoinGroupResponseMember{
				MemberID: m.ID, InstanceID: named(m.InstanceID), ProtocolMetadata: m.Metadata,
			})
		}
		return resp, nil
	})
}

// clientHost is an address as Kafka shows that of a member: "/127.0.0.1".
func clientHost(a net.Addr) string {
	if a == nil {
		return "/"
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.String()
	}
	return "/" + host
}
