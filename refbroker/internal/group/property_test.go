package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// clients are what members believe, and what may be asked of their group.
type clients struct {
	*driver
	waiting map[Token]string // requests without an answer, by client
	// ids are the member ids that were given out.
	ids    []string
	syncOf map[Token]int32 // generations
}

func TestGroupKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clients{
			driver: newDriver(t), waiting: map[Token]string{}, syncOf: map[Token]int32{},
		}
		c.hold = true
		generation := int32(0)
		t.Repeat(map[string]func(*rapid.T){
			"join":  c.anyJoin,
			"sync":  c.anySync,
			"leave": c.anyLeave,
			"beat": func(t *rapid.T) {
				_ = c.g.Heartbeat(c.pick(t), "", c.generation(t), c.now)
				c.settle()
			},
			"commit": func(t *rapid.T) {
				err := c.g.MayCommit(Committer{MemberID: c.pick(t), Generation: c.generation(t)}, c.now)
				if err == nil {
					require.NotEqual(t, CompletingRebalance, c.g.State)
				}
				c.settle()
			},
			"stored": func(t *rapid.T) {
				if len(c.stores) == 0 {
					t.Skip("nothing is being written")
				}
				var err error
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					err = kerr.CoordinatorNotAvailable
				}
				c.stored(err)
			},
			"time": func(t *rapid.T) { c.pass(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second) },
			"": func(t *rapid.T) {
				require.GreaterOrEqual(t, c.g.Generation, generation)
				generation = c.g.Generation
				c.check(t)
			},
		})
		c.quiet(t)
	})
}

func (c *clients) pick(t *rapid.T) string {
	return rapid.SampledFrom(append([]string{"nobody"}, c.ids...)).Draw(t, "member")
}

func (c *clients) generation(t *rapid.T) int32 {
	return c.g.Generation - int32(rapid.IntRange(0, 9).Draw(t, "older")/9)
}

func (c *clients) anyJoin(t *rapid.T) {
	id := ""
	if len(c.ids) > 0 && rapid.Bool().Draw(t, "again") {
		id = c.pick(t)
	}
	protocols := rapid.SampledFrom([][]string{{"a", "b"}, {"b", "a"}, {"b"}}).Draw(t, "protocols")
	token := c.join(id, withProtocols(protocols...), func(r *JoinRequest) {
		r.NeedsID = rapid.Bool().Draw(t, "needs id")
		r.KnowsSkip = rapid.Bool().Draw(t, "knows skip")
		if i := rapid.IntRange(0, 3).Draw(t, "instance"); i < 2 {
			r.InstanceID = fmt.Sprint("i", i)
		}
	})
	c.waiting[token] = "join"
	c.ids = append(c.ids, fmt.Sprint("m", c.driver.ids))
	c.ids = c.ids[max(0, len(c.ids)-6):]
}

func (c *clients) anySync(t *rapid.T) {
	id, generation := c.pick(t), c.generation(t)
	if rapid.Bool().Draw(t, "leader") {
		id = c.g.Leader
	}
	mine := map[string][]byte{}
	for _, m := range c.g.Members() {
		mine[m.ID] = fmt.Appendf(nil, "%s in %d", m.ID, generation)
	}
	c.waiting[c.sync(id, generation, mine)] = "sync"
	c.syncOf[c.tokens+1] = generation
}

func (c *clients) anyLeave(t *rapid.T) {
	c.g.Leave([]Leaver{{MemberID: c.pick(t)}}, c.now, c.wall())
	c.settle()
}

