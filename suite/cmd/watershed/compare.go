package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"watershed.example/suite/check"
	"watershed.example/suite/engine"
	"watershed.example/suite/report"
)

// comparison holds what a bundle says to what was judged anew from its evidence.
type comparison struct {
	run      string // its folder
	recorded *recordedResult
	found    *engine.Found
	partial  []string // folders of which something was left out: they are not judged anew
	verbatim bool     // this version wrote the result, and nothing was taken out of it

	// differ is what is not as the bundle says, open what could not be judged anew.
	differ, open []string
	used         map[string]bool // folders that the result tells of
	unknown      bool            // a scenario is of another version
	// wanting: another version held what this one finds inconclusive, as it looks for more
	// than that one recorded.
	wanting bool
}

func (c *comparison) differs(format string, args ...any) {
	c.differ = append(c.differ, "differs: "+fmt.Sprintf(format, args...))
}

func (c *comparison) opens(format string, args ...any) {
	c.open = append(c.open, "not judged anew: "+fmt.Sprintf(format, args...))
}

func (c *comparison) lines() []string {
	slices.Sort(c.differ)
	slices.Sort(c.open)
	return slices.Concat(c.differ, c.open)
}

// compare goes through what is recorded, and then through what is not.
func (c *comparison) compare(results []*engine.Result) {
	for _, f := range c.partial {
		c.opens("%s: of its raw logs or histories something was left out", within(c.run, f))
	}
	for _, res := range results {
		c.plan(res)
	}
	if c.recorded.missing {
		c.opens("there is no %s that it could be compared with", resultFile)
		return
	}
	c.used = map[string]bool{}
	var anew []*engine.Result
	var unplayed *recordedScenario
	for i := range c.recorded.Scenarios {
		s := &c.recorded.Scenarios[i]
		if s.Evidence == "" && engine.IsUnplayed(s.Name) {
			if unplayed != nil {
				c.differs("%s: it is there twice", s.Name)
			}
			unplayed = s
			continue
		}
		anew = append(anew, c.scenario(s, results))
	}
	for _, res := range results {
		if rel := within(c.run, res.Folder); !c.used[res.Folder] && !engine.Searched(rel) {
			c.differs("%s: its evidence is there, and %s does not tell of it", rel, resultFile)
		}
	}
	c.sums(anew, unplayed)
}

// plan says what a run was not asked that the scenario of its name asks.
func (c *comparison) plan(res *engine.Result) {
	if res.Evidence == nil || res.Trouble != "" {
		return // which is said as trouble
	}
	c.unknown = c.unknown || !engine.Knows(res.Evidence.Run.Scenario)
	for _, less := range engine.Weaker(&res.Evidence.Run, c.foundOf(res)) {
		c.opens("%s: %s", res.Name, less)
	}
}

// foundOf is the target of a result, nil for clusters of its own.
func (c *comparison) foundOf(res *engine.Result) *engine.Found {
	if res.Evidence.Run.Launcher == external {
		return c.found
	}
	return nil
}

// external is the launcher of clusters that run already.
const external = "external"

// scenario compares one, and returns what it comes to.
func (c *comparison) scenario(s *recordedScenario, results []*engine.Result) *engine.Result {
	for _, f := range c.partial {
		if within(c.run, f) == c.tail(s) {
			return s.anew(engine.NameIn(within(c.run, f), s.Name), nil)
		}
	}
	k := slices.IndexFunc(results, func(res *engine.Result) bool { return within(c.run, res.Folder) == c.tail(s) })
	if k < 0 {
		c.unproved(s)
		return s.anew(s.Name, nil)
	}
	res := results[k]
	if c.used[res.Folder] {
		c.differs("%s: %s tells twice of the evidence in %s", s.Name, resultFile, c.tail(s))
	}
	c.used[res.Folder] = true
	sum := s.anew(s.Name, res)
	if res.Evidence == nil || res.Trouble != "" { // it is said as trouble
		return sum
	}
	run := res.Evidence.Run
	sum.Name = engine.NameIn(within(c.run, res.Folder), run.Scenario)
	// One that did not come to its end may have left evidence that it was not judged by.
	if broken := s.Trouble != "" && len(s.Verdicts) == 0; !broken {
		c.same(s.Name, "name", s.Name, run.Scenario)
		c.same(s.Name, "profile", s.Profile, string(run.Profile))
		c.same(s.Name, "launcher", s.Launcher, run.Launcher)
		c.same(s.Name, "defects", strings.Join(s.Defects, ", "), strings.Join(run.Defects, ", "))
		c.verdicts(s, sum.Verdicts)
	}
	c.same(s.Name, "seed", s.Seed, run.Seed)
	c.same(s.Name, "passed", s.Passed, passed(sum))
	if c.found != nil && run.Launcher != external {
		c.differs("%s: it was not played on the target", s.Name)
	}
	if k := sum.Name; k != run.Scenario && engine.Knows(k) {
		c.differs("%s: it lies in the folder of scenario %s", run.Scenario, k)
	}
	return sum
}

