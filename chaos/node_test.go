package chaos

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/fixtures"
	"watershed.example/topologies"
)

func nodePlans() *rapid.Generator[NodePlan] {
	return rapid.Custom(func(t *rapid.T) NodePlan {
		p := NodePlan{
			Act:    rapid.SampledFrom(AllActs()).Draw(t, "act"),
			Target: Target{Role: rapid.SampledFrom(Roles()).Draw(t, "role"), Cluster: rapid.StringMatching(`[A-Z][a-z0-9]{0,5}`).Draw(t, "cluster")},
			Point:  rapid.SampledFrom(append(Points(), FirstWrite)).Draw(t, "point"),
		}
		if p.Act == BelowMinISR || p.Act == Depose {
			p.Target.Role = Leader
		}
		if p.Target.Role != Controller {
			p.Target.Of = rapid.StringMatching(`[a-z][a-z.-]{0,5}-[1-9][0-9]{0,3}`).Draw(t, "of")
		}
		switch p.Act {
		case ClockSkew:
			p.Delay = time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "ahead"))
		case DelayPeers, SlowSync, SlowClose:
			p.Delay = time.Duration(rapid.Int64Range(0, int64(maxDelay)).Draw(t, "delay"))
		case SlowPeers:
			p.Rate = rapid.Int64Range(0, maxRate).Draw(t, "rate")
		}
		p.Stop = rapid.IntRange(0, 3).Draw(t, "stop")
		p.UntilStopped = !p.Act.Passing() && !p.Act.AtOnce() && rapid.Bool().Draw(t, "until stopped")
		return p
	})
}

func TestANodePlanPrintsAndParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := nodePlans().Draw(t, "plan")
		got, err := ParseNode(p.String())
		require.NoError(t, err, p)
		require.Equal(t, p, got)
	})
	require.Equal(t, "kill leader of=orders-0 cluster=B at=before:barrier-committed", NodePlan{
		Act: Kill, Target: Target{Role: Leader, Cluster: "B", Of: "orders-0"}, Point: "before:barrier-committed",
	}.String())
}

func TestANodePlanThatIsWrongIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"":                                                                 "want an act and a role",
		"drown leader of=t-0 cluster=B":                                    `unknown act "drown"`,
		"kill king cluster=B":                                              `unknown role "king"`,
		"kill controller at=first-write":                                   `"" is no name of a cluster`,
		"kill leader cluster=B":                                            `"" is nothing to have a leader`,
		"kill controller of=t-0 cluster=B":                                 "a controller is that of its cluster",
		"kill controller cluster=B":                                        `unknown point ""`,
		"kill controller cluster=B at=noon":                                `unknown point "noon"`,
		"kill leader of=t cluster=B at=first-write":                        `"t" is no partition`,
		"kill leader of=t-x cluster=B at=first-write":                      `"t-x" is no partition`,
		"kill leader of=t-0 of=t-1 cluster=B":                              "of is there twice",
		"kill leader of=t-0 cluster=B when=first-wish":                     `unknown key "when"`,
		"kill leader of=t-0 cluster=B at=first-write delay=1s":             "kill knows no delay",
		"kill leader of=t-0 cluster=B at=first-write rate=1":               "kill knows no rate",
		"latency leader of=t-0 cluster=B at=first-write delay=-1s":         "delay -1s must lie between 0 and",
		"latency leader of=t-0 cluster=B at=first-write delay=2h":          "delay 2h0m0s must be at most",
		"clock-skew leader of=t-0 cluster=B at=first-write delay=-100000h": "must lie between",
		"bandwidth leader of=t-0 cluster=B at=first-write rate=-1":         "rate -1 must lie between",
		"isr-below-min controller cluster=B at=first-write":                "is a leader's",
		"depose follower of=t-0 cluster=B at=first-write":                  "has no role to lose",
		"kill leader of=t-0 cluster=B at=first-write stop=one":             "stop: ",
		"kill leader of=t-0 cluster=B at=first-write stop=2000":            "stop 2000 must lie between",
		"kill leader of=t-0 cluster=B at=first-write until=noon":           `until: want "stopped"`,
		"restart leader of=t-0 cluster=B at=first-write until=stopped":     "restart is over before the stop is",
		"kill leader of":                                                   `"of" is not key=value`,
	} {
		_, err := ParseNode(line)
		require.ErrorContains(t, err, want, line)
	}
}

// Each role is looked up when the fault strikes, and each act is proved.
func TestNodesAreStruckByTheirRoleOfTheMoment(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	top := topologies.ActivePassive().On(3)
	env, err := fixtures.Process().Launch(ctx, fixtures.Spec{Topology: top, Dir: filepath.Join(t.TempDir(), "run")})
	require.NoError(t, err)
	defer func() { require.NoError(t, env.Close()) }()
	b := env.Cluster("B")
	const id = "some-id"
	for _, act := range Acts() {
		role := Target{Role: Controller, Cluster: "B"}
		if act == Pause {
			role = Target{Role: Coordinator, Cluster: "B", Of: id}
		}
		s, err := NewNode(NodePlan{Act: act, Target: role, Point: FirstWrite}, b)
		require.NoError(t, err)
		require.False(t, s.Proof().Bit())
		require.NoError(t, s.Hit(ctx))
		require.Equal(t, act == Strand, !s.Proof().Bit(), "a strand is only begun: %s", s.Proof())
		require.NoError(t, s.Finish(ctx))
		require.True(t, s.Proof().Bit(), s.Proof().String())
		require.Equal(t, act != Kill && act != Strand, s.Node().Running())
		p, err := s.Heal(ctx)
		require.NoError(t, err)
		require.True(t, p.Bit(), p.String())
		require.NotZero(t, p.Node)
		require.NoError(t, b.AwaitNodes(ctx))
		again, err := s.Heal(ctx)
		require.NoError(t, err)
		require.Equal(t, p, again)
	}
	_, err = NewNode(NodePlan{Act: Kill, Target: Target{Role: Controller, Cluster: "B"}, Point: FirstWrite}, env.Cluster("A"))
	require.ErrorContains(t, err, "there is no such cluster")
}