// check is what holds at any moment.
func (c *clients) check(t *rapid.T) {
	g := c.g
	for token, a := range c.joins {
		delete(c.waiting, token)
		if a.Err == nil {
			require.True(t, len(a.Members) == 0 || a.Leader == a.MemberID, "only the leader is told who is in")
			if len(a.Members) > 0 && !a.SkipAssignment {
				for _, m := range a.Members {
					require.NotNil(t, m.Metadata, "everybody knows the protocol")
				}
			}
			require.NotEmpty(t, a.Protocol)
		}
		delete(c.joins, token)
	}
	for token, a := range c.syncs {
		delete(c.waiting, token)
		if a.Err == nil {
			require.Regexp(t, fmt.Sprintf("^m[0-9]+ in %d$", c.syncOf[token]), string(a.Assignment), "an assignment is of its generation")
		}
		delete(c.syncs, token)
	}
	// Every request that waits is known to the group, and none that doesn't.
	known := map[Token]bool{}
	for _, m := range g.Members() {
		known[m.joining], known[m.syncing] = true, true
		require.False(t, m.joining != 0 && m.syncing != 0)
	}
	for _, s := range g.stores {
		known[s.token] = true
	}
	delete(known, 0)
	require.ElementsMatch(t, slices.Collect(maps.Keys(c.waiting)), slices.Collect(maps.Keys(known)))

	switch g.State {
	case Empty:
		require.Empty(t, g.Members())
	case CompletingRebalance, Stable:
		require.NotNil(t, g.member(g.Leader))
		require.True(t, g.all(g.Protocol))
		for _, m := range g.Members() {
			require.Zero(t, m.joining)
			require.True(t, m.syncing != 0 || !m.expires.IsZero(), "a session runs")
			require.True(t, m.syncing == 0 || g.State == CompletingRebalance)
		}
	case PreparingRebalance:
		require.False(t, g.joinBy.IsZero(), "a rebalance ends")
	}
	for instance, id := range g.statics {
		require.Equal(t, instance, g.member(id).InstanceID)
	}
}

// quiet lets everybody go: then every request gets its answer, and the group
// is empty.
func (c *clients) quiet(t *rapid.T) {
	c.hold = false
	for len(c.stores) > 0 {
		c.stored(nil)
	}
	c.pass(2 * freshTimeout)
	for range 20 {
		if c.g.State != Stable && c.g.State != CompletingRebalance {
			break
		}
		c.pass(rebalance)
	}
	c.check(t)
	require.Empty(t, c.waiting)
	require.Equal(t, Empty, c.g.State)
	require.Empty(t, c.g.promised)
	require.True(t, c.g.Deadline().IsZero())
}

// A ledger is what the log says: of each partition the last record that is not
// of a transaction that was aborted or is open.
func TestLedgerIsWhatTheLogSays(t *testing.T) {
	type rec struct {
		producer int64
		p        Partition
		commit   *Commit
		state    string // of its transaction: "", "open", "aborted", or "in" the log
	}
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger()
		var log []rec
		partition := func() Partition { return Partition{"t", rapid.Int32Range(0, 2).Draw(t, "partition")} }
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				producer := rapid.Int64Range(-1, 2).Draw(t, "producer")
				c := Commit{Offset: int64(len(log)) + 100, Record: int64(len(log))}
				r := rec{producer, partition(), &c, "in"}
				if producer >= 0 {
					r.state = "open"
				}
				log = append(log, r)
				l.Commit(producer, r.p, c)
			},
			"tombstone": func(*rapid.T) {
				p := partition()
				for i, r := range log {
					if r.p == p && r.state == "open" {
						log[i].state = "aborted"
					}
				}
				log = append(log, rec{-1, p, nil, "in"})
				l.Delete(p)
			},
			"end": func(t *rapid.T) {
				producer, commit := rapid.Int64Range(0, 2).Draw(t, "producer"), rapid.Bool().Draw(t, "commit")
				for i, r := range log {
					if r.producer == producer && r.state == "open" {
						log[i].state = map[bool]string{true: "in", false: "aborted"}[commit]
					}
				}
				l.End(producer, commit)
			},
			"": func(t *rapid.T) {
				for i := range int32(3) {
					p := Partition{"t", i}
					var want *Commit
					open := false
					for _, r := range log {
						if r.p == p && r.state == "in" {
							want = r.commit
						}
						open = open || r.p == p && r.state == "open"
					}
					got, ok, unstable := l.Lookup(p)
					require.Equal(t, want != nil, ok)
					require.Equal(t, open, unstable)
					if ok {
						require.Equal(t, *want, got)
					}
				}
			},
		})
	})
}
