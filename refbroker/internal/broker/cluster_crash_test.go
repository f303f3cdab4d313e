package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/psm"
	"watershed.example/refbroker/internal/mirror"
	"watershed.example/refbroker/internal/quorum"
)

// crash is one cell of the crash matrix: who is struck, how, and at which point
// of a stop in a profile.
type crash struct {
	victim, fault, point string
	profile              quorum.Profile
}

func (c crash) String() string {
	name := c.victim + "/" + c.fault + "/" + c.point
	if c.profile == quorum.Latest {
		name = "latest/" + name
	}
	return name
}

// Victims. The controller leads the metadata quorum; a leader leads the
// partition whose stop comes to the point.
const (
	leaderNode     = "leader"
	followerNode   = "follower"
	controllerNode = "controller"
	bothNode       = "leader-and-controller"
	sourceNode     = "source"
)

// Faults. What is frozen is held at the point too, as a stopped process would be.
const (
	killed = "kill"
	cutOff = "cut-off"
	frozen = "pause"
)

// atRequest is the point of a stop that is just being asked for.
const atRequest = "request"

// crashMatrix lists all cells of a profile.
func crashMatrix(profile quorum.Profile) []crash {
	points := []string{atRequest}
	for _, step := range mirror.StepsIn(profile) {
		points = append(points, "before:"+step)
		if step == mirror.StepTruncated {
			points = append(points, mirror.PointRecorded)
		}
		points = append(points, "after:"+step)
	}
	var all []crash
	for _, victim := range []string{leaderNode, followerNode, controllerNode, bothNode, sourceNode} {
		for _, fault := range []string{killed, cutOff, frozen} {
			for _, point := range points {
				all = append(all, crash{victim, fault, point, profile})
			}
		}
	}
	return all
}

// covering is a part of the matrix in which all pairs of victim, fault and point
// occur; a short one has each point, and each pair of victim and fault.
func covering(all []crash, short bool) []crash {
	seen := map[string]bool{}
	var part []crash
	for i := range all {
		c := all[(i*37+5)%len(all)] // spread: 37 is prime to the size
		pairs := []string{c.victim + c.fault, c.victim + c.point, c.fault + c.point}
		if short {
			pairs = []string{c.victim + c.fault, c.point}
		}
		if slices.ContainsFunc(pairs, func(p string) bool { return !seen[p] }) {
			part = append(part, c)
			for _, p := range pairs {
				seen[p] = true
			}
		}
	}
	return part
}

// A mirror of three destination nodes is stopped, and one node or the source is
// struck at one point of it. With the others alone every partition comes to
// STOPPED; healed, all replicas hold the source's bytes below L, one barrier
// there, and what local producers were acknowledged, once and in order, though
// their ids are the source's; and whoever leads, after whatever restart, knows
// no producer from before the barrier (BAR-1, BAR-5, LOG-4, PSM-2, PSM-3, PSM-6,
// IDEM-1, IDEM-4, LINK-2, LINK-3, OPS-1, RO-5). Time is virtual.
//
// Without WATERSHED_CRASH_MATRIX a part of the matrix runs that covers all
// pairs of victim, fault and point; with WATERSHED_CRASH_MATRIX=all the whole.
func TestAStopSurvivesACrashAtEachStep(t *testing.T) {
	cells, latest := crashMatrix(quorum.V42), crashMatrix(quorum.Latest)
	all := len(cells) + len(latest)
	if os.Getenv("WATERSHED_CRASH_MATRIX") != "all" {
		// What the profiles have in common needs no pairs twice.
		cells, latest = covering(cells, testing.Short()), covering(latest, true)
	}
	cells = append(cells, latest...)
	t.Logf("%d of %d cells", len(cells), all)
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { survive(t, c) })
		})
	}
}

// strikeGate holds the stop of one partition at one point, until it is let go.
type strikeGate struct {
	mu        sync.Mutex // never held while waiting
	point     string
	partition string
	arrived   chan struct{} // closed by the first that comes
	letGo     chan struct{}
}

func newStrikeGate() *strikeGate {
	return &strikeGate{arrived: make(chan struct{}), letGo: make(chan struct{})}
}

