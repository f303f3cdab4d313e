package txn

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"watershed.example/refbroker/internal/replica"
	"watershed.example/refbroker/internal/shards"
)

// model is what a transactional id should be, told without a coordinator's
// words: a producer that is current, one earlier epoch that may prove itself,
// and a transaction that is open, was committed, was aborted, or never was.
type model struct {
	known       bool
	cur, before identity // before: epoch -1 for none
	v2          bool
	phase       string // "", "open", "committed", "aborted"
	in          []Partition
	startedAt   int64
}

// history is what partitions should hold: for each, the outcomes in order.
type history map[Partition][]Marker

func TestRandomOperationsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		defer func() { m.stop() }()
		t.Repeat(map[string]func(*rapid.T){
			"init":    m.init,
			"recover": m.recover,
			"add":     m.add,
			"end":     m.end,
			"time":    m.time,
			"crash":   m.crash,
			"":        m.check,
		})
	})
}

type machine struct {
	w     *world
	c     *Coordinator
	stop  func()
	m     model
	want  history
	clock int64
	death death
	// sweeping: the operation is the coordinator's own, and answers nobody.
	sweeping bool
}

const modelID = "x"

func newMachine(t *rapid.T) *machine {
	m := &machine{w: newWorld(1), want: history{}, clock: 1_000_000}
	m.m.cur, m.m.before = identity{-1, -1}, identity{-1, -1}
	if rapid.Bool().Draw(t, "old id") {
		// Near the end of the epochs.
		old := newTxn(modelID, 5000)
		old.Epoch, old.UpdatedAt, old.TimeoutMillis = rapid.Int16Range(32762, 32767).Draw(t, "epoch"), m.clock, 1000
		raw := shards.EncodeBatch(0, shards.NoProducer(), shards.Record{Key: encodeKey(modelID), Value: encodeValue(old)})
		_, err := m.w.logs[0].Append(context.Background(), raw, replica.AppendOptions{Acks: -1, Purpose: replica.ForInternal})
		require.NoError(t, err)
		m.m.known, m.m.cur = true, old.identity()
	}
	m.c, m.stop = m.w.start(t)
	return m
}

// death is when the node dies in an operation.
type death int

const (
	survives death = iota
	// writeLost: the operation's write fails, and is not in the log.
	writeLost
	// writeKept: the operation's write fails, and is in the log all the same.
	writeKept
	// endLost: a transaction is being ended, its markers are out, and the write
	// that completes it is lost; the markers are then written again.
	endLost
	// endKept: as endLost, but the write is in the log.
	endKept
	deaths = 5
)

// do runs one operation. change is what it should do to the model.
func (m *machine) do(t *rapid.T, op func() error, want error, change func(*model)) {
	next := m.m
	next.in = slices.Clone(m.m.in)
	if change != nil {
		change(&next)
	}
	log := m.w.logs[0]
	before := log.len()
	switch m.death {
	case writeLost, writeKept:
		log.fail(1, m.death == writeKept)
	case endLost, endKept:
		log.fail(2, m.death == endKept)
	}
	err := op()
	switch {
	case m.death == survives:
		require.Equal(t, want, err)
		if m.m.known || next.known {
			m.down(t)
		}
		m.apply(next)
		return
	case change == nil:
		require.Equal(t, want, err)
		require.Equal(t, before, log.len(), "nothing to write")
	case m.death == writeLost || m.death == writeKept:
		if !m.sweeping {
			require.Equal(t, kerr.CoordinatorNotAvailable, err)
		}
		if m.death == writeKept {
			m.apply(next)
		}
	default:
		require.Equal(t, want, err)
		ended := m.ends(next)
		open := m.m.in
		m.apply(next)
		if ended && m.death == endLost {
			for _, p := range open {
				require.Eventually(t, func() bool { return len(m.w.markersOf(p)) == len(m.want[p]) }, 10*time.Second, 100*time.Microsecond)
				m.want[p] = append(m.want[p], m.want[p][len(m.want[p])-1])
			}
		}
		if ended && m.death == endKept {
			require.Eventually(t, func() bool { return log.len() == before+2 }, 10*time.Second, 100*time.Microsecond)
		}
	}
	m.restart(t)
}

// ends reports whether next comes with the end of an open transaction.
func (m *machine) ends(next model) bool {
	return m.m.phase == "open" && next.phase != "open" && next.phase != ""
}

