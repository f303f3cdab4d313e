package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/wire"
)

// ApiVersions (key 18), versions 0 to 5: from 3 on features are told, from 4 on
// also those whose lowest version is 0 (KIP-584, KIP-1022); from 5 on a client that
// means another cluster or node is sent back to its bootstrap addresses
// (KIP-1242). It tells the very table that requests are dispatched by. A version
// that is not served is answered in version 0 (KIP-511).
func apiVersions(e *env.Env, table func() *wire.Table) wire.API {
	return wire.Of("ApiVersions", 0, 5, func(_ context.Context, req *wire.Request, r *kmsg.ApiVersionsRequest) (wire.Response, error) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = req.Version
		if err := misrouted(e, req.Version, r); err != nil {
			resp.ErrorCode = codeOf(err)
			return resp, nil
		}
		for _, a := range table().APIs() {
			if a.Key >= firstOwnKey || req.Unsupported && a.Key != req.Key {
				continue // between nodes only; or nothing but what the client may ask instead
			}
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: a.Key, MinVersion: a.Min, MaxVersion: a.Max})
		}
		if req.Unsupported {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp, nil
		}
		// Versions 0 to 3 know no feature that begins at version 0.
		lowest := int16(0)
		if req.Version < 4 {
			lowest = 1
		}
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{
			{Name: "mirror.version", MinVersion: lowest, MaxVersion: 1},
			{Name: "transaction.version", MinVersion: lowest, MaxVersion: 2},
		}
		resp.FinalizedFeaturesEpoch = 0
		resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{
			{Name: "mirror.version", MinVersionLevel: 1, MaxVersionLevel: 1},
			{Name: "transaction.version", MinVersionLevel: e.TransactionVersion, MaxVersionLevel: e.TransactionVersion},
		}
		return resp, nil
	})
}

// misrouted is why a client is not answered that means another cluster or node; it
// names both or neither.
func misrouted(e *env.Env, version int16, r *kmsg.ApiVersionsRequest) error {
	switch {
	case version < 5 || r.ClusterID == nil && r.NodeID < 0:
		return nil
	case r.ClusterID == nil || r.NodeID < 0:
		return kerr.InvalidRequest
	case *r.ClusterID != e.ClusterID || r.NodeID != e.NodeID:
		return kerr.RebootstrapRequired
	}
	return nil
}
