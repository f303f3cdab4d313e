package postmortem

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// judgement is all partitions together.
type judgement struct {
	sides      []Side
	found      *found
	bytes      int64
	partitions []*partition
	ids        []identity // of each side
}

// identity is a side's cluster id, and how it is known.
type identity struct {
	id   string
	how  string
	sure bool
}

// report brings everything together that no partition's bytes say alone.
func (j *judgement) report(ctx context.Context) (*Report, error) {
	j.identify()
	for _, p := range j.partitions {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("judge files: stopped at the report on %s: %w", p.name(), err)
		}
		for i, l := range p.lines {
			if l != nil {
				j.line(p, i, l)
			}
		}
		for _, l := range p.lanes {
			j.companions(p, l)
		}
	}
	if err := j.across(ctx); err != nil {
		return nil, fmt.Errorf("judge files: stopped amid what partitions show together: %w", err)
	}
	return j.build(), nil
}

// identify finds the sides' cluster ids: said, from the brokers' own files, or by
// leaving out which they can't be. No cluster names itself in a barrier of its own.
func (j *judgement) identify() {
	j.ids = make([]identity, len(j.sides))
	for i, s := range j.sides {
		switch ids := slices.Sorted(maps.Keys(j.found.clusterIDs[i])); {
		case s.ClusterID != "":
			j.ids[i] = identity{s.ClusterID, "given", true}
			if len(ids) > 0 && !slices.Contains(ids, s.ClusterID) {
				j.ids[i].how += ", though " + j.found.clusterIDs[i][ids[0]] + " says " + ids[0]
			}
		case len(ids) == 1:
			j.ids[i] = identity{ids[0], "from " + j.found.clusterIDs[i][ids[0]], true}
		}
	}
	not := make([]map[string]bool, len(j.sides))
	for i := range not {
		not[i] = map[string]bool{}
	}
	named := map[string]bool{}
	for _, p := range j.partitions {
		for i, l := range p.lines {
			if l == nil {
				continue
			}
			for _, b := range l.barriers {
				if b.source == "" {
					continue
				}
				named[b.source] = true
				if p.only(i, b) {
					not[i][b.source] = true
				}
			}
		}
	}
	// First those that a barrier tells from some side, then what is left over.
	for _, hinted := range []bool{true, false} {
		for changed := len(j.sides) > 1; changed; {
			changed = false
			for _, id := range slices.Sorted(maps.Keys(named)) {
				if side, ok := j.mustBe(id, not, hinted); ok {
					j.ids[side] = identity{id, "the barriers leave no other side", false}
					changed = true
				}
			}
		}
	}
	j.doubt(named)
}

// doubt tells of ids that were given and that no barrier names: of a cluster that was
// never mirrored nobody does, but one that was mistyped looks the same, and hides
// whose a barrier is.
func (j *judgement) doubt(named map[string]bool) {
	var strangers []string
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !slices.ContainsFunc(j.ids, func(i identity) bool { return i.id == id }) {
			strangers = append(strangers, id)
		}
	}
	for i, s := range j.sides {
		if s.ClusterID == "" || named[s.ClusterID] {
			continue
		}
		j.ids[i].how += "; no barrier names it"
		if len(strangers) > 0 {
			j.ids[i].how += fmt.Sprintf(", and they name %s, which is no side's: if it is mistyped, what is found here is too little", list(strangers))
		}
	}
}

// mustBe is the only side that can be the cluster id, if there is just one. With
// hinted some other side must be known not to be it.
func (j *judgement) mustBe(id string, not []map[string]bool, hinted bool) (side int, ok bool) {
	side = -1
	excluded := false
	for i := range j.sides {
		switch {
		case j.ids[i].id == id:
			return -1, false
		case not[i][id]:
			excluded = true
		case j.ids[i].id != "":
		case side >= 0:
			return -1, false
		default:
			side = i
		}
	}
	return side, side >= 0 && (excluded || !hinted)
}

