package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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

	// Stop ends the node cleanly (SIGTERM), and Restart starts it again at once.
	Stop    Act = "stop"
	Restart Act = "restart"
	// Vanish ends the node as a power cut does: kill -9, and no end of a connection
	// tells anybody; who asks it gets no answer, not even a refusal.
	Vanish Act = "vanish"
	// SlowClose ends the node cleanly, and the ends of its connections reach the
	// others late.
	SlowClose Act = "slow-close"
	// Depose pauses the node until another has its role, and lets it go on then.
	Depose Act = "depose"
	// CutInbound loses what others of its cluster send to the node, CutOutbound what
	// it sends to them.
	CutInbound  Act = "cut-inbound"
	CutOutbound Act = "cut-outbound"
	// DelayPeers and SlowPeers delay every byte between the node and the others, and
	// let few a second through.
	DelayPeers Act = "latency"
	SlowPeers  Act = "bandwidth"
	// HoldPeers holds everything between the node and the others, and delivers it at
	// the heal, late and in order.
	HoldPeers Act = "hold-and-release"
	// ResetPeers ends every connection between the node and the others with RST, idle
	// ones too.
	ResetPeers Act = "reset"
	// CutPeersInFrame ends connections between the node and the others in the middle
	// of a message.
	CutPeersInFrame Act = "cut-in-frame"
	// BelowMinISR keeps followers from the node until fewer replicas are in sync than
	// writes need. The quorum goes on.
	BelowMinISR Act = "isr-below-min"
	// DiskFull has everything fail that needs space on the node's disk.
	DiskFull Act = "disk-full"
	// SlowSync has each sync of a file of the node's take longer.
	SlowSync Act = "slow-sync"
	// ClockSkew has the node's wall clock be wrong by so much.
	ClockSkew Act = "clock-skew"
	// Each of these holds one message, and what follows it on its connection: a
	// transaction's end on its way to the node, the node's answer to a producer, its
	// answer to a follower, and transaction markers on their way between nodes.
	HoldOneEndTxn    Act = "hold-one-end-txn"
	HoldOneProduce   Act = "hold-one-produce-response"
	HoldOneReplica   Act = "hold-one-replica-fetch-response"
	HoldOneTxnMarker Act = "hold-one-write-txn-markers"
)

// Acts lists the acts of the default matrix.
func Acts() []Act { return []Act{Kill, Pause, CutOff, Strand} }

// AllActs lists all.
func AllActs() []Act {
	return append(Acts(), Stop, Restart, Vanish, SlowClose, Depose, CutInbound, CutOutbound, DelayPeers, SlowPeers, HoldPeers,
		ResetPeers, CutPeersInFrame, BelowMinISR, DiskFull, SlowSync, ClockSkew,
		HoldOneEndTxn, HoldOneProduce, HoldOneReplica, HoldOneTxnMarker)
}

// What an act does when its plan does not say.
const (
	DefaultSync  = 200 * time.Millisecond
	DefaultClose = time.Second
	DefaultSkew  = -time.Hour
)

// Passing acts can keep a stop from its end as long as they last: they are healed
// while it is on its way, once they have bit.
func (a Act) Passing() bool {
	switch a {
	case Strand, CutInbound, CutOutbound, HoldPeers, BelowMinISR, DiskFull, HoldOneReplica:
		return true
	}
	return false
}

// AtOnce is what is over when it has struck: the node is there as before.
func (a Act) AtOnce() bool {
	switch a {
	case Restart, Depose, ResetPeers, CutPeersInFrame:
		return true
	}
	return false
}

// Ends says whether the node is down until the heal.
func (a Act) Ends() bool {
	switch a {
	case Kill, Strand, Stop, Vanish, SlowClose:
		return true
	}
	return false
}

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
	// Delay is that of latency, of syncs and of closes, and what the clock is ahead;
	// Rate is that of bandwidth, in bytes a second. Zero stands for the defaults.
	Delay time.Duration
	Rate  int64
	When
}

