package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"watershed.example/fixtures"
)

// Kafka's keys of the APIs whose messages are held.
const (
	produce         = 0
	endTxn          = 26
	writeTxnMarkers = 27
)

// way is one direction of a link, for one node that it leads to or for all.
type way struct {
	link *fixtures.Link
	node int // 0 for all
	d    fixtures.Direction
}

func (w way) set(b fixtures.Behaviour) {
	if w.node > 0 {
		w.link.SetNode(w.node, w.d, b)
		return
	}
	w.link.Set(w.d, b)
}

// inbound and outbound are the ways between the node and the others of its cluster,
// whoever dialled.
func (s *NodeStrike) inbound() []way  { return s.peerWays(fixtures.ToServer, true) }
func (s *NodeStrike) outbound() []way { return s.peerWays(fixtures.FromServer, true) }

// peerWays are ways to (ToServer) or from (FromServer) the node, with those of the
// quorum or without.
func (s *NodeStrike) peerWays(d fixtures.Direction, quorum bool) []way {
	var all []way
	me, c := s.node.Number(), s.cluster
	for _, n := range c.Nodes() {
		if n == s.node {
			continue
		}
		into, out := c.PeerLink(n.Number(), me), c.PeerLink(me, n.Number())
		all = append(all, way{into, 0, d}, way{out, 0, 1 - d})
		if quorum {
			all = append(all, way{c.QuorumLink(n.Number(), me), 0, d}, way{c.QuorumLink(me, n.Number()), 0, 1 - d})
		}
	}
	return all
}

// outside are the ways to or from the node of clients and of those who mirror its
// cluster.
func (s *NodeStrike) outside(d fixtures.Direction) []way {
	all := []way{{s.cluster.ClientLink(), s.node.Number(), d}}
	for _, l := range s.cluster.MirrorLinks() {
		all = append(all, way{l, s.node.Number(), d})
	}
	return all
}

// replication are the ways of what followers ask the node for, and its answers.
func (s *NodeStrike) replication(d fixtures.Direction) []way {
	var all []way
	for _, n := range s.cluster.Nodes() {
		if n != s.node {
			all = append(all, way{s.cluster.PeerLink(n.Number(), s.node.Number()), 0, d})
		}
	}
	return all
}

// behave makes ways behave so, from when on the proof counts what their links do.
func (s *NodeStrike) behave(b fixtures.Behaviour, ways ...way) {
	if s.before == nil {
		s.before = map[*fixtures.Link]fixtures.Counts{}
	}
	for _, w := range ways {
		if _, known := s.before[w.link]; !known {
			s.before[w.link] = w.link.Counts()
		}
	}
	for _, w := range ways {
		s.ways = append(s.ways, w)
		w.set(b)
	}
}

// onLinks strikes the links of the node; false for an act that is none of theirs.
func (s *NodeStrike) onLinks(ctx context.Context) (bool, error) {
	p := s.plan
	one := func(api int16) fixtures.Behaviour { return fixtures.Behaviour{Mode: fixtures.HoldOne, API: api} }
	all := func() []way { return slices.Concat(s.inbound(), s.outbound()) }
	switch p.Act {
	case CutInbound:
		s.behave(fixtures.Behaviour{Mode: fixtures.Drop}, s.inbound()...)
	case CutOutbound:
		s.behave(fixtures.Behaviour{Mode: fixtures.Drop}, s.outbound()...)
	case DelayPeers:
		s.behave(fixtures.Behaviour{Mode: fixtures.Delay, Delay: cmp.Or(p.Delay, DefaultDelay), Jitter: DefaultJitter}, all()...)
	case SlowPeers:
		s.behave(fixtures.Behaviour{Mode: fixtures.Slow, Rate: cmp.Or(p.Rate, DefaultRate)}, all()...)
	case HoldPeers:
		s.behave(fixtures.Behaviour{Mode: fixtures.Hold}, all()...)
	case ResetPeers:
		s.behave(fixtures.Behaviour{}, all()...)
		for l := range s.before {
			l.Reset()
		}
	case CutPeersInFrame:
		ways := append(s.peerWays(fixtures.ToServer, false), s.peerWays(fixtures.FromServer, false)...)
		s.behave(fixtures.Behaviour{Mode: fixtures.CutOne, API: fixtures.AnyAPI}, ways...)
	case BelowMinISR:
		s.behave(fixtures.Behaviour{Mode: fixtures.Drop}, append(s.replication(fixtures.ToServer), s.replication(fixtures.FromServer)...)...)
		return true, s.awaitBelowMin(ctx)
	case HoldOneEndTxn:
		s.behave(one(endTxn), way{s.cluster.ClientLink(), s.node.Number(), fixtures.ToServer})
	case HoldOneProduce:
		s.behave(one(produce), way{s.cluster.ClientLink(), s.node.Number(), fixtures.FromServer})
	case HoldOneReplica:
		s.behave(one(fetch), s.replication(fixtures.FromServer)[0])
	case HoldOneTxnMarker:
		var ways []way
		for _, from := range s.cluster.Nodes() {
			for _, to := range s.cluster.Nodes() {
				if from != to {
					ways = append(ways, way{s.cluster.PeerLink(from.Number(), to.Number()), 0, fixtures.ToServer})
				}
			}
		}
		s.behave(one(writeTxnMarkers), ways...)
	default:
		return false, nil
	}
	err := s.awaitBit(ctx)
	if p.Act.AtOnce() {
		s.heal()
	}
	if p.Act == HoldOneTxnMarker {
		s.onlyHeld()
	}
	return true, err
}

