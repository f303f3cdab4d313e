// Package psm keeps the producer state of one partition.
package psm

// Stop is one stop of mirroring on a partition: where it cut, where its
// barrier lies, and in which leader epoch. A barrier is a partition's own iff
// a stop has its offset and source cluster id, and the barrier's leader epoch
// is at or above the stop's.
type Stop struct {
	L               int64
	BarrierOffset   int64
	Epoch           int32
	SourceClusterID string
}

// Origin says on whose behalf a batch is appended.
type Origin uint8

// The origins (Kafka's AppendOrigin).
const (
	Client Origin = iota
	Coordinator
	Replication
)

// Producer is what is known of one producer id, for DescribeProducers.
type Producer struct {
	ProducerID int64
	Epoch      int16
	// LastSequence is -1 when no data batch is remembered.
	LastSequence int32
	// LastTimestamp in ms, -1 for none.
	LastTimestamp int64
	// CoordinatorEpoch is the last marker's, -1 for none.
	CoordinatorEpoch int32
	// CurrentTxnFirstOffset is -1 when no transaction is open.
	CurrentTxnFirstOffset int64
}
