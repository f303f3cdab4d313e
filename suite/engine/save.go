package engine

import (
	"path/filepath"
	"strconv"

	"watershed.example/suite/check"
)

// The least traffic without which a run proves nothing: acknowledged records
// before and after the stop, and writes tried during it.
const (
	floorBefore = 50
	floorDuring = 5
	floorAfter  = 30

	// A stop that nobody can hold is over soon.
	floorDuringOutside = 1
)

// stopBoundMs bounds a stop without a source, in milliseconds (LINK-2).
const stopBoundMs = 15_000

// plan is what run.json says about this run.
func (s *story) plan(o Options) *check.Run {
	sc := s.scenario
	r := &check.Run{
		Version: check.RunVersion, Scenario: sc.Name, Seed: o.Seed, Command: o.Reproduce,
		Launcher: s.world.launcher(), Profile: sc.Profile, Exercises: sc.Requirements(),
		Floors:  check.Floors{Before: floorBefore, During: floorDuring, After: floorAfter},
		Options: check.Options{StopBoundMs: stopBoundMs, StopMany: sc.Wide}, Defects: o.Defects,
	}
	if o.Target != nil {
		r.NotApplicable = o.Target.notApplicable(sc)
		r.Floors.During = floorDuringOutside
	}
	stops := map[string]int{}
	for _, e := range s.episodes {
		logs := filepath.Join(check.EpisodesDir, strconv.Itoa(e.Number))
		if !e.captured() {
			logs = check.LogsDir
		}
		r.Episodes = append(r.Episodes, check.Episode{
			Number: int32(e.Number), Mirror: e.Mirror.Name, Logs: logs, Exercises: sc.exercises(e.Number),
			ForeignStop: sc.ForeignStop && e.struck(),
		})
		r.Faults = append(r.Faults, e.plannedFaults()...)
		stops[e.Mirror.Name]++
	}
	for _, c := range sc.Topology.Clusters {
		var nodes []int32
		for _, n := range s.world.env.Cluster(c.Name).Nodes() {
			nodes = append(nodes, int32(n.Number()))
		}
		r.Clusters = append(r.Clusters, check.Cluster{Name: c.Name, ID: s.world.clusterID(c.Name), Nodes: nodes})
	}
	for _, m := range sc.Topology.Mirrors {
		r.Edges = append(r.Edges, check.Edge{Mirror: m.Name, Source: m.From, Destination: m.To, Topics: m.Topics, Stops: stops[m.Name]})
	}
	for _, t := range sc.Topology.Topics {
		topic := check.Topic{Name: t.Name, Partitions: int32(t.Partitions)}
		if t.Empty {
			for p := range topic.Partitions {
				topic.Empty = append(topic.Empty, p)
			}
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

// uncaptured corrects the plan of a story that got no further: nothing was cut
// since in the logs of an episode that has not ended, and those of one that has
// not begun tell nothing of it.
func (s *story) uncaptured(r *check.Run) {
	for i, e := range s.episodes {
		switch {
		case e.ended:
		case e.started:
			r.Episodes[i].Logs = check.LogsDir
		default:
			r.Episodes[i].Logs = check.EpisodeDir(int32(e.Number))
		}
	}
}

// historyPath is where a run's history lies.
func historyPath(folder string) string { return filepath.Join(folder, check.HistoryFile) }
