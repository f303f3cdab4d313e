package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"watershed.example/fixtures"
)

// NodeProof is what a strike at a node did.
type NodeProof struct {
	Plan NodePlan
	// Node is the number of the node that had the role.
	Node int
	// Struck is when it was struck, and Ended when it was healed; zero for what has
	// not come yet.
	Struck, Ended time.Time
	// Ends counts kills and pauses of the node.
	Ends int64
	// Dropped bytes were lost between it and the other nodes, Held ones and Delayed
	// ones were late, Reset connections were ended by RST.
	Dropped, Held, Delayed, Reset int64
	// Messages were held alone, and of Cut ones half got through; LateEnds of
	// connections came late.
	Messages, Cut, LateEnds int64
	// Effects counts what else the act is about: roles that moved, to node Next, replicas that
	// are in sync no more, writes refused, syncs slowed, wrong times read.
	Effects int64
	Next    int
}

// Bit says whether the fault took effect.
func (p NodeProof) Bit() bool {
	switch p.Plan.Act {
	case Kill, Pause, Stop, Restart:
		return p.Ends > 0
	case CutOff, CutInbound, CutOutbound:
		return p.Dropped > 0
	case Strand, Vanish:
		return p.Ends > 0 && p.Dropped > 0
	case SlowClose:
		return p.Ends > 0 && p.LateEnds > 0
	case BelowMinISR:
		return p.Dropped > 0 && p.Effects > 0
	case DelayPeers, SlowPeers:
		return p.Delayed > 0
	case HoldPeers:
		return p.Held > 0
	case ResetPeers:
		return p.Reset > 0
	case CutPeersInFrame:
		return p.Cut > 0
	case HoldOneEndTxn, HoldOneProduce, HoldOneReplica, HoldOneTxnMarker:
		return p.Messages > 0
	case Depose, DiskFull, SlowSync, ClockSkew:
		return p.Effects > 0
	}
	return false
}

// String says in one line whom the fault struck and whether it bit.
func (p NodeProof) String() string {
	if p.Struck.IsZero() {
		return p.Plan.String() + " has not struck"
	}
	verdict := "bit"
	if !p.Bit() {
		verdict = "did NOT bite"
	}
	said := fmt.Sprintf("%s %s node %d: %d ends, %d B dropped", p.Plan, verdict, p.Node, p.Ends, p.Dropped)
	add := func(n int64, what string) {
		if n > 0 {
			said += fmt.Sprintf(", %d %s", n, what)
		}
	}
	add(p.Held, "B held")
	add(p.Delayed, "B delayed")
	add(p.Reset, "connections reset")
	add(p.Messages, "messages held")
	add(p.Cut, "messages cut")
	add(p.LateEnds, "ends of connections late")
	add(p.Effects, "effects")
	return said
}

// NodeStrike carries out one plan. Its methods are called one after the other.
type NodeStrike struct {
	plan    NodePlan
	cluster *fixtures.Cluster
	node    *fixtures.Node
	before  map[*fixtures.Link]fixtures.Counts
	// mirrors are links of mirrors that are cut for the node alone.
	mirrors []*fixtures.Link
	// ways are directions of links that behave otherwise.
	ways []way
	// wasWell is what the node had met before its machine ailed.
	wasWell fixtures.Suffered
	proof   NodeProof
}

// NewNode makes a strike of a plan on its cluster.
func NewNode(plan NodePlan, cluster *fixtures.Cluster) (*NodeStrike, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if cluster == nil || cluster.Name() != plan.Target.Cluster {
		return nil, fmt.Errorf("strike %s: there is no such cluster", plan)
	}
	if len(cluster.LinksOf(1)) == 0 && plan.Act != Kill && plan.Act != Pause {
		return nil, fmt.Errorf("strike %s: the cluster's nodes have no links between them", plan)
	}
	if n := len(cluster.Nodes()); n < 2 {
		return nil, fmt.Errorf("strike %s: the cluster has %d node: whom would the others be without", plan, n)
	}
	return &NodeStrike{plan: plan, cluster: cluster, proof: NodeProof{Plan: plan}}, nil
}

// Plan is the strike's.
func (s *NodeStrike) Plan() NodePlan { return s.plan }

// Meaning says what the target's role is about, where that was not known when the plan
// was made: the transactional id that somebody got.
func (s *NodeStrike) Meaning(of string) {
	s.plan.Target.Of = of
	s.proof.Plan = s.plan
}

// Node is the one that was struck; nil before.
func (s *NodeStrike) Node() *fixtures.Node { return s.node }

// Proof is what the strike did so far.
func (s *NodeStrike) Proof() NodeProof {
	p := s.proof
	for l, before := range s.before {
		c := l.Counts().Since(before)
		p.Reset += c.Reset
		for _, t := range []fixtures.Traffic{c.ToServer, c.FromServer} {
			p.Dropped += t.Dropped
			p.Held += t.Held
			p.Delayed += t.Delayed
			p.Messages += t.Messages
			p.Cut += t.Cut
			p.LateEnds += t.LateEnds
		}
	}
	return p
}

