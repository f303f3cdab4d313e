package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/mirrorrpc"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
)

func TestALevelSaysHowMuchOfItWasPlayed(t *testing.T) {
	of := map[contract.Level][]Scenario{}
	for _, sc := range Scenarios(Default) {
		of[sc.Level()] = append(of[sc.Level()], sc)
	}
	low, high := of[contract.L1], of[contract.L4]
	require.NotEmpty(t, low)
	require.Greater(t, len(high), 1)
	cert := &Certificate{Unplayed: []Unplayed{{Scenario: high[1]}}}
	play := append(low[:len(low):len(low)], high[0])
	require.Equal(t, fmt.Sprintf(" (%d of %[1]d scenarios)", len(low)), cert.share(contract.L1, play))
	require.Equal(t, fmt.Sprintf(" (%d of %d scenarios)", len(low)+1, len(low)+2), cert.share(contract.L4, play))
}

// twoClusters is a target that was found, whose mirrors have these configs.
func twoClusters(configs map[string]string) *Target {
	return &Target{
		file: &target.Target{
			Level: "L4", Clusters: []*target.Cluster{{Name: "east"}, {Name: "west"}},
			Mirroring: &target.Mirroring{Adapter: target.KIP1279, Config: configs},
		},
		seen: make([]fixtures.Seen, 2),
	}
}

// TestWithoutARefreshGroupsAreNotApplicable: what groups have committed is not waited for,
// and that keeps a target from no level, with the reason told.
func TestWithoutARefreshGroupsAreNotApplicable(t *testing.T) {
	for configs, why := range map[string]string{"": noGroups, "60000": noGroups, "5000": "", "150": ""} {
		found := twoClusters(map[string]string{mirrorrpc.ConfigRefresh: configs})
		require.Equal(t, why, found.Ungrouped(), configs)
		play, _ := found.Scenarios(contract.L1)
		require.NotEmpty(t, play)
		cert := &Certificate{}
		cert.sum(found, Certification{Target: found.file}, play, contract.L1)
		told := ""
		for _, v := range cert.unexercised(play) {
			if v.Requirement == "GRP-1" {
				require.Equal(t, check.NotApplicable, v.Outcome)
				told = v.Reason
			}
		}
		require.Equal(t, why, told, configs)
	}
	for every, why := range map[time.Duration]string{time.Second: "", time.Minute: noGroups} {
		found := twoClusters(nil)
		found.file.Mirroring.OffsetSync = every
		require.Equal(t, why, found.Ungrouped(), every)
	}
	alone := twoClusters(nil)
	alone.file.Mirroring = nil
	require.Empty(t, alone.Ungrouped(), "that there is no mirroring is told otherwise")
}

func TestALevelHasToFitTheTarget(t *testing.T) {
	l := func(l contract.Level) *contract.Level { return &l }
	file := twoClusters(nil).file
	file.File, file.Level = "t.yaml", "L2"
	require.NoError(t, Certification{Target: file}.fits())
	require.NoError(t, Certification{Target: file, Level: l(contract.L2)}.fits())
	require.EqualError(t, Certification{Target: file, Level: l(contract.L3)}.fits(), "target t.yaml: level: L2 is the highest that may be played there, and L3 is asked for")
	file.Mirroring = nil
	require.NoError(t, Certification{Target: file, Level: l(contract.L0)}.fits())
	require.EqualError(t, Certification{Target: file, Level: l(contract.L1)}.fits(), "target t.yaml: mirroring is missing: of clusters without it there is level L0 alone, and L1 is asked for")
}
