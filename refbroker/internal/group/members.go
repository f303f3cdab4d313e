package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Join answers a JoinGroup once the group's rebalance has gone through.
func (c *Coordinator) Join(ctx context.Context, group string, r JoinRequest) JoinAnswer {
	if group == "" {
		return refusedJoin(r.MemberID, kerr.InvalidGroupID)
	}
	if r.SessionTimeout < c.cfg.MinSession || r.SessionTimeout > c.cfg.MaxSession {
		return refusedJoin(r.MemberID, kerr.InvalidSessionTimeout)
	}
	s, err := c.loaded(ctx, group)
	if err != nil {
		return refusedJoin(r.MemberID, err)
	}
	var t Token
	var ch chan Effect
	err = s.with(group, r.MemberID == "", func(e *entry) {
		t, ch = s.token()
		if e == nil {
			ch <- Effect{Join: refusedJoin(r.MemberID, kerr.UnknownMemberID)}
			return
		}
		e.group.Join(r, t, now(), c.wall())
	})
	if err != nil {
		return refusedJoin(r.MemberID, err)
	}
	f, ok := s.await(ctx, t, ch)
	if !ok {
		return refusedJoin(r.MemberID, kerr.NotCoordinator)
	}
	return f.Join
}

// Sync answers a SyncGroup once the leader has assigned.
func (c *Coordinator) Sync(ctx context.Context, group string, r SyncRequest) SyncAnswer {
	if group == "" {
		return SyncAnswer{Err: kerr.InvalidGroupID}
	}
	s, err := c.loaded(ctx, group)
	if err != nil {
		return SyncAnswer{Err: err}
	}
	var t Token
	var ch chan Effect
	err = s.with(group, false, func(e *entry) {
		t, ch = s.token()
		if e == nil {
			ch <- Effect{Sync: SyncAnswer{Err: kerr.UnknownMemberID}}
			return
		}
		e.group.Sync(r, t, now())
	})
	if err != nil {
		return SyncAnswer{Err: err}
	}
	f, ok := s.await(ctx, t, ch)
	if !ok {
		return SyncAnswer{Err: kerr.NotCoordinator}
	}
	return f.Sync
}

// Heartbeat answers a Heartbeat.
func (c *Coordinator) Heartbeat(ctx context.Context, group, member, instance string, generation int32) (err error) {
	return c.onGroup(ctx, group, func(e *entry) error {
		if e == nil {
			return kerr.UnknownMemberID
		}
		return e.group.Heartbeat(member, instance, generation, now())
	})
}

// Leave answers a LeaveGroup: an error for each, or one for all.
func (c *Coordinator) Leave(ctx context.Context, group string, leavers []Leaver) (errs []error, err error) {
	err = c.onGroup(ctx, group, func(e *entry) error {
		switch {
		case e == nil:
			errs = make([]error, len(leavers))
			for i := range errs {
				errs[i] = kerr.UnknownMemberID
			}
			return nil
		case e.group.State == Dead:
			return kerr.CoordinatorNotAvailable
		}
		errs = e.group.Leave(leavers, now(), c.wall())
		return nil
	})
	return errs, err
}

// onGroup lets f answer for a group that has a name; e is nil for an unknown
// one.
func (c *Coordinator) onGroup(ctx context.Context, group string, f func(e *entry) error) error {
	if group == "" {
		return kerr.InvalidGroupID
	}
	s, err := c.loaded(ctx, group)
	if err != nil {
		return err
	}
	var answer error
	if err := s.with(group, false, func(e *entry) { answer = f(e) }); err != nil {
		return err
	}
	return answer
}
