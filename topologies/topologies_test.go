package topologies

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryTopologyIsValid(t *testing.T) {
	names := map[string]bool{}
	for _, top := range All() {
		require.NoError(t, top.Validate())
		require.False(t, names[top.Name], "%s is there twice", top.Name)
		names[top.Name] = true
		empty := false
		for _, p := range top.Topics {
			empty = empty || p.Empty
		}
		require.True(t, empty, "%s has no topic that stays empty", top.Name)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*Topology)
	}{
		{"name", "its name must be", func(p *Topology) { p.Name = "Active passive" }},
		{"no cluster", "it has no cluster", func(p *Topology) { p.Clusters = nil }},
		{"cluster name", `cluster name "A/1"`, func(p *Topology) { p.Clusters[0].Name = "A/1" }},
		{"twin clusters", `cluster "A" is there twice`, func(p *Topology) { p.Clusters[1].Name = "A" }},
		{"no nodes", `cluster "B" has 0 nodes`, func(p *Topology) { p.Clusters[1].Nodes = 0 }},
		{"topic name", `topic name ".."`, func(p *Topology) { p.Topics[0].Name = ".." }},
		{"twin topics", `topic "orders" is there twice`, func(p *Topology) { p.Topics[1].Name = "orders" }},
		{"homeless topic", `home on cluster "C"`, func(p *Topology) { p.Topics[0].Home = "C" }},
		{"no partitions", `topic "orders" has 0 partitions`, func(p *Topology) { p.Topics[0].Partitions = 0 }},
		{"mirror name", `mirror name "A to B"`, func(p *Topology) { p.Mirrors[0].Name = "A to B" }},
		{"twin mirrors", `mirror "a-to-b" is there twice`, func(p *Topology) { p.Mirrors = append(p.Mirrors, p.Mirrors[0]) }},
		{"twin links", "two mirrors go over the link A->B", func(p *Topology) {
			p.Mirrors = append(p.Mirrors, Mirror{Name: "other", From: "A", To: "B", Topics: []string{"idle"}})
		}},
		{"two sources", `topic "idle" comes to cluster "B" by mirror "a-to-b"`, func(p *Topology) {
			p.Clusters = append(p.Clusters, Cluster{Name: "C", Nodes: 1})
			p.Mirrors = append(p.Mirrors, Mirror{Name: "c-to-b", From: "C", To: "B", Topics: []string{"idle"}})
			p.Steps = slices.Insert(p.Steps, 4, Step{Do: StartMirror, Mirror: "c-to-b"})
		}},
		{"mirror to nowhere", `names cluster "C"`, func(p *Topology) { p.Mirrors[0].To = "C" }},
		{"mirror to itself", "to itself", func(p *Topology) { p.Mirrors[0].To = "A" }},
		{"mirror of nothing", `mirror "a-to-b" has no topic`, func(p *Topology) { p.Mirrors[0].Topics = nil }},
		{"unknown topic", `names topic "rumours"`, func(p *Topology) { p.Mirrors[0].Topics[0] = "rumours" }},
		{"step without cluster", "step 2 (write ) must name a cluster", func(p *Topology) { p.Steps[1].Cluster = "" }},
		{"step without mirror", "step 3 (start-mirror ) must name a mirror", func(p *Topology) { p.Steps[2].Mirror = "" }},
		{"unknown action", `unknown action "dance"`, func(p *Topology) { p.Steps[0].Do = "dance" }},
		{"started twice", "the mirror runs already", func(p *Topology) { p.Steps[3].Do = StartMirror }},
		{"stopped twice", `mirror "a-to-b" does not run`, func(p *Topology) {
			p.Steps = append(p.Steps, Step{Do: StopMirror, Mirror: "a-to-b"})
		}},
		{"also what does not exist", `names mirror "b-to-c"`, func(p *Topology) { p.Steps[4].Also = []string{"b-to-c"} }},
		{"also the same", `mirror "a-to-b" does not run`, func(p *Topology) { p.Steps[4].Also = []string{"a-to-b"} }},
		{"also at another step", "only a stop takes further mirrors", func(p *Topology) { p.Steps[3].Also = []string{"a-to-b"} }},
		{"caught up after its stop", "the mirror does not run", func(p *Topology) {
			p.Steps = append(p.Steps, Step{Do: CatchUp, Mirror: "a-to-b"})
		}},
		{"promoted without a stop", "no mirror into the cluster was stopped before", func(p *Topology) {
			p.Steps = append(p.Steps, Step{Do: Promote, Cluster: "A"})
		}},
		{"promoted twice", "no mirror into the cluster was stopped before", func(p *Topology) {
			p.Steps = append(p.Steps, Step{Do: Promote, Cluster: "B"})
		}},
		{"mirrored before created", `topic "orders" was not created before`, func(p *Topology) { p.Steps = p.Steps[1:] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := ActivePassive()
			c.change(&top)
			require.ErrorContains(t, top.Validate(), c.want)
		})
	}
}

