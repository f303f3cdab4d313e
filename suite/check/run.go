package check

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"watershed.example/suite/contract"
)

// RunVersion is the version of run.json that this package reads.
const RunVersion = 2

// Profile names the rules that a destination follows.
type Profile string

// The profiles (contract, "Profiles").
const (
	ProfileV42    Profile = "kip1279-v42"
	ProfileLatest Profile = "kip1279-latest"
)

// Run is what run.json says about a run: the plan, not what happened.
type Run struct {
	Version  int    `json:"version"`
	Scenario string `json:"scenario"` // such as "active-passive/partition-both/before:truncated"
	Seed     uint64 `json:"seed,string"`
	// Command is the shell command that reproduces the run, with its seed.
	Command  string    `json:"command"`
	Launcher string    `json:"launcher,omitempty"`
	Profile  Profile   `json:"profile"`
	Clusters []Cluster `json:"clusters"`
	Edges    []Edge    `json:"edges"`
	Topics   []Topic   `json:"topics"`
	// Episodes are the stops of the run, in their order; each is judged by
	// itself. Without any, each edge is one, with the logs of the run's end.
	Episodes []Episode `json:"episodes,omitempty"`
	// Exercises holds the ids of the requirements that the scenario declares to exercise.
	Exercises []string `json:"exercises"`
	// Faults are the faults that have to bite for the run to mean anything.
	Faults  []PlannedFault `json:"faults,omitempty"`
	Floors  Floors         `json:"floors"`
	Options Options        `json:"options"`
	// Defects are the ways in which a broker was made wrong on purpose.
	Defects []string `json:"defects,omitempty"`
	// NotApplicable are requirements that the clusters of the run can't show, with the
	// reason; a violation is one all the same.
	NotApplicable map[string]string `json:"notApplicable,omitempty"`
}

// Cluster is one cluster of the run.
type Cluster struct {
	Name  string  `json:"name"`
	ID    string  `json:"id"`
	Nodes []int32 `json:"nodes"`
}

// Edge is one mirror: which cluster copies which topics from which.
type Edge struct {
	Mirror      string   `json:"mirror"`
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Topics      []string `json:"topics"`
	// Stops is how often the scenario stops this mirror.
	Stops int `json:"stops"`
}

// Episode is one stop of one mirror: from the mirror's start to the settling
// of the traffic on the promoted cluster.
type Episode struct {
	// Number counts the run's episodes from 1; events carry it.
	Number int32  `json:"number"`
	Mirror string `json:"mirror"`
	// Logs is the folder with the raw logs of both clusters as they were at the
	// episode's end, relative to the evidence's; [LogsDir] for the run's end.
	Logs string `json:"logs"`
	// Exercises holds the ids of the requirements that this episode exercises:
	// they are inconclusive where it did not.
	Exercises []string `json:"exercises"`
	// ForeignStop says that the stop was made by a leader of other rules, on
	// purpose: it left transactions open below its barrier. What is made of such a
	// log is the question (PSM-8), not that it is there.
	ForeignStop bool `json:"foreignStop,omitempty"`
}

// Topic is one topic that the scenario uses.
type Topic struct {
	Name       string `json:"name"`
	Partitions int32  `json:"partitions"`
	// Empty are the partitions that get no record before the first stop.
	Empty []int32 `json:"empty,omitempty"`
	// Compacted topics may have gaps in their logs.
	Compacted bool `json:"compacted,omitempty"`
}

// PlannedFault is a fault that the scenario declares.
type PlannedFault struct {
	ID string `json:"id"` // the id in the history's fault events
	// Episode is the number of the episode that it strikes, 0 in runs that don't
	// number theirs.
	Episode int32  `json:"episode,omitempty"`
	Name    string `json:"name"`
	Link    string `json:"link"`
	Phase   string `json:"phase"`
}

// Floors are the least numbers of acknowledged records without which a run
// proves nothing. During counts the writes that were tried, whatever became of
// them, between the stop's request and STOPPED.
type Floors struct {
	Before int `json:"before"`
	During int `json:"during"`
	After  int `json:"after"`
}

