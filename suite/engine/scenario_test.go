package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/topologies"
)

func TestDefaultRunStrikesWithEachFaultAndAtEachPoint(t *testing.T) {
	kinds, points := map[chaos.Kind]int{}, map[string]int{}
	for _, s := range Scenarios(Default) {
		if s.Plan != nil {
			kinds[s.Plan.Kind]++
			points[s.Plan.Point]++
		}
	}
	for _, k := range chaos.Kinds() {
		require.NotZero(t, kinds[k], "fault %s", k)
	}
	for _, p := range chaos.Points() {
		require.NotZero(t, points[p], "point %s", p)
	}
}

func TestFullRunIsTheWholeMatrix(t *testing.T) {
	n := 0
	for _, s := range Scenarios(Full) {
		if s.Plan != nil && s.Topology.Name == topologies.ActivePassive().Name {
			n++
			require.NoError(t, s.Plan.Validate())
		}
	}
	require.Equal(t, len(chaos.Kinds())*len(chaos.Points()), n)
}

// All pairs: each episode of a topology that can be struck is struck at each
// point and by each fault, and all together are struck by each fault at each point.
func TestFullRunStrikesEveryEpisodeInPairs(t *testing.T) {
	type pair struct{ a, b string }
	for _, top := range topologies.All() {
		seen := map[pair]bool{}
		for _, s := range Scenarios(Full) {
			if s.Plan != nil && s.Topology.Name == top.Name {
				e := top.Episodes()[s.strikes()-1]
				require.Equal(t, e.Mirror.Link(), s.Plan.Link, s.Name)
				seen[pair{e.String(), s.Plan.Point}], seen[pair{e.String(), string(s.Plan.Kind)}] = true, true
			}
		}
		for _, e := range strikeable(top) {
			for _, p := range chaos.Points() {
				require.True(t, seen[pair{e.String(), p}], "%s %s at %s", top.Name, e, p)
			}
			for _, k := range chaos.Kinds() {
				require.True(t, seen[pair{e.String(), string(k)}], "%s %s by %s", top.Name, e, k)
			}
		}
	}
	seen := map[pair]bool{}
	for _, s := range Scenarios(Full) {
		if s.Plan != nil && s.Topology.Name != topologies.ActivePassive().Name {
			seen[pair{string(s.Plan.Kind), s.Plan.Point}] = true
		}
	}
	require.Len(t, seen, len(chaos.Kinds())*len(chaos.Points()))
}

func TestDefaultRunStrikesEveryTopologyTwice(t *testing.T) {
	for _, top := range topologies.All() {
		if isAlone(top) || isCrossing(top) {
			continue // there is no stop to strike, or those that it crosses are struck
		}
		episodes, points := map[int]bool{}, map[string]bool{}
		none := false
		for _, s := range Scenarios(Default) {
			if s.Topology.Name != top.Name {
				continue
			}
			none = none || s.Name == top.Name+"/no-fault/none"
			if s.Plan != nil {
				episodes[s.strikes()], points[s.Plan.Point] = true, true
			}
		}
		require.True(t, none, top.Name)
		require.Greater(t, len(points), 1, top.Name)
		require.GreaterOrEqual(t, len(episodes), min(2, len(strikeable(top))), top.Name)
	}
}

func TestSelectionsGrow(t *testing.T) {
	names := func(s Selection) (all []string) {
		for _, sc := range Scenarios(s) {
			all = append(all, sc.Name)
		}
		return all
	}
	require.NotEmpty(t, names(Short))
	require.Subset(t, names(Default), names(Short))
	require.Subset(t, names(Full), names(Default))
}

func TestScenariosHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Scenarios(Full) {
		require.False(t, seen[s.Name], "%s is there twice", s.Name)
		seen[s.Name] = true
		require.Len(t, strings.Split(s.Name, "/"), 3, "topology/fault/phase")
		require.NotContains(t, s.Name, ":")
		require.NotContains(t, s.Name, " ")
	}
}

func TestDefaultRunCoversWhatItHasTo(t *testing.T) {
	require.Empty(t, NotSelected(Scenarios(Default)))
	missing := NotSelected([]Scenario{{Topology: topologies.ActivePassive()}})
	require.Subset(t, missing, []string{"LINK-1", "FB-1"})
	require.NotContains(t, missing, "AP-1")
}

func TestEveryDeclaredRequirementCanBeJudged(t *testing.T) {
	for _, s := range Scenarios(Full) {
		for _, id := range s.Requirements() {
			_, known := contract.Get(id)
			require.True(t, known, "%s declares %s", s.Name, id)
			require.Contains(t, check.Checked(), id, s.Name)
		}
	}
}

func TestLayoutOfEveryTopology(t *testing.T) {
	for _, top := range topologies.All() {
		for _, m := range top.Mirrors {
			l, err := layOut(top, m)
			require.NoError(t, err)
			require.Greater(t, len(l.Spanned), 1, "the open transaction spans partitions")
			require.Greater(t, len(l.All), len(l.Written), "a partition stays empty")
			require.NotContains(t, l.Spanned, l.Forge, "forged batches meet what was not cut")
		}
	}
}

func TestDefectSeen(t *testing.T) {
	d := DefectCase{Name: "d", Primary: []string{"BAR-1"}, Secondary: []string{"AP-1"}}
	result := func(violated ...string) *Result {
		r := &Result{}
		for _, id := range violated {
			r.Verdicts = append(r.Verdicts, check.Verdict{Requirement: id, Outcome: check.Violated})
		}
		return r
	}
	require.NoError(t, d.Seen(result("BAR-1")))
	require.NoError(t, d.Seen(result("AP-1", "BAR-1")))
	require.ErrorContains(t, d.Seen(result("AP-1")), "went unseen")
	require.ErrorContains(t, d.Seen(result()), "went unseen")
	require.ErrorContains(t, d.Seen(result("BAR-1", "LOG-1")), "reported under LOG-1")
	d.Anomalies = []check.Anomaly{check.ExtraBarrier}
	require.ErrorContains(t, d.Seen(result("BAR-1")), "extra barrier")
	r := result("AP-1", "BAR-1")
	r.Verdicts[0].Findings = []check.Finding{{Anomaly: check.ExtraBarrier}}
	require.ErrorContains(t, d.Seen(r), "extra barrier")
	r.Verdicts[1].Findings = r.Verdicts[0].Findings
	require.NoError(t, d.Seen(r))
}

// Every defect that the broker lists has a case, or a reason why it has none.
func TestEveryDefectHasItsCase(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "defects.md"))
	require.NoError(t, err)
	known := KnownDefects()
	listed := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(data), -1)
	require.NotEmpty(t, listed)
	for _, m := range listed {
		require.Contains(t, known, m[1])
	}
	for _, d := range DefectCases() {
		require.NotEmpty(t, d.Scenario.Name, d.Name)
		require.NotEmpty(t, d.Primary, d.Name)
		for _, id := range slices.Concat(d.Primary, d.Secondary) {
			require.Contains(t, check.Checked(), id, d.Name)
		}
	}
}

func TestAShortRunTriesTheMostTellingDefects(t *testing.T) {
	var short []string
	for _, d := range DefectCases() {
		if d.Short {
			short = append(short, d.Name)
		}
	}
	require.Len(t, short, 10)
	require.ElementsMatch(t, shortDefects, short)
}
