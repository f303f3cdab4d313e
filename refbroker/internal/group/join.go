package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// JoinRequest is a JoinGroup.
type JoinRequest struct {
	MemberID string
	// InstanceID is "" for a dynamic member.
	InstanceID           string
	ClientID, ClientHost string
	SessionTimeout       time.Duration
	RebalanceTimeout     time.Duration
	ProtocolType         string
	Protocols            []Protocol
	// NewID is the member id that a new member gets.
	NewID string
	// NeedsID: the client joins only under an id that it was given before, so
	// that a lost answer leaves no ghost behind (KIP-394, v4).
	NeedsID bool
	// KnowsSkip: the client understands SkipAssignment (KIP-814, v9).
	KnowsSkip bool
}

// JoinMember is a member as the leader sees it.
type JoinMember struct {
	ID, InstanceID string
	Metadata       []byte
}

// JoinAnswer answers a JoinGroup.
type JoinAnswer struct {
	Err                    error
	MemberID               string
	Generation             int32
	ProtocolType, Protocol string
	Leader                 string
	// Members are told to the leader alone.
	Members        []JoinMember
	SkipAssignment bool
}

func refusedJoin(id string, err error) JoinAnswer {
	return JoinAnswer{Err: err, MemberID: id, Generation: -1}
}

// Join is a member that joins, or joins again. Its answer may come with a
// later event.
func (g *Group) Join(r JoinRequest, t Token, now time.Time, wall int64) {
	switch {
	case g.State == Dead:
		g.answerJoin(t, refusedJoin(r.MemberID, kerr.CoordinatorNotAvailable))
	case !g.supports(r.ProtocolType, r.Protocols):
		g.answerJoin(t, refusedJoin(r.MemberID, kerr.InconsistentGroupProtocol))
	case r.MemberID == "":
		g.joinNew(r, t, now, wall)
	default:
		g.joinKnown(r, t, now, wall)
	}
}

// supports reports whether members of a type could work together with those
// who are in.
func (g *Group) supports(protocolType string, protocols []Protocol) bool {
	if protocolType == "" || len(protocols) == 0 {
		return false
	}
	if len(g.members) == 0 {
		return true
	}
	if protocolType != g.ProtocolType {
		return false
	}
	for _, p := range protocols {
		if g.all(p.Name) {
			return true
		}
	}
	return false
}

// all reports whether every member knows a protocol.
func (g *Group) all(protocol string) bool {
	for _, m := range g.members {
		if !m.knows(protocol) {
			return false
		}
	}
	return true
}

func (g *Group) joinNew(r JoinRequest, t Token, now time.Time, wall int64) {
	switch _, replaced := g.statics[r.InstanceID]; {
	case r.InstanceID != "" && replaced:
		g.replace(r, t, now, wall)
	case r.InstanceID == "" && r.NeedsID:
		g.promised[r.NewID] = now.Add(r.SessionTimeout)
		g.answerJoin(t, refusedJoin(r.NewID, kerr.MemberIDRequired))
	default:
		g.admit(r.NewID, r, t, now, wall)
	}
}

func (g *Group) joinKnown(r JoinRequest, t Token, now time.Time, wall int64) {
	if _, ok := g.promised[r.MemberID]; ok && r.InstanceID == "" {
		g.admit(r.MemberID, r, t, now, wall)
		return
	}
	m, err := g.known(r.MemberID, r.InstanceID)
	if err != nil {
		g.answerJoin(t, refusedJoin(r.MemberID, err))
		return
	}
	again := m.same(r.Protocols) && (g.State == CompletingRebalance || g.State == Stable && g.Leader != m.ID)
	if again {
		// The answer to its join was lost, or it looks whether something
		// changed: nothing did.
		g.touch(m, now)
		g.answerJoin(t, g.joined(m))
		return
	}
	g.update(m, r)
	g.wait(m, t)
	if g.State != PreparingRebalance {
		g.prepare(now, wall)
	}
	g.completeJoin(now, wall)
}

// admit takes a new member in, which makes a rebalance necessary.
func (g *Group) admit(id string, r JoinRequest, t Token, now time.Time, wall int64) {
	if len(g.members) == 0 {
		g.ProtocolType = r.ProtocolType
	}
	m := &Member{ID: id, InstanceID: r.InstanceID, fresh: true}
	g.update(m, r)
	g.add(m)
	g.wait(m, t)
	m.expires = now.Add(g.timing.FreshTimeout)
	g.arrivals = true
	if g.State != PreparingRebalance {
		g.prepare(now, wall)
	}
	g.completeJoin(now, wall)
}

func (g *Group) update(m *Member, r JoinRequest) {
	m.ClientID, m.ClientHost = r.ClientID, r.ClientHost
	m.SessionTimeout, m.RebalanceTimeout = r.SessionTimeout, r.RebalanceTimeout
	m.Protocols = r.Protocols
}

// wait lets a member wait for the end of the rebalance. A join of it that
// waits already lost its client.
func (g *Group) wait(m *Member, t Token) {
	g.answerJoin(m.joining, refusedJoin(m.ID, kerr.RebalanceInProgress))
	m.joining = t
	if !m.fresh {
		m.expires = time.Time{}
	}
}

// replace gives a static member that came back a new member id; whoever still
// has the old one is fenced (KIP-345). While nothing else changes there is no
// rebalance.
func (g *Group) replace(r JoinRequest, t Token, now time.Time, wall int64) {
	leader := g.Leader
	old := g.statics[r.InstanceID]
	m := g.member(old)
	g.answerJoin(m.joining, refusedJoin(old, kerr.FencedInstanceID))
	g.answerSync(m.syncing, SyncAnswer{Err: kerr.FencedInstanceID})
	m.joining, m.syncing = 0, 0
	m.ID = r.NewID
	g.statics[r.InstanceID] = m.ID
	if g.Leader == old {
		g.Leader = m.ID
	}
	if g.unsync[old] {
		delete(g.unsync, old)
		g.unsync[m.ID] = true
	}
	g.update(m, r)
	if g.State == Stable && g.choose() == g.Protocol {
		m.seen(now)
		a := g.joined(m)
		a.SkipAssignment = r.KnowsSkip && g.Leader == m.ID
		if !r.KnowsSkip {
			// It must not take itself for the leader, or it would assign anew.
			a.Leader, a.Members = leader, nil
		}
		g.write(store{token: t, answer: a})
		return
	}
	g.wait(m, t)
	if g.State != PreparingRebalance {
		g.prepare(now, wall)
	}
	g.completeJoin(now, wall)
}

// joined is the answer to a member of the current generation.
func (g *Group) joined(m *Member) JoinAnswer {
	a := JoinAnswer{
		MemberID: m.ID, Generation: g.Generation, ProtocolType: g.ProtocolType, Protocol: g.Protocol, Leader: g.Leader,
	}
	if m.ID == g.Leader {
		for _, o := range g.members {
			a.Members = append(a.Members, JoinMember{ID: o.ID, InstanceID: o.InstanceID, Metadata: o.metadata(g.Protocol)})
		}
	}
	return a
}
