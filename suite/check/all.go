package check

import (
	"fmt"
	"slices"

	"watershed.example/suite/contract"
)

// check judges one requirement for one stop.
type check struct {
	id string
	do func(*judge, *ruling)
}

// spanCheck judges one requirement over all episodes of a run.
type spanCheck struct {
	id string
	do func(*trial, *ruling)
}

// checks are in the order of the contract. Each judges every episode by itself;
// AP-1 sums them up and comes last.
var checks = []check{
	{"LOG-1", (*judge).log1},
	{"LOG-2", (*judge).log2},
	{"LOG-3", (*judge).log3},
	{"BAR-1", (*judge).bar1},
	{"BAR-2", (*judge).bar2},
	{"BAR-3", (*judge).bar3},
	{"BAR-4", (*judge).bar4},
	{"BAR-6", (*judge).bar6},
	{"RO-1", (*judge).ro1},
	{"RO-4", (*judge).ro4},
	{"RO-5", (*judge).ro5},
	{"PSM-1", (*judge).psm1},
	{"IDEM-1", (*judge).idem1},
	{"IDEM-2", (*judge).idem2},
	{"IDEM-4", (*judge).idem4},
	{"TXN-1", (*judge).txn1},
	{"TXN-2", (*judge).txn2},
	{"TXN-3", (*judge).txn3},
	{"TXN-4", (*judge).txn4},
	{"LINK-1", (*judge).link1},
	{"LINK-2", (*judge).link2},
	{"LINK-3", (*judge).link3},
}

// Checked returns the ids that this package can judge, AP-1 included.
func Checked() []string {
	var ids []string
	for _, c := range slices.Concat(checks, probed) {
		ids = append(ids, c.id)
	}
	for _, c := range spans {
		ids = append(ids, c.id)
	}
	return append(ids, "AP-1")
}

// All judges the evidence. It returns a verdict for every requirement that the
// run or one of its episodes declares to exercise, and for every other one that
// it shows violated. A declared requirement that nobody can judge is
// inconclusive. What a run did not do as planned (a fault that did not bite,
// traffic below its floor) makes inconclusive what would be held.
func All(ev *Evidence) []Verdict {
	t := newTrial(ev)
	guards := make([][]string, len(t.views))
	for i, j := range t.views {
		guards[i] = j.guards()
	}
	byID := map[string]Verdict{}
	for _, c := range slices.Concat(checks, probed) {
		var each []Verdict
		for i, j := range t.views {
			each = append(each, rule(c.id, guards[i], func(r *ruling) { c.do(j, r) }))
		}
		byID[c.id] = t.merge(c.id, each)
	}
	for _, c := range spans {
		byID[c.id] = rule(c.id, t.flaws(guards), func(r *ruling) { c.do(t, r) })
	}
	for id, why := range t.run.NotApplicable {
		if v, judged := byID[id]; judged && v.Outcome != Violated {
			byID[id] = Verdict{Requirement: id, Outcome: NotApplicable, Reason: why}
		}
	}
	byID["AP-1"] = t.ap1(byID, t.flaws(guards))
	var all []Verdict
	for _, req := range contract.All() {
		v, judged := byID[req.ID]
		declared := t.run.Declares(req.ID) || t.run.episodesDeclare(req.ID)
		switch {
		case declared && !judged:
			all = append(all, Verdict{Requirement: req.ID, Outcome: Inconclusive, Reason: "no check judges it yet"})
		case declared, judged && v.Outcome == Violated && req.ID != "AP-1":
			all = append(all, v)
		}
	}
	for _, id := range t.run.unknown() {
		all = append(all, Verdict{Requirement: id, Outcome: Inconclusive, Reason: fmt.Sprintf("the contract holds no requirement %q", id)})
	}
	return all
}

func rule(id string, guards []string, do func(*ruling)) Verdict {
	r := &ruling{id: id}
	do(r)
	for _, g := range guards {
		r.need(false, "%s", g)
	}
	return r.verdict()
}

// Looks says at what a requirement's check looks: "each stop" or "the whole
// run"; "" where no check judges it.
func Looks(id string) string {
	for _, c := range slices.Concat(checks, probed) {
		if c.id == id {
			return "each stop"
		}
	}
	for _, c := range spans {
		if c.id == id {
			return "the whole run"
		}
	}
	if id == "AP-1" {
		return "the whole run"
	}
	return ""
}