// onlyHeld lets everything go on but what is held.
func (s *NodeStrike) onlyHeld() {
	for _, w := range s.ways {
		if w.link.Counts().Since(s.before[w.link]).ToServer.Messages == 0 {
			w.set(fixtures.Behaviour{})
		}
	}
}

// vanish kills the node and tells nobody.
func (s *NodeStrike) vanish(ctx context.Context) error {
	// What comes to it is lost, and nothing comes from it: not even an end.
	s.behave(fixtures.Behaviour{Mode: fixtures.Hold}, append(s.outbound(), s.outside(fixtures.FromServer)...)...)
	s.behave(fixtures.Behaviour{Mode: fixtures.Drop}, append(s.inbound(), s.outside(fixtures.ToServer)...)...)
	if err := s.end(ctx, s.node.Kill); err != nil {
		return err
	}
	return s.awaitBit(ctx)
}

// closeSlowly ends the node cleanly, and delays the ends of its connections.
func (s *NodeStrike) closeSlowly(ctx context.Context) error {
	b := fixtures.Behaviour{Mode: fixtures.SlowClose, Delay: cmp.Or(s.plan.Delay, DefaultClose)}
	s.behave(b, append(s.outbound(), s.outside(fixtures.FromServer)...)...)
	if err := s.end(ctx, s.node.Stop); err != nil {
		return err
	}
	return s.awaitBit(ctx)
}

// depose pauses the node until another has its role.
func (s *NodeStrike) depose(ctx context.Context) error {
	if err := s.node.Pause(ctx); err != nil {
		return err
	}
	err := func() error {
		for {
			next, err := s.find(ctx)
			if err != nil {
				return err
			}
			if next != s.node {
				s.proof.Effects++
				s.proof.Next = next.Number()
				return nil
			}
			if err := pause(ctx, "%s is %s still", s.node, s.plan.Target); err != nil {
				return err
			}
		}
	}()
	// Also when the time is up: a node that is paused can't even be stopped.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeLimit)
	defer cancel()
	if rerr := s.node.Resume(rctx); err == nil {
		err = rerr
	}
	return err
}

// resumeLimit bounds how long a signal takes.
const resumeLimit = 5 * time.Second

// awaitBelowMin waits until fewer replicas are in sync than topics of clusters of so
// many nodes want, for the strike's sake: some may have lagged before it. Only who is
// behind something lags, so the partition has to be written to meanwhile.
func (s *NodeStrike) awaitBelowMin(ctx context.Context) error {
	topic, index, err := s.plan.Target.partition()
	if err != nil {
		return err
	}
	for {
		p, err := s.cluster.Partition(ctx, topic, index)
		if err != nil {
			return err
		}
		s.proof.Effects = 0
		if len(p.InSync) < len(p.Replicas)-1 {
			s.proof.Effects = int64(len(p.Replicas) - len(p.InSync))
		}
		if s.Proof().Bit() {
			return nil
		}
		if err := pause(ctx, "%d replicas of %s are in sync", len(p.InSync), s.plan.Target.Of); err != nil {
			return err
		}
	}
}

// pause waits a little, until the next look.
func pause(ctx context.Context, format string, args ...any) error {
	select {
	case <-time.After(2 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return fmt.Errorf(format+": %w", append(args, context.Cause(ctx))...)
	}
}

// awaitBit waits until the fault has taken effect.
func (s *NodeStrike) awaitBit(ctx context.Context) error {
	for !s.Proof().Bit() {
		if err := pause(ctx, "no effect on %s: %s", s.node, s.Proof()); err != nil {
			return err
		}
	}
	return nil
}
