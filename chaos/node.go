package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Act is what happens to a node.
type Act string

// The acts.
const (
	// Kill ends the node as kill -9 does.
	Kill Act = "kill"
	// Pause stops the node where it stands (SIGSTOP): its connections stay, and
	// nobody answers.
	Pause Act = "pause"
	// CutOff loses everything between the node and the others of its cluster, the
	// quorum's too. Clients reach it.
	CutOff Act = "cut-off"
	// Strand loses what nodes ask of each other where the node is one of the two:
	// nobody replicates from it, though it goes on to lead. Then it is killed, with
	// what it did alone.
	Strand Act = "strand"
)

// Acts lists the acts.
func Acts() []Act { return []Act{Kill, Pause, CutOff, Strand} }

// Role is what a node is to its cluster at the moment at which a fault strikes.
type Role string

// The roles.
const (
	// Leader leads a partition; Follower is the first of its in-sync replicas that
	// does not.
	Leader   Role = "leader"
	Follower Role = "follower"
	// Controller leads the metadata quorum.
	Controller Role = "controller"
	// Source leads a partition of a cluster that others mirror. Cut off, it is so
	// from them too.
	Source Role = "source"
	// Coordinator coordinates the transactions of a transactional id.
	Coordinator Role = "coordinator"
)

// Roles lists the roles.
func Roles() []Role { return []Role{Leader, Follower, Controller, Source, Coordinator} }

// Target is a node of a cluster by its role, which is looked up when the fault
// strikes.
type Target struct {
	Role    Role
	Cluster string
	// Of is the partition, "orders-0", that is led or followed, or the
	// transactional id; "" for the controller.
	Of string
}

func (t Target) String() string {
	s := string(t.Role)
	if t.Of != "" {
		s += " of " + t.Of
	}
	return s + " on " + t.Cluster
}

// FirstWrite is the moment at which the promoted cluster has accepted a write;
// the others at which a node may be struck are [Points].
const FirstWrite = "first-write"

// NodePlan is what happens to a node, to which, and when.
type NodePlan struct {
	Act    Act
	Target Target
	// Point is one of [Points], or [FirstWrite].
	Point string
}

// String prints the plan as one line, which [ParseNode] reads back:
//
//	kill leader of=orders-0 cluster=B at=before:barrier-committed
func (p NodePlan) String() string {
	s := fmt.Sprintf("%s %s", p.Act, p.Target.Role)
	if p.Target.Of != "" {
		s += " of=" + p.Target.Of
	}
	return s + fmt.Sprintf(" cluster=%s at=%s", p.Target.Cluster, p.Point)
}

// ParseNode reads a plan from its line. The error names what is wrong.
func ParseNode(line string) (NodePlan, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return NodePlan{}, errors.New("node plan: want an act and a role")
	}
	p := NodePlan{Act: Act(fields[0]), Target: Target{Role: Role(fields[1])}}
	to := map[string]*string{"of": &p.Target.Of, "cluster": &p.Target.Cluster, "at": &p.Point}
	for _, f := range fields[2:] {
		key, value, ok := strings.Cut(f, "=")
		at := to[key]
		switch {
		case !ok || value == "":
			return NodePlan{}, fmt.Errorf("node plan: %q is not key=value", f)
		case at == nil:
			return NodePlan{}, fmt.Errorf("node plan: unknown key %q (known: of, cluster, at)", key)
		case *at != "":
			return NodePlan{}, fmt.Errorf("node plan: %s is there twice", key)
		}
		*at = value
	}
	return p, p.Validate()
}

// Validate says what is wrong with a plan; nil when a [NodeStrike] can prove it.
func (p NodePlan) Validate() error {
	word := func(s string) bool { return s != "" && !strings.ContainsAny(s, " \t\r\n\v\f=") }
	switch {
	case !slices.Contains(Acts(), p.Act):
		return fmt.Errorf("node plan: unknown act %q (known: %v)", p.Act, Acts())
	case !slices.Contains(Roles(), p.Target.Role):
		return fmt.Errorf("node plan: unknown role %q (known: %v)", p.Target.Role, Roles())
	case !word(p.Target.Cluster):
		return fmt.Errorf("node plan: %q is no name of a cluster", p.Target.Cluster)
	case p.Target.Role == Controller && p.Target.Of != "":
		return fmt.Errorf("node plan: a controller is that of its cluster, not of %q", p.Target.Of)
	case p.Target.Role != Controller && !word(p.Target.Of):
		return fmt.Errorf("node plan: %q is nothing to have a %s", p.Target.Of, p.Target.Role)
	case p.Point != FirstWrite && !slices.Contains(AllPoints(), p.Point):
		return fmt.Errorf("node plan: unknown point %q (known: %s, %s)", p.Point, FirstWrite, strings.Join(AllPoints(), ", "))
	}
	if _, _, err := p.Target.partition(); err != nil {
		return fmt.Errorf("node plan: %w", err)
	}
	return nil
}

// partition is the target's, where its role is about one.
func (t Target) partition() (topic string, index int32, err error) {
	if t.Role != Leader && t.Role != Follower && t.Role != Source {
		return "", 0, nil
	}
	dash := strings.LastIndexByte(t.Of, '-')
	if dash <= 0 {
		return "", 0, fmt.Errorf("%q is no partition (TOPIC-NUMBER)", t.Of)
	}
	if _, err := fmt.Sscanf(t.Of[dash:], "-%d", &index); err != nil || index < 0 || fmt.Sprintf("-%d", index) != t.Of[dash:] {
		return "", 0, fmt.Errorf("%q is no partition (TOPIC-NUMBER)", t.Of)
	}
	return t.Of[:dash], index, nil
}
