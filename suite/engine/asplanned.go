package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"watershed.example/fixtures"
	"watershed.example/suite/check"
	"watershed.example/topologies"
)

// A run is judged by its own plan, so what that leaves out is not asked of it. Here it is
// held to the scenario of its name.

// byName are all scenarios that this version plays, by their names: some have the same.
var byName = sync.OnceValue(func() map[string][]Scenario {
	all := map[string][]Scenario{}
	for _, sc := range slices.Concat(matrix(), Outside(), ScenariosOf(FaultMatrix()), KafkaSources()) {
		all[sc.Name] = append(all[sc.Name], sc)
	}
	return all
})

// Knows says whether this version has a scenario of the name.
func Knows(scenario string) bool { return len(byName()[scenario]) > 0 || len(planned(scenario)) > 0 }

// planned is the scenario of a name that cases have, without the faults, which its name
// does not tell.
func planned(name string) []Scenario {
	of, ok := strings.CutPrefix(name, underPlan)
	if !ok {
		return nil
	}
	c := Case{Nodes: 1}
	if c.Topology, ok = strings.CutSuffix(of, "-on-3"); ok {
		c.Nodes = several
	}
	sc, err := c.Scenario()
	if err != nil {
		return nil
	}
	return []Scenario{sc}
}

// Weaker says what a run's plan asks less than the scenario of its name does here, on a
// target that was found so, or on clusters of its own where that is nil. A name that this
// version does not know is one of it.
func Weaker(run *check.Run, found *Found) []string {
	candidates := byName()[run.Scenario]
	if len(candidates) == 0 {
		candidates = planned(run.Scenario)
	}
	if len(candidates) == 0 {
		return []string{"this version has no scenario of that name, so what it was to exercise is not known"}
	}
	if isAlone(candidates[0].Topology) && found == nil {
		candidates = append(candidates, ofBrokers(candidates)...)
	}
	var least []string
	for i, sc := range candidates {
		less := sc.fitted(run, found).weaker(run, found != nil)
		if i == 0 || len(less) < len(least) {
			least = less
		}
	}
	return least
}

// ofBrokers are the scenarios with what other brokers than the reference broker can do of
// them: which of them it was, no plan tells.
func ofBrokers(scenarios []Scenario) (all []Scenario) {
	for _, b := range brokers {
		for _, sc := range scenarios {
			if able, na := sc.able(b.cannot(sc)); na == "" && len(able.left) > 0 {
				all = append(all, able)
			}
		}
	}
	return all
}

// brokers are one of each kind that can be certified.
var brokers = []*Broker{{Kafka: &fixtures.Apache{}}, {Kfake: &fixtures.Kfake{}}, {Redpanda: &fixtures.Redpanda{}}}

// fitted gives a scenario the nodes, the profile and the names that it had in a run.
func (s Scenario) fitted(run *check.Run, found *Found) Scenario {
	if found != nil {
		s = s.On(0).In(found.Profile())
		space := ""
		if len(run.Topics) > 0 && len(s.Topology.Topics) > 0 {
			space, _ = strings.CutSuffix(run.Topics[0].Name, s.Topology.Topics[0].Name)
		}
		t := found.target()
		if !strings.HasPrefix(space, strings.TrimSuffix(t.space(0), "0-")) {
			space = t.space(0) // whose names are then not the run's
		}
		return t.fitIn(s, space)
	}
	nodes := nodesIn(run)
	if nodes == s.Topology.Clusters[0].Nodes {
		nodes = 0
	}
	return s.On(nodes).In(run.Profile)
}

// nodesIn is how many nodes each cluster of a run has, 0 where that differs.
func nodesIn(run *check.Run) int {
	nodes := 0
	for i, c := range run.Clusters {
		if i > 0 && len(c.Nodes) != nodes {
			return 0
		}
		nodes = len(c.Nodes)
	}
	return nodes
}

