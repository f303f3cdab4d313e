package postmortem

import (
	"fmt"
	"slices"
	"strings"
)

// story tells what happened to a partition, in the order of its offsets.
func (j *judgement) story(p *partition) []string {
	var s []string
	tell := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	told := map[string]bool{}
	for i, l := range p.lines {
		if l == nil {
			continue
		}
		if l.batches == 0 {
			tell("%s: an empty log.", l.side)
			continue
		}
		tell("%s: %s, %s in %s, %s to %s.", l.side, offsets(l.first, l.next), many(l.records, "record"), many(l.batches, "batch"), clock(l.firstTime), clock(l.lastTime))
		for k, sp := range l.spans {
			if end := l.endOf(k); sp.Batches > 0 && end > sp.First {
				line := fmt.Sprintf("%s: %s", offsets(sp.First, end), sp.contents())
				if told[line] {
					tell("  %s: the same.", offsets(sp.First, end))
				} else {
					told[line] = true
					tell("  %s.", line)
					for _, c := range sp.kept() {
						tell("    %s", c)
					}
				}
			}
			if k < len(l.barriers) {
				for _, line := range j.barrierStory(p, i, l.barriers[k]) {
					tell("  %s", line)
				}
			}
		}
		if l.open > 0 {
			tell("  At its end %d transactions are open.", l.open)
		}
	}
	for _, pr := range p.pairs {
		s = append(s, j.partingStory(pr)...)
	}
	return s
}

// endOf is the offset behind what span k's clients wrote: there the stop begins
// whose barrier ends it.
func (l *line) endOf(k int) int64 {
	if k < len(l.barriers) {
		return l.barriers[k].from
	}
	return l.spans[k].Next
}

func offsets(from, next int64) string {
	if from == next-1 {
		return fmt.Sprintf("offset %d", from)
	}
	return fmt.Sprintf("offsets %d to %d", from, next-1)
}

// many is a number of things.
func many(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "ch") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// contents sums a span up.
func (s *span) contents() string {
	text := many(s.Records, "record")
	if s.Producers > 0 {
		text += fmt.Sprintf(", %s with an id", many(s.Producers, "producer"))
	}
	if s.Committed+s.Aborted > 0 {
		text += fmt.Sprintf(", %s committed and %d aborted", many(s.Committed, "transaction"), s.Aborted)
	}
	return text
}

// kept tells of producer ids on both sides of the barrier before the span.
func (s *span) kept() []string {
	if s.collisions == 0 {
		return nil
	}
	var clean, other []string
	for _, c := range s.collided {
		if c.sequence == 0 {
			clean = append(clean, fmt.Sprint(c.id))
		} else {
			other = append(other, fmt.Sprintf("%d from sequence %d", c.id, c.sequence))
		}
	}
	var lines []string
	if len(clean) > 0 {
		verb := "begins"
		if len(clean) > 1 {
			verb = "begin"
		}
		lines = append(lines, fmt.Sprintf("Producer ids %s are of mirrored producers and of local ones: the barrier kept them apart, each %s anew at sequence 0.", list(clean), verb))
	}
	if len(other) > 0 {
		lines = append(lines, fmt.Sprintf("Producer ids that were mirrored ones' go on otherwise: %s.", list(other)))
	}
	if more := s.collisions - int64(len(s.collided)); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more ids are on both sides of the barrier.", more))
	}
	return lines
}

func (j *judgement) barrierStory(p *partition, side int, b *barrier) []string {
	var s []string
	writers := j.writerOf(p, b)
	own := p.only(side, b)
	who := "whoever wrote the barrier"
	if len(writers) > 0 {
		who = j.names(writers)
	}
	if b.abortions > 0 {
		var all []string
		for _, t := range b.aborted {
			all = append(all, fmt.Sprintf("producer %d (open since offset %d, %s)", t.id, t.first, many(t.count, "record")))
		}
		if b.abortions > len(b.aborted) {
			all = append(all, "…")
		}
		s = append(s, fmt.Sprintf("offset %d: here %s stopped mirroring, and aborted %s that were open: %s.", b.from, who, many(int64(b.abortions), "transaction"), list(all)))
	}
	kind := "a barrier"
	switch {
	case own && len(writers) == 1 && writers[0] == side:
		kind = "its own barrier"
	case own:
		kind = "a barrier that no other side has"
	case len(writers) == 1 && writers[0] != side:
		kind = "the barrier of " + j.names(writers) + ", mirrored"
	case len(writers) == 1:
		kind = "its own barrier, which others have mirrored"
	}
	s = append(s, fmt.Sprintf("offset %d: %s, leader epoch %d, %s; what was mirrored is of %s.", b.offset, kind, b.epoch, clock(b.time), j.cluster(b.source)))
	if len(writers) == 1 && writers[0] != side && j.mirroredBack(p, side, writers[0], b) {
		s = append(s, fmt.Sprintf("  After that %s was mirrored back here, its barrier included: a failback.", j.sides[writers[0]].Name))
	}
	return s
}

// mirroredBack says whether a side that holds another's barrier, which had
// mirrored that side, has a later one of its own.
func (j *judgement) mirroredBack(p *partition, side, writer int, b *barrier) bool {
	if j.ids[side].id != b.source {
		return false
	}
	return slices.ContainsFunc(p.lines[side].barriers, func(o *barrier) bool {
		return o.offset > b.offset && o.source == j.ids[writer].id && p.only(side, o)
	})
}

func (j *judgement) partingStory(pr *pair) []string {
	a, b := j.sides[pr.sides[0]].Name, j.sides[pr.sides[1]].Name
	if pr.common == 0 && pr.parted < 0 {
		return []string{fmt.Sprintf("%s and %s have no offset in common.", a, b)}
	}
	if pr.parted < 0 {
		return []string{fmt.Sprintf("%s and %s are the same, byte for byte: %s.", a, b, many(pr.common, "batch"))}
	}
	text := fmt.Sprintf("%s and %s are the same below offset %d, byte for byte (%s)", a, b, pr.parted, many(pr.common, "batch"))
	var more []string
	for k, l := range pr.lanes {
		t := pr.tails[k]
		switch bar := pr.barrierFrom(k); {
		case t.batches == 0:
			more = append(more, fmt.Sprintf("%s ends there", l.name))
		case bar != nil && bar.from <= pr.parted:
			more = append(more, fmt.Sprintf("%s stopped mirroring there", l.name))
		default:
			more = append(more, fmt.Sprintf("%s goes on with %s", l.name, many(t.records, "record")))
		}
	}
	return []string{text + "; " + strings.Join(more, ", ") + "."}
}

func list(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
