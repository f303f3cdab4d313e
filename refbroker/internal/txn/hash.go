package txn

import (
	"hash/crc32"
	"math"
	"unicode/utf16"
)

// TopicName is the internal topic that holds the state of transactional ids.
const TopicName = "__transaction_state"

// PartitionFor is the partition of [TopicName] that holds the state of a
// transactional id: Java's String.hashCode, made positive, modulo partitions.
func PartitionFor(id string, partitions int) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(id)) {
		h = 31*h + int32(unit)
	}
	if h == math.MinInt32 {
		return 0
	}
	return max(h, -h) % int32(partitions)
}

// castagnoli is the checksum of a batch.
func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
