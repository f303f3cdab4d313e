package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata is a group as it is stored.
type Metadata struct {
	ProtocolType string
	Generation   int32
	// Protocol and Leader are "" in a group without members.
	Protocol, Leader string
	// Since is when the group came to its state, in ms; -1 when it isn't known.
	Since   int64
	Members []StoredMember
}

// StoredMember is one member of a stored group.
type StoredMember struct {
	ID, InstanceID, ClientID, ClientHost string
	RebalanceTimeout, SessionTimeout     time.Duration
	Subscription, Assignment             []byte
}

// metadata is the group as it is to be stored with these assignments; nil for
// those that members have.
func (g *Group) metadata(assignments map[string][]byte) *Metadata {
	out := &Metadata{ProtocolType: g.ProtocolType, Generation: g.Generation, Protocol: g.Protocol, Leader: g.Leader, Since: g.Since}
	for _, m := range g.members {
		s := StoredMember{
			ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			RebalanceTimeout: m.RebalanceTimeout, SessionTimeout: m.SessionTimeout,
			Subscription: m.metadata(g.Protocol), Assignment: m.Assignment,
		}
		if assignments != nil {
			s.Assignment = assignments[m.ID]
		}
		out.Members = append(out.Members, s)
	}
	return out
}

// Restore makes an unused group what was stored: stable with its members,
// whose sessions begin anew, or empty.
func (g *Group) Restore(s Metadata, now time.Time) {
	g.ProtocolType, g.Generation, g.Since = s.ProtocolType, s.Generation, s.Since
	if len(s.Members) == 0 {
		return
	}
	g.State, g.Protocol, g.Leader = Stable, s.Protocol, s.Leader
	for _, m := range s.Members {
		if g.member(m.ID) != nil {
			continue
		}
		member := &Member{
			ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			SessionTimeout: m.SessionTimeout, RebalanceTimeout: m.RebalanceTimeout,
			Protocols: []Protocol{{Name: s.Protocol, Metadata: m.Subscription}}, Assignment: m.Assignment,
		}
		member.seen(now)
		g.members = append(g.members, member)
		if m.InstanceID != "" {
			g.statics[m.InstanceID] = m.ID
		}
	}
	if g.member(g.Leader) == nil {
		g.Leader = g.members[0].ID
	}
}

// consumerType is the protocol type whose metadata the coordinator can read.
const consumerType = "consumer"

// Subscribes reports whether a member consumes a topic. What can't be read may
// mean any.
func (g *Group) Subscribes(topic string) bool {
	for _, m := range g.members {
		for _, p := range m.Protocols {
			var c kmsg.ConsumerMemberMetadata
			if err := c.ReadFrom(p.Metadata); err != nil || slices.Contains(c.Topics, topic) {
				return true
			}
		}
	}
	return false
}