// String prints the plan as one line, which [ParseNode] reads back:
//
//	kill leader of=orders-0 cluster=B at=before:barrier-committed
func (p NodePlan) String() string {
	s := fmt.Sprintf("%s %s", p.Act, p.Target.Role)
	if p.Target.Of != "" {
		s += " of=" + p.Target.Of
	}
	s += fmt.Sprintf(" cluster=%s at=%s", p.Target.Cluster, p.Point)
	if p.Delay != 0 {
		s += fmt.Sprintf(" delay=%s", p.Delay)
	}
	if p.Rate != 0 {
		s += fmt.Sprintf(" rate=%d", p.Rate)
	}
	return s + p.When.String()
}

// ParseNode reads a plan from its line. The error names what is wrong.
func ParseNode(line string) (NodePlan, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return NodePlan{}, errors.New("node plan: want an act and a role")
	}
	p := NodePlan{Act: Act(fields[0]), Target: Target{Role: Role(fields[1])}}
	var delay, rate, stop, until string
	to := map[string]*string{
		"of": &p.Target.Of, "cluster": &p.Target.Cluster, "at": &p.Point, "delay": &delay, "rate": &rate, "stop": &stop, "until": &until,
	}
	for _, f := range fields[2:] {
		key, value, ok := strings.Cut(f, "=")
		at := to[key]
		switch {
		case !ok || value == "":
			return NodePlan{}, fmt.Errorf("node plan: %q is not key=value", f)
		case at == nil:
			return NodePlan{}, fmt.Errorf("node plan: unknown key %q (known: of, cluster, at, delay, rate, stop, until)", key)
		case *at != "":
			return NodePlan{}, fmt.Errorf("node plan: %s is there twice", key)
		}
		*at = value
	}
	var err error
	if delay != "" {
		if p.Delay, err = time.ParseDuration(delay); err != nil {
			return NodePlan{}, fmt.Errorf("node plan: delay: %w", err)
		}
	}
	if rate != "" {
		if p.Rate, err = strconv.ParseInt(rate, 10, 64); err != nil {
			return NodePlan{}, fmt.Errorf("node plan: rate: %w", err)
		}
	}
	if stop != "" {
		if err := p.setStop(stop); err != nil {
			return NodePlan{}, fmt.Errorf("node plan: stop: %w", err)
		}
	}
	if until != "" {
		if err := p.setUntil(until); err != nil {
			return NodePlan{}, fmt.Errorf("node plan: until: %w", err)
		}
	}
	return p, p.Validate()
}

// Validate says what is wrong with a plan; nil when a [NodeStrike] can prove it.
func (p NodePlan) Validate() error {
	word := func(s string) bool { return s != "" && !strings.ContainsAny(s, " \t\r\n\v\f=") }
	switch {
	case !slices.Contains(AllActs(), p.Act):
		return fmt.Errorf("node plan: unknown act %q (known: %v)", p.Act, AllActs())
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
	return p.validateAmounts()
}

func (p NodePlan) validateAmounts() error {
	most := maxDelay
	switch p.Act {
	case ClockSkew:
		most = 1000 * time.Hour
		if p.Delay < -most {
			return fmt.Errorf("node plan: delay %s must lie between %s and %s", p.Delay, -most, most)
		}
	case DelayPeers, SlowSync, SlowClose:
		if p.Delay < 0 {
			return fmt.Errorf("node plan: delay %s must lie between 0 and %s", p.Delay, most)
		}
	default:
		if p.Delay != 0 {
			return fmt.Errorf("node plan: %s knows no delay", p.Act)
		}
	}
	switch {
	case p.Delay > most:
		return fmt.Errorf("node plan: delay %s must be at most %s", p.Delay, most)
	case p.Act != SlowPeers && p.Rate != 0:
		return fmt.Errorf("node plan: %s knows no rate", p.Act)
	case p.Rate < 0 || p.Rate > maxRate:
		return fmt.Errorf("node plan: rate %d must lie between 0 and %d", p.Rate, int64(maxRate))
	case p.Act == BelowMinISR && p.Target.Role != Leader && p.Target.Role != Source:
		return fmt.Errorf("node plan: %s is a leader's, not a %s's", p.Act, p.Target.Role)
	case p.Act == Depose && p.Target.Role == Follower:
		return fmt.Errorf("node plan: a follower has no role to lose")
	case p.UntilStopped && (p.Act.Passing() || p.Act.AtOnce()):
		return fmt.Errorf("node plan: %s is over before the stop is", p.Act)
	}
	if err := p.When.validate(); err != nil {
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
