package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Token names a request that waits for its answer; 0 is none.
type Token uint64

// Timing is what a broker's configuration says of groups.
type Timing struct {
	// InitialDelay is group.initial.rebalance.delay.ms: how long the first
	// rebalance of an empty group waits for more members.
	InitialDelay time.Duration
	// FreshTimeout bounds the wait of a member's first join, whose client may
	// be gone for good; its session begins only with the answer.
	FreshTimeout time.Duration
}

// Effect is what an event made necessary: an answer or a write.
type Effect struct {
	// Token is whose answer this is; 0 for a write.
	Token Token
	Join  JoinAnswer
	Sync  SyncAnswer
	// Store is to be written; [Group.Stored] wants to hear of it, by number.
	Store  *Metadata
	Number uint64
}

// Group is one group's state machine. Its methods take events and the time;
// what follows from them is collected until [Group.Effects] takes it.
type Group struct {
	ID     string
	timing Timing

	State State
	// ProtocolType is "consumer" for consumers; "" for a group that only has
	// offsets.
	ProtocolType string
	// Protocol was chosen for this generation; "" in an empty group.
	Protocol   string
	Generation int32
	// Leader is the member that assigns.
	Leader string
	// Since is when the group came to its state, in ms since 1970; -1 unknown.
	Since int64

	// members in the order in which they came.
	members []*Member
	// statics maps the instance ids of static members to their member ids.
	statics map[string]string
	// promised are member ids that were given out, with when they expire
	// (KIP-394).
	promised map[string]time.Time

	// joinBy is when a rebalance goes on without those who have not joined.
	joinBy time.Time
	// initial: the group was empty; joinBy moves on while members come in, for
	// as long as patience lasts.
	initial  bool
	arrivals bool
	patience time.Duration
	// syncBy is when members that have not synced are given up.
	syncBy time.Time
	unsync map[string]bool

	stores  map[uint64]store
	numbers uint64
	effects []Effect
}

// store is what waits for a write.
type store struct {
	generation int32
	// assignments are the leader's, nil otherwise.
	assignments map[string][]byte
	// token is that of a static member's join that the write keeps waiting.
	token  Token
	answer JoinAnswer
}

// NewGroup returns an empty group.
func NewGroup(id string, timing Timing) *Group {
	return &Group{
		ID: id, timing: timing, Since: -1, statics: map[string]string{}, promised: map[string]time.Time{},
		unsync: map[string]bool{}, stores: map[uint64]store{},
	}
}

// Effects returns what has to be done, and forgets it.
func (g *Group) Effects() []Effect {
	out := g.effects
	g.effects = nil
	return out
}

// Members lists the members in the order in which they came.
func (g *Group) Members() []*Member { return g.members }

// Idle reports whether the group has neither members nor members to come.
func (g *Group) Idle() bool { return g.State == Empty && len(g.promised) == 0 }

// Used reports whether a group ever had members.
func (g *Group) Used() bool { return g.ProtocolType != "" }

func (g *Group) member(id string) *Member {
	for _, m := range g.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// known returns the member that a request comes from. A static member that
// was replaced is told so (KIP-345).
func (g *Group) known(id, instance string) (*Member, error) {
	if instance != "" {
		now, ok := g.statics[instance]
		switch {
		case !ok:
			return nil, kerr.UnknownMemberID
		case now != id:
			return nil, kerr.FencedInstanceID
		}
	}
	m := g.member(id)
	if m == nil {
		return nil, kerr.UnknownMemberID
	}
	return m, nil
}

// move changes the state.
func (g *Group) move(to State, wall int64) {
	g.State = to
	g.Since = wall
	if to != PreparingRebalance {
		g.joinBy, g.initial = time.Time{}, false
	}
}

func (g *Group) answerJoin(t Token, a JoinAnswer) {
	if t != 0 {
		g.effects = append(g.effects, Effect{Token: t, Join: a})
	}
}

func (g *Group) answerSync(t Token, a SyncAnswer) {
	if t != 0 {
		g.effects = append(g.effects, Effect{Token: t, Sync: a})
	}
}

// write asks for the group to be stored with these assignments.
func (g *Group) write(s store) {
	g.numbers++
	s.generation = g.Generation
	g.stores[g.numbers] = s
	g.effects = append(g.effects, Effect{Store: g.metadata(s.assignments), Number: g.numbers})
}

// add takes a member in.
func (g *Group) add(m *Member) {
	if len(g.members) == 0 {
		g.Leader = m.ID
	}
	g.members = append(g.members, m)
	delete(g.promised, m.ID)
	if m.InstanceID != "" {
		g.statics[m.InstanceID] = m.ID
	}
}

// drop takes a member out and answers what it waits for.
func (g *Group) drop(m *Member) {
	g.answerJoin(m.joining, refusedJoin("", kerr.UnknownMemberID))
	g.answerSync(m.syncing, SyncAnswer{Err: kerr.UnknownMemberID})
	m.joining, m.syncing = 0, 0
	g.members = slices.DeleteFunc(g.members, func(o *Member) bool { return o == m })
	delete(g.unsync, m.ID)
	if g.statics[m.InstanceID] == m.ID {
		delete(g.statics, m.InstanceID)
	}
	if g.Leader == m.ID {
		g.Leader = ""
		if len(g.members) > 0 {
			g.Leader = g.members[0].ID
		}
	}
}

// Deadline is when [Group.Tick] is due; zero for never.
func (g *Group) Deadline() time.Time {
	var first time.Time
	at := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	at(g.joinBy)
	at(g.syncBy)
	for _, t := range g.promised {
		at(t)
	}
	for _, m := range g.members {
		at(m.expires)
	}
	return first
}

// Tick does what is due: sessions end, rebalances go on without those who
// did not come.
func (g *Group) Tick(now time.Time, wall int64) {
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	for id, t := range g.promised {
		if due(t) {
			delete(g.promised, id)
		}
	}
	var gone []*Member
	for _, m := range g.members {
		if due(m.expires) {
			gone = append(gone, m)
		}
	}
	g.remove(gone, now, wall)
	if due(g.syncBy) {
		g.syncBy = time.Time{}
		gone = nil
		for _, m := range g.members {
			if g.unsync[m.ID] {
				gone = append(gone, m)
			}
		}
		clear(g.unsync)
		g.remove(gone, now, wall)
	}
	if due(g.joinBy) {
		g.joinDue(now, wall)
		return
	}
	g.completeJoin(now, wall)
}

// remove drops members, and rebalances those who are left.
func (g *Group) remove(gone []*Member, now time.Time, wall int64) {
	for _, m := range gone {
		g.drop(m)
	}
	if len(gone) == 0 {
		return
	}
	if g.State == Stable || g.State == CompletingRebalance {
		g.prepare(now, wall)
	}
	g.completeJoin(now, wall)
}
