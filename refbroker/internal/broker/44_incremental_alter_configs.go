package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/wire"
)

// IncrementalAlterConfigs (key 44), versions 0 to 1, for topics (KIP-339) and mirrors (resource type 64). A
// resource's changes are made together or not at all.
func incrementalAlterConfigs(c *configs) wire.API {
	return wire.Of("IncrementalAlterConfigs", 0, 1, func(ctx context.Context, req *wire.Request, r *kmsg.IncrementalAlterConfigsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		resp.Version = req.Version
		for _, want := range r.Resources {
			var err error
			changes := make([]quorum.ConfigChange, len(want.Configs))
			for i, change := range want.Configs {
				changes[i] = quorum.ConfigChange{Name: change.Name, Op: quorum.ConfigOp(change.Op)}
				switch {
				case change.Value != nil:
					changes[i].Value = *change.Value
				case change.Op != kmsg.IncrementalAlterConfigOpDelete && err == nil:
					err = fmt.Errorf("config %q without a value: %w", change.Name, kerr.InvalidRequest)
				}
			}
			if err == nil {
				err = c.alter(ctx, want.ResourceType, want.ResourceName, false, changes, r.ValidateOnly)
			}
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = want.ResourceType, want.ResourceName
			out.ErrorCode, out.ErrorMessage = errorOf(err)
			resp.Resources = append(resp.Resources, out)
		}
		return resp, nil
	})
}

// alter changes a topic's configs, or with validateOnly only says whether it would.
func (c *configs) alter(ctx context.Context, kind kmsg.ConfigResourceType, name string, replace bool, changes []quorum.ConfigChange, validateOnly bool) error {
	if kind == mirrorrpc.ResourceMirror && !replace {
		return c.alterMirror(ctx, name, changes, validateOnly)
	}
	if kind != kmsg.ConfigResourceTypeTopic {
		return fmt.Errorf("resource type %d: only topics' and, one by one, mirrors' configs can be altered: %w", kind, kerr.InvalidRequest)
	}
	seen := map[string]bool{}
	known := topicConfigs()
	defaults := map[string]string{}
	for _, change := range changes {
		if seen[change.Name] {
			return fmt.Errorf("topic %q: config %q is named more than once: %w", name, change.Name, kerr.InvalidRequest)
		}
		seen[change.Name] = true
		if change.Op != quorum.AppendToConfig && change.Op != quorum.SubtractFromValue {
			continue
		}
		if k, ok := known[change.Name]; ok && k.Type != kmsg.ConfigTypeList {
			return fmt.Errorf("topic %q: config %q is no list: %w", name, change.Name, kerr.InvalidConfig)
		}
		defaults[change.Name] = known[change.Name].Default
		if v, ok := c.defaults[change.Name]; ok {
			defaults[change.Name] = v
		}
	}
	t, err := c.quorum.Image().Topic(name)
	if err != nil {
		return err
	}
	command := quorum.AlterTopicConfigs{Name: name, ID: t.ID, Replace: replace, Changes: changes, Defaults: defaults}
	after, err := command.Configs(t)
	if err == nil {
		err = CheckTopicConfigs(after)
	}
	if err != nil {
		return fmt.Errorf("topic %q: %w", name, err)
	}
	if validateOnly {
		return nil
	}
	_, err = c.quorum.Apply(ctx, command)
	return err
}
