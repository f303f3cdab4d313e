package engine

import (
	"path/filepath"
	"slices"
	"strings"

	"watershed.example/suite/check"
	"watershed.example/suite/report"
)

// Recount is what a run comes to by verdicts that were judged anew.
type Recount struct {
	// Unplayed is what is told of requirements that a target can't show, nil for nothing.
	Unplayed *report.Scenario
	// Levels are the standings, each of which may be those that the run told; it has none
	// where a run was not out for a level.
	Levels [][]report.Standing
	// Whole says that the run was out for all levels.
	Whole bool
	// Lacking are scenarios that a certification had to play and did not, Foreign those
	// that it played and could not.
	Lacking, Foreign []string
}

// RecountResults sums results up anew: those of a certification where found is not nil. Their
// names are those of scenarios.
func RecountResults(results []*Result, found *Found) *Recount {
	if found != nil {
		return found.recount(results)
	}
	all := report.Result{Scenarios: reports(results)}
	consists := members()
	r := &Recount{Whole: all.Whole(consists), Levels: [][]report.Standing{all.Standings(consists)}}
	// A single cluster of another broker is certified by all scenarios of such clusters.
	if alone := certifying(); !slices.ContainsFunc(results, func(res *Result) bool {
		return !slices.ContainsFunc(alone, func(m report.Member) bool { return m.Scenario == scenarioOf(res.Name) })
	}) {
		r.Levels = append(r.Levels, all.Standings(alone))
	}
	return r
}

func (f *Found) recount(results []*Result) *Recount {
	t := f.target()
	c := Certification{Target: t.file, Seed: f.Seed, Level: f.level()}
	played := func(name string) bool {
		return slices.ContainsFunc(results, func(r *Result) bool { return r.Name == name })
	}
	if f.Chosen {
		c.Scenarios = func(s Scenario) bool { return played(s.Name) }
	}
	play, not, level := c.choose(t)
	r := &Recount{Whole: !f.Chosen}
	for _, s := range play {
		if !played(s.Name) {
			r.Lacking = append(r.Lacking, s.Name)
		}
	}
	for _, res := range results {
		if !slices.ContainsFunc(play, func(s Scenario) bool { return s.Name == res.Name }) {
			r.Foreign = append(r.Foreign, res.Name)
		}
	}
	cert := &Certificate{Results: results, Unplayed: not}
	cert.sum(t, c, play, level)
	for i, s := range cert.Report.Scenarios {
		if s.Name == unplayable {
			r.Unplayed = &cert.Report.Scenarios[i]
		}
	}
	r.Levels = [][]report.Standing{cert.Report.Levels}
	return r
}

// NotPlayed says whether verdicts of a scenario that left no evidence are what is told of
// one that another broker than the reference broker can't play: not applicable, all of it.
func NotPlayed(scenario string, verdicts map[string]check.Outcome) bool {
	for _, sc := range byName()[scenario] {
		for _, b := range brokers {
			if _, na := sc.able(b.cannot(sc)); na != "" && isAlone(sc.Topology) && allOf(sc.Requirements(), verdicts) {
				return true
			}
		}
	}
	return false
}

func allOf(ids []string, verdicts map[string]check.Outcome) bool {
	return len(ids) == len(verdicts) && !slices.ContainsFunc(ids, func(id string) bool { return verdicts[id] != check.NotApplicable })
}

// IsUnplayed says whether a name is that under which reports tell what a target can't show.
func IsUnplayed(name string) bool { return name == unplayable }

// NameIn is the name that a run's reports have for the scenario whose evidence lies in a
// folder, by its path within the run's: the scenario's own where the folder is of it.
func NameIn(rel, scenario string) string {
	name := scenarioOf(filepath.ToSlash(rel))
	if name == strings.ReplaceAll(scenario, ":", "-") {
		return scenario
	}
	return name
}

// Searched says whether the folder is of a search, whose reports tell what is violated only.
func Searched(rel string) bool { return strings.HasPrefix(filepath.ToSlash(rel), "TestExplore/") }
