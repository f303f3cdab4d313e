package check

import (
	"fmt"
	"slices"
	"strings"
)

// merge makes one verdict of those of all episodes: violated where any episode
// shows a violation; inconclusive where an episode that declares the
// requirement did not exercise it, or where the run declares it and none did.
func (t *trial) merge(id string, each []Verdict) Verdict {
	if len(each) == 1 && t.views[0].number == 0 {
		return each[0]
	}
	merged := Verdict{Requirement: id}
	var open, held, na []string
	for i, e := range t.idle {
		if slices.Contains(e.Exercises, id) {
			open = append(open, t.notBegun()[i])
		}
	}
	for i, v := range each {
		j := t.views[i]
		says := j.name() + ": " + v.Reason
		declared := slices.Contains(j.episode.Exercises, id)
		switch {
		case v.Outcome == Violated:
			merged.Findings = append(merged.Findings, v.Findings...)
		case v.Outcome == Inconclusive && declared:
			open = append(open, says)
		case v.Outcome == NotApplicable && declared:
			na = append(na, says)
		case v.Outcome == Held && (declared || !t.run.episodesDeclare(id)):
			held = append(held, says)
		}
	}
	switch {
	case len(merged.Findings) > 0:
		merged.Outcome, merged.Reason = Violated, merged.Findings[0].String()
		if more := len(merged.Findings) - 1; more > 0 {
			merged.Reason += fmt.Sprintf(" (and %d more)", more)
		}
		merged.Findings = bounded(merged.Findings)
	case len(open) > 0:
		merged.Outcome, merged.Reason = Inconclusive, strings.Join(open, "; ")
	case len(held) > 0:
		merged.Outcome, merged.Reason = Held, strings.Join(held, "; ")
	case len(na) > 0:
		merged.Outcome, merged.Reason = NotApplicable, strings.Join(na, "; ")
	case len(each) == 0:
		merged.Outcome, merged.Reason = Inconclusive, "the run stops no mirror"
	default:
		var why []string
		for i, v := range each {
			why = append(why, t.views[i].name()+": "+v.Reason)
		}
		merged.Outcome, merged.Reason = Inconclusive, "no episode exercised it: "+strings.Join(why, "; ")
	}
	return merged
}

// name tells the episode to a person.
func (j *judge) name() string {
	if j.number == 0 {
		return "mirror " + j.edge.Mirror
	}
	return fmt.Sprintf("episode %d (%s)", j.number, j.mirror)
}

// flaws are the guards of all views, each once.
func (t *trial) flaws(guards [][]string) []string {
	all := t.notBegun()
	for i, of := range guards {
		for _, g := range of {
			if len(guards) > 1 {
				g = t.views[i].name() + ": " + g
			}
			all = append(all, g)
		}
	}
	return all
}

// ap1 sums up: active-passive holds when everything that the run declares
// holds and the failover came to its end.
func (t *trial) ap1(byID map[string]Verdict, guards []string) Verdict {
	r := &ruling{id: "AP-1"}
	if n := len(t.views) + len(t.idle); n != 1 {
		r.na = fmt.Sprintf("the run has %d stops, active-passive has one", n)
		return r.verdict()
	}
	j := t.views[0]
	j.needStop(r)
	for _, g := range guards {
		r.need(false, "%s", g)
	}
	held, after := 0, 0
	for _, c := range slices.Concat(checks, probed) {
		v := byID[c.id]
		switch {
		case v.Outcome == Violated:
			first := v.Findings[0]
			first.Expected = c.id + ": " + first.Expected
			r.findings = append(r.findings, first)
		case !t.run.Declares(c.id) && !t.run.episodesDeclare(c.id):
		case v.Outcome == Inconclusive:
			r.need(false, "%s is inconclusive", c.id)
		case v.Outcome == Held:
			held++
		}
	}
	for _, p := range j.parts() {
		for _, o := range j.local(p) {
			if o.began > p.stopped && o.result.Outcome == "ok" {
				after++
			}
		}
	}
	r.need(after > 0, "no write was acknowledged on the promoted cluster")
	r.need(held > 0, "the run declares no requirement that active-passive is made of")
	r.saw("%d requirements held, %d writes acknowledged after the failover", held, after)
	return r.verdict()
}
