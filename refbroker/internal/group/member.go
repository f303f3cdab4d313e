package group

import (
	"bytes"
	"slices"
	"time"
)

// Protocol is one way of assigning that a member can do, with what it tells
// the leader for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Member is one member of a group.
type Member struct {
	ID string
	// InstanceID is that of a static member (KIP-345), "" for a dynamic one.
	InstanceID           string
	ClientID, ClientHost string
	SessionTimeout       time.Duration
	RebalanceTimeout     time.Duration
	// Protocols in the order of the member's preference.
	Protocols  []Protocol
	Assignment []byte

	// joining and syncing are the tokens of requests that wait for an answer.
	joining, syncing Token
	// fresh: the member's first join is not answered yet.
	fresh bool
	// expires is when the session ends; zero while a request of the member
	// waits, which keeps it alive.
	expires time.Time
}

// metadata is what the member says for a protocol.
func (m *Member) metadata(protocol string) []byte {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// same reports whether the member said the same before.
func (m *Member) same(protocols []Protocol) bool {
	return slices.EqualFunc(m.Protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func (m *Member) knows(protocol string) bool {
	return slices.ContainsFunc(m.Protocols, func(p Protocol) bool { return p.Name == protocol })
}

// seen begins the member's session anew.
func (m *Member) seen(now time.Time) { m.expires = now.Add(m.SessionTimeout) }
