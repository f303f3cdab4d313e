package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures"
	"watershed.example/fixtures/target"
	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/topologies"
)

// asPlanned is the plan that a scenario has on clusters of its own.
func asPlanned(sc Scenario) check.Run {
	sc = sc.On(0).In("")
	r := check.Run{
		Version: check.RunVersion, Scenario: sc.Name, Profile: sc.Profile, Launcher: "process", Exercises: sc.Requirements(),
		Floors:  check.Floors{Before: floorBefore, During: floorDuring, After: floorAfter},
		Options: check.Options{StopBoundMs: stopBoundMs, StopMany: sc.Wide},
	}
	for _, c := range sc.Topology.Clusters {
		own := check.Cluster{Name: c.Name, ID: c.Name}
		for n := range c.Nodes {
			own.Nodes = append(own.Nodes, int32(n+1))
		}
		r.Clusters = append(r.Clusters, own)
	}
	for _, t := range sc.Topology.Topics {
		r.Topics = append(r.Topics, check.Topic{Name: t.Name, Partitions: int32(t.Partitions)})
	}
	for _, m := range sc.Topology.Mirrors {
		r.Edges = append(r.Edges, check.Edge{Mirror: m.Name, Source: m.From, Destination: m.To, Topics: m.Topics})
	}
	if !isAlone(sc.Topology) {
		for _, e := range sc.Topology.Episodes() {
			r.Episodes = append(r.Episodes, check.Episode{Number: int32(e.Number), Mirror: e.Mirror.Name, Logs: check.LogsDir, Exercises: sc.exercises(e.Number)})
			strikes := len(sc.nodePlans(e.Number))
			if sc.linkPlan(e.Number) != nil {
				strikes++
			}
			for range strikes {
				r.Faults = append(r.Faults, check.PlannedFault{Episode: int32(e.Number)})
			}
		}
	}
	return r
}

func TestAScenariosOwnPlanAsksAllOfIt(t *testing.T) {
	for _, sc := range Scenarios(Full) {
		run := asPlanned(sc)
		require.Empty(t, Weaker(&run, nil), sc.Name)
	}
}

func TestAPlanThatAsksLessIsTold(t *testing.T) {
	for _, test := range []struct {
		name     string
		scenario string
		spoil    func(*check.Run)
		says     string
	}{
		{"a requirement", "active-passive/no-fault/none", func(r *check.Run) { r.Exercises = without(r.Exercises, "BAR-1") }, "exercises lacks BAR-1"},
		{"of a stop", "failback/no-fault/none", func(r *check.Run) { r.Episodes[1].Exercises = nil }, "episodes[1].exercises lacks LOG-1"},
		{"a stop", "failback/no-fault/none", func(r *check.Run) { r.Episodes = r.Episodes[:1] }, "episodes are 1, not 3"},
		{"whose stop", "fan-out/no-fault/none", func(r *check.Run) { r.Episodes[1].Mirror = r.Episodes[0].Mirror }, "episodes[1].mirror is"},
		{"other logs", "failback/no-fault/none", func(r *check.Run) { r.Episodes[1].Logs = check.EpisodeDir(1) }, "episodes[1].logs are not of its own"},
		{"a stop by others' rules", "active-passive/no-fault/none", func(r *check.Run) { r.Episodes[0].ForeignStop = true }, "episodes[0].foreignStop is set"},
		{"a fault that need not bite", "active-passive/partition/before-truncated", func(r *check.Run) { r.Faults = nil }, "faults lack 1 of its stop"},
		{"a node", "active-passive-on-3/no-fault/none", func(r *check.Run) { r.Clusters[0].Nodes = r.Clusters[0].Nodes[:1] }, "clusters are not those of topology"},
		{"a topic", "active-passive/no-fault/none", func(r *check.Run) { r.Topics = r.Topics[:1] }, "topics are not those of topology"},
		{"a partition", "active-passive/no-fault/none", func(r *check.Run) { r.Topics[0].Partitions = 1 }, "topics are not those of topology"},
		{"gaps", "active-passive/no-fault/none", func(r *check.Run) { r.Topics[0].Compacted = true }, "topics are not those of topology"},
		{"a mirror", "fan-out/no-fault/none", func(r *check.Run) { r.Edges = r.Edges[:1] }, "edges are not those of topology"},
		{"what it can show", "active-passive/no-fault/none", func(r *check.Run) { r.NotApplicable = map[string]string{"BAR-7": "so"} }, "notApplicable names BAR-7"},
		{"floors", "active-passive/no-fault/none", func(r *check.Run) { r.Floors.During = 0 }, "floors are lower"},
		{"a bound", "active-passive/no-fault/none", func(r *check.Run) { r.Options.StopBoundMs = 60_000 }, "options allow more"},
		{"epochs", "active-passive/no-fault/none", func(r *check.Run) { r.Options.AllowLeaderEpochRewrite = true }, "options allow more"},
		{"a profile", "active-passive/profile-latest/crash-before-barrier-appended", func(r *check.Run) { r.Profile = check.ProfileV42 }, "profile is kip1279-v42"},
		{"alone", "single/restart/clean", func(r *check.Run) { r.Exercises = without(r.Exercises, "SC-8") }, "exercises lacks SC-8"},
		{"another version's", "active-passive/no-fault/none", func(r *check.Run) { r.Scenario = "of-tomorrow" }, "this version has no scenario of that name"},
		{"no topology", "active-passive/no-fault/none", func(r *check.Run) { r.Scenario = underPlan + "of-tomorrow" }, "this version has no scenario of that name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := asPlanned(byName()[test.scenario][0])
			test.spoil(&run)
			require.Contains(t, strings.Join(Weaker(&run, nil), "; "), test.says)
		})
	}
}

