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

// desired are the topics of a mirror, with what the operator wants of them.
func (n *mirrorNode) desired(mirror string) map[string]quorum.MirrorState {
	all := map[string]quorum.MirrorState{}
	for _, t := range n.Env().Quorum.Image().Topics {
		if t.Mirror == mirror {
			all[t.Name] = t.Desired
		}
	}
	return all
}

func (n *mirrorNode) awaitDesired(mirror string, want map[string]quorum.MirrorState) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		got := n.desired(mirror)
		for name, state := range want {
			if got[name] != state {
				return false
			}
		}
		return len(got) == len(want)
	}, patience, 5*time.Millisecond, "want %v", want)
}

func TestTopicPatterns(t *testing.T) {
	t.Parallel()
	a, b := startMirrorNode(t, idOfA), startMirrorNode(t, idOfB)
	for _, name := range []string{"orders", "orders-eu", "orders-tmp", "people"} {
		a.createTopic(name, 1)
	}
	c := b.mirrors()
	ctx := t.Context()
	require.NoError(t, c.Create(ctx, "m", map[string]string{mirrorrpc.ConfigBootstrap: a.addr(), mirrorrpc.ConfigRefresh: "100"}))
	const mirroring, paused, stopped = quorum.Mirroring, quorum.Paused, quorum.Stopped

	_, err := c.StartMatching(ctx, "m", []string{"orders.*", "("}, nil)
	require.ErrorIs(t, err, kerr.InvalidRegularExpression)
	require.ErrorContains(t, err, `pattern "("`)
	require.Empty(t, b.desired("m"))
	require.NotContains(t, b.Env().Quorum.Image().Mirrors["m"].Configs, mirrorrpc.ConfigTopicsInclude, "nothing of it is kept")

	got, err := c.StartMatching(ctx, "m", []string{"orders.*"}, []string{".*-tmp"})
	require.NoError(t, err)
	require.Equal(t, []string{"orders", "orders-eu"}, got)
	b.awaitDesired("m", map[string]quorum.MirrorState{"orders": mirroring, "orders-eu": mirroring})
	require.NoError(t, c.Start(ctx, "m", "people"), "by its name, whatever the patterns include")
	require.ErrorIs(t, c.Start(ctx, "m", "orders-tmp"), kerr.InvalidRequest, "it is excluded")

	// A topic that the source gets is picked up, with the source's id; one that is
	// not chosen, or is this cluster's own, is not.
	b.createTopic("orders-ours", 1)
	a.createTopic("orders-ours", 1)
	a.createTopic("new-tmp", 1)
	a.createTopic("orders-us", 2)
	all := map[string]quorum.MirrorState{"orders": mirroring, "orders-eu": mirroring, "people": mirroring, "orders-us": mirroring}
	b.awaitDesired("m", all)
	require.Equal(t, a.Env().Quorum.Image().Topics["orders-us"].ID, b.Env().Quorum.Image().Topics["orders-us"].ID)
	require.Len(t, b.Env().Quorum.Image().Topics["orders-us"].Partitions, 2)

	got, err = c.PauseMatching(ctx, "m", "orders-.*")
	require.NoError(t, err)
	require.Equal(t, []string{"orders-eu", "orders-us"}, got)
	all["orders-eu"], all["orders-us"] = paused, paused
	b.awaitDesired("m", all)
	got, err = c.ResumeMatching(ctx, "m", ".*-eu")
	require.NoError(t, err)
	require.Equal(t, []string{"orders-eu"}, got)
	all["orders-eu"] = mirroring
	b.awaitDesired("m", all)

	// A stop ends the pick-up too, and what is stopped stays so.
	got, err = c.StopMatching(ctx, "m", "orders.*")
	require.NoError(t, err)
	require.Equal(t, []string{"orders", "orders-eu", "orders-us"}, got)
	for _, name := range got {
		all[name] = stopped
	}
	b.awaitDesired("m", all)
	described, err := c.Describe(ctx, "m")
	require.NoError(t, err)
	configs := map[string]string{}
	for _, one := range described[0].Configs {
		configs[one.Name] = *one.Value
	}
	require.Empty(t, configs[mirrorrpc.ConfigTopicsInclude])
	require.Equal(t, "__.*,.*-tmp", configs[mirrorrpc.ConfigTopicsExclude])
	a.createTopic("orders-late", 1)
	_, err = c.StartMatching(ctx, "m", []string{"marker.*"}, nil)
	require.NoError(t, err)
	a.createTopic("marker", 1)
	all["marker"] = mirroring
	b.awaitDesired("m", all) // it was looked for after orders-late, which was not taken

	// Whoever leads the mirror, a start by pattern with a dead source is recorded.
	require.NoError(t, a.Close())
	got, err = c.StartMatching(ctx, "m", []string{"later"}, []string{"peo.*"})
	require.NoError(t, err)
	require.Empty(t, got)
	all["people"] = stopped
	b.awaitDesired("m", all)
	a.start()
	a.createTopic("later", 1)
	all["later"] = mirroring
	b.awaitDesired("m", all)
}

func TestAMirrorsConfigs(t *testing.T) {
	a, _ := sourceWithTraffic(t)
	b := startMirrorNode(t, idOfB)
	c := b.mirrors()
	ctx := t.Context()
	bad := "100 or so"
	for name, x := range map[string]struct {
		config string
		code   error
	}{
		"rate":    {mirrorrpc.ConfigThrottle, kerr.InvalidConfig},
		"refresh": {mirrorrpc.ConfigRefresh, kerr.InvalidConfig},
	} {
		err := c.Create(ctx, name, map[string]string{mirrorrpc.ConfigBootstrap: a.addr(), x.config: bad})
		require.ErrorIs(t, err, x.code)
		require.ErrorContains(t, err, x.config)
	}
	require.ErrorIs(t, c.Create(ctx, "x", map[string]string{mirrorrpc.ConfigBootstrap: a.addr(), mirrorrpc.ConfigGroupsInclude: "("}), kerr.InvalidRegularExpression)

	b.mirrorFrom(a)
	rate, servers := "2048", "127.0.0.1:1"
	require.NoError(t, c.Alter(ctx, "m", map[string]*string{mirrorrpc.ConfigThrottle: &rate}))
	require.ErrorIs(t, c.Alter(ctx, "m", map[string]*string{mirrorrpc.ConfigThrottle: &bad}), kerr.InvalidConfig)
	require.ErrorIs(t, c.Alter(ctx, "m", map[string]*string{mirrorrpc.ConfigBootstrap: &servers}), kerr.InvalidConfig)
	require.ErrorIs(t, c.Alter(ctx, "none", map[string]*string{mirrorrpc.ConfigThrottle: &rate}), mirrorrpc.ErrUnknownMirror)
	value := func() string {
		t.Helper()
		described, err := c.Describe(ctx, "m")
		require.NoError(t, err)
		for _, one := range described[0].Configs {
			if one.Name == mirrorrpc.ConfigThrottle {
				return *one.Value
			}
		}
		return ""
	}
	require.Equal(t, rate, value())
	all, err := kadm.NewClient(b.client()).DescribeBrokerConfigs(ctx, 1)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	// It mirrors on by the new rate, and without one again.
	send(t, a.client(), "throttled")
	require.Eventually(t, func() bool { return len(b.batches()) == len(a.batches()) }, patience, time.Millisecond)
	require.NoError(t, c.Alter(ctx, "m", map[string]*string{mirrorrpc.ConfigThrottle: nil}))
	require.Equal(t, "9223372036854775807", value())
}
