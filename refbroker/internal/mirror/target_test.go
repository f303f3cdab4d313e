package mirror

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"watershed.example/refbroker/internal/replica"
)

// entry is one record of a model's log. Two entries are the same bytes iff they
// are equal; who wrote a barrier is not in its bytes.
type entry struct {
	id      int // of the bytes; of a barrier the millisecond
	epoch   int32
	barrier bool
	// marker is an ABORT marker that a stop wrote before its barrier.
	marker bool
	source string
}

// cluster is a model of one partition of one cluster.
type cluster struct {
	id    string
	begun int
	start int64
	log   []entry // from offset start on
	// floor is the epoch that an empty log still knows of what was deleted, -1 for
	// none.
	floor       int32
	barriers    []replica.Barrier
	history     []string
	leaderEpoch int32
	// source is what it mirrors, nil when it is writable.
	source *cluster
	// session is the source's leader epoch that it fetches in, -1 for none.
	session int32
	failed  bool
}

func (c *cluster) name() string { return fmt.Sprintf("%s/%d", c.id, c.begun) }

func (c *cluster) end() int64 { return c.start + int64(len(c.log)) }

func (c *cluster) side() side {
	return side{name: c.name(), history: c.history, start: c.start, end: c.end(), barriers: c.barriers}
}

func (c *cluster) at(offset int64) entry { return c.log[offset-c.start] }

// epochEnd is as a broker answers OffsetForLeaderEpoch.
func (c *cluster) epochEnd(_ context.Context, epoch int32) (int32, int64, error) {
	if len(c.log) == 0 && c.floor >= 0 {
		if epoch < c.floor {
			return epoch, c.start, nil
		}
		return c.floor, c.end(), nil
	}
	found, end := int32(-1), int64(-1)
	for i, e := range c.log {
		if e.epoch <= epoch {
			found, end = e.epoch, c.start+int64(i)+1
		}
	}
	if found < 0 && len(c.log) > 0 {
		return epoch, c.start, nil
	}
	if epoch >= c.lastEpoch(c.end()) {
		end = c.end()
	}
	return found, end, nil
}

func (c *cluster) lastEpoch(offset int64) int32 {
	if offset <= c.start && len(c.log) == 0 {
		return c.floor
	}
	if offset <= c.start {
		return -1
	}
	return c.at(offset - 1).epoch
}

func (c *cluster) add(e entry) { c.log, c.floor = append(c.log, e), -1 }

func (c *cluster) deleteTo(start int64) {
	if gone := min(start, c.end()) - c.start; gone > 0 {
		c.floor = c.log[gone-1].epoch
		c.start, c.log = c.start+gone, slices.Clone(c.log[gone:])
	}
}

func (c *cluster) cut(to target, source *cluster) {
	if to.anew || to.at == c.start {
		c.floor = -1
	}
	if to.anew {
		c.start, c.log, c.history, c.barriers = to.at, nil, nil, nil
		c.begun++
		for _, b := range source.barriers {
			if b.Offset < to.at {
				c.barriers = append(c.barriers, b)
			}
		}
	} else {
		c.log = slices.Clone(c.log[:to.at-c.start])
		c.barriers = slices.DeleteFunc(slices.Clone(c.barriers), func(b replica.Barrier) bool { return b.Offset >= to.at })
		if to.at == 0 {
			c.history = nil
		}
	}
	c.learn(source)
	c.leaderEpoch = max(c.leaderEpoch, source.leaderEpoch, c.lastEpoch(c.end())) + 1
}

func (c *cluster) learn(source *cluster) {
	c.history = append(slices.Clone(c.history), append([]string{source.name()}, source.history...)...)
	slices.Sort(c.history)
	c.history = slices.Compact(c.history)
}

// common is up to where both logs are the same bytes of the same writers.
func common(a, b *cluster) int64 {
	at := max(a.start, b.start)
	// Markers of two stops may be the same bytes, as barriers may.
	for at < a.end() && at < b.end() && a.at(at) == b.at(at) && a.writer(at) == b.writer(at) {
		at++
	}
	return at
}

// writer is who wrote the barrier at an offset, or the markers before it, "" for
// none.
func (c *cluster) writer(offset int64) string {
	for _, b := range c.barriers {
		if b.Fork() <= offset && offset <= b.Offset {
			return b.Writer
		}
	}
	return ""
}

// proven is what the lists prove to be common: up to and with the last barrier
// of their common beginning.
func proven(a, b []replica.Barrier) int64 {
	at := int64(0)
	for i := 0; i < len(a) && i < len(b) && sameBarrier(a[i], b[i]); i++ {
		at = a[i].Offset + 1
	}
	return at
}

