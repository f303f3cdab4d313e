package history

import "fmt"

// Epochs says which leader epochs the batches of a partition's log carry, as its
// leader serves it. Clusters elect on their own, so two logs may use the same
// epochs for different records (contract AL-1).
type Epochs struct {
	Cluster   string       `json:"cluster"`
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Ranges    []EpochRange `json:"ranges"`
}

// EpochRange is a run of batches of one leader epoch: their first offset and
// their last.
type EpochRange struct {
	Epoch int32 `json:"epoch"`
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
}

func (e *Epochs) validate() error {
	if e.Cluster == "" || e.Topic == "" {
		return fmt.Errorf("leader epochs of topic %q on cluster %q", e.Topic, e.Cluster)
	}
	for _, r := range e.Ranges {
		if r.First < 0 || r.Last < r.First {
			return fmt.Errorf("leader epoch %d from offset %d to %d", r.Epoch, r.First, r.Last)
		}
	}
	return nil
}
