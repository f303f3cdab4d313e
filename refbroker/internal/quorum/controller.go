package quorum

import (
	"context"
	"slices"
	"time"
)

// imbalanceCheck is how often the controller gives leaderships back to preferred
// replicas (leader.imbalance.check.interval.seconds).
const imbalanceCheck = 5 * time.Minute

// control is the controller: as long as this node leads the quorum it fences
// brokers that fall silent, and lets those lead again that come back.
func (n *Node) control(ctx context.Context) {
	session := n.cfg.SessionTimeout
	every := session / 10
	tick := time.NewTicker(every)
	defer tick.Stop()
	led, before := false, int32(-1)
	last := time.Now()
	balanced := last
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		late := now.Sub(last) > session/2
		last = now
		leader := n.Leader()
		leads := leader == n.cfg.NodeID
		if leads && (!led || late) {
			n.hearts.forgive()
			if b := n.Image().Brokers[before]; b != nil && !led {
				n.hearts.suspect(b, now.Add(-session*2/3))
			}
		}
		led = leads
		if !leads {
			if leader >= 0 {
				before = leader
			}
			continue
		}
		before = -1
		fence, unfence := n.hearts.judge(n.Image(), now, session)
		for _, b := range fence {
			n.cfg.Log.Warn("broker is silent, and fenced", "broker", b.ID, "session_timeout", session)
			n.decide(ctx, FenceBroker{ID: b.ID, Epoch: b.Epoch})
		}
		for _, b := range unfence {
			n.cfg.Log.Info("broker is back, and unfenced", "broker", b.ID)
			n.decide(ctx, UnfenceBroker{ID: b.ID, Epoch: b.Epoch})
		}
		if now.Sub(balanced) > imbalanceCheck {
			balanced = now
			n.preferLeaders(ctx)
		}
		if len(fence)+len(unfence) > 0 {
			last = time.Now() // the wait for the quorum is nobody's silence
		}
	}
}

// decide applies a controller's command. What fails is judged anew.
func (n *Node) decide(ctx context.Context, c Command) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.SessionTimeout)
	defer cancel()
	if _, err := n.Apply(ctx, c); err != nil && ctx.Err() == nil {
		n.cfg.Log.Warn("controller's decision was not recorded", "error", err)
	}
}

// preferLeaders moves leaderships to the preferred replicas that are in sync.
func (n *Node) preferLeaders(ctx context.Context) {
	img := n.Image()
	for _, name := range sortedIDs(img.Topics) {
		for i, p := range img.Topics[name].Partitions {
			if first := p.Replicas[0]; p.Leader >= 0 && p.Leader != first && slices.Contains(p.ISR, first) && img.live(first) {
				n.decide(ctx, ElectLeader{Topic: name, Partition: int32(i)})
			}
		}
	}
}
