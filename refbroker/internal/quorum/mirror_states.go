package quorum

import "fmt"

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

// Writable reports whether clients may write to a partition in this state.
func (s MirrorState) Writable() bool { return s == Unknown || s == Stopped }
