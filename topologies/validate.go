package topologies

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

var (
	clusterName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,15}$`)
	topicName   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	// Mirror names become listener names too.
	mirrorName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	testName   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
)

// Validate reports everything that is wrong with the topology, joined; nil
// when nothing is. A topology that is valid can be launched, and each of its
// steps names what exists by then.
func (t Topology) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("topology %q: "+format, append([]any{t.Name}, args...)...))
	}
	if !testName.MatchString(t.Name) {
		bad("its name must be lower case letters, digits and dashes")
	}
	if len(t.Clusters) == 0 {
		bad("it has no cluster")
	}
	clusters := map[string]bool{}
	for _, c := range t.Clusters {
		switch {
		case !clusterName.MatchString(c.Name):
			bad("cluster name %q must be 1 to 16 letters and digits, the first a letter", c.Name)
		case clusters[c.Name]:
			bad("cluster %q is there twice", c.Name)
		}
		if c.Nodes < 1 {
			bad("cluster %q has %d nodes", c.Name, c.Nodes)
		}
		clusters[c.Name] = true
	}
	topics := map[string]bool{}
	for _, p := range t.Topics {
		switch {
		case !topicName.MatchString(p.Name) || p.Name == "." || p.Name == "..":
			bad("topic name %q is not one that Kafka allows", p.Name)
		case topics[p.Name]:
			bad("topic %q is there twice", p.Name)
		}
		if !clusters[p.Home] {
			bad("topic %q has its home on cluster %q, which does not exist", p.Name, p.Home)
		}
		if p.Partitions < 1 {
			bad("topic %q has %d partitions", p.Name, p.Partitions)
		}
		topics[p.Name] = true
	}
	t.validateMirrors(bad, clusters, topics)
	t.validateSteps(bad, clusters)
	return errors.Join(errs...)
}

func (t Topology) validateMirrors(bad func(string, ...any), clusters, topics map[string]bool) {
	names, links := map[string]bool{}, map[string]bool{}
	for _, m := range t.Mirrors {
		switch {
		case !mirrorName.MatchString(m.Name):
			bad("mirror name %q must be 1 to 32 lower case letters, digits and dashes, the first a letter", m.Name)
		case names[m.Name]:
			bad("mirror %q is there twice", m.Name)
		}
		for _, c := range []string{m.From, m.To} {
			if !clusters[c] {
				bad("mirror %q names cluster %q, which does not exist", m.Name, c)
			}
		}
		if m.From == m.To {
			bad("mirror %q goes from cluster %q to itself", m.Name, m.From)
		}
		if links[m.Link()] {
			bad("two mirrors go over the link %s", m.Link())
		}
		if len(m.Topics) == 0 {
			bad("mirror %q has no topic", m.Name)
		}
		for _, p := range m.Topics {
			if !topics[p] {
				bad("mirror %q names topic %q, which does not exist", m.Name, p)
			}
		}
		names[m.Name], links[m.Link()] = true, true
	}
	for _, l := range t.Links {
		for _, c := range []string{l.From, l.To} {
			if !clusters[c] {
				bad("link %s names cluster %q, which does not exist", l.Name(), c)
			}
		}
		if l.From == l.To {
			bad("link %s leads from a cluster to itself", l.Name())
		}
		if links[l.Name()] {
			bad("link %s is there twice", l.Name())
		}
		links[l.Name()] = true
	}
}

func (t Topology) validateSteps(bad func(string, ...any), clusters map[string]bool) {
	created, running := map[string]bool{}, map[string]bool{}
	stopped := map[string]int{} // stops into a cluster that no promotion has followed
	for i, s := range t.Steps {
		at := fmt.Sprintf("step %d (%s)", i+1, s)
		m, isMirror := t.Mirror(s.Mirror)
		switch s.Do {
		case CreateTopics, Write, Promote, Elect:
			if !clusters[s.Cluster] || s.Mirror != "" {
				bad("%s must name a cluster that exists, and no mirror", at)
				continue
			}
		case StartMirror, CatchUp, StopMirror:
			if !isMirror || s.Cluster != "" {
				bad("%s must name a mirror that exists, and no cluster", at)
				continue
			}
		default:
			bad("%s: unknown action %q", at, s.Do)
			continue
		}
		if len(s.Also) > 0 && s.Do != StopMirror {
			bad("%s: only a stop takes further mirrors", at)
		}
		switch s.Do {
		case CreateTopics:
			created[s.Cluster] = true
		case StartMirror:
			if running[m.Name] {
				bad("%s: the mirror runs already", at)
			}
			for _, name := range m.Topics {
				if p, ok := t.Topic(name); ok && !created[p.Home] {
					bad("%s: topic %q was not created before", at, name)
				}
				// The same topic from two sources is refused by brokers (FI-2).
				for _, other := range t.Mirrors {
					if running[other.Name] && other.To == m.To && slices.Contains(other.Topics, name) && other.Name != m.Name {
						bad("%s: topic %q comes to cluster %q by mirror %q", at, name, m.To, other.Name)
					}
				}
			}
			running[m.Name] = true
		case CatchUp:
			if !running[m.Name] {
				bad("%s: the mirror does not run", at)
			}
		case StopMirror:
			for _, name := range append([]string{s.Mirror}, s.Also...) {
				also, ok := t.Mirror(name)
				if !ok {
					bad("%s names mirror %q, which does not exist", at, name)
				} else if !running[name] {
					bad("%s: mirror %q does not run", at, name)
				}
				running[name] = false
				stopped[also.To]++
			}
		case Promote:
			if stopped[s.Cluster] == 0 {
				bad("%s: no mirror into the cluster was stopped before", at)
			}
			stopped[s.Cluster]--
		}
	}
}