func (m *machine) apply(next model) {
	if m.ends(next) {
		for _, p := range m.m.in {
			m.want[p] = append(m.want[p], Marker{
				ProducerID: m.m.cur.id, Epoch: markerEpoch(m.m, next), Commit: next.phase == "committed",
			})
		}
	}
	if next.phase != "open" {
		next.in = nil
	}
	m.m = next
}

// markerEpoch is the epoch that ended the transaction: the raised one, also
// when the producer goes on with a new id.
func markerEpoch(was, is model) int16 {
	if is.cur.id != was.cur.id {
		return was.cur.epoch + 1
	}
	return is.cur.epoch
}

func (m *machine) restart(t *rapid.T) {
	m.stop()
	m.w.logs[0].fail(0, false)
	m.w.set(func() { m.w.epochs[0]++ })
	m.c, m.stop = m.w.start(t)
	if m.m.known {
		m.down(t)
	}
}

func (m *machine) down(t *rapid.T) { await(t, m.c, modelID, settledDown) }

// next takes the next producer id that the node will give. Ids that a failed
// operation took are lost, so it asks the coordinator's block.
func (m *machine) freshID() int64 {
	if *m.c.ids.left == 0 {
		return m.w.blocks
	}
	return *m.c.ids.next
}

func (m *machine) maybeDie(t *rapid.T) {
	m.death = death(max(0, rapid.IntRange(-8, deaths-1).Draw(t, "death")))
}

func (m *machine) init(t *rapid.T) {
	m.maybeDie(t)
	m.initAs(t, noIdentity())
}

// recover is InitProducerId of a producer that says who it is.
func (m *machine) recover(t *rapid.T) {
	if !m.m.known {
		t.Skip("nobody yet")
	}
	m.maybeDie(t)
	who := m.who(t)
	if who.epoch < 0 {
		t.Skip("no such producer")
	}
	m.initAs(t, who)
}

func (m *machine) initAs(t *rapid.T, who identity) {
	id := modelID
	var got identity
	op := func() error {
		pid, epoch, err := m.c.InitProducerID(context.Background(), InitRequest{
			TransactionalID: &id, TimeoutMillis: 1000, ProducerID: who.id, Epoch: who.epoch,
		})
		got = identity{pid, epoch}
		return err
	}
	fresh := m.freshID()
	mine := who == noIdentity()
	switch {
	case m.m.phase == "open" && (mine || who == m.m.cur && who.epoch != 32767):
		m.do(t, op, kerr.ConcurrentTransactions, func(n *model) {
			n.phase, n.before = "aborted", identity{-1, -1}
			if !mine {
				n.before = n.cur
			}
			n.cur.epoch++
		})
		return
	case m.m.phase == "open" || !mine && (who != m.m.cur || who.epoch == 32767) && who != m.m.before:
		m.do(t, op, kerr.ProducerFenced, nil)
		return
	}
	var want identity
	m.do(t, op, nil, func(n *model) {
		was := n.cur
		switch {
		case !n.known:
			n.known, n.cur = true, identity{fresh, 0}
		case !mine && who == n.before && n.cur.epoch != 32767:
		case n.cur.epoch >= 32766:
			n.cur = identity{fresh, 0}
		default:
			n.cur.epoch++
		}
		switch {
		case mine:
			n.before = identity{-1, -1}
		case who == was:
			n.before = was
		}
		n.phase = ""
		want = n.cur
	})
	if got.id >= 0 {
		require.Equal(t, want, got)
	}
}

// who draws a producer that may or may not be the current one.
func (m *machine) who(t *rapid.T) identity {
	cur := m.m.cur
	return rapid.SampledFrom([]identity{
		cur, cur, cur, cur, m.m.before, {cur.id, cur.epoch - 1}, {cur.id, cur.epoch + 1}, {cur.id + 1000, cur.epoch},
	}).Draw(t, "who")
}

func refusal(who identity, m model) error {
	switch {
	case !m.known || who.id != m.cur.id:
		return kerr.InvalidProducerIDMapping
	case who.epoch != m.cur.epoch, who.epoch == 32767:
		return kerr.ProducerFenced
	}
	return nil
}

