package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
)

// lacks makes a target that lacks some abilities.
func lacks(all ...fixtures.Ability) func(fixtures.Ability) string {
	return func(a fixtures.Ability) string {
		for _, b := range all {
			if a == b {
				return "no " + string(a)
			}
		}
		return ""
	}
}

func TestWhatATargetCanDoOfAScenario(t *testing.T) {
	of := func(all ...history.DisturbanceName) Scenario {
		s := clusterAlone()[0]
		s.Disturb = all
		return s
	}
	for _, c := range []struct {
		name     string
		scenario Scenario
		cannot   func(fixtures.Ability) string
		left     []history.DisturbanceName
		na       string
	}{
		{"all of it", of(history.DeleteRecords, history.KillRestart), lacks(), []history.DisturbanceName{history.DeleteRecords, history.KillRestart}, ""},
		{"a part", of(history.DeleteRecords, history.KillRestart), lacks(fixtures.Killing), []history.DisturbanceName{history.DeleteRecords}, ""},
		{"nothing", of(history.KillRestart, history.KillRestart), lacks(fixtures.Killing), nil, "kill-9: no kill"},
		{"nothing is asked of it", of(), lacks(fixtures.Killing, fixtures.Restarting), nil, ""},
		{"one of two things", of(history.LeaderChange, history.Truncation), lacks(fixtures.Isolating), []history.DisturbanceName{history.LeaderChange}, ""},
		{"no replicas", of(history.LeaderChange, history.Truncation), lacks(fixtures.Replicating), nil, string(history.LeaderChange) + ": no replicate"},
		{"mirrors", Scenarios(Default)[0], lacks(), nil, "it has no mirrors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			able, na := c.scenario.able(c.cannot)
			if c.na != "" {
				require.Contains(t, na, c.na)
				return
			}
			require.Empty(t, na)
			require.Equal(t, c.left, able.Disturb)
			require.Equal(t, len(c.left) < len(c.scenario.Disturb), len(able.left) > 0, "what was left out is told: %v", able.left)
		})
	}
}

func TestWhatAnUnableTargetLeavesIsNotApplicable(t *testing.T) {
	for _, sc := range Certifying() {
		if sc.Level() != 0 {
			t.Errorf("%s is of level %s", sc.Name, sc.Level())
		}
		res, err := Run(t.Context(), sc.On(1), Options{Broker: &Broker{Kfake: &fixtures.Kfake{}}, Name: sc.Name, Folder: t.TempDir(), Launcher: "nobody"})
		if err != nil {
			require.ErrorContains(t, err, "unknown launcher", "what it can play it begins to")
			continue
		}
		require.False(t, res.Failed())
		require.Equal(t, "not applicable", res.Word())
		for _, v := range res.Verdicts {
			require.Equal(t, check.NotApplicable, v.Outcome)
			require.Contains(t, v.Reason, sc.Name)
		}
		require.Len(t, res.Verdicts, len(sc.Requirements()))
	}
}
