package check

import (
	"fmt"

	"watershed.example/suite/contract"
)

// check judges one requirement.
type check struct {
	id string
	do func(*judge, *ruling)
}

// checks are in the order of the contract; AP-1 sums them up and comes last.
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
	ids := make([]string, 0, len(checks)+1)
	for _, c := range checks {
		ids = append(ids, c.id)
	}
	return append(ids, "AP-1")
}

// All judges the evidence. It returns a verdict for every requirement that the
// run declares to exercise, and for every other one that it shows violated. A
// declared requirement that nobody can judge is inconclusive. What a run did
// not do as planned (a fault that did not bite, traffic below its floor) makes
// inconclusive what would be held.
func All(ev *Evidence) []Verdict {
	j := newJudge(ev)
	guards := j.guards()
	byID := map[string]Verdict{}
	for _, c := range checks {
		r := &ruling{id: c.id}
		c.do(j, r)
		for _, g := range guards {
			r.need(false, "%s", g)
		}
		byID[c.id] = r.verdict()
	}
	byID["AP-1"] = j.ap1(byID, guards)
	var all []Verdict
	for _, req := range contract.All() {
		v, judged := byID[req.ID]
		switch {
		case ev.Run.Declares(req.ID) && !judged:
			all = append(all, Verdict{Requirement: req.ID, Outcome: Inconclusive, Reason: "no check judges it yet"})
		case ev.Run.Declares(req.ID), judged && v.Outcome == Violated && req.ID != "AP-1":
			all = append(all, v)
		}
	}
	for _, id := range ev.Run.Exercises {
		if _, known := contract.Get(id); !known {
			all = append(all, Verdict{Requirement: id, Outcome: Inconclusive, Reason: fmt.Sprintf("the contract holds no requirement %q", id)})
		}
	}
	return all
}

// ap1 sums up: active-passive holds when everything that the run declares
// holds and the failover came to its end.
func (j *judge) ap1(byID map[string]Verdict, guards []string) Verdict {
	r := &ruling{id: "AP-1"}
	if len(j.edges) != 1 {
		r.na = fmt.Sprintf("the run has %d mirrors, active-passive has one", len(j.edges))
		return r.verdict()
	}
	j.needStop(r)
	for _, g := range guards {
		r.need(false, "%s", g)
	}
	held, after := 0, 0
	for _, c := range checks {
		v := byID[c.id]
		switch {
		case v.Outcome == Violated:
			first := v.Findings[0]
			first.Expected = c.id + ": " + first.Expected
			r.findings = append(r.findings, first)
		case !j.run.Declares(c.id):
		case v.Outcome == Inconclusive:
			r.need(false, "%s is inconclusive", c.id)
		case v.Outcome == Held:
			held++
		}
	}
	for _, p := range j.parts() {
		for _, o := range j.order {
			if o.at(p) && o.began > p.stopped && o.result.Outcome == "ok" {
				after++
			}
		}
	}
	r.need(after > 0, "no write was acknowledged on the promoted cluster")
	r.need(held > 0, "the run declares no requirement that active-passive is made of")
	r.saw("%d requirements held, %d writes acknowledged after the failover", held, after)
	return r.verdict()
}
