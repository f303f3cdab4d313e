package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSeveralPlansPrintAndParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Several
		for range rapid.IntRange(0, 2).Draw(t, "links") {
			s.Links = append(s.Links, plans().Draw(t, "plan"))
		}
		for range rapid.IntRange(0, 2).Draw(t, "nodes") {
			s.Nodes = append(s.Nodes, nodePlans().Draw(t, "node plan"))
		}
		if s.Validate() != nil {
			t.Skip("two of one link")
		}
		got, err := ParseSeveral(s.String())
		require.NoError(t, err, s)
		require.Equal(t, s, got)
	})
	s, err := ParseSeveral("reset link=A->B at=before:settled + depose controller cluster=B at=before:settled")
	require.NoError(t, err)
	require.Equal(t, Several{
		Links: []Plan{{Kind: Reset, Link: "A->B", Point: "before:settled"}},
		Nodes: []NodePlan{{Act: Depose, Target: Target{Role: Controller, Cluster: "B"}, Point: "before:settled"}},
	}, s)
}

func TestSeveralPlansThatAreWrongAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"":                                     "empty line",
		"reset link=A->B at=before:settled + ": "empty line",
		"reset link=A->B at=before:settled + kill king cluster=B":                                         `unknown role "king"`,
		"reset link=A->B at=before:settled + latency link=A->B at=before:settled":                         "two strike link A->B",
		"kill controller cluster=B at=before:settled + pause controller cluster=B at=after:settled":       "two strike controller on B",
		"kill controller cluster=B at=before:settled + pause leader cluster=B at=after:settled":           "nothing to have a leader",
		"kill controller cluster=B at=before:settled + reset link=A->B at=before:settled colour=blue and": `unknown key "colour"`,
	} {
		_, err := ParseSeveral(line)
		require.ErrorContains(t, err, want, line)
	}
	require.ErrorContains(t, Several{}.Validate(), "there is none")
	_, err := ParseSeveral("reset link=A->B at=before:settled + reset link=A->B at=before:settled stop=3")
	require.NoError(t, err, "in two stops")
}

func FuzzParseSeveral(f *testing.F) {
	f.Add("reset link=A->B at=before:settled + depose controller cluster=B at=before:settled")
	f.Add("clock-skew leader of=t-0 cluster=B at=first-write delay=-1h + bandwidth source of=t-0 cluster=A at=before:settled rate=7")
	f.Add("kill leader of=t-0 cluster=B at=first-write +  + ")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := ParseSeveral(line)
		if err != nil {
			return
		}
		again, err := ParseSeveral(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