// tail is the folder of a scenario's evidence within the run's: the longest end of its
// path that there is.
func (c *comparison) tail(s *recordedScenario) string {
	path := filepath.ToSlash(s.Evidence)
	for {
		if at := filepath.FromSlash(path); filepath.IsLocal(at) {
			if _, err := os.Stat(filepath.Join(c.run, at, check.RunFile)); err == nil {
				return filepath.ToSlash(filepath.Clean(at))
			}
		}
		_, rest, ok := strings.Cut(path, "/")
		if !ok {
			return ""
		}
		path = rest
	}
}

// unproved is of a scenario without evidence: nothing is believed of it but that it did
// not come to its end, or that its broker can't play it.
func (c *comparison) unproved(s *recordedScenario) {
	c.same(s.Name, "passed", s.Passed, passed(s.anew(s.Name, nil)))
	switch {
	case s.Trouble != "" && len(s.Verdicts) == 0:
	case s.Evidence == "" && engine.NotPlayed(s.Name, s.outcomes()):
	case len(s.Verdicts) == 0:
		c.differs("%s: it has neither evidence nor verdicts", s.Name)
	default:
		c.opens("%s: its evidence is not there", s.Name)
	}
}

func (c *comparison) same(scenario, what string, recorded, is any) {
	if recorded != is {
		if what == "passed" && c.wanting && recorded == true {
			c.opens("%s: recorded as passed", scenario)
			return
		}
		c.differs("%s: %s is recorded as %v, and is %v", scenario, what, orNothing(recorded), orNothing(is))
	}
}

func orNothing(v any) any {
	if v == "" || v == check.Outcome("") {
		return "nothing"
	}
	return v
}

// verdicts compares those of one scenario.
func (c *comparison) verdicts(s *recordedScenario, verdicts []check.Verdict) {
	anew, was := map[string]check.Outcome{}, s.outcomes()
	for _, v := range verdicts {
		anew[v.Requirement] = v.Outcome
	}
	if len(was) != len(s.Verdicts) {
		c.differs("%s: a requirement has several verdicts", s.Name)
	}
	for id, outcome := range was {
		if !c.verbatim && outcome == check.Held && anew[id] == check.Inconclusive {
			c.wanting = true
			c.opens("%s: %s is recorded as held, and this version finds it inconclusive", s.Name, id)
			continue
		}
		if anew[id] != outcome {
			c.differs("%s: %s is recorded as %s, and is %s", s.Name, id, outcome, orNotJudged(anew[id]))
		}
	}
	for id, outcome := range anew {
		if _, there := was[id]; !there {
			c.differs("%s: %s is not recorded, and is %s", s.Name, id, outcome)
		}
	}
}

func orNotJudged(o check.Outcome) check.Outcome {
	if o == "" {
		return "not judged"
	}
	return o
}