func TestPicture(t *testing.T) {
	require.Equal(t, `active-passive

  A (1 node)  --a-to-b-->  B (1 node)  orders, payments, idle

  topics: orders (2 on A), payments (2 on A), idle (1 on A, empty)

  1. create-topics A
  2. write A
  3. start-mirror a-to-b
  4. catch-up a-to-b
  5. stop-mirror a-to-b
  6. promote B
  7. write B
`, ActivePassive().Picture())
	wide := Topology{
		Name:     "wide",
		Clusters: []Cluster{{"A", 3}, {"B", 1}, {"C", 1}, {"D", 1}},
		Mirrors:  []Mirror{{"a-to-b", "A", "B", []string{"t"}}, {"c", "A", "C", []string{"t"}}},
	}
	require.Equal(t, `wide

  A (3 nodes)  --a-to-b-->  B (1 node)   t
  A (3 nodes)  --c------->  C (1 node)   t
  D (1 node)
`, wide.Picture())
}

func TestEpisodesAreTheStopsInTheirOrder(t *testing.T) {
	got := map[string][]string{}
	for _, top := range All() {
		for _, e := range top.Episodes() {
			require.Equal(t, StartMirror, top.Steps[e.Start].Do, "%s %s", top.Name, e)
			require.Equal(t, e.Mirror.Name, top.Steps[e.Start].Mirror)
			require.Less(t, e.Start, e.Stop)
			require.Less(t, e.Stop, e.Promote, "%s %s is never promoted", top.Name, e)
			require.Equal(t, e.Mirror.To, top.Steps[e.Promote].Cluster)
			got[top.Name] = append(got[top.Name], e.String())
		}
	}
	require.Equal(t, map[string][]string{
		"active-passive":  {"1-a-to-b"},
		"resumed":         {"1-a-to-b", "2-a-to-b"},
		"failback":        {"1-a-to-b", "2-b-to-a", "3-a-to-b"},
		"fan-out":         {"1-a-to-b", "2-a-to-c"},
		"fan-out-at-once": {"1-a-to-b", "2-a-to-c"},
		"fan-in":          {"1-a-to-c", "2-b-to-c"},
		"chain-3":         {"1-a-to-b", "2-b-to-c"},
		"chain-4":         {"1-a-to-b", "2-b-to-c", "3-c-to-d"},
		"repointed":       {"1-a-to-b", "2-a-to-c", "3-b-to-c"},
		"bypassed":        {"1-a-to-b", "2-b-to-c", "3-a-to-c"},
		"fanned-back":     {"1-a-to-b", "2-b-to-a", "3-a-to-c"},
	}, got)
}

func TestATopologyOnSeveralNodes(t *testing.T) {
	one := ActivePassive()
	three := one.On(3)
	require.NoError(t, three.Validate())
	require.Equal(t, []Cluster{{Name: "A", Nodes: 3}, {Name: "B", Nodes: 3}}, three.Clusters)
	require.Equal(t, []Cluster{{Name: "A", Nodes: 1}, {Name: "B", Nodes: 1}}, one.Clusters, "the other is left alone")
	for nodes, want := range map[int][2]int{1: {1, 1}, 2: {2, 1}, 3: {3, 2}, 5: {3, 2}} {
		c := Cluster{Name: "A", Nodes: nodes}
		require.Equal(t, want, [2]int{c.Replicas(), c.MinInSync()}, nodes)
	}
}
