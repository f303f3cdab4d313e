// Package group is the group coordinator: consumer groups of the classic
// protocol and their committed offsets, kept in Kafka's record formats in the
// internal topic __consumer_offsets (KIP-62, KIP-345, KIP-394, KIP-447).
//
// The node that leads a partition of that topic coordinates the groups that
// hash to it. [Group] is the state machine of one group: events in, effects
// out, without a goroutine or a clock of its own. Committed offsets are what a
// replay of the partition's log gives ([Ledger]): a commit is appended, and
// takes effect when the replay, which follows the high watermark, has passed
// it. So what is answered, what a transaction's marker makes of pending
// offsets, and what the next coordinator will load, are one and the same.
// [Coordinator] connects the two, and is what the handlers call.
package group
