package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	session   = 10 * time.Second
	rebalance = 60 * time.Second
	delay     = 3 * time.Second
)

// driver plays the coordinator's part for one group: it counts time, keeps
// answers, and tells the group of its writes.
type driver struct {
	t      require.TestingT
	g      *Group
	now    time.Time
	tokens Token
	ids    int
	joins  map[Token]JoinAnswer
	syncs  map[Token]SyncAnswer
	stores []Effect // not answered yet
	hold   bool     // stores wait for stored
	before State
}

func newDriver(t require.TestingT) *driver {
	return &driver{
		t: t, g: NewGroup("g", Timing{InitialDelay: delay, FreshTimeout: freshTimeout}), now: time.Unix(1000, 0),
		joins: map[Token]JoinAnswer{}, syncs: map[Token]SyncAnswer{},
	}
}

func (d *driver) wall() int64 { return d.now.UnixMilli() }

// settle takes the effects of an event.
func (d *driver) settle() {
	if d.g.State != d.before {
		require.True(d.t, d.reachable(d.before, d.g.State, 2), "%s after %s", d.g.State, d.before)
		d.before = d.g.State
	}
	for _, f := range d.g.Effects() {
		switch {
		case f.Store != nil:
			d.stores = append(d.stores, f)
		case d.isJoin(f):
			require.NotContains(d.t, d.joins, f.Token, "answered twice")
			d.joins[f.Token] = f.Join
		default:
			require.NotContains(d.t, d.syncs, f.Token, "answered twice")
			d.syncs[f.Token] = f.Sync
		}
	}
	if !d.hold && len(d.stores) > 0 {
		d.stored(nil)
	}
}

// reachable reports whether a state can follow in so many steps and one more.
func (d *driver) reachable(from, to State, more int) bool {
	if to.Follows(from) {
		return true
	}
	for s := Empty; s <= Dead && more > 0; s++ {
		if s.Follows(from) && d.reachable(s, to, more-1) {
			return true
		}
	}
	return false
}

func (d *driver) isJoin(f Effect) bool { return f.Token%2 == 0 }

// stored answers the oldest write.
func (d *driver) stored(err error) {
	f := d.stores[0]
	d.stores = d.stores[1:]
	d.g.Stored(f.Number, err, d.now, d.wall())
	d.settle()
}

func (d *driver) pass(by time.Duration) {
	end := d.now.Add(by)
	for {
		due := d.g.Deadline()
		if due.IsZero() || due.After(end) {
			break
		}
		if due.After(d.now) {
			d.now = due
		}
		d.g.Tick(d.now, d.wall())
		d.settle()
		next := d.g.Deadline()
		require.True(d.t, next.IsZero() || next.After(d.now), "a deadline does not pass")
	}
	d.now = end
}

