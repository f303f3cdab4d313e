package topologies

import (
	"fmt"
	"strings"
)

// Picture draws the topology and its story as text, a line for each mirror,
// each topic and each step:
//
//	A (1 node)  --a-to-b-->  B (1 node)   orders, payments, idle
func (t Topology) Picture() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", t.Name)
	label := func(name string) string {
		c, _ := t.Cluster(name)
		return c.label()
	}
	joined := map[string]bool{}
	width, arrow := 0, 0
	for _, m := range t.Mirrors {
		joined[m.From], joined[m.To] = true, true
		width, arrow = max(width, len(label(m.From)), len(label(m.To))), max(arrow, len(m.Name))
	}
	for _, m := range t.Mirrors {
		fmt.Fprintf(&b, "  %-*s  --%s%s-->  %-*s  %s\n", width, label(m.From),
			m.Name, strings.Repeat("-", arrow-len(m.Name)), width, label(m.To), strings.Join(m.Topics, ", "))
	}
	for _, c := range t.Clusters {
		if !joined[c.Name] {
			fmt.Fprintf(&b, "  %s\n", c.label())
		}
	}
	if len(t.Topics) > 0 {
		b.WriteString("\n  topics:")
		for i, p := range t.Topics {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %s (%d on %s", p.Name, p.Partitions, p.Home)
			if p.Empty {
				b.WriteString(", empty")
			}
			b.WriteString(")")
		}
		b.WriteString("\n")
	}
	if len(t.Steps) > 0 {
		b.WriteString("\n")
	}
	for i, s := range t.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, s)
	}
	return b.String()
}

// label is the cluster with its size: "A (1 node)".
func (c Cluster) label() string {
	if c.Nodes == 1 {
		return c.Name + " (1 node)"
	}
	return fmt.Sprintf("%s (%d nodes)", c.Name, c.Nodes)
}

// Mermaid draws the clusters and the mirrors between them as a Mermaid flow
// chart.
func (t Topology) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for _, c := range t.Clusters {
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", c.Name, c.label())
	}
	for _, m := range t.Mirrors {
		fmt.Fprintf(&b, "  %s -- \"%s: %s\" --> %s\n", m.From, m.Name, strings.Join(m.Topics, ", "), m.To)
	}
	return b.String()
}