// align is LOG_TRUNCATION.
func (c *cluster) align(t *rapid.T, source *cluster) {
	own, theirs := c.side(), source.side()
	to, err := alignment(own, &theirs, false)
	if err != nil {
		require.ErrorIs(t, err, errNoCommonHistory)
		c.failed = true
		return
	}
	if !to.anew && to.at > own.start {
		to.at, err = agreeing(context.Background(), to.at, own.start, c.epochEnd, source.epochEnd, c.lastEpoch)
		require.NoError(t, err)
		to = keeping(to.at, own, &theirs)
	}
	if !to.anew {
		same := common(c, source)
		require.LessOrEqual(t, to.at, same, "keeps what is not the source's\n%v\n%v", c, source)
		require.GreaterOrEqual(t, to.at, min(proven(own.barriers, theirs.barriers), c.end()), "cuts what the lists prove to be common\n%v\n%v", c, source)
		require.Equal(t, same, to.at, "cuts what is common\n%v\n%v", c, source)
	} else if len(c.log) > 0 {
		// Only where what they have in common can't be kept: it is not there, or
		// below where the source's log begins.
		require.True(t, common(c, source) <= c.start || common(c, source) < source.start || source.start > c.end() ||
			firstBelow(own, theirs), "copies anew what is common\n%v\n%v", c, source)
	}
	c.cut(to, source)
}

func firstBelow(own, theirs side) bool {
	at, ok := firstDifference(own.barriers, theirs.barriers)
	return ok && (at < own.start || at < theirs.start)
}

// fetch copies up to n entries, as a session that is fenced by the source's
// leader epoch does.
func (c *cluster) fetch(t *rapid.T, n int) {
	s := c.source
	if c.session != s.leaderEpoch {
		own, theirs := c.side(), s.side()
		if own.end > own.start && !related(own, theirs) {
			c.failed = true
			return
		}
		c.learn(s)
		if at, ok := firstDifference(c.barriers, s.barriers); ok && at < c.end() {
			c.cut(keeping(at, own, &theirs), s)
		}
		c.session = s.leaderEpoch
	}
	for {
		if c.end() < s.start {
			c.failed = true // the source's retention has overtaken the mirror
			return
		}
		last := c.lastEpoch(c.end())
		if last < 0 {
			break
		}
		epoch, end, _ := s.epochEnd(context.Background(), last)
		if epoch == last && end >= c.end() {
			break
		}
		at := max(end, 0)
		if e, ownEnd, _ := c.epochEnd(context.Background(), epoch); e >= 0 {
			at = min(at, ownEnd)
		}
		before := c.end()
		own, theirs := c.side(), s.side()
		to := keeping(min(at, c.end()), own, &theirs)
		c.cut(to, s)
		require.True(t, to.anew || c.end() < before, "the same divergence for ever\n%v\n%v", c, s)
		if to.anew {
			require.LessOrEqual(t, c.end(), s.end(), "out of range for ever\n%v\n%v", c, s)
		}
	}
	for marker := false; (n > 0 || marker) && c.end() < s.end(); n-- {
		e := s.at(c.end())
		marker = e.marker // see the limits: a stop's markers come with its barrier
		if e.barrier {
			i := slices.IndexFunc(s.barriers, func(b replica.Barrier) bool { return b.Offset == c.end() })
			c.barriers = append(slices.Clone(c.barriers), s.barriers[i])
		}
		c.add(e)
		c.leaderEpoch = max(c.leaderEpoch, e.epoch)
	}
	c.deleteTo(s.start)
	require.GreaterOrEqual(t, common(c, s), c.end(), "the mirror is not its source's beginning\n%v\n%v", c, s)
}

func (c *cluster) String() string {
	s := fmt.Sprintf("%s epoch %d history %v from %d:", c.name(), c.leaderEpoch, c.history, c.start)
	for _, e := range c.log {
		if s += fmt.Sprintf(" %d@e%d", e.id, e.epoch); e.barrier {
			s += "|"
		}
	}
	return s + fmt.Sprintf(" %v", c.barriers)
}

