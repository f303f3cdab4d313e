package group

import "fmt"

// State is the state of a group.
type State uint8

// The states (KIP-62; Kafka's ClassicGroupState).
const (
	// Empty: no members, though there may be offsets.
	Empty State = iota
	// PreparingRebalance: waiting for all members to join.
	PreparingRebalance
	// CompletingRebalance: a generation began; its leader has yet to assign.
	CompletingRebalance
	// Stable: every member may have its assignment.
	Stable
	// Dead: being deleted.
	Dead
)

var stateNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}

// String is the name that DescribeGroups and ListGroups give.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// Follows reports whether a group may come to s from before.
func (s State) Follows(before State) bool {
	switch s {
	case Empty:
		// From Dead, when the tombstones could not be written.
		return before == PreparingRebalance || before == Dead
	case PreparingRebalance:
		return before == Empty || before == CompletingRebalance || before == Stable
	case CompletingRebalance:
		return before == PreparingRebalance
	case Stable:
		return before == CompletingRebalance
	case Dead:
		return before == Empty
	}
	return false
}
