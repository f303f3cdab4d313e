package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// AlterConfigs (key 33), versions 0 to 2, for topics: what is not named goes
// back to its default.
func alterConfigs(c *configs) wire.API {
	return wire.Of("AlterConfigs", 0, 2, func(ctx context.Context, req *wire.Request, r *kmsg.AlterConfigsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrAlterConfigsResponse()
		resp.Version = req.Version
		for _, want := range r.Resources {
			var err error
			changes := make([]quorum.ConfigChange, len(want.Configs))
			for i, set := range want.Configs {
				if set.Value == nil {
					err = fmt.Errorf("config %q without a value: %w", set.Name, kerr.InvalidRequest)
					break
				}
				changes[i] = quorum.ConfigChange{Name: set.Name, Op: quorum.SetConfig, Value: *set.Value}
			}
			if err == nil {
				err = c.alter(ctx, want.ResourceType, want.ResourceName, true, changes, r.ValidateOnly)
			}
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = want.ResourceType, want.ResourceName
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			resp.Resources = append(resp.Resources, out)
		}
		return resp, nil
	})
}