func (m *machine) add(t *rapid.T) {
	m.maybeDie(t)
	who := m.who(t)
	v2 := rapid.Bool().Draw(t, "v2")
	ps := rapid.SliceOfNDistinct(rapid.SampledFrom([]Partition{a0, a1, b0}), 1, 2, rapid.ID).Draw(t, "partitions")
	op := func() error {
		errs := addTo(m.c, modelID, who, version(v2), ps...)
		for _, err := range errs {
			require.Equal(t, errs[0], err)
		}
		return errs[0]
	}
	if err := refusal(who, m.m); err != nil {
		m.do(t, op, err, nil)
		return
	}
	if m.m.phase == "open" && !slices.ContainsFunc(ps, func(p Partition) bool { return !slices.Contains(m.m.in, p) }) {
		m.do(t, op, nil, nil)
		return
	}
	m.do(t, op, nil, func(n *model) {
		if n.phase != "open" {
			n.phase, n.in, n.startedAt = "open", nil, m.clock
		}
		n.v2 = v2
		for _, p := range ps {
			if !slices.Contains(n.in, p) {
				n.in = append(n.in, p)
			}
		}
	})
}

func version(v2 bool) int16 {
	if v2 {
		return 2
	}
	return 0
}

func (m *machine) end(t *rapid.T) {
	m.maybeDie(t)
	who := m.who(t)
	commit, v2 := rapid.Bool().Draw(t, "commit"), rapid.Bool().Draw(t, "v2")
	var got identity
	op := func() error {
		pid, epoch, err := m.c.EndTxn(context.Background(), EndRequest{
			TransactionalID: modelID, ProducerID: who.id, Epoch: who.epoch, Commit: commit, Version: version(v2),
		})
		got = identity{pid, epoch}
		return err
	}
	fresh := m.freshID()
	ended := m.m.phase == "committed" || m.m.phase == "aborted"
	same := commit && m.m.phase == "committed" || !commit && m.m.phase == "aborted"
	repeated := m.m.known && ended && m.m.v2 && who.epoch >= 0 && who == m.m.before && m.m.cur != who &&
		(who.epoch+1 == m.m.cur.epoch || m.m.cur.epoch == 0)
	switch err := refusal(who, m.m); {
	case repeated && same:
		m.do(t, op, nil, nil)
		require.Equal(t, m.m.cur, got)
	case repeated:
		m.do(t, op, kerr.InvalidTxnState, nil)
	case err != nil:
		m.do(t, op, err, nil)
	case m.m.phase == "open", v2 && !commit:
		var want identity
		m.do(t, op, nil, func(n *model) {
			n.v2 = v2
			n.phase = "aborted"
			if commit {
				n.phase = "committed"
			}
			if v2 {
				n.before = n.cur
				n.cur.epoch++
				if n.before.epoch == 32766 {
					n.cur = identity{fresh, 0}
				}
			}
			want = n.cur
		})
		if got.id >= 0 {
			require.Equal(t, want, got)
		}
	case same && !v2:
		m.do(t, op, nil, nil)
		require.Equal(t, m.m.cur, got)
	default:
		m.do(t, op, kerr.InvalidTxnState, nil)
	}
}

// time passes, and what is open for too long is aborted.
func (m *machine) time(t *rapid.T) {
	by := rapid.Int64Range(1, 1500).Draw(t, "ms")
	m.clock += by
	m.w.set(func() { m.w.clock += by })
	m.maybeDie(t)
	m.sweeping = true
	defer func() { m.sweeping = false }()
	op := func() error { awaitLoaded(t, m.c, 0).sweep(); return nil }
	if m.m.phase != "open" || m.clock-m.m.startedAt < 1000 {
		m.do(t, op, nil, nil)
		return
	}
	m.do(t, op, nil, func(n *model) {
		n.phase, n.before = "aborted", n.cur
		n.cur.epoch++
	})
}

func (m *machine) crash(t *rapid.T) {
	m.restart(t)
}

// check compares all that can be seen of the id, and what partitions hold.
func (m *machine) check(t *rapid.T) {
	s := awaitLoaded(t, m.c, 0)
	txn, ok, _, err := s.look(modelID)
	require.NoError(t, err)
	require.Equal(t, m.m.known, ok)
	if ok {
		require.Equal(t, m.m.cur, txn.identity())
		require.Equal(t, m.m.phase == "open", txn.State == Ongoing)
		require.ElementsMatch(t, m.m.in, txn.Partitions)
	}
	for _, p := range []Partition{a0, a1, b0} {
		got := m.w.markersOf(p)
		for i := range got {
			got[i].CoordinatorEpoch, got[i].Version = 0, 0
		}
		require.Equal(t, m.want[p], got, "%s", p)
	}
}
