package topologies

import "slices"

// In returns the topology with names of topics and mirrors that begin with space,
// for clusters that others use too.
func (t Topology) In(space string) Topology {
	named := func(names []string) []string {
		all := slices.Clone(names)
		for i := range all {
			all[i] = space + all[i]
		}
		return all
	}
	t.Mirrors, t.Topics, t.Steps = slices.Clone(t.Mirrors), slices.Clone(t.Topics), slices.Clone(t.Steps)
	for i := range t.Topics {
		t.Topics[i].Name = space + t.Topics[i].Name
	}
	for i := range t.Mirrors {
		t.Mirrors[i].Name, t.Mirrors[i].Topics = space+t.Mirrors[i].Name, named(t.Mirrors[i].Topics)
	}
	for i, s := range t.Steps {
		if s.Mirror != "" {
			t.Steps[i].Mirror = space + s.Mirror
		}
		t.Steps[i].Also = named(s.Also)
	}
	return t
}