// Clusters write, elect leaders, lose tails, mirror one another, are stopped and
// re-pointed, in any order. An alignment keeps just what is common.
func TestAlignmentFindsWhereTwoLogsPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*cluster
		for _, id := range []string{"A", "B", "C", "D"} {
			all = append(all, &cluster{id: id, session: -1, floor: -1})
		}
		id := 0
		// In profile kip1279-latest a stop cuts nothing, and aborts what is open.
		latest := rapid.Bool().Draw(t, "latest")
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			c := rapid.SampledFrom(all).Draw(t, "cluster")
			switch rapid.SampledFrom([]string{"write", "write", "elect", "lose", "delete", "start", "fetch", "fetch", "stop", "stop"}).Draw(t, "step") {
			case "write":
				// A and D may begin a history of their own.
				if c.source == nil && !c.failed && (c.id == "A" || c.id == "D" || len(c.history) > 0) {
					for range rapid.IntRange(1, 3).Draw(t, "records") {
						id++
						c.add(entry{id: id, epoch: c.leaderEpoch})
					}
				}
			case "elect":
				c.leaderEpoch += rapid.Int32Range(1, 3).Draw(t, "epochs")
			case "lose": // an unclean election, or a disk
				if c.source == nil {
					for n := rapid.IntRange(0, 2).Draw(t, "records"); n > 0 && len(c.log) > 0 && !c.log[len(c.log)-1].barrier; n-- {
						c.log = slices.Clone(c.log[:len(c.log)-1])
					}
					c.leaderEpoch++
				}
			case "delete":
				if c.source == nil && len(c.log) > 0 && rapid.IntRange(0, 3).Draw(t, "whether") == 0 {
					c.deleteTo(c.start + rapid.Int64Range(0, int64(len(c.log))).Draw(t, "records"))
				}
			case "start":
				s := rapid.SampledFrom(all).Draw(t, "source")
				if c.source != nil || s == c || s.mirrors(c) {
					continue
				}
				c.failed = false
				if c.align(t, s); !c.failed {
					c.source, c.session = s, -1
				}
				c.failed = false
			case "fetch":
				if c.source != nil && !c.failed {
					c.fetch(t, rapid.IntRange(0, 6).Draw(t, "records"))
				}
			case "stop":
				if c.source == nil {
					continue
				}
				open := rapid.IntRange(0, 2).Draw(t, "unstable")
				for n := open; n > 0 && len(c.log) > 0 && !latest; n-- {
					c.log = slices.Clone(c.log[:len(c.log)-1])
				}
				l := c.end()
				c.barriers = slices.DeleteFunc(slices.Clone(c.barriers), func(b replica.Barrier) bool { return b.Offset >= l })
				c.leaderEpoch = max(c.leaderEpoch, c.lastEpoch(l)) + 1
				at := -rapid.IntRange(1, 2).Draw(t, "millisecond")
				markers := int64(0)
				for ; latest && markers < int64(open); markers++ {
					c.add(entry{id: at, epoch: c.leaderEpoch, marker: true})
				}
				c.add(entry{id: at, epoch: c.leaderEpoch, barrier: true, source: c.source.id})
				c.barriers = append(c.barriers, replica.Barrier{
					Offset: l + markers, LeaderEpoch: c.leaderEpoch, CRC: uint32(-at), SourceClusterID: c.source.id, Writer: c.id, Markers: markers,
				})
				c.source, c.session, c.failed = nil, -1, false
			}
		}
	})
}

// mirrors says whether it is mirrored from another, directly or not.
func (c *cluster) mirrors(o *cluster) bool {
	for s := c.source; s != nil; s = s.source {
		if s == o {
			return true
		}
	}
	return false
}

