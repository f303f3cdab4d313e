package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/suite/history"
	"watershed.example/topologies"
)

// mostFaults is how many faults a mutant has at the most: a run under many says little of
// any one of them, and shrinking takes longer than finding.
const mostFaults = 3

// mutant makes another case of one, by one to three changes in a row, each of which may
// take a part of a second case. False for what can't be played.
func mutant(r *rand.Rand, c, with Case) (Case, bool) {
	for range 1 + r.IntN(3) {
		c = changes[r.IntN(len(changes))](r, c, with)
	}
	if !c.provable() {
		return c, false
	}
	_, err := c.Scenario()
	return c, err == nil
}

// changes are the operators, those more often that lead farther: one fault by itself at
// any place is what the matrix plays, several at once is what only a search does.
var changes = []func(r *rand.Rand, c, with Case) Case{
	otherFault, otherFault, otherPoint, otherPoint, otherSide, otherTarget, otherTarget,
	otherAmount, otherHealing, otherStop, moreFaults, moreFaults, moreFaults, spliced, spliced, spliced, spliced, fewerFaults, otherTopology, otherNodes, otherSeed,
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// one changes one fault of the case, if it has one.
func (c Case) one(r *rand.Rand, link func(*chaos.Plan), node func(*chaos.NodePlan)) Case {
	list := c.list()
	if len(list) == 0 {
		return c
	}
	at := r.IntN(len(list))
	if f := list[at]; f.link != nil {
		p := *f.link
		link(&p)
		list[at] = oneFault{link: &p}
	} else {
		p := *f.node
		node(&p)
		p.UntilStopped = p.UntilStopped && !p.Act.Passing() && !p.Act.AtOnce()
		list[at] = oneFault{node: &p}
	}
	return c.with(list)
}

func otherFault(r *rand.Rand, c, _ Case) Case {
	return c.one(r, func(p *chaos.Plan) {
		*p = chaos.Plan{Kind: pick(r, chaos.AllKinds()), Link: p.Link, Point: p.Point, When: p.When}
	}, func(p *chaos.NodePlan) {
		p.Act, p.Delay, p.Rate = pick(r, chaos.AllActs()), 0, 0
		p.Target = targetOf(r, c, p.Act, p.Target.Role, p.Target.Cluster)
	})
}

func otherPoint(r *rand.Rand, c, _ Case) Case {
	return c.one(r, func(p *chaos.Plan) { p.Point = pick(r, c.allPoints()) }, func(p *chaos.NodePlan) {
		p.Point = pick(r, append(c.allPoints(), chaos.FirstWrite))
	})
}

// otherSide goes to the other side of the same step.
func otherSide(r *rand.Rand, c, _ Case) Case {
	turn := func(point string) string {
		side, step, ok := strings.Cut(point, ":")
		switch {
		case !ok: // first-write
			return point
		case side == "before":
			return "after:" + step
		}
		return "before:" + step
	}
	return c.one(r, func(p *chaos.Plan) { p.Point = turn(p.Point) }, func(p *chaos.NodePlan) { p.Point = turn(p.Point) })
}

// otherTarget strikes another link, or another role, cluster or partition.
func otherTarget(r *rand.Rand, c, _ Case) Case {
	t := c.topology()
	return c.one(r, func(p *chaos.Plan) { p.Link = pick(r, t.Mirrors).Link() }, func(p *chaos.NodePlan) {
		p.Target = targetOf(r, c, p.Act, pick(r, chaos.Roles()), pick(r, t.Clusters).Name)
	})
}

func otherAmount(r *rand.Rand, c, _ Case) Case {
	return c.one(r, func(p *chaos.Plan) {
		switch p.Kind {
		case chaos.Latency:
			p.Delay, p.Jitter, p.Seed = upTo(r, time.Second), upTo(r, 200*time.Millisecond), r.Uint64()
		case chaos.Bandwidth:
			p.Rate = rate(r)
		}
	}, func(p *chaos.NodePlan) {
		switch p.Act {
		case chaos.DelayPeers, chaos.SlowSync:
			p.Delay = upTo(r, 500*time.Millisecond)
		case chaos.SlowClose:
			p.Delay = upTo(r, 2*time.Second)
		case chaos.SlowPeers:
			p.Rate = rate(r)
		case chaos.ClockSkew:
			p.Delay = upTo(r, 48*time.Hour) - 24*time.Hour
		}
	})
}

// upTo draws a time in whole milliseconds, above zero.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(1+r.Int64N(most.Milliseconds())) * time.Millisecond
}

// rate draws bytes a second, which a response with records takes a second for at the most.
func rate(r *rand.Rand) int64 { return 10_000 << r.IntN(6) }

func otherHealing(r *rand.Rand, c, _ Case) Case {
	return c.one(r, func(p *chaos.Plan) { p.UntilStopped = !p.UntilStopped }, func(p *chaos.NodePlan) { p.UntilStopped = !p.UntilStopped })
}

func otherStop(r *rand.Rand, c, _ Case) Case {
	stop := r.IntN(1 + len(c.topology().Episodes()))
	return c.one(r, func(p *chaos.Plan) { p.Stop = stop }, func(p *chaos.NodePlan) { p.Stop = stop })
}