// only says whether a side's barrier is in no other side's log, of those that
// reach so far.
func (p *partition) only(side int, b *barrier) bool {
	for i, l := range p.lines {
		if i != side && l != nil && l.has(b) {
			return false
		}
	}
	return len(slices.DeleteFunc(slices.Clone(p.lines), func(l *line) bool { return l == nil })) > 1
}

func (l *line) has(b *barrier) bool {
	return slices.ContainsFunc(l.barriers, func(o *barrier) bool { return o.offset == b.offset && o.crc == b.crc })
}

// own are the barriers of a side that no other side has: it wrote them itself,
// or has them from a cluster whose logs are not here.
func (p *partition) own(side int) []*barrier {
	return slices.DeleteFunc(slices.Clone(p.lines[side].barriers), func(b *barrier) bool { return !p.only(side, b) })
}

// writerOf names the sides that can have written a barrier, and whether that is
// one for certain.
func (j *judgement) writerOf(p *partition, b *barrier) []int {
	var could []int
	for i, l := range p.lines {
		if l != nil && l.has(b) && j.ids[i].id != b.source {
			could = append(could, i)
		}
	}
	return could
}

// cluster names a cluster by its side where that is known.
func (j *judgement) cluster(id string) string {
	for i, known := range j.ids {
		if known.id == id && id != "" {
			if !known.sure {
				return fmt.Sprintf("%s, as it seems (%s)", j.sides[i].Name, id)
			}
			return fmt.Sprintf("%s (%s)", j.sides[i].Name, id)
		}
	}
	if id == "" {
		return "a cluster that it does not name"
	}
	return "a cluster " + id + " that is none of the sides"
}

func (j *judgement) names(sides []int) string {
	var all []string
	for _, i := range sides {
		all = append(all, j.sides[i].Name)
	}
	return strings.Join(all, " or ")
}

// line reports what a log's barriers say without another side.
func (j *judgement) line(p *partition, side int, l *line) {
	own := p.own(side)
	for k, b := range l.barriers {
		if b.source != "" && b.source == j.ids[side].id && j.ids[side].sure && slices.Contains(own, b) {
			p.findings.add(Finding{
				Kind: WrongSource, Sure: Certain, Requirements: []string{"BAR-4"}, Side: l.side, Folder: l.folder, Offset: b.offset, Affected: 1,
				What: fmt.Sprintf("the barrier names %s itself as the cluster that it had mirrored", j.cluster(b.source)),
				Why:  "no other side has this barrier, and the cluster's id is known: " + j.ids[side].how, Do: "do not trust the barrier's id to tell where records came from",
			})
		}
		if k == 0 {
			continue
		}
		before := l.barriers[k-1]
		if before.source != b.source {
			continue
		}
		f := Finding{
			Kind: SecondBarrier, Requirements: []string{"BAR-1"}, Side: l.side, Folder: l.folder, Offset: b.offset, Affected: 1,
			What: fmt.Sprintf("a second barrier of the same source %s, after one at offset %d", j.cluster(b.source), before.offset),
			Do:   "nothing is lost by it where it lies right behind the first; producers that wrote between the two start anew",
		}
		source := slices.IndexFunc(j.ids, func(i identity) bool { return i.id != "" && i.id == b.source })
		switch {
		case before.epoch == b.epoch:
			f.Sure, f.Why = Certain, fmt.Sprintf("both have leader epoch %d: one leader wrote them in one stop", b.epoch)
		case source >= 0 && p.lines[source] != nil && source != side && !p.lines[source].has(before) && !p.lines[source].has(b) && p.lines[source].first <= before.offset && p.lines[source].first >= 0:
			f.Sure, f.Why = Certain, fmt.Sprintf("%s has neither: to mirror it once more between the two, the first one would have been cut", j.sides[source].Name)
		case before.offset+1 == b.from:
			f.Sure, f.Why = Likely, "nothing lies between them; in a chain of three clusters two stops can leave this"
		default:
			continue
		}
		p.findings.add(f)
	}
}
