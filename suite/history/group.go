package history

import "fmt"

// Group is what a consumer group has committed on a partition: what a client asked
// for, or what a coordinator told.
type Group struct {
	Cluster   string `json:"cluster"`
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Offset is what was committed; -1 for nothing.
	Offset int64 `json:"offset,string"`
	// LogStart and LogEnd are the ends of the log as the cluster told them right
	// before and after a sample; -1 in other events.
	LogStart int64 `json:"logStart,string"`
	LogEnd   int64 `json:"logEnd,string"`
	// When says to which moment of the mirror a sample belongs.
	When When `json:"when,omitempty"`
	// Reader is the name of the reader that resumes at Offset.
	Reader string `json:"reader,omitempty"`
	// Result is the answer to a commit.
	Result *Result `json:"result,omitempty"`
}

func (g *Group) validate(kind Kind) error {
	if g.Cluster == "" || g.Group == "" || g.Topic == "" {
		return fmt.Errorf("group %q of cluster %q without its name, cluster or topic", g.Group, g.Cluster)
	}
	switch {
	case kind == KindGroupOffsets:
		return oneOf("when", g.When, WhenMirroring, WhenAfterStop)
	case kind == KindGroupResumes && g.Reader == "":
		return fmt.Errorf("group %q resumes without a reader", g.Group)
	}
	return validResult(g.Result, kind == KindGroupCommit)
}
