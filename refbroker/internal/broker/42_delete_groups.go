package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/wire"
)

// DeleteGroups (key 42), versions 0 to 3: from 3 on errors have words.
func deleteGroups(c *group.Coordinator) wire.API {
	return wire.Of("DeleteGroups", 0, 3, func(ctx context.Context, req *wire.Request, r *kmsg.DeleteGroupsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Version = req.Version
		for _, id := range r.Groups {
			out := kmsg.DeleteGroupsResponseGroup{Group: id}
			out.ErrorCode, out.ErrorMessage = errorOf(c.Delete(ctx, id))
			resp.Groups = append(resp.Groups, out)
		}
		return resp, nil
	})
}
