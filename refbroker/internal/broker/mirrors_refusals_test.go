package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/quorum"
)

const (
	idOfA = "AAAAAAAAAAAAAAAAAAAAAA"
	idOfB = "BBBBBBBBBBBBBBBBBBBBBB"
)

func (n *mirrorNode) createTopic(name string, partitions int32) {
	n.t.Helper()
	_, err := kadm.NewClient(n.client()).CreateTopic(n.t.Context(), partitions, 1, nil, name)
	require.NoError(n.t, err)
}

// What can't be mirrored is refused in the answer to the start, with the code and
// a word of why; nothing of the topic changes.
func TestAStartThatCanNotBeIsRefused(t *testing.T) {
	t.Parallel()
	a, b := startMirrorNode(t, idOfA), startMirrorNode(t, idOfB)
	a.createTopic("t", 2)
	a.createTopic("three", 3)
	b.createTopic("own", 1)
	a.createTopic("own", 1)
	c := b.mirrors()
	configs := map[string]string{mirrorrpc.ConfigBootstrap: a.addr(), mirrorrpc.ConfigSourceClusterID: idOfA}
	require.NoError(t, c.Create(t.Context(), "m", configs))
	configs[mirrorrpc.ConfigSourceClusterID] = "CCCCCCCCCCCCCCCCCCCCCC"
	require.NoError(t, c.Create(t.Context(), "stranger", configs))
	configs[mirrorrpc.ConfigBootstrap] = b.addr()
	require.NoError(t, c.Create(t.Context(), "self", configs))

	require.NoError(t, c.Start(t.Context(), "m", "t", "three"))
	require.NoError(t, c.Stop(t.Context(), "m", "t", "three"))
	require.Eventually(t, func() bool {
		for _, topic := range []string{"t", "three"} {
			for _, p := range b.Env().Quorum.Image().Topics[topic].Partitions {
				if p.Mirror.State != quorum.Stopped {
					return false
				}
			}
		}
		return true
	}, patience, time.Millisecond)
	_, err := kadm.NewClient(b.client()).CreatePartitions(t.Context(), 2, "three")
	require.NoError(t, err)

	for _, x := range []struct {
		name, mirror, topic string
		code                error
		says                []string
	}{
		{"another cluster", "stranger", "t", kerr.InconsistentClusterID, []string{"its cluster id is " + idOfA, "the mirror expects CCCC"}},
		{"another cluster, a new topic", "stranger", "new", kerr.InconsistentClusterID, []string{"its cluster id is " + idOfA}},
		{"this cluster itself", "self", "t", kerr.InconsistentClusterID, []string{idOfB, "this cluster itself"}},
		{"no such topic", "m", "nothing", kerr.UnknownTopicOrPartition, []string{`"nothing" on the source`}},
		{"another topic of that name", "m", "own", kerr.InconsistentTopicID, []string{"on the source and"}},
		{"more partitions here", "m", "three", kerr.InvalidPartitions, []string{"5 partitions here, and 3 on the source"}},
		{"no such mirror", "none", "t", mirrorrpc.ErrUnknownMirror, []string{`mirror "none"`}},
		{"an internal topic", "m", quorum.OffsetsTopic, nil, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			before := b.Env().Quorum.Image()
			err := c.Start(t.Context(), x.mirror, x.topic)
			require.Error(t, err)
			if x.code != nil {
				require.ErrorIs(t, err, x.code)
			}
			for _, word := range x.says {
				require.ErrorContains(t, err, word)
			}
			require.Equal(t, before.Topics, b.Env().Quorum.Image().Topics)
		})
	}
	// A source that can't be asked is no reason to refuse what it is known to have.
	require.NoError(t, a.Kill())
	require.NoError(t, c.Start(t.Context(), "m", "t"))
	err = c.Start(t.Context(), "m", "new")
	require.ErrorIs(t, err, kerr.BrokerNotAvailable)
	a.start()
}
