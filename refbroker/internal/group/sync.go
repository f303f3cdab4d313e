package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// SyncRequest is a SyncGroup.
type SyncRequest struct {
	MemberID, InstanceID string
	Generation           int32
	// ProtocolType and Protocol are nil when the client doesn't say (before v5).
	ProtocolType, Protocol *string
	// Assignments are the leader's, by member id.
	Assignments map[string][]byte
}

// SyncAnswer answers a SyncGroup.
type SyncAnswer struct {
	Err                    error
	ProtocolType, Protocol string
	Assignment             []byte
}

func (g *Group) synced(m *Member) SyncAnswer {
	return SyncAnswer{ProtocolType: g.ProtocolType, Protocol: g.Protocol, Assignment: m.Assignment}
}

// Sync is a member that wants its assignment, and the leader that brings all.
func (g *Group) Sync(r SyncRequest, t Token, now time.Time) {
	m, err := g.current(r.MemberID, r.InstanceID, r.Generation)
	switch {
	case err != nil:
	case r.ProtocolType != nil && *r.ProtocolType != g.ProtocolType, r.Protocol != nil && *r.Protocol != g.Protocol:
		err = kerr.InconsistentGroupProtocol
	case g.State == PreparingRebalance:
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		g.answerSync(t, SyncAnswer{Err: err})
		return
	}
	delete(g.unsync, m.ID)
	if len(g.unsync) == 0 {
		g.syncBy = time.Time{}
	}
	if g.State == Stable {
		m.seen(now)
		g.answerSync(t, g.synced(m))
		return
	}
	// A sync of it that waits already lost its client.
	g.answerSync(m.syncing, SyncAnswer{Err: kerr.RebalanceInProgress})
	m.syncing, m.expires = t, time.Time{}
	if m.ID == g.Leader && !g.assigning() {
		all := map[string][]byte{}
		for _, o := range g.members {
			all[o.ID] = r.Assignments[o.ID]
		}
		g.write(store{assignments: all})
	}
}

// assigning reports whether this generation's assignment is being written.
func (g *Group) assigning() bool {
	for _, s := range g.stores {
		if s.assignments != nil && s.generation == g.Generation {
			return true
		}
	}
	return false
}

// current returns the member that a request of a generation comes from.
func (g *Group) current(id, instance string, generation int32) (*Member, error) {
	if g.State == Dead {
		return nil, kerr.CoordinatorNotAvailable
	}
	m, err := g.known(id, instance)
	if err != nil {
		return nil, err
	}
	if generation != g.Generation {
		return nil, kerr.IllegalGeneration
	}
	return m, nil
}

// Heartbeat keeps a member's session alive, and tells it of a rebalance.
func (g *Group) Heartbeat(id, instance string, generation int32, now time.Time) error {
	m, err := g.current(id, instance, generation)
	if err != nil {
		return err
	}
	g.touch(m, now)
	if g.State == PreparingRebalance {
		return kerr.RebalanceInProgress
	}
	return nil
}

// touch begins a session anew, unless a request of the member waits.
func (g *Group) touch(m *Member, now time.Time) {
	if m.joining == 0 && m.syncing == 0 {
		m.seen(now)
	}
}

// Leaver is one member of a LeaveGroup; static members may come without
// member id.
type Leaver struct{ MemberID, InstanceID string }

// Leave takes members out at once; the errors are for each.
func (g *Group) Leave(leavers []Leaver, now time.Time, wall int64) []error {
	errs := make([]error, len(leavers))
	var gone []*Member
	for i, l := range leavers {
		if _, ok := g.promised[l.MemberID]; ok && l.InstanceID == "" {
			delete(g.promised, l.MemberID)
			continue
		}
		id := l.MemberID
		if id == "" && l.InstanceID != "" {
			id = g.statics[l.InstanceID]
		}
		m, err := g.known(id, l.InstanceID)
		if err == nil && slices.Contains(gone, m) {
			err = kerr.UnknownMemberID // named twice
		}
		if err != nil {
			errs[i] = err
			continue
		}
		gone = append(gone, m)
	}
	g.remove(gone, now, wall)
	g.completeJoin(now, wall)
	return errs
}

// Committer is who commits offsets.
type Committer struct {
	MemberID, InstanceID string
	// Generation is -1 for one that is no member.
	Generation int32
	// Transactional: clients before KIP-447 commit in transactions without
	// saying who they are.
	Transactional bool
}

// MayCommit says whether offsets may be committed. A member's session begins
// anew by it.
func (g *Group) MayCommit(c Committer, now time.Time) error {
	switch {
	case g.State == Dead:
		return kerr.CoordinatorNotAvailable
	case c.Generation < 0 && g.State == Empty:
		return nil
	case c.Generation >= 0, c.MemberID != "", c.InstanceID != "":
		m, err := g.current(c.MemberID, c.InstanceID, c.Generation)
		if err != nil {
			return err
		}
		if g.State == CompletingRebalance && !c.Transactional {
			// It knows the generation, and so has joined; what it worked on is
			// no longer its own for sure.
			return kerr.RebalanceInProgress
		}
		g.touch(m, now)
	case !c.Transactional:
		return kerr.UnknownMemberID
	}
	return nil
}

// Kill makes an empty group Dead, until its tombstones are written.
func (g *Group) Kill(wall int64) error {
	switch {
	case g.State == Dead:
		return kerr.GroupIDNotFound
	case g.State != Empty:
		return kerr.NonEmptyGroup
	}
	clear(g.promised)
	g.move(Dead, wall)
	return nil
}

// Revive makes a dead group empty again: its tombstones could not be written.
func (g *Group) Revive(wall int64) {
	if g.State == Dead {
		g.move(Empty, wall)
	}
}
