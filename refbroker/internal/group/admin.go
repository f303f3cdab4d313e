package group

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/refbroker/internal/shards"
)

// Description is a group as it is described.
type Description struct {
	ID                     string
	State                  State
	ProtocolType, Protocol string
	Members                []MemberDescription
}

// MemberDescription is a member as it is described.
type MemberDescription struct {
	ID, InstanceID, ClientID, ClientHost string
	// Metadata and Assignment are told of stable groups only.
	Metadata, Assignment []byte
}

// Describe returns what is known of a group.
func (c *Coordinator) Describe(ctx context.Context, group string) (Description, error) {
	d := Description{ID: group, State: Dead}
	s, err := c.loaded(ctx, group)
	if err != nil {
		return d, err
	}
	var answer error
	err = s.with(group, false, func(e *entry) {
		if e == nil || !e.known() {
			answer = kerr.GroupIDNotFound
			return
		}
		g := e.group
		d.State, d.ProtocolType = g.State, g.ProtocolType
		if g.State == Stable {
			d.Protocol = g.Protocol
		}
		for _, m := range g.Members() {
			o := MemberDescription{ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost}
			if g.State == Stable {
				o.Metadata, o.Assignment = m.metadata(g.Protocol), m.Assignment
			}
			d.Members = append(d.Members, o)
		}
	})
	if err != nil {
		return d, err
	}
	return d, answer
}

// List returns all groups of this node that keep wants, by id; without their
// members.
func (c *Coordinator) List(keep func(Description) bool) ([]Description, error) {
	led, err := c.shards.Led()
	if err != nil {
		return nil, err
	}
	var all []Description
	for _, s := range led {
		s.mu.Lock()
		err := s.ready()
		if err == nil {
			for id, e := range s.groups {
				d := Description{ID: id, State: e.group.State, ProtocolType: e.group.ProtocolType}
				if e.known() && keep(d) {
					all = append(all, d)
				}
			}
		}
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Description) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Delete deletes a group without members, and its offsets.
func (c *Coordinator) Delete(ctx context.Context, group string) error {
	s, err := c.loaded(ctx, group)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	err = s.with(group, false, func(e *entry) {
		if e == nil || !e.known() {
			done <- kerr.GroupIDNotFound
			return
		}
		if err := s.bury(e, func(err error) { done <- writeError(err) }); err != nil {
			done <- err
		}
	})
	if err != nil {
		return err
	}
	return answered(ctx, done)
}

func answered(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return kerr.NotCoordinator
	}
}

// bury writes the tombstones of a group and its offsets, unless it has members.
// mu is held.
func (s *shard) bury(e *entry, done func(error)) error {
	if err := e.group.Kill(s.c.wall()); err != nil {
		return err
	}
	s.enqueue(e, write{
		by: shards.NoProducer(),
		records: func() []Record {
			all := tombstones(e.group.ID, e.ledger.All())
			if e.group.Used() {
				all = append(all, Record{Group: e.group.ID})
			}
			return all
		},
		done: func(err error) {
			s.mu.Lock()
			if err != nil {
				e.group.Revive(s.c.wall())
			} else if s.groups[e.group.ID] == e {
				delete(s.groups, e.group.ID)
			}
			s.mu.Unlock()
			done(err)
		},
	})
	return nil
}

func tombstones(group string, partitions []Partition) []Record {
	var all []Record
	for _, p := range partitions {
		all = append(all, Record{Group: group, Partition: &p})
	}
	return all
}

// DeleteOffsets deletes committed offsets: an error for each, or one for all.
// Those of topics that members consume stay.
func (c *Coordinator) DeleteOffsets(ctx context.Context, group string, partitions []Partition) ([]error, error) {
	if group == "" {
		return nil, kerr.InvalidGroupID
	}
	s, err := c.loaded(ctx, group)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(partitions))
	done := make(chan error, 1)
	err = s.with(group, false, func(e *entry) {
		switch {
		case e == nil || !e.known():
			done <- kerr.GroupIDNotFound
			return
		case e.group.State != Empty && e.group.ProtocolType != consumerType:
			done <- kerr.NonEmptyGroup
			return
		}
		var gone []Partition
		for i, p := range partitions {
			if e.group.Subscribes(p.Topic) {
				errs[i] = kerr.GroupSubscribedToTopic
				continue
			}
			gone = append(gone, p)
		}
		s.enqueue(e, write{
			by: shards.NoProducer(),
			records: func() []Record {
				return tombstones(group, slices.DeleteFunc(gone, func(p Partition) bool { return !slices.Contains(e.ledger.All(), p) }))
			},
			done: func(err error) { done <- writeError(err) },
		})
	})
	if err != nil {
		return nil, err
	}
	return errs, answered(ctx, done)
}

// sweep deletes offsets whose time is over, or whose topic is gone, and groups
// that have nothing left.
func (s *shard) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready() != nil {
		return
	}
	for _, e := range s.groups {
		// What is being written is decided on later: a commit may be among it.
		if e.writing || e.group.State == Dead {
			continue
		}
		gone := e.ledger.Expired(e.group, s.c.wall(), s.c.cfg.OffsetsRetention.Milliseconds())
		for _, p := range e.ledger.Partitions() {
			if c, _, unstable := e.ledger.Lookup(p); !unstable && s.c.gone(p, c) && !slices.Contains(gone, p) {
				gone = append(gone, p)
			}
		}
		switch left := len(e.ledger.All()) - len(gone); {
		case left == 0 && e.group.Idle():
			_ = s.bury(e, func(error) {}) // it is idle
		case len(gone) > 0:
			s.enqueue(e, write{
				by: shards.NoProducer(), records: func() []Record { return tombstones(e.group.ID, gone) }, done: func(error) {},
			})
		}
	}
}
