package history

import "fmt"

// Marker is one transaction marker for one partition that a client asked for by
// hand, in a WriteTxnMarkers request (contract SC-5).
type Marker struct {
	Cluster          string  `json:"cluster"`
	Topic            string  `json:"topic"`
	Partition        int32   `json:"partition"`
	ProducerID       int64   `json:"producerId,string"`
	Epoch            int16   `json:"epoch"`
	CoordinatorEpoch int32   `json:"coordinatorEpoch"`
	Commit           bool    `json:"commit"`
	Result           *Result `json:"result"`
}

func (m *Marker) validate() error {
	if m.Cluster == "" || m.Topic == "" {
		return fmt.Errorf("marker in topic %q on cluster %q", m.Topic, m.Cluster)
	}
	return validResult(m.Result, true)
}

// DisturbanceName says what befell a cluster's partitions.
type DisturbanceName string

// What producer state, last stable offset and aborted lists have to outlive
// (contract SC-7).
const (
	CleanRestart  DisturbanceName = "restart"
	KillRestart   DisturbanceName = "kill-9"
	LeaderChange  DisturbanceName = "leader-change"
	Reassignment  DisturbanceName = "reassignment"
	Truncation    DisturbanceName = "truncation"
	Retention     DisturbanceName = "retention"
	DeleteRecords DisturbanceName = "delete-records"
	Compaction    DisturbanceName = "compaction"
	// CoordinatorMove has another broker coordinate transactions (SC-8 too).
	CoordinatorMove DisturbanceName = "coordinator-move"
)

// Disturbance says that something begins, or has come to its end, after which
// the partitions of a cluster must be in the state that they were in before.
type Disturbance struct {
	What    DisturbanceName `json:"what"`
	Cluster string          `json:"cluster"`
	// Over is set in the event of its end, and Took says there that it did take
	// effect: a log's start has moved, a log was compacted, a leader is another.
	Over bool   `json:"over,omitempty"`
	Took bool   `json:"took,omitempty"`
	Says string `json:"says,omitempty"`
}

func (d *Disturbance) validate() error {
	if d.Cluster == "" {
		return fmt.Errorf("disturbance %s without cluster", d.What)
	}
	return oneOf("disturbance", d.What, CleanRestart, KillRestart, LeaderChange, Reassignment, Truncation, Retention, DeleteRecords, Compaction, CoordinatorMove)
}
