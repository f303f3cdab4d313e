package engine

import (
	"slices"
	"strings"
	"time"

	"watershed.example/suite/history"
	"watershed.example/topologies"
)

// cleanEvery is how often brokers look for something to delete or to compact,
// in scenarios that wait for it.
const cleanEvery = 100 * time.Millisecond

// RollOver is the request by which a producer goes past its last epoch.
type RollOver string

// The requests that do.
const (
	ByInit   RollOver = "init-producer-id"
	ByEndTxn RollOver = "end-txn" // of transactions version 2
)

// clusterAlone are the scenarios of a cluster without any mirror. What takes
// records away is followed by a kill: recovery then finds a log without a head.
func clusterAlone() []Scenario {
	t := topologies.Single()
	all := []Scenario{
		{Name: t.Name + "/no-fault/none", short: true},
		{Name: t.Name + "/restart/clean", Disturb: []history.DisturbanceName{history.CleanRestart}},
		{Name: t.Name + "/restart/kill-9", Disturb: []history.DisturbanceName{history.KillRestart, history.KillRestart}},
		{Name: t.Name + "/cleaning/delete-records", Disturb: []history.DisturbanceName{history.DeleteRecords, history.KillRestart}},
		{Name: t.Name + "/cleaning/retention", Disturb: []history.DisturbanceName{history.Retention, history.KillRestart}},
		{Name: t.Name + "/cleaning/compaction", Disturb: []history.DisturbanceName{history.Compaction, history.KillRestart}},
		{Name: t.Name + "/epochs/init-producer-id", RollOver: ByInit},
		{Name: t.Name + "/epochs/end-txn", RollOver: ByEndTxn},
	}
	several := t.On(several)
	several.Name += "-on-3"
	all = append(all,
		Scenario{Name: several.Name + "/leaders/changed", Disturb: []history.DisturbanceName{history.LeaderChange, history.LeaderChange, history.Truncation}},
		Scenario{Name: several.Name + "/replicas/reassigned", Disturb: []history.DisturbanceName{history.Reassignment, history.CoordinatorMove}},
	)
	for i := range all {
		// Thousands of requests for one roll-over are enough by default, and one story
		// on three nodes: they are dear in containers.
		all[i].Topology, all[i].deflt = t, all[i].RollOver != ByEndTxn && !slices.Contains(all[i].Disturb, history.Reassignment)
		if strings.HasPrefix(all[i].Name, several.Name+"/") {
			all[i].Topology = several
		}
	}
	return all
}

// aloneExercises lists what a scenario of a cluster without mirrors exercises.
func (s Scenario) aloneExercises() []string {
	ids := []string{"SC-1", "SC-4", "SC-5", "SC-6"}
	if s.RollOver != "" {
		ids = append(ids, "SC-2")
	}
	if s.space != "" && slices.Contains(s.Disturb, history.DeleteRecords) {
		// A target shows no file: with the records goes what they show.
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "SC-6" })
	}
	if len(s.Disturb) > 0 {
		ids = append(ids, "SC-7")
	}
	if slices.ContainsFunc(s.Disturb, func(d history.DisturbanceName) bool {
		return d == history.CleanRestart || d == history.KillRestart || d == history.CoordinatorMove
	}) {
		ids = append(ids, "SC-8")
	}
	if len(s.segments()) == 0 {
		ids = append(ids, "SC-3")
	}
	return ids
}

// cleans says whether the scenario waits for retention or the cleaner.
func (s Scenario) cleans() bool {
	return s.CleanPast || slices.ContainsFunc(append(s.Disturb, s.Vanish), func(d history.DisturbanceName) bool {
		return d == history.Retention || d == history.Compaction
	})
}

// segments are the topics' configs where whole segments are to go: they roll
// with nearly every batch.
func (s Scenario) segments() map[string]string {
	if !s.cleans() || !isAlone(s.Topology) {
		return nil
	}
	return map[string]string{"segment.ms": "1"}
}
