package txn

import "fmt"

// State is the state of a transactional id, numbered as in the records of
// __transaction_state.
type State int8

// The states (KIP-98; Kafka's TransactionState).
const (
	// Empty: a producer was initialized and no transaction began.
	Empty State = 0
	// Ongoing: partitions were added.
	Ongoing State = 1
	// PrepareCommit: the outcome is decided; markers are being written.
	PrepareCommit State = 2
	// PrepareAbort is PrepareCommit's twin.
	PrepareAbort State = 3
	// CompleteCommit: every partition has its marker, or owes it.
	CompleteCommit State = 4
	// CompleteAbort is CompleteCommit's twin.
	CompleteAbort State = 5
	// Dead: the transactional id expired; its tombstone is being written.
	Dead State = 6
	// PrepareEpochFence: the coordinator itself raises the epoch, to abort what
	// a producer left open. It is never written: PrepareAbort follows at once.
	PrepareEpochFence State = 7
)

// String is the name that DescribeTransactions gives.
func (s State) String() string {
	names := [...]string{
		"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
	}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return names[s]
}

// completed reports whether no transaction is open and none is being ended.
func (s State) completed() bool {
	return s == Empty || s == CompleteCommit || s == CompleteAbort
}

// preparing reports whether an outcome is decided but not yet everywhere.
func (s State) preparing() bool { return s == PrepareCommit || s == PrepareAbort }

// Event is what moves a transactional id from one state to another.
type Event uint8

// The events.
const (
	// Init: InitProducerId while no transaction is open.
	Init Event = iota
	// Add: partitions join the transaction (AddPartitionsToTxn, or Produce with
	// transactions version 2).
	Add
	// Commit: EndTxn that commits.
	Commit
	// Abort: EndTxn that aborts, or the second half of a fencing.
	Abort
	// AbortNothing: EndTxn that aborts though no partition was added, which
	// transactions version 2 allows (KIP-890).
	AbortNothing
	// Fence: the coordinator aborts on its own (timeout, a new producer).
	Fence
	// Marked: every partition was dealt with.
	Marked
	// Expire: the transactional id was idle for too long.
	Expire

	events = int(Expire) + 1
)

// String is the event's name.
func (e Event) String() string {
	names := [events]string{"Init", "Add", "Commit", "Abort", "AbortNothing", "Fence", "Marked", "Expire"}
	if int(e) >= events {
		return fmt.Sprintf("Event(%d)", uint8(e))
	}
	return names[e]
}

// transition is an event in a state.
type transition struct {
	from State
	on   Event
}

// transitions is the only place that knows them.
var transitions = map[transition]State{
	{Empty, Init}:                  Empty,
	{Empty, Add}:                   Ongoing,
	{Empty, AbortNothing}:          PrepareAbort,
	{Empty, Expire}:                Dead,
	{Ongoing, Add}:                 Ongoing,
	{Ongoing, Commit}:              PrepareCommit,
	{Ongoing, Abort}:               PrepareAbort,
	{Ongoing, Fence}:               PrepareEpochFence,
	{PrepareEpochFence, Abort}:     PrepareAbort,
	{PrepareCommit, Marked}:        CompleteCommit,
	{PrepareAbort, Marked}:         CompleteAbort,
	{CompleteCommit, Init}:         Empty,
	{CompleteCommit, Add}:          Ongoing,
	{CompleteCommit, AbortNothing}: PrepareAbort,
	{CompleteCommit, Expire}:       Dead,
	{CompleteAbort, Init}:          Empty,
	{CompleteAbort, Add}:           Ongoing,
	{CompleteAbort, AbortNothing}:  PrepareAbort,
	{CompleteAbort, Expire}:        Dead,
}

// After returns the state that e leads to from s; ok is false when e may not
// happen in s.
func (s State) After(e Event) (next State, ok bool) {
	next, ok = transitions[transition{s, e}]
	return next, ok
}