// The ends of leader epochs of the two logs, as (epoch, end), and where they
// agree.
func TestTheLeaderEpochsOfBothLogsAgree(t *testing.T) {
	type ends [][2]int64
	answer := func(log ends) epochs {
		return func(_ context.Context, epoch int32) (int32, int64, error) {
			found, end := int32(-1), int64(-1)
			for _, e := range log {
				if int32(e[0]) <= epoch {
					found, end = int32(e[0]), e[1]
				}
			}
			return found, end, nil
		}
	}
	for _, c := range []struct {
		name        string
		own, source ends
		at, start   int64
		want        int64
	}{
		{"equal", ends{{1, 5}, {3, 9}}, ends{{1, 5}, {3, 9}}, 9, 0, 9},
		{"the source is longer", ends{{1, 5}}, ends{{1, 7}, {2, 9}}, 5, 0, 5},
		{"the source is shorter", ends{{1, 5}, {3, 9}}, ends{{1, 5}, {3, 7}}, 9, 0, 7},
		{"below the barrier only", ends{{1, 5}, {6, 9}}, ends{{1, 5}, {6, 20}}, 5, 0, 5},
		{"an epoch that the source lost", ends{{1, 5}, {3, 9}}, ends{{1, 5}, {4, 9}}, 9, 0, 5},
		{"unclean there and back", ends{{1, 5}, {3, 9}}, ends{{1, 7}, {4, 9}}, 9, 0, 5},
		{"two epochs lost", ends{{1, 5}, {3, 9}, {4, 12}}, ends{{1, 4}, {5, 20}}, 12, 0, 4},
		{"nothing in common", ends{{1, 5}}, ends{{2, 5}}, 5, 0, 0},
		{"the source is empty", ends{{1, 5}}, nil, 5, 2, 0},
		{"below the log's start", ends{{1, 5}}, ends{{1, 1}, {2, 9}}, 5, 3, 1},
		{"at the log's start", ends{{1, 5}}, ends{{1, 3}, {2, 9}}, 5, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := func(offset int64) int32 {
				for _, e := range c.own {
					if offset <= e[1] {
						return int32(e[0])
					}
				}
				return -1
			}
			got, err := agreeing(t.Context(), c.at, c.start, answer(c.own), answer(c.source), last)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := agreeing(t.Context(), 5, 0, answer(nil), func(context.Context, int32) (int32, int64, error) { return 9, 9, nil }, func(int64) int32 { return 1 })
	require.ErrorContains(t, err, "answers with leader epoch 9")
}

func TestWhatAlignmentDoes(t *testing.T) {
	barrier := func(offset int64, writer string) replica.Barrier {
		return replica.Barrier{Offset: offset, LeaderEpoch: 2, CRC: 3, SourceClusterID: "A", Writer: writer}
	}
	own := side{name: "B/1", history: []string{"A/1"}, end: 20, barriers: []replica.Barrier{barrier(10, "B")}}
	source := &side{name: "A/1"}
	for _, c := range []struct {
		name    string
		change  func(own, source *side)
		plain   bool
		discard bool
		want    target
		refused bool
	}{
		{"the lowest difference", nil, false, false, target{at: 10}, false},
		{"the same barrier", func(_, s *side) { s.barriers = own.barriers }, false, false, target{at: 20}, false},
		{"where the markers before the barrier begin", func(o, _ *side) {
			o.barriers = []replica.Barrier{{Offset: 10, LeaderEpoch: 2, SourceClusterID: "A", Writer: "B", Markers: 3}}
		}, false, false, target{at: 7}, false},
		{"markers of the other", func(o, s *side) {
			o.barriers, s.barriers = nil, []replica.Barrier{{Offset: 21, LeaderEpoch: 2, SourceClusterID: "A", Writer: "B", Markers: 3}}
		}, false, false, target{at: 18}, false},
		{"another writer", func(_, s *side) { s.barriers = []replica.Barrier{barrier(10, "C")} }, false, false, target{at: 10}, false},
		{"a writer that is not known", func(_, s *side) { s.barriers = []replica.Barrier{barrier(10, "")} }, false, false, target{at: 10}, false},
		{"a difference above the end", func(o, s *side) { o.barriers, s.barriers = nil, []replica.Barrier{barrier(30, "C")} }, false, false, target{at: 20}, false},
		{"below this log's start", func(o, _ *side) { o.start = 15 }, false, false, target{at: 0, anew: true}, false},
		{"below the source's start", func(_, s *side) { s.start = 12 }, false, false, target{at: 12, anew: true}, false},
		{"failback", func(o, s *side) { o.history, s.history = nil, []string{"B/1"} }, false, false, target{at: 10}, false},
		{"a shared source", func(_, s *side) { s.name, s.history = "C/1", []string{"A/1"} }, false, false, target{at: 10}, false},
		{"a shared barrier alone", func(o, s *side) { o.history, s.barriers = nil, o.barriers }, false, false, target{at: 20}, false},
		{"nothing shared", func(o, _ *side) { o.history = nil }, false, false, target{}, true},
		{"begun anew since", func(_, s *side) { s.name = "A/2" }, false, false, target{}, true},
		{"nothing shared, but empty", func(o, s *side) { *o = side{name: "B/1", start: 7, end: 7}; s.start = 5 }, false, false, target{at: 5, anew: true}, false},
		{"new", func(o, _ *side) { *o = side{name: "B/1"} }, false, false, target{}, false},
		{"plain Kafka", nil, true, false, target{}, true},
		{"plain Kafka, new", func(o, _ *side) { *o = side{} }, true, false, target{}, false},
		{"plain Kafka, discard", nil, true, true, target{anew: true}, false},
		{"past the cleaner", func(o, _ *side) { o.cleaned = 10 }, false, false, target{at: 10}, false},
		{"below the cleaner", func(o, _ *side) { o.cleaned = 11 }, false, false, target{anew: true}, false},
		{"below the cleaner, the source begins later", func(o, s *side) { o.cleaned, s.start = 11, 3 }, false, false, target{at: 3, anew: true}, false},
		{"the source has forgotten what is kept", func(_, s *side) { s.forgotten = 10 }, false, false, target{at: 10}, false},
		{"the source has forgotten more", func(_, s *side) { s.forgotten = 11 }, false, false, target{anew: true}, false},
		{"the source has forgotten more, but nothing is kept", func(o, s *side) { o.start, s.start, s.forgotten = 10, 8, 11 }, false, false, target{at: 10}, false},
		{"discard", func(_, s *side) { s.start = 4 }, false, true, target{at: 4, anew: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, s := own, *source
			if c.change != nil {
				c.change(&o, &s)
			}
			theirs := &s
			if c.plain {
				theirs = nil
			}
			got, err := alignment(o, theirs, c.discard)
			if c.refused {
				require.ErrorIs(t, err, errNoCommonHistory)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