// moreFaults adds a fault of any kind.
func moreFaults(r *rand.Rand, c, _ Case) Case {
	t := c.topology()
	when := chaos.When{UntilStopped: r.IntN(2) == 0}
	if more := len(t.Episodes()); more > 1 {
		when.Stop = r.IntN(1 + more)
	}
	if c.Nodes < several || r.IntN(2) == 0 {
		return c.with(append(c.list(), oneFault{link: &chaos.Plan{
			Kind: pick(r, chaos.AllKinds()), Link: pick(r, t.Mirrors).Link(), Point: pick(r, c.allPoints()), When: when,
		}}))
	}
	p := chaos.NodePlan{Act: pick(r, chaos.AllActs()), Point: pick(r, c.allPoints()), When: when}
	p.UntilStopped = p.UntilStopped && !p.Act.Passing() && !p.Act.AtOnce()
	p.Target = targetOf(r, c, p.Act, pick(r, chaos.Roles()), pick(r, t.Clusters).Name)
	return c.with(append(c.list(), oneFault{node: &p}))
}

// spliced takes a fault of another case along.
func spliced(r *rand.Rand, c, with Case) Case {
	if more := with.list(); len(more) > 0 {
		return c.with(append(c.list(), pick(r, more)))
	}
	return c
}

func fewerFaults(r *rand.Rand, c, _ Case) Case {
	list := c.list()
	if len(list) < 2 {
		return c
	}
	at := r.IntN(len(list))
	return c.with(slices.Delete(list, at, at+1))
}

func otherTopology(r *rand.Rand, c, _ Case) Case {
	c.Topology = pick(r, Planned())
	return c
}

func otherNodes(_ *rand.Rand, c, _ Case) Case {
	if c.Nodes == several {
		c.Nodes = 1
	} else {
		c.Nodes = several
	}
	return c
}

func otherSeed(r *rand.Rand, c, _ Case) Case {
	c.Seed = r.Uint64()
	return c
}

// topology is only to be looked at: it is everybody's.
func (c Case) topology() topologies.Topology {
	all := allTopologies()
	return all[max(0, slices.IndexFunc(all, func(t topologies.Topology) bool { return t.Name == c.Topology }))]
}

// allTopologies are made once: a search looks at them again and again.
var allTopologies = sync.OnceValue(topologies.All)

// allPoints are those that stops have in the case's profile.
func (c Case) allPoints() []string {
	if c.Profile == check.ProfileLatest {
		return chaos.AllPoints()
	}
	return chaos.Points()
}

// targetOf is a target of a role on a cluster: one of the partitions, or what the matrix
// of faults strikes.
func targetOf(r *rand.Rand, c Case, act chaos.Act, role chaos.Role, cluster string) chaos.Target {
	if act == chaos.HoldOneEndTxn {
		return chaos.Target{Role: chaos.Coordinator, Cluster: cluster, Of: liveTxn}
	}
	switch role {
	case chaos.Controller:
		return chaos.Target{Role: role, Cluster: cluster}
	case chaos.Coordinator:
		return chaos.Target{Role: role, Cluster: cluster, Of: "anybody"}
	}
	var all []string
	for _, topic := range c.topology().Topics {
		for p := range topic.Partitions {
			if !topic.Empty {
				all = append(all, history.Place(topic.Name, int32(p)))
			}
		}
	}
	return chaos.Target{Role: role, Cluster: cluster, Of: pick(r, all)}
}

// provable says whether the faults can be seen to bite, as the matrix of faults asks it,
// and leave each cluster a majority: with two of three nodes away a stop can't end, which
// proves nothing.
func (c Case) provable() bool {
	if c.Faults.Count() > mostFaults {
		return false
	}
	t := c.topology()
	away := map[string]map[int]bool{}
	for _, p := range c.Faults.Nodes {
		if p.Point == chaos.FirstWrite {
			if !slices.Contains(chaos.Acts(), p.Act) || p.Act == chaos.Strand || p.Target.Role == chaos.Source {
				return false // as nobody strikes then
			}
		} else if !strikes(p.Act, p.Target.Role, p.Point) {
			return false
		}
		cluster, stop := p.Target.Cluster, stopOfNode(t, p)
		if p.Act == chaos.HoldOneEndTxn && (stop == 0 || t.Episodes()[stop-1].Mirror.From != cluster) {
			return false // of a transaction on the source of that stop
		}
		if !takesAway(p.Act) {
			continue
		}
		if away[cluster] == nil {
			away[cluster] = map[int]bool{}
		}
		if away[cluster][stop] {
			return false
		}
		away[cluster][stop] = true
	}
	return true
}

// takesAway says whether a node that is struck so is missing to its cluster for a while.
func takesAway(a chaos.Act) bool {
	switch a {
	case chaos.DelayPeers, chaos.SlowPeers, chaos.ResetPeers, chaos.CutPeersInFrame, chaos.SlowSync, chaos.ClockSkew,
		chaos.HoldOneEndTxn, chaos.HoldOneProduce, chaos.HoldOneTxnMarker:
		return false
	}
	return true
}

// Ways are the cases that a search begins with: each fault once, at the points one after
// the other, on three nodes; and each topology without a fault. Where nodes are struck,
// the role goes from one to the next that can be.
func Ways(seed uint64, profile check.Profile) (all []Case) {
	for _, name := range Planned() {
		all = append(all, Case{Seed: seed, Topology: name, Nodes: 1, Profile: profile})
	}
	points, roles := chaos.Points(), rolesOfMatrix()
	at := 0
	for i, f := range faultsOf() {
		turn := i % len(roles)
		for _, role := range slices.Concat([]string{linkRole}, roles[turn:], roles[:turn]) {
			c := Cell{Fault: f.name, Role: role, topology: topologies.ActivePassive().On(several)}
			c.Side, c.Step, _ = strings.Cut(points[at%len(points)], ":")
			if !c.plan(f) {
				continue
			}
			way, err := CaseOf(c.Scenario.In(profile), seed, nil)
			if err != nil || !way.provable() {
				continue
			}
			if role == linkRole {
				way.Nodes = 1
			}
			all = append(all, way)
			at++
			if role != linkRole {
				break
			}
		}
	}
	return all
}