func (d *driver) request(id string, change ...func(*JoinRequest)) JoinRequest {
	d.ids++
	r := JoinRequest{
		MemberID: id, ClientID: "c", ClientHost: "/h", SessionTimeout: session, RebalanceTimeout: rebalance, ProtocolType: "consumer",
		Protocols: []Protocol{{"range", []byte("meta")}, {"rr", []byte("meta")}}, NewID: fmt.Sprint("m", d.ids),
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// join has an even token, sync an odd one.
func (d *driver) join(id string, change ...func(*JoinRequest)) Token {
	d.tokens += 2
	t := d.tokens
	d.g.Join(d.request(id, change...), t, d.now, d.wall())
	d.settle()
	return t
}

func (d *driver) sync(id string, generation int32, assignments map[string][]byte, change ...func(*SyncRequest)) Token {
	d.tokens += 2
	t := d.tokens + 1
	r := SyncRequest{MemberID: id, Generation: generation, Assignments: assignments}
	for _, c := range change {
		c(&r)
	}
	d.g.Sync(r, t, d.now)
	d.settle()
	return t
}

// assignAll is what a leader of ours assigns: to each its own id.
func (d *driver) assignAll() map[string][]byte {
	all := map[string][]byte{}
	for _, m := range d.g.Members() {
		all[m.ID] = []byte("for " + m.ID)
	}
	return all
}

// stable makes a stable group of n members and returns their ids.
func stable(t require.TestingT, n int, change ...func(*JoinRequest)) (*driver, []string) {
	d := newDriver(t)
	var ids []string
	var tokens []Token
	for range n {
		tokens = append(tokens, d.join("", change...))
	}
	d.pass(2 * delay)
	for _, token := range tokens {
		require.NoError(t, d.joins[token].Err)
		ids = append(ids, d.joins[token].MemberID)
	}
	d.syncAll(ids)
	require.Equal(t, Stable, d.g.State)
	return d, ids
}

func (d *driver) syncAll(ids []string) {
	for _, id := range ids {
		d.sync(id, d.g.Generation, d.assignAll())
	}
}

func static(id string) func(*JoinRequest) {
	return func(r *JoinRequest) { r.InstanceID = id }
}

func needsID(r *JoinRequest) { r.NeedsID = true }

func withProtocols(names ...string) func(*JoinRequest) {
	return func(r *JoinRequest) {
		r.Protocols = nil
		for _, n := range names {
			r.Protocols = append(r.Protocols, Protocol{n, []byte("meta")})
		}
	}
}

func TestFirstRebalanceWaitsForMore(t *testing.T) {
	d := newDriver(t)
	a := d.join("")
	d.pass(delay - time.Second)
	b := d.join("")
	d.pass(time.Second)
	require.NotContains(t, d.joins, a, "another one came meanwhile: it waits once more")
	d.pass(delay)
	require.Equal(t, JoinAnswer{
		MemberID: "m1", Generation: 1, ProtocolType: "consumer", Protocol: "range", Leader: "m1",
		Members: []JoinMember{{"m1", "", []byte("meta")}, {"m2", "", []byte("meta")}},
	}, d.joins[a])
	require.Equal(t, JoinAnswer{MemberID: "m2", Generation: 1, ProtocolType: "consumer", Protocol: "range", Leader: "m1"}, d.joins[b])

	follower := d.sync("m2", 1, nil)
	require.NotContains(t, d.syncs, follower)
	d.hold = true
	leader := d.sync("m1", 1, d.assignAll())
	require.NotContains(t, d.syncs, leader, "nothing is told before it is written")
	require.Equal(t, CompletingRebalance, d.g.State)
	d.stored(nil)
	require.Equal(t, SyncAnswer{ProtocolType: "consumer", Protocol: "range", Assignment: []byte("for m1")}, d.syncs[leader])
	require.Equal(t, []byte("for m2"), d.syncs[follower].Assignment)
	require.Equal(t, Stable, d.g.State)
}

func TestPatienceOfFirstRebalanceEnds(t *testing.T) {
	d := newDriver(t)
	first := d.join("", func(r *JoinRequest) { r.RebalanceTimeout = 2 * delay })
	for range 3 {
		d.pass(delay - time.Millisecond)
		d.join("")
	}
	require.Contains(t, d.joins, first)
}

func TestMembersComeAndGo(t *testing.T) {
	d, ids := stable(t, 1)
	late := d.join("", needsID)
	require.Equal(t, refusedJoin("m2", kerr.MemberIDRequired), d.joins[late])
	require.NoError(t, d.g.Heartbeat(ids[0], "", 1, d.now), "nobody joined yet")
	late = d.join("m2", needsID)
	require.ErrorIs(t, d.g.Heartbeat(ids[0], "", 1, d.now), kerr.RebalanceInProgress)
	again := d.join(ids[0])
	require.Equal(t, int32(2), d.joins[late].Generation, "as soon as all are there")
	require.Len(t, d.joins[again].Members, 2)
	d.syncAll([]string{"m2", ids[0]})

	require.Equal(t, []error{nil, kerr.UnknownMemberID}, d.g.Leave([]Leaver{{MemberID: ids[0]}, {MemberID: ids[0]}}, d.now, d.wall()))
	d.settle()
	require.Equal(t, PreparingRebalance, d.g.State)
	again = d.join("m2")
	require.Equal(t, "m2", d.joins[again].Leader)
	d.g.Leave([]Leaver{{MemberID: "m2"}}, d.now, d.wall())
	d.settle()
	require.Equal(t, Empty, d.g.State)
	require.Equal(t, int32(4), d.g.Generation)
}

func TestWhoDoesNotRejoinIsLeftOut(t *testing.T) {
	d, ids := stable(t, 3)
	waiting := d.join(ids[1])
	require.NoError(t, d.joins[waiting].Err)
	require.Equal(t, Stable, d.g.State, "it said nothing new")
	waiting = d.join(ids[1], withProtocols("rr"))
	for range 11 {
		d.pass(session / 2)
		if d.g.State == PreparingRebalance {
			require.ErrorIs(t, d.g.Heartbeat(ids[0], "", 1, d.now), kerr.RebalanceInProgress)
		}
	}
	require.NotContains(t, d.joins, waiting)
	d.pass(session)
	a := d.joins[waiting]
	require.NoError(t, a.Err)
	require.Equal(t, []string{"rr", ids[1]}, []string{a.Protocol, a.Leader})
	require.Len(t, a.Members, 1)
	require.ErrorIs(t, d.g.Heartbeat(ids[0], "", 1, d.now), kerr.UnknownMemberID)
}

func TestSessionsEnd(t *testing.T) {
	d, ids := stable(t, 2)
	d.pass(session / 2)
	require.NoError(t, d.g.Heartbeat(ids[0], "", 1, d.now))
	d.pass(session / 2)
	require.Equal(t, PreparingRebalance, d.g.State)
	require.Len(t, d.g.Members(), 1)
	d.pass(session)
	require.Equal(t, Empty, d.g.State)
	require.True(t, d.g.Deadline().IsZero())
}

func TestPromisedIDsExpire(t *testing.T) {
	d, ids := stable(t, 1)
	d.join("", needsID)
	d.g.Leave(nil, d.now, d.wall())
	again := d.join(ids[0])
	require.NotContains(t, d.joins, again, "one is to come")
	d.pass(session)
	require.Contains(t, d.joins, again)
	gone := d.join("m2")
	require.Equal(t, refusedJoin("m2", kerr.UnknownMemberID), d.joins[gone])
	d.join("", needsID)
	last := fmt.Sprint("m", d.ids)
	require.Equal(t, []error{nil}, d.g.Leave([]Leaver{{MemberID: last}}, d.now, d.wall()))
	d.settle()
	require.NotContains(t, d.g.promised, last)
}

func TestWhoDoesNotSyncIsLeftOut(t *testing.T) {
	d := newDriver(t)
	d.join("")
	d.join("")
	d.pass(2 * delay)
	waiting := d.sync("m2", 1, nil)
	for d.syncs[waiting].Err == nil {
		require.NoError(t, d.g.Heartbeat("m1", "", 1, d.now))
		d.pass(session / 2)
	}
	require.Equal(t, SyncAnswer{Err: kerr.RebalanceInProgress}, d.syncs[waiting], "the leader never assigned")
	require.Nil(t, d.g.member("m1"))
}

func TestAssignmentThatIsNotWritten(t *testing.T) {
	d := newDriver(t)
	d.join("")
	d.pass(2 * delay)
	d.hold = true
	waiting := d.sync("m1", 1, d.assignAll())
	d.stored(kerr.CoordinatorNotAvailable)
	require.Equal(t, SyncAnswer{Err: kerr.CoordinatorNotAvailable}, d.syncs[waiting])
	require.Equal(t, PreparingRebalance, d.g.State)
}

func TestLateWriteOfAnEarlierGeneration(t *testing.T) {
	d := newDriver(t)
	d.join("")
	d.pass(2 * delay)
	d.hold = true
	old := d.sync("m1", 1, map[string][]byte{"m1": []byte("old")})
	d.join("m1", withProtocols("rr"))
	require.Equal(t, SyncAnswer{Err: kerr.RebalanceInProgress}, d.syncs[old])
	d.stored(nil)
	require.Equal(t, CompletingRebalance, d.g.State)
	now := d.sync("m1", 2, map[string][]byte{"m1": []byte("new")})
	d.stored(nil)
	require.Equal(t, []byte("new"), d.syncs[now].Assignment)
}

func TestStaticMembers(t *testing.T) {
	d, ids := stable(t, 1, static("i"))
	b := d.join("", static("j"))
	d.join(ids[0], static("i"))
	other := d.joins[b].MemberID
	d.syncAll([]string{ids[0], other})
	require.Equal(t, Stable, d.g.State)

	t.Run("comes back under a new id, without a rebalance", func(t *testing.T) {
		for _, knows := range []bool{false, true} {
			old := d.g.Leader
			d.hold = true
			back := d.join("", static("i"), func(r *JoinRequest) { r.KnowsSkip = knows })
			require.NotContains(t, d.joins, back, "nothing is told before it is written")
			d.stored(nil)
			d.hold = false
			a := d.joins[back]
			require.NoError(t, a.Err)
			require.Equal(t, int32(2), a.Generation)
			require.NotEqual(t, old, a.MemberID)
			require.Equal(t, knows, a.SkipAssignment)
			if knows {
				require.Equal(t, a.MemberID, a.Leader)
				require.Len(t, a.Members, 2)
			} else {
				require.Equal(t, old, a.Leader, "it must not assign")
				require.Empty(t, a.Members)
			}
			got := d.sync(a.MemberID, 2, nil)
			require.Equal(t, []byte("for "+ids[0]), d.syncs[got].Assignment, "its assignment stayed")
			require.ErrorIs(t, d.g.Heartbeat(old, "i", 2, d.now), kerr.FencedInstanceID)
			require.ErrorIs(t, d.g.Heartbeat(old, "", 2, d.now), kerr.UnknownMemberID)
			require.ErrorIs(t, d.g.MayCommit(Committer{MemberID: old, InstanceID: "i", Generation: 2}, d.now), kerr.FencedInstanceID)
			late := d.join(old, static("i"))
			require.Equal(t, refusedJoin(old, kerr.FencedInstanceID), d.joins[late])
			syncing := d.sync(old, 2, nil, func(r *SyncRequest) { r.InstanceID = "i" })
			require.Equal(t, SyncAnswer{Err: kerr.FencedInstanceID}, d.syncs[syncing])
			require.Equal(t, []error{kerr.FencedInstanceID}, d.g.Leave([]Leaver{{old, "i"}}, d.now, d.wall()))
		}
	})
	t.Run("that are not written stay fenced", func(t *testing.T) {
		d.hold = true
		back := d.join("", static("j"))
		d.stored(kerr.CoordinatorNotAvailable)
		d.hold = false
		require.Equal(t, refusedJoin("", kerr.CoordinatorNotAvailable), d.joins[back])
		require.ErrorIs(t, d.g.Heartbeat(other, "j", 2, d.now), kerr.FencedInstanceID)
	})
	t.Run("that do not rejoin are waited for until their session ends", func(t *testing.T) {
		waiting := d.join("", static("k"))
		require.Equal(t, PreparingRebalance, d.g.State)
		require.Equal(t, []error{nil, kerr.UnknownMemberID}, d.g.Leave([]Leaver{{InstanceID: "i"}, {InstanceID: "x"}}, d.now, d.wall()))
		d.settle()
		d.pass(session)
		require.NoError(t, d.joins[waiting].Err)
		require.Len(t, d.joins[waiting].Members, 1)
	})
	t.Run("while one of the same instance still waits", func(t *testing.T) {
		d := newDriver(t)
		first := d.join("", static("i"))
		second := d.join("", static("i"))
		require.Equal(t, refusedJoin("m1", kerr.FencedInstanceID), d.joins[first])
		d.pass(2 * delay)
		require.NoError(t, d.joins[second].Err)
		sync := d.sync("m2", 1, nil)
		require.Empty(t, d.syncs[sync].Err)
		third := d.join("", static("i"))
		require.NoError(t, d.joins[third].Err)
	})
}

func TestSeveralStaticMembersAllSilent(t *testing.T) {
	d := newDriver(t)
	a := d.join("", static("i"), func(r *JoinRequest) { r.SessionTimeout = time.Hour })
	d.join("", static("j"), func(r *JoinRequest) { r.SessionTimeout = time.Hour })
	d.join("")
	d.pass(2 * delay)
	d.syncAll([]string{"m1", "m2", "m3"})
	require.Equal(t, Stable, d.g.State)
	require.NoError(t, d.joins[a].Err)
	d.pass(session) // the dynamic member goes
	require.Equal(t, PreparingRebalance, d.g.State)
	d.pass(3 * rebalance)
	require.Equal(t, PreparingRebalance, d.g.State, "static members may come back")
	require.Len(t, d.g.Members(), 2)
	back := d.join("m2", static("j"))
	d.pass(rebalance)
	require.Equal(t, "m2", d.joins[back].Leader)
}

func TestProtocolIsChosenByAll(t *testing.T) {
	for _, c := range []struct {
		members [][]string
		want    string
	}{
		{[][]string{{"a"}}, "a"},
		{[][]string{{"a", "b"}, {"b", "a"}, {"b", "a"}}, "b"},
		{[][]string{{"a", "b"}, {"b", "a"}}, "a"},
		{[][]string{{"a", "b", "c"}, {"c", "b"}, {"b"}}, "b"},
	} {
		d := newDriver(t)
		for _, names := range c.members {
			d.join("", withProtocols(names...))
		}
		d.pass(3 * delay)
		require.Equal(t, c.want, d.g.Protocol, "%v", c.members)
	}
}

// What each request is answered in each state.
func TestRefusals(t *testing.T) {
	none := errors.New("no error")
	or := func(err error) error {
		if err == nil {
			return none
		}
		return err
	}
	states := map[string]func() (*driver, string){
		"empty": func() (*driver, string) { return newDriver(t), "m9" },
		"preparing": func() (*driver, string) {
			d, ids := stable(t, 2)
			d.join(ids[1], withProtocols("rr"))
			return d, ids[0]
		},
		"completing": func() (*driver, string) {
			d := newDriver(t)
			d.join("")
			d.pass(2 * delay)
			return d, "m1"
		},
		"stable": func() (*driver, string) {
			d, ids := stable(t, 1)
			return d, ids[0]
		},
		"dead": func() (*driver, string) {
			d := newDriver(t)
			require.NoError(t, d.g.Kill(0))
			return d, "m9"
		},
	}
	requests := map[string]func(d *driver, id string) error{
		"heartbeat":           func(d *driver, id string) error { return d.g.Heartbeat(id, "", 1, d.now) },
		"heartbeat, unknown":  func(d *driver, _ string) error { return d.g.Heartbeat("x", "", 1, d.now) },
		"heartbeat, old":      func(d *driver, id string) error { return d.g.Heartbeat(id, "", 0, d.now) },
		"heartbeat, instance": func(d *driver, id string) error { return d.g.Heartbeat(id, "x", 1, d.now) },
		"sync, old":           func(d *driver, id string) error { return d.syncs[d.sync(id, 0, nil)].Err },
		"sync, unknown":       func(d *driver, _ string) error { return d.syncs[d.sync("x", 1, nil)].Err },
		"sync":                func(d *driver, id string) error { return d.syncs[d.sync(id, 1, d.assignAll())].Err },
		"commit":              func(d *driver, id string) error { return d.g.MayCommit(Committer{MemberID: id, Generation: 1}, d.now) },
		"commit, unknown":     func(d *driver, _ string) error { return d.g.MayCommit(Committer{MemberID: "x", Generation: 1}, d.now) },
		"commit, old":         func(d *driver, id string) error { return d.g.MayCommit(Committer{MemberID: id, Generation: 0}, d.now) },
		"commit, no member":   func(d *driver, _ string) error { return d.g.MayCommit(Committer{Generation: -1}, d.now) },
		"commit in txn": func(d *driver, id string) error {
			return d.g.MayCommit(Committer{MemberID: id, Generation: 1, Transactional: true}, d.now)
		},
		"commit in txn, none": func(d *driver, _ string) error {
			return d.g.MayCommit(Committer{Generation: -1, Transactional: true}, d.now)
		},
		"commit in txn, old": func(d *driver, id string) error {
			return d.g.MayCommit(Committer{MemberID: id, Transactional: true}, d.now)
		},
		"leave, unknown": func(d *driver, _ string) error { return d.g.Leave([]Leaver{{MemberID: "x"}}, d.now, 0)[0] },
		"kill":           func(d *driver, _ string) error { return d.g.Kill(0) },
		"join, unknown":  func(d *driver, _ string) error { return d.joins[d.join("x")].Err },
		"join, other type": func(d *driver, _ string) error {
			return d.joins[d.join("", func(r *JoinRequest) { r.ProtocolType = "connect" })].Err
		},
		"join, other protocol": func(d *driver, _ string) error { return d.joins[d.join("", withProtocols("x"))].Err },
		"join, no protocol":    func(d *driver, _ string) error { return d.joins[d.join("", withProtocols())].Err },
		"join, needs id":       func(d *driver, _ string) error { return d.joins[d.join("", needsID)].Err },
		"sync, other protocol": func(d *driver, id string) error {
			p := "x"
			return d.syncs[d.sync(id, 1, nil, func(r *SyncRequest) { r.Protocol = &p })].Err
		},
		"sync, other type": func(d *driver, id string) error {
			p := "x"
			return d.syncs[d.sync(id, 1, nil, func(r *SyncRequest) { r.ProtocolType = &p })].Err
		},
	}
	type row = map[string]error
	unknown, illegal, moving, dead := kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.CoordinatorNotAvailable
	inconsistent := kerr.InconsistentGroupProtocol
	for request, want := range map[string]row{
		"heartbeat":            {"empty": unknown, "preparing": moving, "completing": none, "stable": none, "dead": dead},
		"heartbeat, unknown":   {"empty": unknown, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": dead},
		"heartbeat, old":       {"empty": unknown, "preparing": illegal, "completing": illegal, "stable": illegal, "dead": dead},
		"heartbeat, instance":  {"empty": unknown, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": dead},
		"sync, old":            {"empty": unknown, "preparing": illegal, "completing": illegal, "stable": illegal, "dead": dead},
		"sync, unknown":        {"empty": unknown, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": dead},
		"sync":                 {"empty": unknown, "preparing": moving, "completing": none, "stable": none, "dead": dead},
		"sync, other protocol": {"empty": unknown, "preparing": inconsistent, "completing": inconsistent, "stable": inconsistent, "dead": dead},
		"sync, other type":     {"empty": unknown, "preparing": inconsistent, "completing": inconsistent, "stable": inconsistent, "dead": dead},
		"commit":               {"empty": unknown, "preparing": none, "completing": moving, "stable": none, "dead": dead},
		"commit, unknown":      {"empty": unknown, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": dead},
		"commit, old":          {"empty": unknown, "preparing": illegal, "completing": illegal, "stable": illegal, "dead": dead},
		"commit, no member":    {"empty": none, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": dead},
		"commit in txn":        {"empty": unknown, "preparing": none, "completing": none, "stable": none, "dead": dead},
		"commit in txn, none":  {"empty": none, "preparing": none, "completing": none, "stable": none, "dead": dead},
		"commit in txn, old":   {"empty": unknown, "preparing": illegal, "completing": illegal, "stable": illegal, "dead": dead},
		"leave, unknown":       {"empty": unknown, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": unknown},
		"kill":                 {"empty": none, "preparing": kerr.NonEmptyGroup, "completing": kerr.NonEmptyGroup, "stable": kerr.NonEmptyGroup, "dead": kerr.GroupIDNotFound},
		"join, unknown":        {"empty": unknown, "preparing": unknown, "completing": unknown, "stable": unknown, "dead": dead},
		"join, other type":     {"empty": none, "preparing": inconsistent, "completing": inconsistent, "stable": inconsistent, "dead": dead},
		"join, other protocol": {"empty": none, "preparing": inconsistent, "completing": inconsistent, "stable": inconsistent, "dead": dead},
		"join, no protocol":    {"empty": inconsistent, "preparing": inconsistent, "completing": inconsistent, "stable": inconsistent, "dead": dead},
		"join, needs id":       {"empty": kerr.MemberIDRequired, "preparing": kerr.MemberIDRequired, "completing": kerr.MemberIDRequired, "stable": kerr.MemberIDRequired, "dead": dead},
	} {
		require.Len(t, want, len(states))
		for state, err := range want {
			t.Run(request+"/"+state, func(t *testing.T) {
				d, id := states[state]()
				require.Equal(t, err, or(requests[request](d, id)))
			})
		}
		delete(requests, request)
	}
	require.Empty(t, requests, "all requests have their row")
}

func TestRestoreIsWhatWasStored(t *testing.T) {
	d, ids := stable(t, 2, func(r *JoinRequest) { r.ClientID = "client" })
	stored := *d.g.metadata(nil)
	back := NewGroup("g", d.g.timing)
	back.Restore(stored, d.now)
	require.Equal(t, &stored, back.metadata(nil))
	require.Equal(t, Stable, back.State)
	for _, m := range back.Members() {
		require.Equal(t, d.now.Add(session), m.expires, "sessions begin anew")
	}
	require.Equal(t, d.now.Add(session), back.Deadline())
	require.NoError(t, back.Heartbeat(ids[1], "", 1, d.now))

	empty := NewGroup("g", d.g.timing)
	empty.Restore(Metadata{ProtocolType: "consumer", Generation: 7, Since: 5}, d.now)
	require.Equal(t, []any{Empty, int32(7), true}, []any{empty.State, empty.Generation, empty.Used()})
}
