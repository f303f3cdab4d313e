package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"watershed.example/chaos"
	"watershed.example/suite/check"
	"watershed.example/topologies"
)

// Case is a run as a value: what is played, with which faults, from which seed. All that
// decides a run stands in it, so that it can be written down, played again, made smaller
// and made different.
type Case struct {
	Seed uint64
	// Topology is the name of one of [topologies.All], and Nodes how many nodes each
	// of its clusters has.
	Topology string
	Nodes    int
	Profile  check.Profile
	// Defects of the brokers, as of [Options].
	Defects []string
	// Faults are what strikes; none for nothing.
	Faults chaos.Several
}

// underPlan begins the names of the scenarios of cases.
const underPlan = "plan/"

// Scenario is what the case plays. The error says what of it its topology does not have.
func (c Case) Scenario() (Scenario, error) {
	sc := Scenario{Name: underPlan + c.Topology, Profile: c.Profile, Faults: c.Faults}
	for _, t := range topologies.All() {
		if t.Name == c.Topology {
			sc.Topology = t
		}
	}
	if sc.Topology.Name == "" || isAlone(sc.Topology) {
		return sc, fmt.Errorf("topology %q: want one of %s", c.Topology, strings.Join(Planned(), ", "))
	}
	switch c.Nodes {
	case 0, 1:
	case several:
		sc.Topology = sc.Topology.On(several)
		sc.Name += "-on-3"
	default:
		return sc, fmt.Errorf("%d nodes: want 1 or %d", c.Nodes, several)
	}
	if c.Faults.Count() == 0 {
		return sc, nil
	}
	if err := c.Faults.Validate(); err != nil {
		return sc, err
	}
	for _, p := range c.Faults.Links {
		if err := c.fits(sc.Topology, p.Point, stopOfLink(sc.Topology, p)); err != nil {
			return sc, fmt.Errorf("fault plan %s: %w", p, err)
		}
	}
	for _, p := range c.Faults.Nodes {
		err := c.fits(sc.Topology, p.Point, stopOfNode(sc.Topology, p))
		if t := p.Target; err == nil && t.Role != chaos.Controller && t.Role != chaos.Coordinator {
			err = hasPartition(sc.Topology, t.Of)
		}
		if err == nil && sc.nodesOf(p.Target.Cluster) < several {
			err = fmt.Errorf("its cluster has %d node: give -nodes=%d", sc.nodesOf(p.Target.Cluster), several)
		}
		if err != nil {
			return sc, fmt.Errorf("node plan %s: %w", p, err)
		}
	}
	return sc, nil
}

// fits says whether the stop has the point.
func (c Case) fits(t topologies.Topology, point string, stop int) error {
	if stop == 0 {
		var all []string
		for _, e := range t.Episodes() {
			all = append(all, fmt.Sprintf("%d of %s", e.Number, e.Mirror.Link()))
		}
		return fmt.Errorf("no stop of topology %s has it (stops: %s)", t.Name, strings.Join(all, ", "))
	}
	if slices.Contains(chaos.AbortPoints(), point) && c.Profile != check.ProfileLatest {
		return fmt.Errorf("a stop by %s has no such point", check.ProfileV42)
	}
	return nil
}

func hasPartition(t topologies.Topology, place string) error {
	for _, topic := range t.Topics {
		for p := range topic.Partitions {
			if fmt.Sprintf("%s-%d", topic.Name, p) == place {
				return nil
			}
		}
	}
	return fmt.Errorf("topology %s has no partition %s", t.Name, place)
}

func (s Scenario) nodesOf(cluster string) int {
	c, _ := s.Topology.Cluster(cluster)
	return c.Nodes
}

// Planned names the topologies that plans can be played on.
func Planned() (all []string) {
	for _, t := range topologies.All() {
		if !isAlone(t) {
			all = append(all, t.Name)
		}
	}
	return all
}

// errNoCase is that a scenario does more than strike with plans.
var errNoCase = errors.New("it does more than strike with plans")

// CaseOf is the case that a scenario is, as it ran: where it does nothing but strike with
// plans.
func CaseOf(sc Scenario, seed uint64, defects []string) (Case, error) {
	c := Case{Seed: seed, Profile: sc.Profile, Defects: defects, Faults: chaos.Several{
		Links: slices.Clone(sc.Faults.Links), Nodes: slices.Clone(sc.Faults.Nodes),
	}}
	c.Topology, _ = strings.CutSuffix(sc.Topology.Name, "-on-3")
	for _, cluster := range sc.Topology.Clusters {
		c.Nodes = max(c.Nodes, cluster.Nodes)
	}
	if p := sc.Plan; p != nil {
		link := *p
		link.Stop, link.UntilStopped = sc.strikes(), sc.lasts(p.When)
		c.Faults.Links = append(c.Faults.Links, link)
	}
	if p := sc.Node; p != nil {
		node := *p
		node.Stop, node.UntilStopped = sc.strikes(), sc.lasts(p.When) && !p.Act.Passing() && !p.Act.AtOnce()
		c.Faults.Nodes = append(c.Faults.Nodes, node)
	}
	bare := sc
	bare.Name, bare.Topology, bare.Profile, bare.Episode, bare.HealAfterStop = "", topologies.Topology{}, "", 0, false
	bare.Plan, bare.Node, bare.Faults, bare.short, bare.deflt = nil, nil, chaos.Several{}, false, false
	if !reflect.DeepEqual(bare, Scenario{}) {
		return Case{}, fmt.Errorf("scenario %s: %w", sc.Name, errNoCase)
	}
	again, err := c.Scenario()
	if err == nil && !reflect.DeepEqual(again.Topology.Steps, sc.Topology.Steps) {
		err = errNoCase
	}
	if err != nil {
		return Case{}, fmt.Errorf("scenario %s: %w", sc.Name, err)
	}
	return c, nil
}
