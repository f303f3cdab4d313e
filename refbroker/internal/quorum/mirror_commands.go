package quorum

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// mirrorKinds lists the commands of mirroring.
func mirrorKinds() []kind {
	return []kind{
		kindOf(CreateMirror{}),
		kindOf(DeleteMirror{}),
		kindOf(SetMirrorTopics{}),
		kindOf(SetMirrorState{}).giving((*Partition)(nil)),
		kindOf(AlignMirror{}).giving((*Partition)(nil)),
		kindOf(CutForStop{}).giving((*Partition)(nil)),
		kindOf(MoveBarrier{}).giving((*Partition)(nil)),
		kindOf(FinishStop{}).giving((*Partition)(nil)),
		kindOf(SetUpstream{}),
		kindOf(LowerGroups{}),
		kindOf(AlterMirror{}),
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
	// Discard goes with Mirroring: what the topics hold may be cut, all of it.
	Discard bool `json:"discard,omitempty"`
	// Resume refuses topics that are neither paused nor mirroring: to start one
	// whose stop came meanwhile would cut what was written since. It has partitions
	// of both go on that FAILED, and takes nothing back of what the start may discard.
	Resume bool `json:"resume,omitempty"`
	// TakeOver takes topics from another mirror: see defect.SameTopicTwoSources.
	TakeOver bool `json:"takeOver,omitempty"`
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
		if t.Mirror != "" && t.Mirror != c.Mirror && t.Desired != Stopped && !c.TakeOver {
			return nil, nil, fmt.Errorf("topic %q: %w %q", name, ErrTopicInMirror, t.Mirror)
		}
		if t.Mirror != c.Mirror && c.Desired != Mirroring {
			return nil, nil, fmt.Errorf("topic %q: %w %q", name, ErrTopicNotInMirror, c.Mirror)
		}
		if c.Resume && (t.Mirror != c.Mirror || t.Desired != Paused && t.Desired != Mirroring) {
			return nil, nil, fmt.Errorf("topic %q: %w", name, ErrMirrorTopicNotPaused)
		}
		nt := *t
		nt.Mirror, nt.Desired = c.Mirror, c.Desired
		nt.Partitions = slices.Clone(t.Partitions)
		for i, p := range t.Partitions {
			q := *p
			discard := c.Discard && c.Desired == Mirroring || c.Resume && q.Mirror.Discard && !q.Mirror.Aligned
			changed, err := q.Mirror.desire(c.Desired, discard)
			if err != nil {
				return nil, nil, fmt.Errorf("partition %s-%d: %w", name, i, err)
			}
			if changed {
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
// of the mirror start itself (RO-1). A log that was aligned since the last
// stop holds the source's records: it is not the cluster's own again before a
// stop, so its alignment outlives a pause or a failure.
func (m *MirrorPartition) desire(want MirrorState, discard bool) (changed bool, err error) {
	before, discarded := m.State, m.Discard
	switch want {
	case Mirroring:
		err = m.start(discard)
		m.Error, m.Attempts = "", 0
	case Paused:
		err = m.take(EventPause)
	case Stopped:
		err = m.take(EventStop)
	default:
		err = fmt.Errorf("desired mirror state %s: %w", want, kerr.InvalidRequest)
	}
	return m.State != before || m.Discard != discarded, err
}

// start is what a mirror start makes of each state. To discard needs a
// partition that does not mirror, or that has not come to its alignment yet.
func (m *MirrorPartition) start(discard bool) error {
	switch m.State {
	case Unknown, Stopped:
		m.Aligned, m.AlignedAt, m.AlignCut, m.Discard = false, 0, nil, discard
	case Failed, Pausing, Paused:
		m.Discard = discard
		to, err := m.State.next(EventStart, m.Aligned && !discard) // what is discarded is aligned anew
		if err == nil {
			m.State = to
		}
		return err
	case LogTruncation, EpochFencing, Mirroring:
		switch {
		case m.State == LogTruncation && !m.Aligned:
			m.Discard = m.Discard || discard
		case discard && !m.Discard:
			return fmt.Errorf("%s: what is mirrored can be discarded after a stop: %w", m.State, ErrMirrorTopicNotStopped)
		}
	}
	return m.take(EventStart)
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
	// Cut says that the log has followed the alignment that was recorded.
	Cut bool `json:"cut,omitempty"`
}

// Kind names the command.
func (SetMirrorState) Kind() (string, int) { return "SetMirrorState", 1 }

func (c SetMirrorState) apply(img *Image) (*Image, any, error) { return applyEdit(c, img) }

func (c SetMirrorState) edits(*Image) (string, int32, func(*Partition) error) {
	return c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		if p.Mirror.State != c.From {
			return fmt.Errorf("mirror state %s, not %s: %w", p.Mirror.State, c.From, kerr.InvalidUpdateVersion)
		}
		event, err := eventOf(c.From, c.To)
		if err != nil {
			return err
		}
		if c.Cut {
			p.Mirror.Cutting = nil
		}
		if c.To == Mirroring && p.Mirror.Cutting != nil {
			return fmt.Errorf("%s before the log was cut to %d: %w", c.To, p.Mirror.Cutting.At, kerr.InvalidUpdateVersion)
		}
		p.Mirror.Error, p.Mirror.Attempts = c.Error, c.Attempts
		return p.Mirror.take(event)
	}
}

// SetUpstream notes from where a source is and was mirrored, when that changed
// while this cluster mirrors it.
type SetUpstream struct {
	Topic       string   `json:"topic"`
	Partition   int32    `json:"partition"`
	LeaderEpoch int32    `json:"leaderEpoch"`
	Upstream    []string `json:"upstream"`
	History     []string `json:"history"`
}

// Kind names the command.
func (SetUpstream) Kind() (string, int) { return "SetUpstream", 1 }

func (c SetUpstream) apply(img *Image) (*Image, any, error) {
	next, _, err := applyEdit(c, img)
	return next, nil, err
}

func (c SetUpstream) edits(*Image) (string, int32, func(*Partition) error) {
	return c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		if p.Mirror.State != Mirroring {
			return fmt.Errorf("upstream in mirror state %s: %w", p.Mirror.State, kerr.InvalidUpdateVersion)
		}
		p.Mirror.Upstream = slices.Clone(c.Upstream)
		p.Mirror.History = union(p.Mirror.History, c.History)
		return nil
	}
}