// find looks up who has the role now.
func (s *NodeStrike) find(ctx context.Context) (*fixtures.Node, error) {
	t := s.plan.Target
	switch t.Role {
	case Controller:
		return s.cluster.Controller(ctx)
	case Coordinator:
		return s.cluster.Coordinator(ctx, t.Of)
	}
	topic, index, err := t.partition()
	if err != nil {
		return nil, err
	}
	p, err := s.cluster.Partition(ctx, topic, index)
	if err != nil || t.Role == Leader || t.Role == Source {
		return p.Leader, err
	}
	for _, n := range p.InSync {
		if n != p.Leader {
			return n, nil
		}
	}
	return nil, errors.New("no follower is in sync")
}

// Hit strikes whoever has the role now. A strike with [Strand] is only begun:
// it ends with [NodeStrike.Finish]. An error says that it can't be shown, before
// ctx ends, that the fault took effect.
func (s *NodeStrike) Hit(ctx context.Context) (err error) {
	if s.node, err = s.find(ctx); err != nil {
		return fmt.Errorf("strike %s: %w", s.plan, err)
	}
	s.proof.Node, s.proof.Struck = s.node.Number(), time.Now()
	switch s.plan.Act {
	case Kill:
		err = s.end(ctx, s.node.Kill)
	case Pause:
		err = s.end(ctx, s.node.Pause)
	case CutOff:
		s.cut(s.cluster.LinksOf(s.node.Number()))
		if s.plan.Target.Role == Source {
			s.cutMirrors()
		}
		err = s.awaitDropped(ctx)
	case Strand:
		s.cut(s.peerLinks())
		err = s.awaitDropped(ctx)
	case Stop:
		err = s.end(ctx, s.node.Stop)
	case Restart:
		if err = s.end(ctx, s.node.Stop); err == nil {
			err = s.node.Start(ctx)
		}
	case Vanish:
		err = s.vanish(ctx)
	case SlowClose:
		err = s.closeSlowly(ctx)
	case Depose:
		err = s.depose(ctx)
	default:
		if a, ails := s.plan.ailments(); ails {
			err = s.ail(ctx, a)
		} else {
			_, err = s.onLinks(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("strike %s: %w", s.plan, err)
	}
	return nil
}

func (s *NodeStrike) end(ctx context.Context, how func(context.Context) error) error {
	err := how(ctx)
	if err == nil {
		s.proof.Ends++
	}
	return err
}

// peerLinks are the links over which the node's records are replicated, in both
// directions.
func (s *NodeStrike) peerLinks() []*fixtures.Link {
	var all []*fixtures.Link
	for _, other := range s.cluster.Nodes() {
		if other != s.node {
			all = append(all, s.cluster.PeerLink(s.node.Number(), other.Number()), s.cluster.PeerLink(other.Number(), s.node.Number()))
		}
	}
	return all
}

func (s *NodeStrike) cut(links []*fixtures.Link) {
	s.before = map[*fixtures.Link]fixtures.Counts{}
	for _, l := range links {
		s.before[l] = l.Counts()
		l.Cut()
	}
}

// cutMirrors cuts the node off from those who mirror its cluster. What is lost
// there tells nothing of the node's fault: once the fetchers are gone nobody asks.
func (s *NodeStrike) cutMirrors() {
	s.mirrors = s.cluster.MirrorLinks()
	for _, l := range s.mirrors {
		l.CutNode(s.node.Number())
	}
}

// awaitDropped waits until the cut has lost something: nodes that replicate, or
// vote, are never silent for long.
func (s *NodeStrike) awaitDropped(ctx context.Context) error {
	for s.Proof().Dropped == 0 {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nothing was lost between node %d and the others: %w", s.node.Number(), context.Cause(ctx))
		}
	}
	return nil
}

// Finish kills the node of a [Strand], with what it did alone.
func (s *NodeStrike) Finish(ctx context.Context) error {
	if s.plan.Act != Strand || s.node == nil || s.proof.Ends > 0 {
		return nil
	}
	err := s.end(ctx, s.node.Kill)
	s.heal()
	if err != nil {
		return fmt.Errorf("strike %s: %w", s.plan, err)
	}
	return nil
}

// heal ends a cut, and keeps what it lost.
func (s *NodeStrike) heal() {
	if s.ways == nil {
		for l := range s.before {
			l.Heal()
		}
	}
	for _, w := range s.ways {
		w.set(fixtures.Behaviour{})
	}
	for _, l := range s.mirrors {
		l.HealNode(s.node.Number())
	}
	s.mirrors = nil
	s.proof = s.Proof()
	s.before, s.ways = nil, nil
}

// Heal ends the fault, if it still lasts: the node is started, goes on, or is
// joined again. It returns the final proof, and may be called at any time.
func (s *NodeStrike) Heal(ctx context.Context) (NodeProof, error) {
	if s.node == nil || !s.proof.Ended.IsZero() {
		return s.Proof(), nil
	}
	err := s.Finish(ctx)
	s.heal()
	switch s.plan.Act {
	case Kill, Strand, Stop, Vanish, SlowClose:
		if s.proof.Ends > 0 {
			err = errors.Join(err, s.node.Start(ctx))
		}
	case Pause:
		if s.proof.Ends > 0 {
			err = errors.Join(err, s.node.Resume(ctx))
		}
	case Restart:
		if !s.node.Running() {
			err = errors.Join(err, s.node.Start(ctx))
		}
	}
	if _, ails := s.plan.ailments(); ails {
		err = errors.Join(err, s.recover(ctx))
	}
	s.proof.Ended = time.Now()
	if err != nil {
		return s.Proof(), fmt.Errorf("heal %s: %w", s.plan, err)
	}
	return s.Proof(), nil
}
