package history

import "fmt"

// ProbeName says what a probe asked for.
type ProbeName string

// The probes.
const (
	ProbeDeleteRecords ProbeName = "delete-records" // DeleteRecords of a partition (RO-3 while it mirrors)
	ProbeOtherCluster  ProbeName = "other-cluster"  // a mirror from an address where another cluster answers (LINK-4)
	ProbeSameTopic     ProbeName = "same-topic"     // the same topic from a second source (FI-2)
	ProbeLoop          ProbeName = "loop"           // a mirror that would close a loop (CH-4)
	ProbeStop          ProbeName = "stop"           // a stop in the state that State names (OPS-1)
	ProbeStopMany      ProbeName = "stop-many"      // a topic of many partitions, which Many tells of, is stopped (OPS-3)
	ProbeDeleteMirror  ProbeName = "delete-mirror"  // the mirror of stopped topics is deleted (OPS-5)
	ProbeDeleteTopic   ProbeName = "delete-topic"   // the source's topic is deleted (OPS-5)
)

// Probe is one request that is made to see how a cluster answers, and what
// became of it.
type Probe struct {
	What    ProbeName `json:"what"`
	Cluster string    `json:"cluster"` // the cluster asked
	Mirror  string    `json:"mirror,omitempty"`
	Topic   string    `json:"topic,omitempty"`
	// Partition is -1 where the request is about whole topics.
	Partition int32 `json:"partition"`
	// State is the mirror's state when the request was made, where that matters.
	State string `json:"state,omitempty"`
	// After is the state that it led to, as far as the prober waited for it.
	After  string  `json:"after,omitempty"`
	Result *Result `json:"result"`
	// Many is what became of the partitions of a stop of many.
	Many *Many `json:"many,omitempty"`
}

// Many is a stop of a topic of many partitions.
type Many struct {
	Partitions int32 `json:"partitions"`
	// Took is the time from the request until all were seen STOPPED, or nobody
	// waited any more, in nanoseconds.
	Took int64 `json:"took,string"`
	// Ends is how each was described at last.
	Ends []StoppedEnd `json:"ends,omitempty"`
}

// StoppedEnd is one partition of many: its state, L, where its barrier lies, and
// where its log ends; -1 unknown.
type StoppedEnd struct {
	Partition int32  `json:"partition"`
	State     string `json:"state"`
	L         int64  `json:"l,string"`
	Barrier   int64  `json:"barrier,string"`
	End       int64  `json:"end,string"`
}

func (p *Probe) validate() error {
	err := oneOf("probe", p.What, ProbeDeleteRecords, ProbeOtherCluster, ProbeSameTopic, ProbeLoop,
		ProbeStop, ProbeStopMany, ProbeDeleteMirror, ProbeDeleteTopic)
	if err != nil {
		return err
	}
	if p.Cluster == "" {
		return fmt.Errorf("probe %s without cluster", p.What)
	}
	if (p.Many != nil) != (p.What == ProbeStopMany) {
		return fmt.Errorf("probe %s: many is of a stop of many partitions", p.What)
	}
	return validResult(p.Result, true)
}
