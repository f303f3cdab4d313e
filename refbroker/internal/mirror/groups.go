package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/group"
	"watershed.example/refbroker/internal/quorum"
)

// Groups are the consumer groups that this node coordinates; *group.Coordinator
// has them.
type Groups interface {
	// Coordinates says whether this node coordinates a group, or any for "".
	Coordinates(group string) bool
	// CommitMirrored writes what a group has committed on the source.
	CommitMirrored(ctx context.Context, group string, offsets []group.Offset) (news int, err error)
}

// Offsets asks for the log start and end of partitions, by whoever leads them.
type Offsets interface {
	Ranges(ctx context.Context, partitions []group.Partition) map[group.Partition]Range
}

// Range is where a log starts and ends.
type Range struct{ Start, End int64 }

// groupSync is what a mirror does every now and then. It mirrors the committed offsets of a mirror's groups, those that this
// node coordinates: by Kafka's public requests, as a tool would that copies
// them, from whichever source.
type groupSync struct {
	m      *Manager
	mirror *quorum.Mirror
	end    context.CancelFunc
	quiet  chan struct{} // holds one

	found error // what keeps topics from being found; of run's goroutine

	mu sync.Mutex
	// idle ends a round in progress: nothing of the mirror mirrors any more, so
	// nothing is to be asked of the source (LINK-3).
	idle context.CancelFunc
	// err is what the last round failed with.
	err error

	conns map[string]*conn // by address; of run's goroutine
}

// run copies offsets every now and then until ctx ends.
func (s *groupSync) run(ctx context.Context) {
	defer s.hangUp()
	for {
		settings, err := s.settings()
		wait := defaultRefresh
		if err == nil {
			wait = settings.Refresh
		}
		if !s.pause(ctx, wait) {
			return
		}
		round, done := s.begin(ctx)
		err = s.once(round)
		done()
		if ctx.Err() != nil {
			return
		}
		if round.Err() != nil {
			err = nil // it was called off
		}
		if err != nil {
			s.hangUp()
		}
		s.note(err)
		err = s.discover(ctx)
		if err != nil && s.found == nil && ctx.Err() == nil {
			s.m.log.Warn("new topics of the source are not mirrored", "mirror", s.mirror.Name, "error", err)
		}
		s.found = err
	}
}

// pause waits for the next round, without a connection to a source that nothing
// is mirrored from.
func (s *groupSync) pause(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-s.quiet:
			s.hangUp()
		case <-ctx.Done():
			return false
		}
	}
}

// begin begins a round, which [groupSync.callOff] can end.
func (s *groupSync) begin(ctx context.Context) (context.Context, func()) {
	round, cancel := context.WithTimeout(ctx, requestTimeout)
	s.mu.Lock()
	s.idle = cancel
	s.mu.Unlock()
	if !s.m.mirrors(s.m.quorum.Image(), s.mirror.Name) {
		cancel() // since before callOff could know of it
	}
	return round, func() {
		s.mu.Lock()
		s.idle = nil
		s.mu.Unlock()
		cancel()
	}
}

// callOff ends a round in progress, and the connections.
func (s *groupSync) callOff() {
	select {
	case s.quiet <- struct{}{}:
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle()
	}
}

func (s *groupSync) note(err error) {
	s.mu.Lock()
	news := (err == nil) != (s.err == nil)
	s.err = err
	s.mu.Unlock()
	if news && err != nil {
		s.m.log.Warn("groups' offsets are not mirrored", "mirror", s.mirror.Name, "error", err)
	}
}

func (s *groupSync) hangUp() {
	for addr, c := range s.conns {
		_ = c.Close()
		delete(s.conns, addr)
	}
}

func (s *groupSync) settings() (Settings, error) {
	m := s.m.quorum.Image().Mirrors[s.mirror.Name]
	if m == nil {
		return Settings{}, quorum.ErrNoMirror
	}
	return ReadSettings(m.Configs)
}

