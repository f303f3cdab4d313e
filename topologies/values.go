package topologies

import "fmt"

// All lists every topology, in the order in which they are shown.
func All() []Topology {
	plain := []Topology{
		ActivePassive(), Resumed(), Failback(), FanOut(), FanOutAtOnce(), FanIn(), Chain(3), Chain(4),
	}
	return append(append(plain, Crossings()...), Single())
}

// ledger is what a topology's first cluster writes: two topics with traffic and
// one that stays empty until a promotion.
func ledger(home string) []Topic {
	return []Topic{
		{Name: "orders", Home: home, Partitions: 2},
		{Name: "payments", Home: home, Partitions: 2},
		{Name: "idle", Home: home, Partitions: 1, Empty: true},
	}
}

func names(topics []Topic) []string {
	var all []string
	for _, t := range topics {
		all = append(all, t.Name)
	}
	return all
}

// mirror copies all of the topics; its name is "a-to-b" for A and B.
func mirror(from, to string, topics []Topic) Mirror {
	lower := func(s string) string { return string(s[0] + 'a' - 'A') }
	return Mirror{Name: lower(from) + "-to-" + lower(to), From: from, To: to, Topics: names(topics)}
}

func oneNode(clusters ...string) []Cluster {
	var all []Cluster
	for _, name := range clusters {
		all = append(all, Cluster{Name: name, Nodes: 1})
	}
	return all
}

// open is how every story begins: topics and traffic on one cluster.
func open(cluster string) []Step {
	return []Step{{Do: CreateTopics, Cluster: cluster}, {Do: Write, Cluster: cluster}}
}

// mirrored starts a mirror and waits for it.
func mirrored(m Mirror) []Step {
	return []Step{{Do: StartMirror, Mirror: m.Name}, {Do: CatchUp, Mirror: m.Name}}
}

// promoted stops a mirror and moves the writers to its destination.
func promoted(m Mirror) []Step {
	return []Step{{Do: StopMirror, Mirror: m.Name}, {Do: Promote, Cluster: m.To}, {Do: Write, Cluster: m.To}}
}

// livesOn is what a cluster does that was failed over from and does not know it:
// it elects leaders, and clients write to it.
func livesOn(cluster string) []Step {
	return []Step{{Do: Elect, Cluster: cluster}, {Do: Write, Cluster: cluster}}
}

