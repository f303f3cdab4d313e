// Package topologies holds the shapes in which clusters mirror one another, as
// values: which clusters there are, which mirrors join them, which topics they
// carry, and the steps of the failover story that is told on them. Nothing
// here does any I/O; package fixtures makes a topology real.
//
// A new topology is one more function that returns a [Topology], listed in
// [All]; see [ActivePassive], and docs/topologies.md for how to write one.
package topologies

import (
	"slices"
	"strconv"
	"strings"
)

// Topology is clusters, the mirrors between them, the topics, and a story.
type Topology struct {
	// Name is part of test names: "active-passive".
	Name     string
	Clusters []Cluster
	Mirrors  []Mirror
	// Links are ways between clusters that no mirror of the story takes: what a
	// probe tries goes over them.
	Links  []Link
	Topics []Topic
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

// maxReplicas is how many replicas a partition has where there are as many nodes.
const maxReplicas = 3

// Replicas is the replication factor of the cluster's topics.
func (c Cluster) Replicas() int { return min(c.Nodes, maxReplicas) }

// MinInSync is min.insync.replicas of the cluster's topics: one replica may be
// lost, and writes go on.
func (c Cluster) MinInSync() int { return max(1, c.Replicas()-1) }

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

// Link is a way by which one cluster's nodes reach another's. From and To are as
// a [Mirror]'s: To dials.
type Link struct{ From, To string }

// Name is "A->B", as a mirror's between these clusters would be.
func (l Link) Name() string { return Mirror{From: l.From, To: l.To}.Link() }

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
	// Promote moves the writers to the step's cluster: the topics of the mirror
	// into it that was stopped last are STOPPED and writable now.
	Promote Action = "promote"
	// Elect gives every partition of the step's cluster a new leader epoch, as
	// an election does. Clusters elect on their own: both sides of a failover
	// come to use the same epochs for different records (AL-1).
	Elect Action = "elect"
)

// Step is one step of the story. Of Cluster and Mirror the one is set that the
// action is about.
type Step struct {
	Do      Action
	Cluster string
	Mirror  string
	// Also are mirrors that a [StopMirror] step stops at the same moment.
	Also []string
}

func (s Step) String() string {
	return strings.Join(append([]string{string(s.Do) + " " + s.Cluster + s.Mirror}, s.Also...), " and ")
}

// Episode is one stop of one mirror, from the mirror's start to the traffic on
// the cluster that was promoted by it. What a run proves, it proves episode by
// episode.
type Episode struct {
	// Number counts the episodes of a topology from 1, in the order of their
	// stops.
	Number int
	Mirror Mirror
	// Start, Stop and Promote are the places of its steps in [Topology.Steps];
	// Promote is -1 where nobody writes to the destination afterwards.
	Start, Stop, Promote int
}

// String is the episode's name: "2-b-to-a".
func (e Episode) String() string { return strconv.Itoa(e.Number) + "-" + e.Mirror.Name }

// Episodes lists the episodes of the topology's story.
func (t Topology) Episodes() []Episode {
	var all []Episode
	started := map[string]int{}
	for i, s := range t.Steps {
		switch s.Do {
		case StartMirror:
			started[s.Mirror] = i
		case StopMirror:
			for _, name := range append([]string{s.Mirror}, s.Also...) {
				if m, ok := t.Mirror(name); ok {
					all = append(all, Episode{Number: len(all) + 1, Mirror: m, Start: started[name], Stop: i, Promote: -1})
				}
			}
		case Promote:
			// The last stop into the cluster that was not followed by one yet.
			for k := len(all) - 1; k >= 0; k-- {
				if all[k].Mirror.To == s.Cluster && all[k].Promote < 0 {
					all[k].Promote = i
					break
				}
			}
		}
	}
	return all
}

// On returns the topology with so many nodes in each of its clusters.
func (t Topology) On(nodes int) Topology {
	t.Clusters = slices.Clone(t.Clusters)
	for i := range t.Clusters {
		t.Clusters[i].Nodes = nodes
	}
	return t
}

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
