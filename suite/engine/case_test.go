package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/topologies"
)

func planOf(t require.TestingT, line string) chaos.Several {
	if line == "" {
		return chaos.Several{}
	}
	s, err := chaos.ParseSeveral(line)
	require.NoError(t, err)
	return s
}

func TestACaseFitsItsTopology(t *testing.T) {
	const latest = check.ProfileLatest
	for _, c := range []struct {
		name, topology, plan string
		nodes                int
		profile              check.Profile
		want                 string // part of the error; "" for none
	}{
		{"no fault", "active-passive", "", 1, "", ""},
		{"a link", "active-passive", "reset link=A->B at=before:settled", 1, "", ""},
		{"a link of several nodes and a node", "failback", "reset link=B->A at=before:settled + kill controller cluster=B at=before:settled", 3, "", ""},
		{"the second stop of a link", "failback", "reset link=A->B at=before:settled stop=3", 3, "", ""},
		{"a source", "chain-3", "disk-full source of=orders-0 cluster=A at=before:settled", 3, "", ""},
		{"the first write", "active-passive", "kill leader of=orders-0 cluster=B at=first-write", 3, "", ""},
		{"a point of latest", "active-passive", "reset link=A->B at=before:open-transactions-aborted", 1, latest, ""},
		{"nobody knows it", "moebius", "", 1, "", `topology "moebius": want one of active-passive, `},
		{"a cluster alone", "single-cluster", "", 1, "", "want one of active-passive, "},
		{"two nodes", "active-passive", "", 2, "", "2 nodes: want 1 or 3"},
		{"another link", "active-passive", "reset link=B->A at=before:settled", 1, "", "no stop of topology active-passive has it (stops: 1 of A->B)"},
		{"another stop", "failback", "reset link=A->B at=before:settled stop=2", 3, "", "no stop of topology failback has it (stops: 1 of A->B, 2 of B->A, 3 of A->B)"},
		{"another cluster", "active-passive", "kill controller cluster=C at=before:settled", 3, "", "no stop of topology"},
		{"another partition", "active-passive", "kill leader of=orders-7 cluster=B at=before:settled", 3, "", "has no partition orders-7"},
		{"a node of one", "active-passive", "kill leader of=orders-0 cluster=B at=before:settled", 1, "", "its cluster has 1 node: give -nodes=3"},
		{"no point of v42", "active-passive", "reset link=A->B at=before:open-transactions-aborted", 1, check.ProfileV42, "has no such point"},
	} {
		sc, err := Case{Topology: c.topology, Nodes: c.nodes, Profile: c.profile, Faults: planOf(t, c.plan)}.Scenario()
		if c.want != "" {
			require.ErrorContains(t, err, c.want, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.plan, sc.Faults.String(), c.name)
		require.Equal(t, len(sc.Faults.Links)+len(sc.Faults.Nodes) > 0, slices.ContainsFunc(sc.Topology.Episodes(), func(e topologies.Episode) bool {
			return sc.linkPlan(e.Number) != nil || len(sc.nodePlans(e.Number)) > 0
		}), c.name)
	}
}

func TestPlansOfOneStopStrikeInTheOrderOfItsPoints(t *testing.T) {
	sc, err := Case{Topology: "failback", Nodes: 3, Faults: planOf(t, strings.Join([]string{
		"reset link=B->A at=before:settled", "latency link=A->B at=after:truncated until=stopped",
		"kill leader of=orders-0 cluster=B at=before:barrier-appended", "pause controller cluster=B at=before:settled stop=1",
		"kill leader of=orders-0 cluster=A at=first-write",
	}, chaos.Between))}.Scenario()
	require.NoError(t, err)
	require.Equal(t, []string{"before:settled", "after:truncated", "before:barrier-appended"}, sc.holds(1))
	require.Equal(t, []string{"before:settled"}, sc.holds(2))
	require.Empty(t, sc.holds(3))
	require.Equal(t, chaos.Latency, sc.linkPlan(1).Kind)
	require.Equal(t, chaos.Reset, sc.linkPlan(2).Kind)
	require.Nil(t, sc.linkPlan(3))
	require.Len(t, sc.nodePlans(1), 2)
	require.Len(t, sc.nodePlans(2), 1)
	require.True(t, sc.outlasts(1))
	require.False(t, sc.outlasts(2))
	require.Contains(t, sc.exercises(1), "TXN-5")
	require.NotContains(t, sc.exercises(2), "TXN-5")
	require.NotContains(t, sc.exercises(1), "RO-4", "whom a struck node refuses, it may refuse for that")
	require.Contains(t, sc.exercises(3), "RO-4")
	require.Contains(t, sc.exercises(2), "BAR-5")
	require.NotContains(t, sc.exercises(1), "BAR-5")
}

// Every cell of both matrices is a case, and plays the same as one.
func TestCellsAreCases(t *testing.T) {
	for _, sc := range append(ScenariosOf(FaultMatrix()), CrashMatrix()...) {
		c, err := CaseOf(sc.In(check.ProfileV42), 7, []string{"wrong-source-id"})
		require.NoError(t, err, sc.Name)
		same, err := c.Scenario()
		require.NoError(t, err, sc.Name)
		require.Equal(t, sc.Topology.Clusters, same.Topology.Clusters, sc.Name)
		require.Equal(t, sc.Requirements(), same.Requirements(), sc.Name)
		for _, e := range sc.Topology.Episodes() {
			require.Equal(t, sc.holds(e.Number), same.holds(e.Number), sc.Name)
			require.Equal(t, sc.outlasts(e.Number), same.outlasts(e.Number), sc.Name)
		}
	}
}

func TestWhatDoesMoreThanStrikeIsNoCase(t *testing.T) {
	cases := 0
	for _, sc := range Scenarios(Full) {
		c, err := CaseOf(sc.In(check.ProfileV42), 1, nil)
		if err != nil {
			require.ErrorContains(t, err, sc.Name)
			continue
		}
		cases++
		same, err := c.Scenario()
		require.NoError(t, err)
		require.Equal(t, sc.Requirements(), same.Requirements(), sc.Name)
	}
	require.Greater(t, cases, 300)
	for _, sc := range []Scenario{{KillSource: true}, {CrashAt: "before:stopped"}, {Operate: true}, {Restart: Clean}, {EveryGate: true}} {
		sc.Topology = Scenarios(Short)[0].Topology
		_, err := CaseOf(sc, 1, nil)
		require.ErrorIs(t, err, errNoCase)
	}
}

func cases() *rapid.Generator[Case] {
	cells := ScenariosOf(FaultMatrix())
	return rapid.Custom(func(t *rapid.T) Case {
		c, err := CaseOf(rapid.SampledFrom(cells).Draw(t, "cell").In(check.ProfileV42), rapid.Uint64().Draw(t, "seed"), nil)
		require.NoError(t, err)
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			more, err := CaseOf(rapid.SampledFrom(cells).Draw(t, "cell").In(check.ProfileV42), 0, nil)
			require.NoError(t, err)
			with := c
			with.Faults.Links = append(slices.Clone(c.Faults.Links), more.Faults.Links...)
			with.Faults.Nodes = append(slices.Clone(c.Faults.Nodes), more.Faults.Nodes...)
			if _, err := with.Scenario(); err == nil {
				c = with
			}
		}
		return c
	})
}