func story(parts ...[]Step) []Step {
	var all []Step
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// ActivePassive is the plainest failover: A is written and B mirrors it, then
// the mirror is stopped and B is written (AP-1).
func ActivePassive() Topology {
	topics := ledger("A")
	ab := mirror("A", "B", topics)
	return Topology{
		Name: "active-passive", Clusters: oneNode("A", "B"), Mirrors: []Mirror{ab}, Topics: topics,
		Steps: story(open("A"), mirrored(ab), promoted(ab)),
	}
}

// Resumed is a failover that is taken back: B was promoted and written, and
// mirrors A again, which went on as primary. What was written on B is cut, its
// barrier with it, and the producers of A are back (PSM-9).
func Resumed() Topology {
	t := ActivePassive()
	t.Name = "resumed"
	ab := t.Mirrors[0]
	t.Steps = story(open("A"), mirrored(ab), promoted(ab), []Step{{Do: Write, Cluster: "A"}}, mirrored(ab), promoted(ab))
	return t
}

// Failback is A to B, back from B to A, and from A to B again. Before A mirrors
// B it has lived on: it elected the leader epochs that B uses too, and zombies
// wrote to it (FB-1 to FB-4, AL-1).
func Failback() Topology {
	topics := ledger("A")
	ab, ba := mirror("A", "B", topics), mirror("B", "A", topics)
	return Topology{
		Name: "failback", Clusters: oneNode("A", "B"), Mirrors: []Mirror{ab, ba}, Topics: topics,
		Steps: story(
			open("A"), mirrored(ab), promoted(ab),
			livesOn("A"), mirrored(ba), promoted(ba),
			mirrored(ab), promoted(ab),
		),
	}
}

// FanOut is A mirrored by B and by C, which are promoted one after the other
// (FO-1, FO-2).
func FanOut() Topology {
	topics := ledger("A")
	ab, ac := mirror("A", "B", topics), mirror("A", "C", topics)
	return Topology{
		Name: "fan-out", Clusters: oneNode("A", "B", "C"), Mirrors: []Mirror{ab, ac}, Topics: topics,
		Steps: story(open("A"), mirrored(ab), mirrored(ac), promoted(ab), []Step{{Do: CatchUp, Mirror: ac.Name}}, promoted(ac)),
	}
}

// FanOutAtOnce is [FanOut] with both mirrors stopped at the same moment (FO-1).
func FanOutAtOnce() Topology {
	t := FanOut()
	t.Name = "fan-out-at-once"
	ab, ac := t.Mirrors[0], t.Mirrors[1]
	t.Steps = story(open("A"), mirrored(ab), mirrored(ac), []Step{
		{Do: StopMirror, Mirror: ab.Name, Also: []string{ac.Name}},
		{Do: Promote, Cluster: "B"},
		{Do: Promote, Cluster: "C"},
		{Do: Write, Cluster: "B"},
		{Do: Write, Cluster: "C"},
	})
	return t
}

// FanIn is topics of A and other topics of B, all mirrored by C, one mirror
// stopped after the other (FI-1, FI-2).
func FanIn() Topology {
	topics := ledger("A")
	others := []Topic{
		{Name: "trades", Home: "B", Partitions: 2},
		{Name: "refunds", Home: "B", Partitions: 2},
		{Name: "quiet", Home: "B", Partitions: 1, Empty: true},
	}
	ac, bc := mirror("A", "C", topics), mirror("B", "C", others)
	return Topology{
		Name: "fan-in", Clusters: oneNode("A", "B", "C"), Mirrors: []Mirror{ac, bc}, Topics: append(topics, others...),
		Steps: story(open("A"), open("B"), mirrored(ac), mirrored(bc), promoted(ac), []Step{{Do: CatchUp, Mirror: bc.Name}}, promoted(bc)),
	}
}

// Chain is n clusters in a row, A to B to C and on, with a failover at each hop
// in turn (CH-1 to CH-4). There are 2 to 26.
func Chain(n int) Topology {
	topics := ledger("A")
	t := Topology{Name: fmt.Sprintf("chain-%d", n), Topics: topics}
	var clusters []string
	for i := range n {
		clusters = append(clusters, string(rune('A'+i)))
	}
	t.Clusters = oneNode(clusters...)
	// Over it a probe closes the ring (CH-4).
	t.Links = []Link{{From: clusters[n-1], To: "A"}}
	t.Steps = open("A")
	for i := range n - 1 {
		m := mirror(clusters[i], clusters[i+1], topics)
		t.Mirrors = append(t.Mirrors, m)
		t.Steps = append(t.Steps, mirrored(m)...)
	}
	for _, m := range t.Mirrors {
		if m.From != "A" {
			// What its source was promoted to since has come down the chain.
			t.Steps = append(t.Steps, Step{Do: CatchUp, Mirror: m.Name})
		}
		t.Steps = append(t.Steps, promoted(m)...)
	}
	return t
}

// Single is one cluster without any mirror: what a broker has to do before it
// can mirror (SC-1 to SC-8). Each topic is for one kind of client.
func Single() Topology {
	topics := []Topic{
		{Name: "sequences", Home: "A", Partitions: 1},
		{Name: "ledger", Home: "A", Partitions: 1},
		{Name: "markers", Home: "A", Partitions: 1},
		{Name: "late", Home: "A", Partitions: 1},
		{Name: "idle", Home: "A", Partitions: 1, Empty: true},
	}
	return Topology{
		Name: "single", Clusters: oneNode("A"), Topics: topics,
		Steps: open("A"),
	}
}
