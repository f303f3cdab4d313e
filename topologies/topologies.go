// Package topologies holds the shapes in which clusters mirror one another, as
// values: which clusters there are, which mirrors join them, which topics they
// carry, and the steps of the failover story that is told on them. Nothing
// here does any I/O; package fixtures makes a topology real.
//
// A new topology is one more function that returns a [Topology]; see
// [ActivePassive].
package topologies

// Topology is clusters, the mirrors between them, the topics, and a story.
type Topology struct {
	// Name is part of test names: "active-passive".
	Name     string
	Clusters []Cluster
	Mirrors  []Mirror
	Topics   []Topic
	// Steps are the failover story, in order.
	Steps []Step
}

// Cluster is one Kafka cluster.
type Cluster struct {
	// Name is short, since it stands in names of links and folders: "A".
	Name string
	// Nodes is how many brokers it has; they are numbered from 1.
	Nodes int
}

// Mirror copies topics from one cluster to another. From and To name the pair:
// a topology has at most one mirror for each.
type Mirror struct {
	// Name is the mirror's name on the destination, where it is created.
	Name string
	// From is the source cluster, To the destination.
	From, To string
	// Topics are names of [Topology.Topics].
	Topics []string
}

// Link is the name of the network link that the mirror's fetchers use: "A->B",
// in the direction in which records flow.
func (m Mirror) Link() string { return m.From + "->" + m.To }

// Topic is a topic, created on the cluster where its records are first written.
type Topic struct {
	Name string
	// Home is that cluster.
	Home string
	// Partitions is at least 1.
	Partitions int
	// Empty topics get no traffic before the first promotion: an empty
	// partition needs its barrier too (BAR-1).
	Empty bool
}

// Action is what a step of the story does.
type Action string

// The actions.
const (
	// CreateTopics creates the topics whose home is the step's cluster.
	CreateTopics Action = "create-topics"
	// Write lets the traffic run on the step's cluster.
	Write Action = "write"
	// StartMirror creates the step's mirror and starts all its topics.
	StartMirror Action = "start-mirror"
	// CatchUp waits until the step's mirror has no lag.
	CatchUp Action = "catch-up"
	// StopMirror stops the step's mirror; faults strike in this step.
	StopMirror Action = "stop-mirror"
	// Promote moves the writers to the step's cluster, whose topics are
	// STOPPED and writable now.
	Promote Action = "promote"
)

// Step is one step of the story. Of Cluster and Mirror the one is set that the
// action is about.
type Step struct {
	Do      Action
	Cluster string
	Mirror  string
}

func (s Step) String() string { return string(s.Do) + " " + s.Cluster + s.Mirror }

// Cluster returns the cluster of that name.
func (t Topology) Cluster(name string) (Cluster, bool) {
	for _, c := range t.Clusters {
		if c.Name == name {
			return c, true
		}
	}
	return Cluster{}, false
}

// Mirror returns the mirror of that name.
func (t Topology) Mirror(name string) (Mirror, bool) {
	for _, m := range t.Mirrors {
		if m.Name == name {
			return m, true
		}
	}
	return Mirror{}, false
}

// Topic returns the topic of that name.
func (t Topology) Topic(name string) (Topic, bool) {
	for _, p := range t.Topics {
		if p.Name == name {
			return p, true
		}
	}
	return Topic{}, false
}

// Into lists the mirrors whose destination is the cluster.
func (t Topology) Into(cluster string) []Mirror {
	var in []Mirror
	for _, m := range t.Mirrors {
		if m.To == cluster {
			in = append(in, m)
		}
	}
	return in
}

// OutOf lists the mirrors whose source is the cluster: each has a listener of
// its own there.
func (t Topology) OutOf(cluster string) []Mirror {
	var out []Mirror
	for _, m := range t.Mirrors {
		if m.From == cluster {
			out = append(out, m)
		}
	}
	return out
}

// ActivePassive is the plainest failover: A is written and B mirrors it, then
// the mirror is stopped and B is written (AP-1).
func ActivePassive() Topology {
	return Topology{
		Name:     "active-passive",
		Clusters: []Cluster{{Name: "A", Nodes: 1}, {Name: "B", Nodes: 1}},
		Mirrors: []Mirror{
			{Name: "a-to-b", From: "A", To: "B", Topics: []string{"orders", "payments", "idle"}},
		},
		Topics: []Topic{
			{Name: "orders", Home: "A", Partitions: 2},
			{Name: "payments", Home: "A", Partitions: 2},
			{Name: "idle", Home: "A", Partitions: 1, Empty: true},
		},
		Steps: []Step{
			{Do: CreateTopics, Cluster: "A"},
			{Do: Write, Cluster: "A"},
			{Do: StartMirror, Mirror: "a-to-b"},
			{Do: CatchUp, Mirror: "a-to-b"},
			{Do: StopMirror, Mirror: "a-to-b"},
			{Do: Promote, Cluster: "B"},
			{Do: Write, Cluster: "B"},
		},
	}
}

// All lists every topology, in the order in which they are shown.
func All() []Topology { return []Topology{ActivePassive()} }