func TestAReplayIsReadBack(t *testing.T) {
	all := cases()
	rapid.Check(t, func(t *rapid.T) {
		r := Replay{
			Case: all.Draw(t, "case"), Launcher: "process", Requirement: rapid.SampledFrom([]string{"", "BAR-1", "OPS-5"}).Draw(t, "requirement"),
			Seen: rapid.IntRange(0, 5).Draw(t, "seen"), Tries: 5,
		}
		data, err := r.Encode()
		require.NoError(t, err)
		got, err := DecodeReplay(data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, r, got)
	})
	data, err := Replay{Case: Case{Seed: 1 << 63, Topology: "active-passive", Nodes: 1, Profile: check.ProfileV42}}.Encode()
	require.NoError(t, err)
	require.Contains(t, string(data), `"seed": "9223372036854775808"`, "64 bits are a string")
}

func TestAReplayThatIsWrongIsRefused(t *testing.T) {
	good := `{"version": 1, "seed": "7", "topology": "active-passive", "nodes": 1, "profile": "kip1279-v42", "plans": ["reset link=A->B at=before:settled"]}`
	_, err := DecodeReplay([]byte(good))
	require.NoError(t, err)
	for _, c := range [][3]string{
		{`"version": 1`, `"version": 2`, "version 2, want 1"},
		{`"seed": "7"`, `"seed": "x"`, "replay: "},
		{`active-passive`, `moebius`, `topology "moebius"`},
		{`kip1279-v42`, `kip1279-v1`, `unknown profile "kip1279-v1"`},
		{`reset link`, `melt link`, `unknown fault "melt"`},
		{`"nodes": 1`, `"nodes": 1, "requirement": "XY-1"`, `unknown requirement "XY-1"`},
		{`"nodes": 1`, `"nodes": 1, "defects": ["sloth"]`, `unknown defect "sloth"`},
		{`"nodes": 1`, `"nodes": 1, "colour": "red"`, "colour"},
		{`]}`, `]} {}`, "more behind it"},
		{`]}`, ``, "unexpected EOF"},
	} {
		_, err := DecodeReplay([]byte(strings.Replace(good, c[0], c[1], 1)))
		require.ErrorContains(t, err, c[2])
	}
	_, err = LoadReplay("no-such-file")
	require.ErrorContains(t, err, "no-such-file")
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"version": 1, "seed": "7", "topology": "active-passive", "nodes": 3, "profile": "kip1279-v42", "plans": ["kill controller cluster=B at=before:settled until=stopped"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeReplay(data)
		if err != nil {
			return
		}
		again, err := r.Encode()
		require.NoError(t, err)
		back, err := DecodeReplay(again)
		require.NoError(t, err)
		require.Equal(t, r.Faults.String(), back.Faults.String())
	})
}