// The name of a case does not tell its faults, and what those take from it is not missed.
func TestACaseIsKnownByItsTopology(t *testing.T) {
	run := asPlanned(planned(underPlan + "active-passive-on-3")[0])
	require.Empty(t, Weaker(&run, nil))
	run.Exercises = without(run.Exercises, "RO-4")
	run.Episodes[0].Exercises = without(run.Episodes[0].Exercises, "RO-4")
	require.Empty(t, Weaker(&run, nil))
	run.Exercises = without(run.Exercises, "BAR-1")
	require.Equal(t, []string{"exercises lacks BAR-1"}, Weaker(&run, nil))
}

// foundOf is what was found of two brokers without any command.
func foundOf(level string) *Found {
	f := &Found{
		Version: foundVersion, Seed: 7, Asked: level,
		Target: target.Described{Product: "p", Profile: target.Profiles[0], Prefix: "ws-", Level: "L4", Mirroring: &target.DescribedMirroring{Adapter: target.KIP1279}},
	}
	for _, name := range []string{"east", "west"} {
		f.Clusters = append(f.Clusters, FoundCluster{Name: name, ID: name, Brokers: []FoundBroker{{ID: 1, Address: "h:1"}}, Features: map[string]int16{"metadata.version": 29}, Requests: []int16{0, 1}})
		f.Target.Clusters = append(f.Target.Clusters, target.DescribedCluster{Name: name, Bootstrap: []string{"h:1"}})
	}
	return f
}

// held are results of scenarios in which all is held.
func held(scenarios []Scenario) (all []*Result) {
	for _, sc := range scenarios {
		r := &Result{Name: sc.Name}
		for _, id := range sc.Requirements() {
			r.Verdicts = append(r.Verdicts, check.Verdict{Requirement: id, Outcome: check.Held})
		}
		all = append(all, r)
	}
	return all
}

func TestACertificateIsRecounted(t *testing.T) {
	f := foundOf("L1")
	c := Certification{Target: f.Target.Target(), Seed: 7, Level: f.level()}
	play, _, level := c.choose(f.target())
	require.Equal(t, contract.L1, level)
	r := RecountResults(held(play), f)
	require.Empty(t, r.Lacking)
	require.Empty(t, r.Foreign)
	require.Len(t, r.Levels[0], 2)
	require.True(t, r.Levels[0][1].Passed, r.Levels[0][1].Why)
	require.NotNil(t, r.Unplayed)
	shown := func(id string) bool {
		return !slices.ContainsFunc(r.Unplayed.Verdicts, func(v check.Verdict) bool { return v.Requirement == id })
	}
	require.True(t, shown("BAR-1"))
	require.False(t, shown("CH-1"), "a chain takes three clusters")

	r = RecountResults(append(held(play[1:]), &Result{Name: "chain-3/no-fault/none"}), f)
	require.Equal(t, []string{play[0].Name}, r.Lacking)
	require.Equal(t, []string{"chain-3/no-fault/none"}, r.Foreign)
	require.False(t, r.Levels[0][1].Passed)

	f.Chosen = true
	r = RecountResults(held(play[1:]), f)
	require.Empty(t, r.Lacking, "it was not chosen")
	require.False(t, r.Whole)
	require.Empty(t, r.Levels[0])
}

func TestARunIsRecounted(t *testing.T) {
	r := RecountResults(held(Scenarios(Default)), nil)
	require.True(t, r.Whole)
	require.Len(t, r.Levels, 1)
	require.True(t, r.Levels[0][contract.L4].Passed, r.Levels[0][contract.L4].Why)
	r = RecountResults(held(Certifying()), nil)
	require.False(t, r.Whole)
	require.Len(t, r.Levels, 2, "a single cluster may be of another broker")
	require.True(t, r.Levels[1][contract.L0].Passed, r.Levels[1][contract.L0].Why)
}

