package quorum

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// String is the state's name on the wire.
func (s MirrorState) String() string {
	switch s {
	case Unknown:
		return "UNKNOWN"
	case LogTruncation:
		return "LOG_TRUNCATION"
	case EpochFencing:
		return "EPOCH_FENCING"
	case Mirroring:
		return "MIRRORING"
	case Pausing:
		return "PAUSING"
	case Paused:
		return "PAUSED"
	case Stopping:
		return "STOPPING"
	case Stopped:
		return "STOPPED"
	case Failed:
		return "FAILED"
	}
	return fmt.Sprintf("MirrorState(%d)", int8(s))
}

// MirrorStates lists the states, in the order of their numbers.
func MirrorStates() []MirrorState {
	return []MirrorState{Unknown, LogTruncation, EpochFencing, Mirroring, Pausing, Paused, Stopping, Stopped, Failed}
}

// legalFrom is the one table of the states that a partition may come from
// (KIP-1279's development build). Two entries go beyond that: a paused
// partition that was never aligned resumes at its alignment, and one whose log
// is aligned goes on mirroring. STOPPED is reached by [FinishStop] alone.
func (s MirrorState) legalFrom() []MirrorState {
	switch s {
	case LogTruncation:
		return []MirrorState{Unknown, Stopped, Failed, Paused}
	case EpochFencing:
		return []MirrorState{Mirroring}
	case Mirroring:
		return []MirrorState{LogTruncation, EpochFencing, Paused, Failed}
	case Pausing:
		return []MirrorState{LogTruncation, EpochFencing, Mirroring, Failed}
	case Paused:
		return []MirrorState{Pausing}
	case Stopping:
		return []MirrorState{LogTruncation, EpochFencing, Mirroring, Pausing, Paused, Failed}
	case Stopped:
		return []MirrorState{Stopping}
	case Failed:
		return []MirrorState{LogTruncation, EpochFencing, Mirroring, Pausing, Paused}
	}
	return nil
}

// CanBecome reports whether a partition may go from s to the next state. To
// stay is always legal. A stop never fails: it goes on until it is done.
func (s MirrorState) CanBecome(next MirrorState) bool {
	return s == next || slices.Contains(next.legalFrom(), s)
}

// Writable reports whether clients may write to a partition in this state.
func (s MirrorState) Writable() bool { return s == Unknown || s == Stopped }

// become moves the partition to the next state if that is legal.
func (m *MirrorPartition) become(next MirrorState) error {
	if !m.State.CanBecome(next) {
		return fmt.Errorf("mirror state %s can't become %s: %w", m.State, next, kerr.InvalidUpdateVersion)
	}
	m.State = next
	return nil
}
