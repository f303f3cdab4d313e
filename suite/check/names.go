package check

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
)

// Names and numbers of a plan become paths, and a plan may be somebody else's: what it
// names has to lie within its own folder, and to be no more than a disk can hold.

// legalName is what Kafka takes for a topic, beside its length; names of clusters are no
// other here.
var legalName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func isLegal(name string) bool { return legalName.MatchString(name) && name != "." && name != ".." }

// Bounds of what is looked for in a folder of evidence.
const (
	maxPartitions = 100_000 // of a topic
	maxPlaces     = 1 << 20 // logs and dumps of all episodes
)

// staysWithin says whether a path of a plan stays within the evidence's folder, on every system.
func staysWithin(path string) bool {
	return filepath.IsLocal(filepath.FromSlash(path)) && !strings.ContainsAny(path, "\\\x00")
}

// confined says what in the plan would lead out of the evidence's folder, or have more
// looked for there than a run has. It names the key.
func (r *Run) confined() error {
	named, nodes := map[string]bool{}, map[string]map[int32]bool{}
	for i, c := range r.Clusters {
		switch {
		case !isLegal(c.Name):
			return fmt.Errorf("clusters[%d].name %q: want 1 to 249 letters, digits, dots, underscores or hyphens", i, c.Name)
		case nodes[c.Name] != nil:
			return fmt.Errorf("clusters[%d].name %q: it is there twice", i, c.Name)
		}
		nodes[c.Name] = map[int32]bool{}
		for k, n := range c.Nodes {
			if n < 0 || nodes[c.Name][n] {
				return fmt.Errorf("clusters[%d].nodes[%d] %d: want numbers from 0 on, each once", i, k, n)
			}
			nodes[c.Name][n] = true
		}
	}
	for i, t := range r.Topics {
		switch {
		case !isLegal(t.Name):
			return fmt.Errorf("topics[%d].name %q: no topic of Kafka's has such a name", i, t.Name)
		case t.Partitions < 1 || t.Partitions > maxPartitions:
			return fmt.Errorf("topics[%d].partitions %d: want 1 to %d", i, t.Partitions, maxPartitions)
		case named[t.Name]:
			return fmt.Errorf("topics[%d].name %q: it is there twice", i, t.Name)
		}
		named[t.Name] = true
	}
	for i, e := range r.Episodes {
		if !staysWithin(e.Logs) {
			return fmt.Errorf("episodes[%d].logs %q: want a folder within the evidence's", i, e.Logs)
		}
	}
	if n := r.places(); n > maxPlaces {
		return fmt.Errorf("topics, clusters and episodes: %.0f logs, want at most %d", n, maxPlaces)
	}
	return nil
}

// places counts the logs and dumps that may lie in the evidence's folder.
func (r *Run) places() float64 {
	partitions, nodes := 0.0, 0.0
	for _, t := range r.Topics {
		partitions += float64(t.Partitions)
	}
	for _, c := range r.Clusters {
		nodes += float64(len(c.Nodes))
	}
	folders := 1.0
	for _, e := range r.Episodes {
		if filepath.Clean(e.Logs) != LogsDir {
			folders++
		}
	}
	dumps := 0.0
	for _, e := range r.Edges {
		for _, name := range e.Topics {
			if t := r.Topic(name); t != nil {
				dumps += float64(t.Partitions)
			}
		}
	}
	return math.Max(partitions*nodes*folders, dumps*float64(max(len(r.Episodes), 1)))
}
