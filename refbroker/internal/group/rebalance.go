package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// prepare begins a rebalance.
func (g *Group) prepare(now time.Time, wall int64) {
	for _, m := range g.members {
		g.answerSync(m.syncing, SyncAnswer{Err: kerr.RebalanceInProgress})
		if m.syncing != 0 {
			m.syncing = 0
			m.seen(now)
		}
		if g.State == CompletingRebalance {
			m.Assignment = nil
		}
	}
	clear(g.unsync)
	g.syncBy = time.Time{}
	empty := g.State == Empty
	g.move(PreparingRebalance, wall)
	wait := g.rebalanceTimeout()
	g.initial = empty
	if empty {
		g.patience = max(wait-g.timing.InitialDelay, 0)
		g.arrivals = false
		wait = g.timing.InitialDelay
	}
	g.joinBy = now.Add(wait)
}

// rebalanceTimeout is the longest that a member wants.
func (g *Group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.RebalanceTimeout)
	}
	return longest
}

// joinDue goes on with a rebalance whose time is over.
func (g *Group) joinDue(now time.Time, wall int64) {
	if g.initial && g.arrivals && g.patience > 0 {
		g.arrivals = false
		wait := min(g.timing.InitialDelay, g.patience)
		g.patience -= wait
		g.joinBy = now.Add(wait)
		return
	}
	g.begin(now, wall)
}

// completeJoin ends the wait of a rebalance when everybody is there. The first
// one of a group always takes its time.
func (g *Group) completeJoin(now time.Time, wall int64) {
	if g.State != PreparingRebalance || g.initial && len(g.members) > 0 || len(g.promised) > 0 {
		return
	}
	for _, m := range g.members {
		if m.joining == 0 {
			return
		}
	}
	g.begin(now, wall)
}

// begin begins the next generation with those who have joined.
func (g *Group) begin(now time.Time, wall int64) {
	if g.State != PreparingRebalance {
		return
	}
	var absent []*Member
	for _, m := range g.members {
		if m.joining == 0 && m.InstanceID == "" {
			absent = append(absent, m)
		}
	}
	for _, m := range absent {
		g.drop(m)
	}
	if len(g.members) > 0 && !g.electJoined() {
		// Only static members, and none came: they may until their sessions end.
		g.initial = false
		g.joinBy = now.Add(max(g.rebalanceTimeout(), time.Millisecond))
		return
	}
	g.Generation++
	if len(g.members) == 0 {
		g.Protocol, g.Leader = "", ""
		g.move(Empty, wall)
		g.write(store{})
		return
	}
	g.Protocol = g.choose()
	g.move(CompletingRebalance, wall)
	for _, m := range g.members {
		m.Assignment = nil
		g.unsync[m.ID] = true
		g.answerJoin(m.joining, g.joined(m))
		if m.joining != 0 {
			m.joining, m.fresh = 0, false
			m.seen(now)
		}
	}
	g.syncBy = now.Add(g.rebalanceTimeout())
}

// electJoined makes sure that the leader is somebody who joined.
func (g *Group) electJoined() bool {
	if m := g.member(g.Leader); m != nil && m.joining != 0 {
		return true
	}
	for _, m := range g.members {
		if m.joining != 0 {
			g.Leader = m.ID
			return true
		}
	}
	return false
}

// choose is the protocol that all members know and most of them like best; of
// several, the one that comes first in the list of the oldest member.
func (g *Group) choose() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.Protocols {
			if g.all(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, m := range g.members[:min(1, len(g.members))] {
		for _, p := range m.Protocols {
			if votes[p.Name] > votes[best] {
				best = p.Name
			}
		}
	}
	return best
}

// Stored tells how a write went: of the leader's assignment, of a static
// member's new id, or of an empty group.
func (g *Group) Stored(number uint64, err error, now time.Time, wall int64) {
	s, ok := g.stores[number]
	if !ok {
		return
	}
	delete(g.stores, number)
	switch {
	case s.token != 0 && err != nil:
		// The new id stays: whoever has the old one is fenced all the same, and
		// the instance joins once more.
		g.answerJoin(s.token, refusedJoin("", err))
	case s.token != 0:
		g.answerJoin(s.token, s.answer)
	case s.assignments == nil || g.State != CompletingRebalance || g.Generation != s.generation:
		// An empty group, or the group has moved on.
	case err != nil:
		for _, m := range g.members {
			g.answerSync(m.syncing, SyncAnswer{Err: err})
			if m.syncing != 0 {
				m.syncing = 0
				m.seen(now)
			}
		}
		g.prepare(now, wall)
		g.completeJoin(now, wall)
	default:
		g.move(Stable, wall)
		for _, m := range g.members {
			m.Assignment = s.assignments[m.ID]
			if m.syncing != 0 {
				g.answerSync(m.syncing, g.synced(m))
				m.syncing = 0
				m.seen(now)
			}
		}
	}
}
