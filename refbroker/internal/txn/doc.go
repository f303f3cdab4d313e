// Package txn is the transaction coordinator: the state of transactional ids,
// kept in Kafka's record format in the internal topic __transaction_state
// (KIP-98, KIP-360, KIP-890).
//
// The node that leads a partition of that topic coordinates the transactional
// ids that hash to it. It rebuilds them from the log when it becomes leader,
// and forgets them when it no longer is. Every transition is in the log, on
// all in-sync replicas, before it takes effect, and one transactional id does
// one thing at a time; whoever comes in between is told CONCURRENT_TRANSACTIONS.
//
// [State.After] is the state machine's table, the methods of [Txn] decide, and
// [Coordinator] writes what they decided and brings the markers out.
package txn