func (g *strikeGate) arm(point, partition string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.partition = point, partition
}

func (g *strikeGate) Pass(ctx context.Context, point, partition string) error {
	g.mu.Lock()
	held := g.point == point && g.partition == partition
	if held {
		g.point = ""
		close(g.arrived)
	}
	g.mu.Unlock()
	if !held {
		return nil
	}
	select {
	case <-g.letGo:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	crashSource     = "AAAAAAAAAAAAAAAAAAAAAA"
	crashSourceHost = "127.0.1.1"
)

// crashTopics are the topics of the story, by their partition counts: one with
// transactions, of which one stays open; one that no idempotent producer has
// touched; and one without records.
func crashTopics() map[string]int32 { return map[string]int32{"t": 3, "plain": 1, "empty": 1} }

func crashPartitions() []topicPartition {
	var all []topicPartition
	for name, n := range crashTopics() {
		for i := range n {
			all = append(all, topicPartition{name, i})
		}
	}
	slices.SortFunc(all, func(a, b topicPartition) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// story is one cell as it is played.
type story struct {
	*bubbleCluster
	cell   crash
	ctx    context.Context
	gate   *strikeGate
	source *Node
	conf   Config // the source's
	// cut is L, by partition; in profile kip1279-latest, where L is what was there
	// when the fetchers were removed, where the first transaction opened that stays
	// open.
	cut     map[topicPartition]int64
	below   map[topicPartition][]byte
	open    []int64 // producer ids of the transactions that stay open, sorted
	struck  topicPartition
	victim  int32 // -1 for the source
	began   time.Time
	probers map[topicPartition]*prober
}

func survive(t *testing.T, cell crash) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Minute, errors.New("20 virtual minutes are over"))
	defer cancel()
	s := &story{cell: cell, ctx: ctx, began: time.Now(), gate: newStrikeGate(), cut: map[topicPartition]int64{}, below: map[topicPartition][]byte{}, probers: map[topicPartition]*prober{}}
	sea := newSea()
	s.conf = sea.config(t, crashSourceHost, crashSource, 1)
	s.conf.Profile = cell.profile
	var err error
	s.source, err = Start(ctx, s.conf)
	require.NoError(t, err)
	defer func() {
		if s.source != nil {
			_ = s.source.Kill()
		}
	}()
	s.bubbleCluster = newBubbleCluster(t, sea, func(c *Config) { c.Gate, c.Profile = s.gate, cell.profile })
	defer s.closeAll()
	s.fillSource()
	s.mirrorAll()
	s.choose()
	late := s.writeOn()
	for i, p := range crashPartitions() {
		s.startProber(i, p)
	}
	defer func() {
		for _, p := range s.probers {
			p.stop()
		}
		late()
	}()

	if cell.point == atRequest {
		s.strike()
	} else {
		s.gate.arm(cell.point, s.struck.String())
	}
	asked := make(chan error, 1)
	go func() { asked <- s.askToStop() }()
	if cell.point != atRequest {
		s.until("the stop of "+s.struck.String()+" to come to "+cell.point, func() bool {
			select {
			case <-s.gate.arrived:
				return true
			default:
				return false
			}
		})
		s.strike()
	}
	if cell.fault != frozen || cell.victim != leaderNode && cell.victim != bothNode {
		close(s.gate.letGo)
	}
	require.NoError(t, <-asked)

	// Without the victim.
	s.awaitStopped("without the victim")
	s.awaitWrites(2)
	s.heal()
	s.awaitStopped("with the victim back")
	s.awaitWrites(1)
	for _, p := range s.probers {
		p.stop()
	}
	late()
	s.check("healed")

	// Each replica leads in turn: the third does where the second dies before the
	// first has caught up again.
	first := s.partition(s.struck).Leader
	s.kill(first)
	second := s.led(first)
	s.probers[s.struck].once()
	s.kill(second)
	s.start(first)
	s.led(first, second)
	s.probers[s.struck].once()
	s.startAll()
	s.check("after each replica has led")
	for id := range s.confs {
		s.kill(int32(id))
	}
	s.startAll()
	for _, p := range crashPartitions() {
		s.probers[p].once()
	}
	s.check("after all nodes were killed")
}

// led waits until the struck partition has a leader other than those given.
func (s *story) led(not ...int32) int32 {
	s.t.Helper()
	var leader int32
	s.until(fmt.Sprintf("a leader other than %v", not), func() bool {
		leader = s.partition(s.struck).Leader
		return leader >= 0 && s.node(leader) != nil && !slices.Contains(not, leader)
	})
	return leader
}

// fillSource makes the topics and their traffic: on each partition of t
// committed, aborted and plain records, and an open transaction at the end.
func (s *story) fillSource() {
	t, at := s.t, s.conf.Listeners[0].Listen
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 5000
	for name, n := range crashTopics() {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, n, 1
		create.Topics = append(create.Topics, topic)
	}
	made, err := ask[*kmsg.CreateTopicsResponse](s.ctx, s.sea, at, 7, create)
	require.NoError(t, err)
	for _, topic := range made.Topics {
		require.Zero(t, topic.ErrorCode)
	}
	send := func(p *rawProducer, to topicPartition, values ...string) (last int64) {
		for _, v := range values {
			for {
				offset, err := p.try(s.ctx, at, to, v)
				if err == nil {
					last = offset
					break
				}
				require.ErrorIs(t, err, kerr.ConcurrentTransactions)
				require.NoError(t, sleep(s.ctx, 10*time.Millisecond))
			}
		}
		return last
	}
	producer := func(txn string) *rawProducer {
		p, err := newRawProducer(s.ctx, s.sea, at, txn)
		require.NoError(t, err)
		return p
	}
	later := producer("open later") // of a lower id than what opens first
	idempotent, txn, open := producer(""), producer("a"), producer("open")
	s.open = []int64{later.id, open.id}
	parts := []topicPartition{{"t", 0}, {"t", 1}, {"t", 2}}
	for _, p := range parts {
		send(idempotent, p, "a1", "a2", "a3")
	}
	for _, commit := range []bool{true, false, true} {
		for _, p := range parts {
			send(txn, p, "in a transaction", "and again")
		}
		require.NoError(t, txn.end(s.ctx, at, commit))
	}
	// The markers come a moment after the ends.
	stable := func(p topicPartition) bool {
		part, err := s.source.Env().Replicas.Partition(p.topic, p.index)
		require.NoError(t, err)
		o := part.Offsets()
		return o.LastStable == o.LogEnd
	}
	for _, p := range parts {
		s.until("the markers of "+p.String(), func() bool { return stable(p) })
		s.cut[p] = send(open, p, "open")
		send(idempotent, p, "behind the open transaction")
		send(later, p, "open too")
	}
	for range 3 {
		raw := batchOf("plain", func(b *kmsg.RecordBatch) { // one of long ago would be deleted
			b.FirstTimestamp = time.Now().UnixMilli()
			b.MaxTimestamp = b.FirstTimestamp
		})
		resp, err := ask[*kmsg.ProduceResponse](s.ctx, s.sea, at, 12, produceOf(-1, "plain", 0, raw))
		require.NoError(t, err)
		require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	}
	s.cut[topicPartition{"plain", 0}], s.cut[topicPartition{"empty", 0}] = 3, 0
	for _, p := range crashPartitions() {
		for _, raw := range batchesOf(t, diskLog(t, s.conf, p)) {
			if raw.BaseOffset < s.cut[p] {
				s.below[p] = append(s.below[p], raw.bytes...)
			}
		}
	}
}

// writeOn goes on writing to the source behind the open transaction, until it
// is told to end: all that comes late is above L.
func (s *story) writeOn() (end func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	at := s.conf.Listeners[0].Listen
	var done sync.WaitGroup
	done.Go(func() {
		p, err := newRawProducer(ctx, s.sea, at, "")
		if err != nil {
			return
		}
		for i := 0; sleep(ctx, 50*time.Millisecond) == nil; i++ {
			_, _ = p.try(ctx, at, topicPartition{"t", int32(i % 3)}, "late")
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// mirrorAll mirrors the topics and waits until all replicas have all.
func (s *story) mirrorAll() {
	var topics []string
	for name := range crashTopics() {
		topics = append(topics, name)
	}
	slices.Sort(topics)
	m := mirrorrpc.Client{R: asker{s.sea, s.address(0)}}
	require.NoError(s.t, m.Create(s.ctx, "m", map[string]string{mirrorrpc.ConfigBootstrap: s.conf.Listeners[0].Listen}))
	require.NoError(s.t, m.Start(s.ctx, "m", topics...))
	for _, p := range crashPartitions() {
		s.until("all replicas of "+p.String(), func() bool {
			part, err := s.source.Env().Replicas.Partition(p.topic, p.index)
			require.NoError(s.t, err)
			end := part.Offsets().LogEnd
			if !s.settled(p) || s.partition(p).Mirror.State.String() != "MIRRORING" {
				return false
			}
			here, err := s.node(s.partition(p).Leader).Env().Replicas.Partition(p.topic, p.index)
			return err == nil && here.Offsets().LogEnd >= end
		})
	}
}

// choose finds the victim, and a partition of which it has the part that the
// cell asks for.
func (s *story) choose() {
	s.until("a controller", func() bool { return s.controller() >= 0 })
	controller := s.controller()
	s.victim = -1
	for i := range int32(3) {
		p := topicPartition{"t", i}
		leader := s.partition(p).Leader
		switch {
		case s.cell.victim == bothNode && leader == controller, s.cell.victim == leaderNode && leader != controller:
			s.struck, s.victim = p, leader
			return
		case s.cell.victim == controllerNode && leader != controller:
			s.struck, s.victim = p, controller
			return
		case s.cell.victim == followerNode && leader != controller:
			s.struck, s.victim = p, 3-leader-controller
			return
		case s.cell.victim == sourceNode:
			s.struck = p
			return
		}
	}
	s.t.Fatalf("no partition for %s: controller %d", s.cell, controller)
}

// victimHost is where the victim is: a node, or the source.
func (s *story) victimHost() string {
	if s.victim >= 0 {
		return hostOf(s.victim)
	}
	return crashSourceHost
}

func (s *story) strike() {
	switch {
	case s.cell.fault == cutOff:
		s.sea.sever(s.victimHost(), true)
	case s.cell.fault == frozen:
		s.sea.freeze(s.victimHost(), true)
	case s.victim >= 0:
		s.kill(s.victim)
	default:
		require.NoError(s.t, s.source.Kill())
		s.source = nil
	}
}

func (s *story) heal() {
	switch {
	case s.cell.fault == cutOff:
		s.sea.sever(s.victimHost(), false)
	case s.cell.fault == frozen:
		s.sea.freeze(s.victimHost(), false)
		select {
		case <-s.gate.letGo:
		default:
			close(s.gate.letGo)
		}
	case s.victim >= 0:
		s.startAll()
	default:
		var err error
		s.source, err = Start(s.ctx, s.conf)
		require.NoError(s.t, err)
	}
}

// askToStop asks one node after the other until one has recorded the stop.
func (s *story) askToStop() error {
	var topics []string
	for name := range crashTopics() {
		topics = append(topics, name)
	}
	for i := 0; ; i++ {
		m := mirrorrpc.Client{R: asker{s.sea, s.address(int32(i % 3))}}
		err := m.Stop(s.ctx, "m", topics...)
		if err == nil {
			return nil
		}
		if sleep(s.ctx, 50*time.Millisecond) != nil || i > 200 {
			return fmt.Errorf("ask to stop: %w", err)
		}
	}
}

// awaitStopped waits until each node that can be reached says STOPPED of every
// partition.
func (s *story) awaitStopped(when string) {
	s.t.Helper()
	var last string
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s: %s", when, last)
		}
	}()
	s.until("STOPPED "+when, func() bool {
		reached := 0
		for id := range s.confs {
			mirrors, err := (mirrorrpc.Client{R: asker{s.sea, s.address(int32(id))}}).Describe(s.ctx, "m")
			if err != nil {
				continue
			}
			reached++
			for _, topic := range mirrors[0].Topics {
				for _, p := range topic.Partitions {
					if p.StateValue != "STOPPED" || p.ErrorMessage != nil {
						last = fmt.Sprintf("node %d says of %s %+v", id, topic.TopicName, p)
						if p.ErrorMessage != nil {
							last += ": " + *p.ErrorMessage
						}
						return false
					}
				}
			}
		}
		return reached >= 2
	})
}

// prober is a local producer of one partition, with an id that the source had
// given too. It tries from before the stop on; what is refused it sends again.
type prober struct {
	s    *story
	to   topicPartition
	p    *rawProducer
	stop func()

	mu    sync.Mutex // never held while waiting
	acked []string
	at    []int64
}

func (s *story) startProber(node int, to topicPartition) {
	var raw *rawProducer
	var err error
	raw, err = newRawProducer(s.ctx, s.sea, s.address(0), "") // all of one block, from 0
	require.NoError(s.t, err)
	p := &prober{s: s, to: to, p: raw}
	s.probers[to] = p
	ctx, cancel := context.WithCancel(s.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			p.one(ctx)
			_ = sleep(ctx, 100*time.Millisecond)
		}
	})
	p.stop = func() {
		cancel()
		done.Wait()
	}
}

// one sends the next value until it is acknowledged.
func (p *prober) one(ctx context.Context) {
	p.mu.Lock()
	value := fmt.Sprintf("local %d", len(p.acked))
	p.mu.Unlock()
	for i := 0; ctx.Err() == nil; i++ {
		to := p.s.partition(p.to).Leader
		if to < 0 || i%4 == 3 {
			to = int32(i % 3)
		}
		// Not ctx: a write that was sent may be there.
		offset, err := p.p.try(p.s.ctx, p.s.address(to), p.to, value)
		if err == nil {
			p.mu.Lock()
			p.acked, p.at = append(p.acked, value), append(p.at, offset)
			p.mu.Unlock()
			return
		}
		for _, never := range []error{kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.UnknownProducerID, kerr.InvalidTxnState} {
			if errors.Is(err, never) {
				p.s.t.Errorf("%s to %s at node %d: %v", value, p.to, to, err)
				return
			}
		}
		_ = sleep(ctx, 25*time.Millisecond)
	}
}

// once sends one more value.
func (p *prober) once() {
	p.s.t.Helper()
	before := p.count()
	ctx, cancel := context.WithTimeout(p.s.ctx, 2*time.Minute)
	defer cancel()
	p.one(ctx)
	require.Equal(p.s.t, before+1, p.count(), "%s takes a write", p.to)
}

func (p *prober) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// awaitWrites waits until each partition has taken more writes.
func (s *story) awaitWrites(more int) {
	s.t.Helper()
	for to, p := range s.probers {
		want := p.count() + more
		s.until("writes to "+to.String(), func() bool { return p.count() >= want })
	}
}

// check compares every replica's log with what must be there.
func (s *story) check(when string) {
	s.t.Helper()
	t := s.t
	t.Logf("%s: %s of virtual time", when, time.Since(s.began))
	for _, p := range crashPartitions() {
		s.until(fmt.Sprintf("%s: all replicas of %s in sync", when, p), func() bool { return s.settled(p) })
		first := diskLog(t, s.confs[0], p)
		var producers string
		for id := range s.confs {
			require.True(t, bytes.Equal(first, diskLog(t, s.confs[id], p)), "%s: logs of nodes 0 and %d of %s differ", when, id, p)
			part, err := s.node(int32(id)).Env().Replicas.Partition(p.topic, p.index)
			require.NoError(t, err)
			known := part.Producers()
			for _, k := range known {
				require.Equal(t, s.probers[p].p.id, k.ProducerID, "%s: node %d knows producers of %s: %+v", when, id, p, known)
			}
			if now := fmt.Sprint(known); id == 0 {
				producers = now
			} else {
				require.Equal(t, producers, now, "%s: producers of %s at node %d", when, p, id)
			}
			o := part.Offsets()
			require.Equal(t, o.HighWatermark, o.LastStable, "%s: nothing of %s is open at node %d", when, p, id)
		}
		below := s.below[p]
		require.True(t, bytes.HasPrefix(first, below), "%s: %s is not the source's below offset %d", when, p, s.cut[p])
		rest, l := batchesOf(t, first[len(below):]), s.cut[p]
		if s.cell.profile == quorum.Latest {
			rest, l = s.aborted(when, p, rest)
		}
		require.NotEmpty(t, rest)
		require.True(t, rest[0].IsBarrier(), "%s: %s holds %+v at offset %d, where the barrier belongs", when, p, rest[0].Batch, l)
		require.Equal(t, l, rest[0].BaseOffset, "%s: barrier of %s", when, p)
		require.Equal(t, crashSource, rest[0].Control.SourceClusterID)
		var values []string
		var at []int64
		epoch := rest[0].LeaderEpoch
		for _, b := range rest[1:] {
			require.False(t, b.IsControl(), "%s: a second control batch in %s: %+v", when, p, b.Batch)
			require.GreaterOrEqual(t, b.LeaderEpoch, epoch)
			epoch = b.LeaderEpoch
			values, at = append(values, valueOf(t, b.bytes)), append(at, b.BaseOffset)
		}
		require.Equal(t, s.probers[p].acked, values[:min(len(values), s.probers[p].count())], "%s: local records of %s", when, p)
		require.Equal(t, s.probers[p].at, at[:min(len(at), s.probers[p].count())], "%s: their offsets", when)
		// The last may be there without its acknowledgement.
		require.LessOrEqual(t, len(values), s.probers[p].count()+1, "%s: local records of %s", when, p)
	}
}

// aborted takes off what a stop in profile kip1279-latest leaves before its
// barrier, from where the first transaction opened on: the source's batches, none
// of them cut, and one ABORT marker for each transaction that is open, in the order of
// producer ids. It returns the rest, and where that begins.
func (s *story) aborted(when string, p topicPartition, rest []rawBatch) ([]rawBatch, int64) {
	s.t.Helper()
	at, theirs := s.cut[p], batchesOf(s.t, diskLog(s.t, s.conf, p))
	for len(rest) > 0 && slices.ContainsFunc(theirs, func(b rawBatch) bool { return bytes.Equal(b.bytes, rest[0].bytes) }) {
		at, rest = rest[0].LastOffset+1, rest[1:]
	}
	if p.topic != "t" {
		return rest, at
	}
	for _, id := range s.open {
		require.NotEmpty(s.t, rest)
		b := rest[0]
		require.Equal(s.t, psm.ControlAbort, b.Control.Type, "%s: %s holds %+v at offset %d, where a marker for producer %d belongs", when, p, b.Batch, at, id)
		require.Equal(s.t, []int64{at, id}, []int64{b.BaseOffset, b.ProducerID}, "%s: marker in %s", when, p)
		at, rest = b.LastOffset+1, rest[1:]
	}
	return rest, at
}

// rawBatch is a batch and its bytes.
type rawBatch struct {
	psm.Batch
	bytes []byte
}

func batchesOf(t *testing.T, raw []byte) []rawBatch {
	t.Helper()
	var all []rawBatch
	for len(raw) > 0 {
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		all = append(all, rawBatch{b, raw[:b.Size]})
		raw = raw[b.Size:]
	}
	return all
}

func valueOf(t *testing.T, raw []byte) string {
	t.Helper()
	var b kmsg.RecordBatch
	require.NoError(t, b.ReadFrom(raw))
	var r kmsg.Record
	require.NoError(t, r.ReadFrom(b.Records))
	return string(r.Value)
}

// diskLog is what a node's files hold of a partition.
func diskLog(t *testing.T, c Config, p topicPartition) []byte {
	t.Helper()
	dir := filepath.Join(c.DataDir, "logs", p.String())
	files, err := afero.ReadDir(c.Host.FS, dir)
	require.NoError(t, err)
	var all []byte
	for _, f := range files { // by name, which is by offset
		if strings.HasSuffix(f.Name(), ".log") {
			raw, err := afero.ReadFile(c.Host.FS, filepath.Join(dir, f.Name()))
			require.NoError(t, err)
			all = append(all, raw...)
		}
	}
	return all
}
