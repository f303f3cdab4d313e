package quorum

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// MirrorEvent is what can happen to a mirror partition: an operator's request,
// or a step that its leader records.
type MirrorEvent int8

// The events. The first three are the operator's.
const (
	EventStart MirrorEvent = iota
	EventPause
	EventStop
	// EventAlign records where the log is cut, EventMirror that mirroring goes on:
	// the log has followed its alignment, or the leader epoch is above the
	// source's again, for which EventFence stopped it.
	EventAlign
	EventMirror
	EventFence
	EventPaused
	EventFail
	// EventStay records something without a change of state.
	EventStay
	// EventCut is the record of a stop that cuts the log, EventFinish its end.
	EventCut
	EventFinish
)

// MirrorEvents lists the events.
func MirrorEvents() []MirrorEvent {
	return []MirrorEvent{
		EventStart, EventPause, EventStop, EventAlign, EventMirror, EventFence, EventPaused, EventFail, EventStay, EventCut, EventFinish,
	}
}

// String names the event as the docs do.
func (e MirrorEvent) String() string {
	switch e {
	case EventStart:
		return "start or resume"
	case EventPause:
		return "pause"
	case EventStop:
		return "stop"
	case EventAlign:
		return "alignment recorded"
	case EventMirror:
		return "mirroring goes on"
	case EventFence:
		return "source's epoch is above"
	case EventPaused:
		return "fetchers removed"
	case EventFail:
		return "failed for good"
	case EventStay:
		return "log has followed its cut"
	case EventCut:
		return "cut recorded"
	case EventFinish:
		return "stop finished"
	}
	return fmt.Sprintf("MirrorEvent(%d)", int8(e))
}

// ByOperator says whether the event is an operator's request; the others are
// records of the partition's leader.
func (e MirrorEvent) ByOperator() bool { return e <= EventStop }

// guard is what a transition depends on beside the state.
type guard int8

const (
	always guard = iota
	// ifAligned and ifNot: the log was aligned since the last mirror start, or not.
	ifAligned
	ifNot
)

func (g guard) holds(aligned bool) bool { return g == always || (g == ifAligned) == aligned }

// MirrorTransition is one legal transition.
type MirrorTransition struct {
	From  MirrorState
	Event MirrorEvent
	guard guard
	To    MirrorState
}

// Guard says what the transition depends on, "" for nothing.
func (t MirrorTransition) Guard() string {
	switch t.guard {
	case ifAligned:
		return "log is aligned"
	case ifNot:
		return "log is not aligned"
	}
	return ""
}

// MirrorTransitions is the table of all legal transitions: what is not in it is
// refused. It follows KIP-1279's development build but for three entries: a
// paused or failed partition that was never aligned goes on at its alignment; a
// stop of one that was not aligned has no cut; and a stop never fails, it goes
// on until it is done. A request for what is so already is no error: every
// request may be repeated.
func MirrorTransitions() []MirrorTransition {
	return []MirrorTransition{
		{Unknown, EventStart, always, LogTruncation},
		{Unknown, EventStop, always, Unknown},

		{LogTruncation, EventStart, always, LogTruncation},
		{LogTruncation, EventPause, always, Pausing},
		{LogTruncation, EventStop, always, Stopping},
		{LogTruncation, EventAlign, always, LogTruncation},
		{LogTruncation, EventMirror, always, Mirroring},
		{LogTruncation, EventFail, always, Failed},
		{LogTruncation, EventStay, always, LogTruncation},

		{EpochFencing, EventStart, always, EpochFencing},
		{EpochFencing, EventPause, always, Pausing},
		{EpochFencing, EventStop, always, Stopping},
		{EpochFencing, EventMirror, always, Mirroring},
		{EpochFencing, EventFail, always, Failed},
		{EpochFencing, EventStay, always, EpochFencing},

		{Mirroring, EventStart, always, Mirroring},
		{Mirroring, EventPause, always, Pausing},
		{Mirroring, EventStop, always, Stopping},
		{Mirroring, EventAlign, always, Mirroring},
		{Mirroring, EventFence, always, EpochFencing},
		{Mirroring, EventFail, always, Failed},
		{Mirroring, EventStay, always, Mirroring},

		{Pausing, EventStart, ifAligned, Mirroring},
		{Pausing, EventStart, ifNot, LogTruncation},
		{Pausing, EventPause, always, Pausing},
		{Pausing, EventStop, always, Stopping},
		{Pausing, EventPaused, always, Paused},
		{Pausing, EventFail, always, Failed},
		{Pausing, EventStay, always, Pausing},

		{Paused, EventStart, ifAligned, Mirroring},
		{Paused, EventStart, ifNot, LogTruncation},
		{Paused, EventPause, always, Paused},
		{Paused, EventStop, always, Stopping},

		{Stopping, EventStop, always, Stopping},
		{Stopping, EventStay, always, Stopping},
		{Stopping, EventCut, ifAligned, Stopping},
		{Stopping, EventFinish, always, Stopped},

		{Stopped, EventStart, always, LogTruncation},
		{Stopped, EventStop, always, Stopped},

		{Failed, EventStart, ifAligned, Mirroring},
		{Failed, EventStart, ifNot, LogTruncation},
		{Failed, EventPause, always, Pausing},
		{Failed, EventStop, always, Stopping},
	}
}

// next is where an event takes a state.
func (s MirrorState) next(e MirrorEvent, aligned bool) (MirrorState, error) {
	for _, t := range MirrorTransitions() {
		if t.From == s && t.Event == e && t.guard.holds(aligned) {
			return t.To, nil
		}
	}
	switch e {
	case EventPause:
		return s, fmt.Errorf("%s: %w", s, ErrMirrorTopicBeingStopped)
	case EventStart:
		return s, fmt.Errorf("%s: %w", s, ErrMirrorTopicNotStopped)
	}
	aligns := ""
	if !aligned {
		aligns = ", on a log that was not aligned"
	}
	return s, fmt.Errorf("%s in mirror state %s%s: %w", e, s, aligns, kerr.InvalidUpdateVersion)
}

// take moves the partition by an event, if that is legal.
func (m *MirrorPartition) take(e MirrorEvent) error {
	to, err := m.State.next(e, m.Aligned)
	if err == nil {
		m.State = to
	}
	return err
}

// eventOf is the event that a leader's record of a state is.
func eventOf(from, to MirrorState) (MirrorEvent, error) {
	if from == to {
		return EventStay, nil
	}
	switch to {
	case Mirroring:
		return EventMirror, nil
	case EpochFencing:
		return EventFence, nil
	case Paused:
		return EventPaused, nil
	case Failed:
		return EventFail, nil
	}
	return 0, fmt.Errorf("%s is not a leader's to record: %w", to, kerr.InvalidUpdateVersion)
}
