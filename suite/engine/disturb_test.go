package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/traffic"
)

func TestTheNextLeaderIsNeverWhoLeads(t *testing.T) {
	for _, c := range []struct {
		leader int32
		want   []int32
	}{{1, []int32{2, 3, 1}}, {2, []int32{3, 1, 2}}, {3, []int32{1, 2, 3}}, {-1, []int32{1, 2, 3}}} {
		at := traffic.Placement{Leader: c.leader, Replicas: []int32{1, 2, 3}}
		require.Equal(t, c.want, afterLeader(at), "leader %d", c.leader)
		require.Equal(t, []int32{1, 2, 3}, at.Replicas)
	}
}