// weaker says what of the scenario, as it was played, a plan does not ask.
func (s Scenario) weaker(run *check.Run, outside bool) []string {
	var less []string
	say := func(format string, args ...any) { less = append(less, fmt.Sprintf(format, args...)) }
	unfaulted := strings.HasPrefix(s.Name, underPlan)
	lacks := func(key string, want, got []string) {
		want = slices.DeleteFunc(slices.Clone(want), func(id string) bool {
			// These a fault may take from a case.
			return slices.Contains(got, id) || unfaulted && (id == "RO-4" || id == "GRP-1")
		})
		if len(want) > 0 {
			say("%s lacks %s", key, strings.Join(want, ", "))
		}
	}
	lacks("exercises", s.Requirements(), run.Exercises)
	if run.Profile != s.Profile {
		say("profile is %s, not %s", run.Profile, s.Profile)
	}
	clusters := s.Topology.Clusters
	if !slices.EqualFunc(run.Clusters, clusters, func(a check.Cluster, b topologies.Cluster) bool { return a.Name == b.Name && len(a.Nodes) == b.Nodes }) {
		say("clusters are not those of topology %s", s.Topology.Name)
	}
	if !slices.EqualFunc(run.Topics, s.Topology.Topics, func(a check.Topic, b topologies.Topic) bool {
		return a.Name == b.Name && int(a.Partitions) == b.Partitions && !a.Compacted && (b.Empty || len(a.Empty) == 0)
	}) {
		say("topics are not those of topology %s", s.Topology.Name)
	}
	if !slices.EqualFunc(run.Edges, s.Topology.Mirrors, func(a check.Edge, b topologies.Mirror) bool {
		return a.Mirror == b.Name && a.Source == b.From && a.Destination == b.To && slices.Equal(a.Topics, b.Topics)
	}) {
		say("edges are not those of topology %s", s.Topology.Name)
	}
	s.weakerEpisodes(run, lacks, say)
	for id := range run.NotApplicable {
		if !outside || id != "BAR-7" && id != "LOG-4" {
			say("notApplicable names %s, which it can show", id)
		}
	}
	during := floorDuring
	if outside {
		during = floorDuringOutside
	}
	if f := run.Floors; f.Before < floorBefore || f.During < during || f.After < floorAfter {
		say("floors are lower")
	}
	if o := run.Options; o.AllowLeaderEpochRewrite || o.StopBoundMs <= 0 || o.StopBoundMs > stopBoundMs || o.StopMany < s.Wide {
		say("options allow more")
	}
	slices.Sort(less)
	return less
}

// weakerEpisodes says what the plan's stops ask less, and which fault need not bite.
func (s Scenario) weakerEpisodes(run *check.Run, lacks func(string, []string, []string), say func(string, ...any)) {
	if isAlone(s.Topology) {
		return
	}
	episodes := s.Topology.Episodes()
	if len(run.Episodes) != len(episodes) {
		say("episodes are %d, not %d", len(run.Episodes), len(episodes))
		return
	}
	for i, e := range episodes {
		got, key := run.Episodes[i], fmt.Sprintf("episodes[%d]", i)
		lacks(key+".exercises", inOrder(s.exercises(e.Number)), got.Exercises)
		if got.Mirror != e.Mirror.Name {
			say("%s.mirror is %s, not %s", key, got.Mirror, e.Mirror.Name)
		}
		if logs := filepath.Clean(got.Logs); logs != check.LogsDir && logs != check.EpisodeDir(int32(e.Number)) {
			say("%s.logs are not of its own", key)
		}
		if got.ForeignStop && !(s.ForeignStop && e.Number == s.strikes()) {
			say("%s.foreignStop is set", key)
		}
		want := len(s.nodePlans(e.Number))
		if s.linkPlan(e.Number) != nil {
			want++
		}
		if s.Amid.strikesNodes() && e.Number == s.strikes() {
			want++
		}
		for _, f := range run.Faults {
			if int(f.Episode) == e.Number {
				want--
			}
		}
		if want > 0 {
			say("faults lack %d of its stop", want)
		}
	}
}
