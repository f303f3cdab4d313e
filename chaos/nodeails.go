package chaos

import (
	"cmp"
	"context"
	"time"

	"watershed.example/fixtures"
)

// ailments are what the act makes of the node's machine.
func (p NodePlan) ailments() (a fixtures.Ailments, any bool) {
	switch p.Act {
	case DiskFull:
		a.DiskFull = true
	case SlowSync:
		a.SlowSync = cmp.Or(p.Delay, DefaultSync)
	case ClockSkew:
		a.ClockOffset = cmp.Or(p.Delay, DefaultSkew)
	}
	return a, a != fixtures.Ailments{}
}

// ail makes the node's machine ail.
func (s *NodeStrike) ail(ctx context.Context, a fixtures.Ailments) (err error) {
	if s.wasWell, err = s.node.Suffered(ctx); err != nil {
		return err
	}
	_, err = s.node.Suffer(ctx, a)
	return err
}

// lookLimit bounds one look at what a node has met.
const lookLimit = 5 * time.Second

// look counts what the node has met of its machine's ailments. The end of ctx does not
// cut it off: the way to the node's hooks would be lost with it.
func (s *NodeStrike) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	now, err := s.node.Suffered(ctx)
	if err != nil {
		return err
	}
	switch s.plan.Act {
	case DiskFull:
		s.proof.Effects = now.WritesRefused - s.wasWell.WritesRefused
	case SlowSync:
		s.proof.Effects = now.SyncsSlowed - s.wasWell.SyncsSlowed
	case ClockSkew:
		s.proof.Effects = now.WrongTimes - s.wasWell.WrongTimes
	}
	return nil
}

// Bite waits until a fault has bit that only does so when the broker does something:
// writes, syncs, looks at its clock. Others have bit when they struck.
func (s *NodeStrike) Bite(ctx context.Context) error {
	if _, ails := s.plan.ailments(); !ails || s.node == nil {
		return nil
	}
	for {
		if err := s.look(ctx); err != nil || s.proof.Bit() {
			return err
		}
		if err := pause(ctx, "%s has not suffered from it", s.node); err != nil {
			return err
		}
	}
}

// recover makes the node's machine well. A node that its machine's ailment has ended
// is started again.
func (s *NodeStrike) recover(ctx context.Context) error {
	if !s.node.Running() {
		s.proof.Ends++
		return s.node.Start(ctx)
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	_, err := s.node.Suffer(ctx, fixtures.Ailments{})
	return err
}
