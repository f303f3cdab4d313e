package topologies

// Crossings of the plain topologies that users have: a failover is seldom the
// only thing that happens.

// Crossings lists them.
func Crossings() []Topology { return []Topology{Repointed(), Bypassed(), FannedBack()} }

// Repointed is A mirrored by B and by C, both promoted; then C is made a mirror
// of B, whose log parted from its own when A was the source of both (AL-1).
func Repointed() Topology {
	topics := ledger("A")
	ab, ac, bc := mirror("A", "B", topics), mirror("A", "C", topics), mirror("B", "C", topics)
	return Topology{
		Name: "repointed", Clusters: oneNode("A", "B", "C"), Mirrors: []Mirror{ab, ac, bc}, Topics: topics,
		Steps: story(
			open("A"), mirrored(ab), mirrored(ac), promoted(ab), promoted(ac),
			mirrored(bc), promoted(bc),
		),
	}
}

// Bypassed is a chain of A, B and C whose middle drops out once B was promoted:
// C is promoted, and mirrors A itself, which went on. Of B it keeps nothing.
func Bypassed() Topology {
	topics := ledger("A")
	ab, bc, ac := mirror("A", "B", topics), mirror("B", "C", topics), mirror("A", "C", topics)
	return Topology{
		Name: "bypassed", Clusters: oneNode("A", "B", "C"), Mirrors: []Mirror{ab, bc, ac}, Topics: topics,
		Steps: story(
			open("A"), mirrored(ab), mirrored(bc), promoted(ab),
			[]Step{{Do: CatchUp, Mirror: bc.Name}}, promoted(bc),
			[]Step{{Do: Write, Cluster: "A"}}, mirrored(ac), promoted(ac),
		),
	}
}

// FannedBack is a fan-out whose source fails back: A is mirrored by B and by C, B
// is promoted, and A, which has lived on, mirrors B and is promoted again, while C
// mirrors A all the time. What A cuts, C gives up (CH-3): it is the end of a chain
// meanwhile.
func FannedBack() Topology {
	topics := ledger("A")
	ab, ac, ba := mirror("A", "B", topics), mirror("A", "C", topics), mirror("B", "A", topics)
	caughtUp := []Step{{Do: CatchUp, Mirror: ac.Name}}
	return Topology{
		Name: "fanned-back", Clusters: oneNode("A", "B", "C"), Mirrors: []Mirror{ab, ac, ba}, Topics: topics,
		Steps: story(
			open("A"), mirrored(ab), mirrored(ac), promoted(ab),
			livesOn("A"), mirrored(ba), caughtUp, promoted(ba),
			caughtUp, promoted(ac),
		),
	}
}
