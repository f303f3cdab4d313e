package quorum

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// mirrorKinds lists the commands of mirroring.
func mirrorKinds() []kind {
	return []kind{
		kindOf(CreateMirror{}),
		kindOf(DeleteMirror{}),
		kindOf(SetMirrorTopics{}),
		kindOf(SetMirrorState{}),
		kindOf(AlignMirror{}),
		kindOf(CutForStop{}),
		kindOf(FinishStop{}),
	}
}

// CreateMirror makes a named link to a source cluster.
type CreateMirror struct {
	Name            string            `json:"name"`
	SourceClusterID string            `json:"sourceClusterId"`
	Bootstrap       []string          `json:"bootstrap"`
	Configs         map[string]string `json:"configs,omitempty"`
}

// Kind names the command.
func (CreateMirror) Kind() (string, int) { return "CreateMirror", 1 }

func (c CreateMirror) apply(img *Image) (*Image, any, error) {
	if _, ok := img.Mirrors[c.Name]; ok {
		return nil, nil, fmt.Errorf("mirror %q: %w", c.Name, ErrMirrorExists)
	}
	return img.withMirror(&Mirror{
		Name: c.Name, SourceClusterID: c.SourceClusterID,
		Bootstrap: slices.Clone(c.Bootstrap), Configs: maps.Clone(c.Configs),
	}), nil, nil
}

// DeleteMirror removes a mirror none of whose topics mirrors any more. Its
// topics are the cluster's own from here on, and stay writable (OPS-5).
type DeleteMirror struct {
	Name string `json:"name"`
}

// Kind names the command.
func (DeleteMirror) Kind() (string, int) { return "DeleteMirror", 1 }

func (c DeleteMirror) apply(img *Image) (*Image, any, error) {
	if _, ok := img.Mirrors[c.Name]; !ok {
		return nil, nil, fmt.Errorf("mirror %q: %w", c.Name, ErrNoMirror)
	}
	next := img.clone()
	next.Mirrors = maps.Clone(img.Mirrors)
	delete(next.Mirrors, c.Name)
	for _, name := range slices.Sorted(maps.Keys(img.Topics)) {
		t := img.Topics[name]
		if t.Mirror != c.Name {
			continue
		}
		for i, p := range t.Partitions {
			if p.Mirror.State != Stopped && p.Mirror.State != Unknown {
				return nil, nil, fmt.Errorf("mirror %q: partition %s-%d is not stopped: %w", c.Name, name, i, ErrMirrorNotEmpty)
			}
		}
		nt := *t
		nt.Mirror, nt.Desired = "", Unknown
		next = next.withTopic(&nt)
	}
	return next, nil, nil
}

// SetMirrorTopics gives topics of a mirror a desired state: Mirroring, Paused
// or Stopped. It is refused whole when one topic can't be given.
type SetMirrorTopics struct {
	Mirror  string      `json:"mirror"`
	Topics  []string    `json:"topics"`
	Desired MirrorState `json:"desired"`
}

// Kind names the command.
func (SetMirrorTopics) Kind() (string, int) { return "SetMirrorTopics", 1 }

func (c SetMirrorTopics) apply(img *Image) (*Image, any, error) {
	if _, ok := img.Mirrors[c.Mirror]; !ok {
		return nil, nil, fmt.Errorf("mirror %q: %w", c.Mirror, ErrNoMirror)
	}
	next := img
	for _, name := range c.Topics {
		t, err := img.Topic(name)
		if err != nil {
			return nil, nil, err
		}
		if t.Mirror != "" && t.Mirror != c.Mirror && t.Desired != Stopped {
			return nil, nil, fmt.Errorf("topic %q: %w %q", name, ErrTopicInMirror, t.Mirror)
		}
		if t.Mirror != c.Mirror && c.Desired != Mirroring {
			return nil, nil, fmt.Errorf("topic %q: %w %q", name, ErrTopicNotInMirror, c.Mirror)
		}
		nt := *t
		nt.Mirror, nt.Desired = c.Mirror, c.Desired
		nt.Partitions = slices.Clone(t.Partitions)
		for i, p := range t.Partitions {
			q := *p
			if q.Mirror.desire(c.Desired) {
				q.PartitionEpoch++
			}
			nt.Partitions[i] = &q
		}
		next = next.withTopic(&nt)
	}
	return next, nil, nil
}

// desire moves a partition to the state from which its leader begins to do
// what the operator asked for. The read-only window opens here, in the record
// of the mirror start itself (RO-1).
func (m *MirrorPartition) desire(want MirrorState) bool {
	before := m.State
	switch want {
	case Mirroring:
		switch m.State {
		case Unknown, Stopped, Failed:
			m.State, m.Aligned, m.AlignedAt, m.Error, m.Attempts = LogTruncation, false, 0, "", 0
		case Pausing, Paused:
			m.State = LogTruncation
		}
	case Paused:
		if m.State != Stopping && m.State != Stopped && m.State != Paused {
			m.State = Pausing
		}
	case Stopped:
		if m.State != Stopped && m.State != Unknown {
			m.State = Stopping
		}
	}
	return m.State != before
}

