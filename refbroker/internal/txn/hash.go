package txn

import "watershed.example/refbroker/internal/shards"

// TopicName is the internal topic that holds the state of transactional ids.
const TopicName = "__transaction_state"

// PartitionFor is the partition of [TopicName] that holds the state of a
// transactional id.
func PartitionFor(id string, partitions int) int32 { return shards.PartitionFor(id, partitions) }
