package quorum

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"watershed.example/psm"
)

// AlignMirror cuts a log to Target, where it and its source's part, before
// mirroring goes on. It begins a new leader epoch, so that followers give up
// what the leader cut.
type AlignMirror struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	Target      int64  `json:"target"`
	// LogEpoch is the latest leader epoch in the log or, if that is higher, the
	// source's; -1 for none.
	LogEpoch int32 `json:"logEpoch"`
	// Anew cuts everything and begins the log at Target, with the source's
	// barriers Below it in its list.
	Anew  bool      `json:"anew,omitempty"`
	Below []Barrier `json:"below,omitempty"`
	// History is the name of the source's log and that log's own history; Upstream
	// the source's id and what that mirrors now.
	History  []string `json:"history,omitempty"`
	Upstream []string `json:"upstream,omitempty"`
	// Cut is what goes, nil for nothing.
	Cut *CutReport `json:"cut,omitempty"`
}

// Kind names the command.
func (AlignMirror) Kind() (string, int) { return "AlignMirror", 1 }

func (c AlignMirror) apply(img *Image) (*Image, any, error) { return applyEdit(c, img) }

func (c AlignMirror) edits(img *Image) (string, int32, func(*Partition) error) {
	return c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		m := &p.Mirror
		if err := m.take(EventAlign); err != nil {
			return err
		}
		if m.Cutting != nil {
			return fmt.Errorf("alignment before the log was cut to %d, where the last one was: %w", m.Cutting.At, kerr.InvalidUpdateVersion)
		}
		if m.Aligned && !c.Anew {
			// The source itself truncated below what was mirrored of it.
			m.AlignedAt = min(m.AlignedAt, c.Target)
		} else {
			m.Aligned, m.AlignedAt = true, c.Target
		}
		p.LeaderEpoch = max(p.LeaderEpoch, c.LogEpoch) + 1
		m.Cutting = &AlignRecord{At: c.Target, Epoch: p.LeaderEpoch, Anew: c.Anew, Below: slices.Clone(c.Below)}
		m.Stops = slices.DeleteFunc(slices.Clone(m.Stops), func(s psm.Stop) bool { return c.Anew || s.BarrierOffset >= c.Target })
		m.Discard = false
		if c.Anew || c.Target == 0 {
			m.History = nil // nothing of it is left
		}
		p.cutTo(*m.Cutting)
		if c.Anew {
			m.Begun = img.Index + 1
		}
		m.History = union(m.History, c.History)
		m.Upstream = slices.Clone(c.Upstream)
		m.AlignCut = m.AlignCut.with(c.Cut)
		if c.Cut != nil {
			img.owe(m, c.Target)
		}
		return nil
	}
}

// cutTo adds a truncation to those that replicas have to follow. Earlier ones
// at or above it are part of it.
func (p *Partition) cutTo(c AlignRecord) {
	p.Cuts = append(slices.DeleteFunc(slices.Clone(p.Cuts), func(old AlignRecord) bool {
		return c.Anew || old.At >= c.At && !old.Anew
	}), c)
}

// union is a with what b has more, sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// CutForStop cuts a log to its last stable offset and persists the last
// mirrored offset (steps 3 and 4 of STOPPING), in one record conditional on
// the leader epoch. The new leader epoch is above every epoch in the log. The
// result is the *[Partition].
type CutForStop struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	// L is the last stable offset, where the barrier will lie, or in profile
	// kip1279-latest the log's end, and the barrier will lie Markers above it.
	L       int64 `json:"l"`
	Markers int64 `json:"markers,omitempty"`
	// LogEpoch is the latest leader epoch in the log, -1 in an empty one.
	LogEpoch int32 `json:"logEpoch"`
	// LastMirroredOffset and LastMirroredEpoch are of the last record below L.
	LastMirroredOffset int64  `json:"lastMirroredOffset"`
	LastMirroredEpoch  int32  `json:"lastMirroredEpoch"`
	SourceClusterID    string `json:"sourceClusterId"`
	// Cut is what goes, nil for nothing.
	Cut *CutReport `json:"cut,omitempty"`
}

// Kind names the command.
func (CutForStop) Kind() (string, int) { return "CutForStop", 1 }

func (c CutForStop) apply(img *Image) (*Image, any, error) { return applyEdit(c, img) }

func (c CutForStop) edits(img *Image) (string, int32, func(*Partition) error) {
	return c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		m := &p.Mirror
		if err := m.take(EventCut); err != nil {
			return err
		}
		if m.Cutting != nil {
			return fmt.Errorf("cut for a stop before the log was cut to %d, where it was aligned: %w", m.Cutting.At, kerr.InvalidUpdateVersion)
		}
		if m.Current != nil {
			return fmt.Errorf("cut for a stop at %d: one at %d was made already: %w", c.L, m.Current.L, kerr.InvalidUpdateVersion)
		}
		p.LeaderEpoch = max(p.LeaderEpoch, c.LogEpoch) + 1
		m.Current = &StopRecord{L: c.L, Markers: c.Markers, Epoch: p.LeaderEpoch, SourceClusterID: c.SourceClusterID}
		p.cutTo(AlignRecord{At: c.L, Epoch: p.LeaderEpoch})
		// What a stop at or above L wrote is cut away with the log.
		m.Stops = slices.DeleteFunc(slices.Clone(m.Stops), func(s psm.Stop) bool { return s.BarrierOffset >= c.L })
		m.Stops = append(m.Stops, m.Current.Stop())
		m.LastMirroredOffset, m.LastMirroredEpoch = c.LastMirroredOffset, c.LastMirroredEpoch
		m.StopCut = c.Cut
		img.owe(m, c.L)
		return nil
	}
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

func (c FinishStop) apply(img *Image) (*Image, any, error) { return applyEdit(c, img) }

func (c FinishStop) edits(*Image) (string, int32, func(*Partition) error) {
	return c.Topic, c.Partition, func(p *Partition) error {
		if err := p.expectLeaderEpoch(c.LeaderEpoch); err != nil {
			return err
		}
		if err := p.Mirror.take(EventFinish); err != nil {
			return err
		}
		if p.Mirror.Aligned && p.Mirror.Current == nil {
			return fmt.Errorf("end of a stop that cut nothing, on a log that was aligned: %w", kerr.InvalidUpdateVersion)
		}
		p.Mirror.Current, p.Mirror.Error, p.Mirror.Attempts = nil, "", 0
		p.Mirror.Discard, p.Mirror.Upstream = false, nil
		return nil
	}
}