// SetMirrorState records a partition's step from one state to the next. It is
// conditional on the leader epoch and on the state that the leader believes
// in.
type SetMirrorState struct {
	Topic       string      `json:"topic"`
	Partition   int32       `json:"partition"`
	LeaderEpoch int32       `json:"leaderEpoch"`
	From        MirrorState `json:"from"`
	To          MirrorState `json:"to"`
	Error       string      `json:"error,omitempty"`
	Attempts    int16       `json:"attempts,omitempty"`
}

// Kind names the command.
func (SetMirrorState) Kind() (string, int) { return "SetMirrorState", 1 }

func (c SetMirrorState) apply(img *Image) (*Image, any, error) {
	next, p, err := img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		if p.Mirror.State != c.From {
			return fmt.Errorf("mirror state %d, not %d: %w", p.Mirror.State, c.From, kerr.InvalidUpdateVersion)
		}
		p.Mirror.State, p.Mirror.Error, p.Mirror.Attempts = c.To, c.Error, c.Attempts
		return nil
	})
	return next, p, err
}

// AlignMirror cuts a log to Target, where it and its source's part, before
// mirroring goes on. It begins a new leader epoch, so that followers give up
// what the leader cut.
type AlignMirror struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	Target      int64  `json:"target"`
	// LogEpoch is the latest leader epoch in the log, -1 in an empty one.
	LogEpoch int32 `json:"logEpoch"`
}

// Kind names the command.
func (AlignMirror) Kind() (string, int) { return "AlignMirror", 1 }

func (c AlignMirror) apply(img *Image) (*Image, any, error) {
	next, p, err := img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		p.LeaderEpoch = max(p.LeaderEpoch, c.LogEpoch) + 1
		p.Mirror.Aligned, p.Mirror.AlignedAt = true, c.Target
		p.Mirror.Stops = slices.DeleteFunc(slices.Clone(p.Mirror.Stops), func(s psm.Stop) bool { return s.L >= c.Target })
		return nil
	})
	return next, p, err
}

// CutForStop cuts a log to its last stable offset and persists the last
// mirrored offset (steps 3 and 4 of STOPPING), in one record conditional on
// the leader epoch. The new leader epoch is above every epoch in the log. The
// result is the *[Partition].
type CutForStop struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	// L is the last stable offset; the barrier will lie there.
	L int64 `json:"l"`
	// LogEpoch is the latest leader epoch in the log, -1 in an empty one.
	LogEpoch int32 `json:"logEpoch"`
	// LastMirroredOffset and LastMirroredEpoch are of the last record below L.
	LastMirroredOffset int64  `json:"lastMirroredOffset"`
	LastMirroredEpoch  int32  `json:"lastMirroredEpoch"`
	SourceClusterID    string `json:"sourceClusterId"`
}

// Kind names the command.
func (CutForStop) Kind() (string, int) { return "CutForStop", 1 }

func (c CutForStop) apply(img *Image) (*Image, any, error) {
	next, p, err := img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		m := &p.Mirror
		if m.State != Stopping {
			return fmt.Errorf("cut for a stop in mirror state %d: %w", m.State, kerr.InvalidUpdateVersion)
		}
		if m.Current != nil {
			return fmt.Errorf("cut for a stop at %d: one at %d was made already: %w", c.L, m.Current.L, kerr.InvalidUpdateVersion)
		}
		p.LeaderEpoch = max(p.LeaderEpoch, c.LogEpoch) + 1
		m.Current = &StopRecord{L: c.L, Epoch: p.LeaderEpoch, SourceClusterID: c.SourceClusterID}
		// What a stop at or above L wrote is cut away with the log.
		m.Stops = slices.DeleteFunc(slices.Clone(m.Stops), func(s psm.Stop) bool { return s.L >= c.L })
		m.Stops = append(m.Stops, psm.Stop{L: c.L, BarrierOffset: c.L, Epoch: p.LeaderEpoch, SourceClusterID: c.SourceClusterID})
		m.LastMirroredOffset, m.LastMirroredEpoch = c.LastMirroredOffset, c.LastMirroredEpoch
		return nil
	})
	return next, p, err
}

// FinishStop records STOPPED: the partition is writable from here on. It is
// conditional on the leader epoch.
type FinishStop struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
}

// Kind names the command.
func (FinishStop) Kind() (string, int) { return "FinishStop", 1 }

func (c FinishStop) apply(img *Image) (*Image, any, error) {
	next, p, err := img.editPartition(c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		if p.Mirror.State != Stopping {
			return fmt.Errorf("end of a stop in mirror state %d: %w", p.Mirror.State, kerr.InvalidUpdateVersion)
		}
		p.Mirror.State, p.Mirror.Current, p.Mirror.Error, p.Mirror.Attempts = Stopped, nil, "", 0
		return nil
	})
	return next, p, err
}
