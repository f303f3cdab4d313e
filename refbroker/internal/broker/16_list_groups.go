package broker

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// classicGroup is the type of the groups that are served (KIP-848).
const classicGroup = "classic"

// ListGroups (key 16), versions 0 to 5: from 4 on by state (KIP-518), from 5 on
// by type (KIP-848).
func listGroups(c *group.Coordinator) wire.API {
	return wire.Of("ListGroups", 0, 5, func(_ context.Context, req *wire.Request, r *kmsg.ListGroupsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrListGroupsResponse()
		resp.Version = req.Version
		found, err := c.List(func(d group.Description) bool {
			return wanted(r.StatesFilter, d.State.String()) && wanted(r.TypesFilter, classicGroup)
		})
		resp.ErrorCode = codeOf(err)
		for _, d := range found {
			resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{
				Group: d.ID, ProtocolType: d.ProtocolType, GroupState: d.State.String(), GroupType: classicGroup,
			})
		}
		return resp, nil
	})
}

// wanted reports whether a filter lets a value through; an empty one does.
func wanted(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}
