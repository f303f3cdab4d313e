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
}

func (p *Probe) validate() error {
	err := oneOf("probe", p.What, ProbeDeleteRecords, ProbeOtherCluster, ProbeSameTopic, ProbeLoop,
		ProbeStop, ProbeDeleteMirror, ProbeDeleteTopic)
	if err != nil {
		return err
	}
	if p.Cluster == "" {
		return fmt.Errorf("probe %s without cluster", p.What)
	}
	return validResult(p.Result, true)
}