// Options are what a profile or a target allows.
type Options struct {
	// AllowLeaderEpochRewrite lets LOG-1 ignore a mirrored batch's leader epoch.
	AllowLeaderEpochRewrite bool `json:"allowLeaderEpochRewrite,omitempty"`
	// StopBoundMs bounds the time from the stop's request to STOPPED, in
	// milliseconds, without the time that the suite itself held a gate
	// (LINK-2); 0 means 30000.
	StopBoundMs int64 `json:"stopBoundMs,omitempty"`
	// StopMany is how many partitions the run stops with one request (OPS-3); 0
	// means 1000, of which the contract speaks.
	StopMany int32 `json:"stopMany,omitempty"`
}

// StopBound is the bound of a stop.
func (o Options) StopBound() time.Duration {
	if o.StopBoundMs > 0 {
		return time.Duration(o.StopBoundMs) * time.Millisecond
	}
	return 30 * time.Second
}

// many is how many partitions one request has to stop.
func (o Options) many() int32 {
	if o.StopMany > 0 {
		return o.StopMany
	}
	return aThousand
}

// Cluster returns the cluster with the name, nil where there is none.
func (r *Run) Cluster(name string) *Cluster {
	i := slices.IndexFunc(r.Clusters, func(c Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Clusters[i]
}

// Topic returns the topic with the name, nil where there is none.
func (r *Run) Topic(name string) *Topic {
	i := slices.IndexFunc(r.Topics, func(t Topic) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Topics[i]
}

// Declares says whether the scenario exercises the requirement.
func (r *Run) Declares(id string) bool { return slices.Contains(r.Exercises, id) }

// episodesDeclare says whether one of the run's episodes exercises the requirement.
func (r *Run) episodesDeclare(id string) bool {
	return slices.ContainsFunc(r.Episodes, func(e Episode) bool { return slices.Contains(e.Exercises, id) })
}

// unknown returns the declared ids that the contract does not hold, each once.
func (r *Run) unknown() []string {
	var ids []string
	note := func(declared []string) {
		for _, id := range declared {
			if _, known := contract.Get(id); !known && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	note(r.Exercises)
	for _, e := range r.Episodes {
		note(e.Exercises)
	}
	return ids
}

// Validate says whether the plan is whole: names that edges use exist, and ids
// are there. What it names lies within the evidence's folder.
func (r *Run) Validate() error {
	if r.Version != RunVersion {
		return fmt.Errorf("run: version %d, want %d", r.Version, RunVersion)
	}
	if r.Profile != ProfileV42 && r.Profile != ProfileLatest {
		return fmt.Errorf("run: unknown profile %q", r.Profile)
	}
	for _, c := range r.Clusters {
		if c.Name == "" || c.ID == "" {
			return fmt.Errorf("run: cluster %q has id %q", c.Name, c.ID)
		}
	}
	if err := r.confined(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	for i, e := range r.Episodes {
		if e.Number != int32(i+1) || e.Logs == "" || !slices.ContainsFunc(r.Edges, func(g Edge) bool { return g.Mirror == e.Mirror }) {
			return fmt.Errorf("run: episode %d has number %d, mirror %q and logs %q", i+1, e.Number, e.Mirror, e.Logs)
		}
	}
	for _, e := range r.Edges {
		if r.Cluster(e.Source) == nil || r.Cluster(e.Destination) == nil {
			return fmt.Errorf("run: mirror %q goes from %q to %q, one of which is no cluster of the run", e.Mirror, e.Source, e.Destination)
		}
		for _, t := range e.Topics {
			if r.Topic(t) == nil {
				return fmt.Errorf("run: mirror %q names unknown topic %q", e.Mirror, t)
			}
		}
	}
	return nil
}

// Save writes the plan to path, as run.json, and waits until the disk has it.
func (r *Run) Save(path string) error {
	if err := r.Validate(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("save run: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("save run: %w", err)
	}
	return nil
}
