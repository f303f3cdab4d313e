package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/quorum"
)

// proposal is an ISR that this leader asked the quorum for, and has no answer
// yet: the high watermark waits for its members too.
type proposal struct {
	isr []int32
	// partitionEpoch is what the proposal is conditional on: once the partition
	// has a later one the proposal is in force, or void.
	partitionEpoch int32
	// unsure: the answer was lost. Whether it is in force shows with the next
	// partition epoch only.
	unsure bool
	// asked: the answer is still to come.
	asked bool
}

// insyncLocked are the replicas of which all must have a record before it is
// committed. mu is held.
func (p *Partition) insyncLocked() []int32 {
	if p.pending == nil {
		return p.role.isr
	}
	all := slices.Clone(p.role.isr)
	for _, id := range p.pending.isr {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// ProposeISR says which change of the ISR the leader has to ask the quorum for
// now: members that lag leave it, others that caught up join (KIP-497). ok is
// false for none. The answer must be brought to [Partition.ISRAnswered].
func (p *Partition) ProposeISR(now time.Time) (c quorum.AlterPartition, ok bool) {
	marks := p.log.Marks()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.role
	if r.leader != p.node || p.closed || p.pending != nil && p.pending.asked {
		return c, false
	}
	next := p.progress.wanted(r.replicas, r.isr, marks.LogEnd, marks.HighWatermark, now, p.lag, p.eligible)
	unsure := p.pending != nil && p.pending.unsure
	if !unsure && sameMembers(next, r.isr) {
		return c, false
	}
	c = quorum.AlterPartition{
		Topic: p.topic, Partition: p.index, LeaderEpoch: r.epoch, PartitionEpoch: r.partitionEpoch,
		Leader: p.node, ISR: next, BrokerEpochs: map[int32]int64{},
	}
	for _, id := range next {
		if f, ok := p.progress.by[id]; ok && f.epoch >= 0 && !slices.Contains(r.isr, id) {
			c.BrokerEpochs[id] = f.epoch
		}
	}
	all := next
	if unsure { // what was asked for before may still come into force
		all = append(slices.Clone(next), p.pending.isr...)
	}
	p.pending = &proposal{isr: all, partitionEpoch: r.partitionEpoch, asked: true, unsure: unsure}
	return c, true
}

// ISRAnswered tells what became of a proposal. One that was made comes into
// force with the quorum's image.
func (p *Partition) ISRAnswered(c quorum.AlterPartition, err error) {
	p.mu.Lock()
	if q := p.pending; q != nil && q.partitionEpoch == c.PartitionEpoch {
		q.asked = false
		switch {
		case err != nil && refused(err) && !q.unsure:
			p.pending = nil
		case err != nil:
			q.unsure = true
		}
	}
	p.mu.Unlock()
	p.raise()
}

// refused reports whether the quorum's state machine refused a command, so that
// it never takes effect.
func refused(err error) bool {
	for _, code := range []error{
		kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.InvalidUpdateVersion, kerr.IneligibleReplica,
		kerr.InvalidRequest, kerr.UnknownTopicOrPartition,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// Tend looks again at what time alone changes: a replica that was about to join
// no longer holds the high watermark back once it has lagged for too long.
func (p *Partition) Tend() {
	p.mu.Lock()
	leads := p.role.leader == p.node && len(p.role.replicas) > 1 && !p.closed
	p.mu.Unlock()
	if leads && p.log.Marks().HighWatermark < p.log.Marks().LogEnd {
		p.raise()
	}
}

// raise moves the high watermark to where it may be by now.
func (p *Partition) raise() {
	p.order.Lock()
	moved := p.raiseHighWatermark()
	p.order.Unlock()
	if moved {
		p.notify()
	}
}

func sameMembers(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for _, id := range a {
		if !slices.Contains(b, id) {
			return false
		}
	}
	return true
}