// once copies what is committed now.
func (s *groupSync) once(ctx context.Context) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	img := s.m.quorum.Image()
	topics := s.m.mirroring(img, s.mirror.Name)
	// Where nobody has ever used a group, there is no coordinator yet.
	first := img.Topics[quorum.OffsetsTopic] == nil && s.m.node == firstBroker(img)
	if settings.Groups.None() || len(topics) == 0 || !first && !s.m.groups.Coordinates("") {
		s.hangUp()
		return nil
	}
	committed, err := s.ask(ctx, settings, topics, func(group string) bool { return first || s.m.groups.Coordinates(group) })
	if len(committed) == 0 {
		return err
	}
	if first {
		return s.m.ensure(ctx) // the next round finds a coordinator
	}
	// Where the log ends is asked for after what is committed: a mirror that
	// keeps up is not held back by that.
	wanted := map[group.Partition]bool{}
	for _, offsets := range committed {
		for _, o := range offsets {
			wanted[o.Partition] = true
		}
	}
	ranges := s.m.ranges.Ranges(ctx, slices.Collect(maps.Keys(wanted)))
	for _, id := range slices.Sorted(maps.Keys(committed)) {
		var offsets []group.Offset
		for _, o := range committed[id] {
			r, known := ranges[o.Partition]
			if !known {
				continue
			}
			if at := clamp(o.Offset, r); at != o.Offset && !s.m.defects.Has(defect.GroupOffsetsUnclamped) {
				o.Offset, o.LeaderEpoch = at, -1
			}
			offsets = append(offsets, o)
		}
		if len(offsets) == 0 || ctx.Err() != nil {
			continue
		}
		if _, failed := s.m.groups.CommitMirrored(ctx, id, offsets); failed != nil {
			err = errors.Join(err, fmt.Errorf("offsets of group %q: %w", id, failed))
		}
	}
	return err
}

// firstBroker is the node that does what one node is to do: the lowest that
// lives. Two that do it at once do no harm.
func firstBroker(img *quorum.Image) int32 {
	first := int32(math.MaxInt32)
	for id, b := range img.Brokers {
		if !b.Fenced {
			first = min(first, id)
		}
	}
	return first
}

// clamp keeps a commit within the log that is here: max(log start, min(source
// commit, log end)) (GRP-1).
func clamp(offset int64, r Range) int64 { return max(r.Start, min(offset, r.End)) }

// mirroring are the topics of a mirror that have a partition in MIRRORING.
func (m *Manager) mirroring(img *quorum.Image, mirror string) map[string][16]byte {
	topics := map[string][16]byte{}
	for _, t := range img.Topics {
		if t.Mirror != mirror {
			continue
		}
		if slices.ContainsFunc(t.Partitions, func(p *quorum.Partition) bool { return p.Mirror.State == quorum.Mirroring }) {
			topics[t.Name] = t.ID
		}
	}
	return topics
}

// mirrors says whether anything of a mirror is in MIRRORING.
func (m *Manager) mirrors(img *quorum.Image, mirror string) bool {
	return len(m.mirroring(img, mirror)) > 0
}

// syncGroupsLocked has the offsets of each mirror's groups copied, and a round
// called off where nothing mirrors any more.
func (m *Manager) syncGroupsLocked(ctx context.Context, img *quorum.Image) {
	if m.groups == nil {
		return
	}
	for name, s := range m.syncs {
		if !sameSource(img.Mirrors[name], s.mirror) {
			s.end()
			delete(m.syncs, name)
		}
	}
	for name, mirror := range img.Mirrors {
		s := m.syncs[name]
		if s == nil {
			life, end := context.WithCancel(ctx)
			s = &groupSync{m: m, mirror: mirror, end: end, quiet: make(chan struct{}, 1), conns: map[string]*conn{}}
			m.syncs[name] = s
			m.wg.Go(func() { s.run(life) })
		}
		if !m.mirrors(img, name) {
			s.callOff()
		}
	}
}

// sameSource says whether a mirror is still the link that it was: its other
// settings may change while it runs.
func sameSource(now, was *quorum.Mirror) bool {
	return now != nil && was != nil && (now == was ||
		now.SourceClusterID == was.SourceClusterID && slices.Equal(now.Bootstrap, was.Bootstrap) && sameWay(now.Configs, was.Configs))
}

// GroupsError is what keeps this node from mirroring groups' offsets, nil for
// nothing.
func (m *Manager) GroupsError(mirror string) error {
	m.mu.Lock()
	s := m.syncs[mirror]
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
