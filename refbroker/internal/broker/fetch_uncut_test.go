package broker

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/replica"
)

// notYetCut are replicas whose leaders have yet to cut their logs.
type notYetCut struct {
	env.Replicas
	reads atomic.Int32
}

func (u *notYetCut) Partition(topic string, index int32) (replica.API, error) {
	p, err := u.Replicas.Partition(topic, index)
	return uncutReplica{p, u}, err
}

type uncutReplica struct {
	replica.API
	of *notYetCut
}

func (u uncutReplica) Read(replica.ReadOptions) (replica.ReadResult, error) {
	u.of.reads.Add(1)
	return replica.ReadResult{}, replica.ErrUncut
}

// A consumer that is answered at once asks again at once: it waits for the cut as it does
// for records. A follower, whom the cut waits for, hears of it at once.
func TestAConsumerWaitsForALeaderThatHasYetToCut(t *testing.T) {
	n := startNode(t)
	n.topic("t", 1)
	uncut := &notYetCut{Replicas: n.Env().Replicas}
	n.Env().Replicas = uncut
	for _, c := range []struct {
		replica int32
		waits   bool
	}{{-1, true}, {2, false}} {
		uncut.reads.Store(0)
		r := fetchOf("t", 0)
		r.ReplicaID, r.MinBytes, r.MaxWaitMillis = c.replica, 1, 30
		got := serveOne[*kmsg.FetchResponse](n, 12, r).Topics[0].Partitions[0]
		require.Equal(t, kerr.NotLeaderForPartition.Code, got.ErrorCode)
		// Who waits is read for twice: at first, and when the time is over.
		require.Equal(t, c.waits, uncut.reads.Load() > 1, "replica %d", c.replica)
	}
}
