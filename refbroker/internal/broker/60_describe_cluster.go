package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/wire"
)

// DescribeCluster (key 60), versions 0 to 2: from 1 on a client may ask for
// controllers, which are no endpoints of their own here; from 2 on fenced
// brokers can be listed.
func describeCluster(e *env.Env) wire.API {
	return wire.Of("DescribeCluster", 0, 2, func(_ context.Context, req *wire.Request, r *kmsg.DescribeClusterRequest) (wire.Response, error) {
		img := e.Quorum.Image()
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.Version = req.Version
		resp.ClusterID, resp.ControllerID = img.ClusterID, controller(e)
		resp.EndpointType = r.EndpointType
		if req.Version >= 1 && r.EndpointType != 1 {
			resp.ErrorCode, resp.ErrorMessage = errorOf(fmt.Errorf("endpoint type %d: brokers (1) only: %w", r.EndpointType, kerr.UnsupportedEndpointType))
			return resp, nil
		}
		for _, id := range slices.Sorted(maps.Keys(img.Brokers)) {
			b := img.Brokers[id]
			host, port, ok := advertised(b, req.Listener)
			if !ok || b.Fenced && !r.IncludeFencedBrokers {
				continue
			}
			out := kmsg.NewDescribeClusterResponseBroker()
			out.NodeID, out.Host, out.Port, out.IsFenced = id, host, port, b.Fenced
			resp.Brokers = append(resp.Brokers, out)
		}
		return resp, nil
	})
}