// sums compares what follows from all scenarios together.
func (c *comparison) sums(anew []*engine.Result, unplayed *recordedScenario) {
	if c.found == nil && (unplayed != nil || slices.ContainsFunc(c.recorded.Scenarios, func(s recordedScenario) bool { return s.Launcher == external })) {
		c.opens("levels and what could not be played: the bundle does not say which clusters were certified")
		return
	}
	if c.unknown {
		c.opens("levels and what could not be played: they rest on scenarios that this version does not know")
		return
	}
	r := engine.RecountResults(anew, c.found)
	c.lacking(r, anew)
	switch {
	case r.Unplayed != nil && unplayed == nil:
		c.differs("%s: it is not recorded, and %d requirements can't be shown", r.Unplayed.Name, len(r.Unplayed.Verdicts))
	case r.Unplayed == nil && unplayed != nil:
		c.differs("%s: it is recorded, and there is nothing of it", unplayed.Name)
	case unplayed != nil:
		c.same(unplayed.Name, "seed", unplayed.Seed, r.Unplayed.Run.Seed)
		c.same(unplayed.Name, "profile", unplayed.Profile, string(r.Unplayed.Run.Profile))
		c.same(unplayed.Name, "passed", unplayed.Passed, r.Unplayed.Passed())
		c.verdicts(unplayed, r.Unplayed.Verdicts)
	}
	all := len(c.recorded.Scenarios) > 0
	for _, res := range anew {
		all = all && passed(res)
	}
	switch {
	case c.recorded.Passed == all:
	case c.wanting && !all:
		c.opens("the run: recorded as passed")
	default:
		c.differs("the run is recorded as %s, and is %s", passedWord(c.recorded.Passed), passedWord(all))
	}
	c.levels(r)
}

// lacking says which scenarios a certification had to play, or could not have played.
func (c *comparison) lacking(r *engine.Recount, anew []*engine.Result) {
	for _, name := range r.Foreign {
		c.differs("%s: it was played, and the target can't play it", name)
	}
	if len(r.Lacking) > 0 && !slices.ContainsFunc(anew, func(res *engine.Result) bool { return res.Trouble != "" }) {
		c.opens("%d scenarios that the target can play were not played, the first is %s", len(r.Lacking), r.Lacking[0])
	}
}

// levels compares the standings. A run may be out for the lower ones alone, and one that
// tells none claims none.
func (c *comparison) levels(r *engine.Recount) {
	was := c.recorded.Levels
	if len(was) == 0 {
		if r.Whole {
			c.differs("no level is recorded, and the run was out for them")
		}
		return
	}
	var least []differing
	for i, standings := range r.Levels {
		if differ := c.standings(was, standings); i == 0 || len(differ) < len(least) {
			least = differ
		}
	}
	for _, d := range least {
		if c.wanting && d.lost {
			c.opens("%s", d.says)
			continue
		}
		c.differs("%s", d.says)
	}
}

// differing is what is not so of a level; lost says that it was passed, and is not.
type differing struct {
	says string
	lost bool
}

func (c *comparison) standings(was []recordedLevel, is []report.Standing) (all []differing) {
	differs := func(lost bool, format string, args ...any) {
		all = append(all, differing{fmt.Sprintf(format, args...), lost})
	}
	told := map[string]report.Standing{}
	for _, s := range is {
		told[s.Level.String()] = s
	}
	for i, l := range was {
		s, known := told[l.Level]
		switch {
		case !known || i >= len(is) || is[i].Level.String() != l.Level:
			differs(false, "level %s is recorded, and the run was not out for it", l.Level)
		case l.Passed != s.Passed:
			differs(l.Passed, "level %s is recorded as %s, and is %s: %s", l.Level, passedWord(l.Passed), passedWord(s.Passed), s.Why)
		case l.Why != s.Why && c.verbatim:
			differs(false, "level %s: recorded is %q, and it is %q", l.Level, l.Why, s.Why)
		}
		delete(told, l.Level)
	}
	if c.found != nil { // which says what was asked
		for _, level := range slices.Sorted(maps.Keys(told)) {
			differs(false, "level %s is not recorded, and is %s", level, passedWord(told[level].Passed))
		}
	}
	return all
}

func passedWord(passed bool) string {
	if passed {
		return "passed"
	}
	return "not passed"
}