func TestOnlyWhatABrokerCantPlayIsNotPlayed(t *testing.T) {
	sc := byName()["single/restart/kill-9"][0]
	na := map[string]check.Outcome{}
	for _, id := range sc.Requirements() {
		na[id] = check.NotApplicable
	}
	require.True(t, NotPlayed(sc.Name, na), "kfake can't be killed")
	require.False(t, NotPlayed("single/no-fault/none", na))
	require.False(t, NotPlayed("of-tomorrow", na))
	na["SC-1"] = check.Held
	require.False(t, NotPlayed(sc.Name, na))
	require.False(t, NotPlayed(sc.Name, nil))
}

func TestWhatWasFoundIsReadAgain(t *testing.T) {
	folder := t.TempDir()
	none, err := LoadFound(folder)
	require.NoError(t, err)
	require.Nil(t, none)
	f := foundOf("L1")
	require.NoError(t, f.save(folder))
	again, err := LoadFound(folder)
	require.NoError(t, err)
	require.Equal(t, f, again)
	require.Equal(t, []fixtures.SeenBroker{{ID: 1, Address: "h:1"}}, again.target().Seen()[0].Brokers)
	for says, spoil := range map[string]func(*Found){
		"version 2":                       func(f *Found) { f.Version = 2 },
		"clusters: 1 answered":            func(f *Found) { f.Clusters = f.Clusters[:1] },
		"clusters: 0 answered":            func(f *Found) { f.Clusters, f.Target.Clusters = nil, nil },
		`target.profile "x"`:              func(f *Found) { f.Target.Profile = "x" },
		`target.mirroring.adapter "x"`:    func(f *Found) { f.Target.Mirroring = &target.DescribedMirroring{Adapter: "x"} },
		"target.level":                    func(f *Found) { f.Target.Level = "L9" },
		"asked":                           func(f *Found) { f.Asked = "L9" },
		`clusters[0].name "x": the targe`: func(f *Found) { f.Clusters[0].Name = "x" },
	} {
		f := foundOf("L1")
		spoil(f)
		require.NoError(t, f.save(folder))
		_, err := LoadFound(folder)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, filepath.Join(folder, FoundFile))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, FoundFile), []byte(`{"unheard": 1}`), 0o600))
	_, err = LoadFound(folder)
	require.ErrorContains(t, err, "unheard")
}

func TestFactsSayHowClustersAreReached(t *testing.T) {
	f := foundOf("")
	f.Target.Clusters[0].TLS, f.Target.Clusters[0].SASL = &target.DescribedTLS{Insecure: true}, "PLAIN"
	f.Target.Clusters[1].TLS = &target.DescribedTLS{Client: true}
	require.Equal(t, map[string]string{
		"launcher": "external", "profile": "kip1279-v42", "level": "as far as the target goes, L4 at the most", "adapter": "kip1279", "seed": "7",
		"cluster.east.id": "east", "cluster.east.brokers": "1 at h:1", "cluster.east.features": "metadata.version=29", "cluster.east.requests": "0 1",
		"cluster.east.tls": "on, certificates are not verified", "cluster.east.sasl": "PLAIN",
		"cluster.west.id": "west", "cluster.west.brokers": "1 at h:1", "cluster.west.features": "metadata.version=29", "cluster.west.requests": "0 1",
		"cluster.west.tls": "on, with a certificate of the client's", "cluster.west.sasl": "off",
	}, f.Facts())
	f.Chosen, f.Target.Mirroring = true, nil
	require.Equal(t, "none", f.Facts()["adapter"])
	require.Equal(t, "none: scenarios were chosen", f.Facts()["level"])
}

// On a target names are its own, and the log dump tool is not asked for.
func TestAPlanOnATargetIsHeldToIt(t *testing.T) {
	f := foundOf("L1")
	sc := f.target().fitIn(byName()["active-passive/no-fault/none"][0].In(f.Profile()), f.target().space(3))
	run := asPlanned(sc)
	run.Launcher, run.Floors.During, run.NotApplicable = "external", floorDuringOutside, map[string]string{"BAR-7": "no files", "LOG-4": "leaders alone"}
	require.Empty(t, Weaker(&run, f))
	require.NotEmpty(t, Weaker(&run, nil))
	for i := range run.Topics {
		run.Topics[i].Name = "others-" + topologies.ActivePassive().Topics[i].Name
	}
	require.NotEmpty(t, Weaker(&run, f), "another run's names")
}
