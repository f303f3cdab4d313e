package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KIP-1242: a client whose connection leads elsewhere is told so.
func TestAClientThatMeansAnotherNodeIsSentBack(t *testing.T) {
	n := startNode(t)
	own, other := n.Env().ClusterID, "another"
	for name, tc := range map[string]struct {
		cluster *string
		node    int32
		want    int16
	}{
		"bootstrapping":   {nil, -1, 0},
		"this one":        {&own, n.Env().NodeID, 0},
		"another node":    {&own, n.Env().NodeID + 1, kerr.RebootstrapRequired.Code},
		"another cluster": {&other, n.Env().NodeID, kerr.RebootstrapRequired.Code},
		"no node":         {&own, -1, kerr.InvalidRequest.Code},
		"no cluster":      {nil, n.Env().NodeID, kerr.InvalidRequest.Code},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 5, "me", "1"
		req.ClusterID, req.NodeID = tc.cluster, tc.node
		raw, err := askRaw(t, n.Addrs()["client"], "me", 18, 5, true, req.AppendTo(nil))
		require.NoError(t, err, name)
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = 5
		require.NoError(t, resp.ReadFrom(raw), name)
		require.Equal(t, tc.want, resp.ErrorCode, name)
		require.Equal(t, tc.want == 0, len(resp.ApiKeys) > 0, name)
	}
}
