package history

import (
	"fmt"
)

// Isolation is a reader's isolation level.
type Isolation string

// The isolation levels.
const (
	ReadCommitted   Isolation = "read_committed"
	ReadUncommitted Isolation = "read_uncommitted"
)

// Observed is a record that reached an application, or several that came one
// after the other.
type Observed struct {
	Reader    string    `json:"reader"`
	Cluster   string    `json:"cluster"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Isolation Isolation `json:"isolation"`
	Offset    int64     `json:"offset,string"`
	// Tag is the record's tag as text, or empty when it carried none.
	Tag string `json:"tag,omitempty"`
	// Count is the number of records where there are several: each has the next
	// offset, and the tag with the next index; 0 for one.
	Count int32 `json:"count,omitempty"`
	// Key and Value are what an untagged record held, cut to 64 bytes: control
	// records that leak to an application are known by them (BAR-6).
	Key   []byte `json:"key,omitempty"`
	Value []byte `json:"value,omitempty"`
}

// Records are the number of records that the event tells of.
func (o *Observed) Records() int64 { return max(1, int64(o.Count)) }

func (o *Observed) validate() error {
	if err := oneOf("isolation", o.Isolation, ReadCommitted, ReadUncommitted); err != nil {
		return err
	}
	switch {
	case o.Count < 0:
		return fmt.Errorf("count %d", o.Count)
	case o.Count > 1:
		if tag, err := ParseTag(o.Tag); err != nil || tag.String() != o.Tag {
			return fmt.Errorf("%d records with the tag %q", o.Count, clip(o.Tag))
		}
	}
	return nil
}

// Each calls do for each of the records, as if it had been read by itself.
func (o *Observed) Each(do func(Observed)) {
	one := *o
	one.Count = 0
	do(one)
	if o.Count < 2 {
		return
	}
	tag, err := ParseTag(o.Tag)
	if err != nil {
		return // such an event is refused
	}
	for k := int64(1); k < o.Records(); k++ {
		one.Offset, one.Tag = o.Offset+k, tag.Add(k).String()
		do(one)
	}
}

// Reader says where a reader stands in one partition. Written at least once
// for each reader and partition, when the reader ends.
type Reader struct {
	Reader    string    `json:"reader"`
	Cluster   string    `json:"cluster"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Isolation Isolation `json:"isolation"`
	// Start is the offset from which the reader reads without a hole.
	Start int64 `json:"start,string"`
	// Position is the next offset that the consumer asks for.
	Position int64 `json:"position,string"`
	// Final is set in the reader's last event for the partition: what it was
	// to see of [Start, Position), it has seen.
	Final bool `json:"final"`
	// IdleFetches counts the fetches answered since Position last moved,
	// where the client tells (a busy loop on a control record shows here); else 0.
	IdleFetches int64 `json:"idleFetches,string"`
}

// Served says how a Fetch was answered.
type Served string

// The ways to be served.
const (
	AtOnce   Served = "at-once"
	LongPoll Served = "long-poll" // the request waited at the broker for data
)

// Aborted is one entry of the aborted-transaction list of a Fetch answer.
type Aborted struct {
	ProducerID  int64 `json:"producerId,string"`
	FirstOffset int64 `json:"firstOffset,string"`
}

// Fetch is one raw Fetch answer for one partition.
type Fetch struct {
	Cluster     string    `json:"cluster"`
	Node        int32     `json:"node"`
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Isolation   Isolation `json:"isolation"`
	Served      Served    `json:"served"`
	FetchOffset int64     `json:"fetchOffset,string"`
	// NextOffset is the offset after the last whole batch in the answer;
	// FetchOffset when there was none.
	NextOffset       int64 `json:"nextOffset,string"`
	HighWatermark    int64 `json:"highWatermark,string"`
	LastStableOffset int64 `json:"lastStableOffset,string"`
	LogStartOffset   int64 `json:"logStartOffset,string"`
	// AbortedNull is set when the list was null rather than empty.
	AbortedNull bool      `json:"abortedNull,omitempty"`
	Aborted     []Aborted `json:"aborted,omitempty"`
	// Code is the partition's error code; offsets and list mean nothing when it is not 0.
	Code int16 `json:"code"`
}

// Offsets is a sample of a partition's ends.
type Offsets struct {
	Cluster   string `json:"cluster"`
	Node      int32  `json:"node"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// HighWatermark and LastStableOffset are the answers of ListOffsets for
	// the latest offset in the two isolation levels. They come from two
	// requests unless Atomic: the LSO is asked for first.
	HighWatermark    int64 `json:"highWatermark,string"`
	LastStableOffset int64 `json:"lastStableOffset,string"`
	LogStartOffset   int64 `json:"logStartOffset,string"`
	// LogEndOffset is -1 where it is not known.
	LogEndOffset int64 `json:"logEndOffset,string"`
	Atomic       bool  `json:"atomic,omitempty"`
	// LeaderEpoch is the partition's current leader epoch, asked for after the
	// offsets; nil where it is not known.
	LeaderEpoch *int32 `json:"leaderEpoch,omitempty"`
	// InSync are the nodes with in-sync replicas, asked for with the leader epoch;
	// empty where they are not known.
	InSync []int32 `json:"inSync,omitempty"`
	// EpochEnds are the leader's answers to OffsetForLeaderEpoch, asked for last; empty
	// where it was not asked.
	EpochEnds []EpochEnd `json:"epochEnds,omitempty"`
}

// EpochEnd is where a leader says that a leader epoch ends in its log (KIP-320).
type EpochEnd struct {
	Asked int32 `json:"asked"`
	// Epoch is the latest one at or below that which was asked for, as far as the leader
	// knows, and End the first offset of the next one, or the log's end; -1 both where it
	// knows none.
	Epoch int32 `json:"epoch"`
	End   int64 `json:"end,string"`
}
