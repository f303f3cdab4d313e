package quorum

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Reassign moves a partition to other replicas (KIP-455): those that are new
// catch up and join the ISR first, and those that are no longer wanted leave
// once all the new ones are in. Until then the partition has both. Without
// replicas it cancels the reassignment in progress: what that was adding leaves
// at once. The result is the *[Partition].
type Reassign struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Replicas are the wanted ones, the preferred leader first; nil to cancel.
	Replicas []int32 `json:"replicas"`
	// SameFactor refuses another number of replicas than there are
	// (allow.replication.factor.change of version 1 of the request).
	SameFactor bool `json:"sameFactor,omitempty"`
}

// Kind names the command.
func (Reassign) Kind() (string, int) { return "Reassign", 1 }

func (c Reassign) apply(img *Image) (*Image, any, error) {
	if c.Replicas != nil {
		if err := img.assignable(c.Replicas); err != nil {
			return nil, nil, fmt.Errorf("partition %s-%d: %w", c.Topic, c.Partition, err)
		}
	}
	t, old, err := img.Partition(c.Topic, c.Partition)
	if err != nil {
		return nil, nil, err
	}
	if c.Replicas != nil && !old.Reassigning() && slices.Equal(c.Replicas, old.Replicas) {
		return img, old, nil // it is as it is wanted
	}
	return img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		origin := p.Settled()
		want := c.Replicas
		switch {
		case want == nil && !p.Reassigning():
			return fmt.Errorf("nothing to cancel: %w", kerr.NoReassignmentInProgress)
		case want == nil:
			want = origin
		case c.SameFactor && len(want) != len(origin):
			return fmt.Errorf("%d replicas %v where there are %d, and the number must stay: %w", len(want), want, len(origin), kerr.InvalidReplicationFactor)
		}
		// What an earlier reassignment was adding and this one does not want, leaves
		// at once: it never was one of the partition's replicas.
		all := union32(want, origin)
		p.AddingReplicas, p.RemovingReplicas = without(all, origin), without(all, want)
		return p.restrict(all, img.electionOf(t))
	})
}

// Reassigning reports whether a reassignment is in progress.
func (p *Partition) Reassigning() bool { return len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 }

// Settled are the replicas that the partition has if the reassignment in
// progress is cancelled; all of them when there is none.
func (p *Partition) Settled() []int32 { return without(p.Replicas, p.AddingReplicas) }

// assignable refuses replicas that a partition can't have.
func (img *Image) assignable(replicas []int32) error {
	if len(replicas) == 0 {
		return fmt.Errorf("no replica: %w", kerr.InvalidReplicaAssignment)
	}
	for i, r := range replicas {
		if _, ok := img.Brokers[r]; !ok {
			return fmt.Errorf("replicas %v: no broker %d: %w", replicas, r, kerr.InvalidReplicaAssignment)
		}
		if slices.Contains(replicas[:i], r) {
			return fmt.Errorf("replicas %v: broker %d twice: %w", replicas, r, kerr.InvalidReplicaAssignment)
		}
	}
	return nil
}

// restrict leaves p with replicas. A leader that goes is followed by another
// member of the ISR. Where no member stays, acknowledged records would be lost:
// that is refused, unless the topic allows unclean elections.
func (p *Partition) restrict(replicas []int32, e election) error {
	isr := slices.DeleteFunc(slices.Clone(p.ISR), func(r int32) bool { return !slices.Contains(replicas, r) })
	if len(isr) == 0 && e.unclean && slices.ContainsFunc(replicas, e.live) {
		p.Replicas, p.ISR = replicas, nil
		p.elect(e)
		return nil
	}
	if len(isr) == 0 {
		return fmt.Errorf("replicas %v: none of the in-sync replicas %v would stay: %w", replicas, p.ISR, kerr.InvalidReplicaAssignment)
	}
	p.Replicas, p.ISR = replicas, isr
	if p.Leader < 0 && p.electable(e) || p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader) {
		p.elect(e)
	}
	return nil
}

// reassigned ends a reassignment whose new replicas are all in sync: those that
// are no longer wanted leave, as long as another in-sync replica that lives
// stays. It says whether it did.
func (p *Partition) reassigned(e election) bool {
	if !p.Reassigning() || len(without(p.AddingReplicas, p.ISR)) > 0 {
		return false
	}
	stay := without(p.Replicas, p.RemovingReplicas)
	if !slices.ContainsFunc(stay, func(r int32) bool { return slices.Contains(p.ISR, r) && e.live(r) }) {
		return false
	}
	p.AddingReplicas, p.RemovingReplicas = nil, nil
	return p.restrict(stay, e) == nil
}

// union32 is a, and what b has more, in their orders.
func union32(a, b []int32) []int32 { return append(slices.Clone(a), without(b, a)...) }

// without is a without what b has; nil for nothing.
func without(a, b []int32) []int32 {
	var out []int32
	for _, r := range a {
		if !slices.Contains(b, r) {
			out = append(out, r)
		}
	}
	return out
}
