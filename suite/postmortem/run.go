package postmortem

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Options are what Judge may be told besides the folders.
type Options struct {
	// Progress is told how many bytes of how many were read, often.
	Progress func(done, all int64)
}

// partition is what is known of one partition of all sides.
type partition struct {
	topic    string
	number   int32
	lanes    []*lane // sorted by side
	lines    []*line // of each side, nil where it has no replica
	pairs    []*pair
	findings findings
}

func (p *partition) name() string { return fmt.Sprintf("%s-%d", p.topic, p.number) }

// Judge reads all that lies in the sides' folders. An error says that there is
// nothing to judge, or that it was stopped; what can't be read is a finding.
func Judge(ctx context.Context, sides []Side, o Options) (*Report, error) {
	if len(sides) == 0 {
		return nil, errors.New("judge files: no side is given")
	}
	for i, s := range sides {
		if slices.ContainsFunc(sides[:i], func(other Side) bool { return other.Name == s.Name }) {
			return nil, fmt.Errorf("judge files: side %s is given twice", s.Name)
		}
	}
	f, err := find(sides)
	if err != nil {
		return nil, fmt.Errorf("judge files: %w", err)
	}
	var all, done int64
	counts := map[string]int{}
	for _, r := range f.replicas {
		all += r.size
		counts[fmt.Sprintf("%s-%d", r.topic, r.partition)]++
	}
	passed := func(n int64) {
		done += n
		if o.Progress != nil {
			o.Progress(done, all)
		}
	}
	j := &judgement{sides: sides, found: f, bytes: all}
	room := roomFor(len(counts), len(sides))
	for rest := f.replicas; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(r *replica) bool { return r.topic != rest[0].topic || r.partition != rest[0].partition })
		if n < 0 {
			n = len(rest)
		}
		p, err := readPartition(ctx, sides, rest[:n], passed)
		if err != nil {
			return nil, err
		}
		p.settle(room)
		j.partitions = append(j.partitions, p)
		rest = rest[n:]
	}
	return j.report(ctx)
}

// readPartition reads all replicas of one partition once, side by side.
func readPartition(ctx context.Context, sides []Side, replicas []*replica, passed func(int64)) (_ *partition, err error) {
	p := &partition{topic: replicas[0].topic, number: replicas[0].partition, lines: make([]*line, len(sides))}
	canonical := make([]*lane, len(sides))
	for _, r := range replicas {
		l := newLane(r, sides[r.side].Name, &p.findings, passed)
		defer func() { err = errors.Join(err, l.close()) }()
		p.lanes = append(p.lanes, l)
		if canonical[r.side] == nil || further(r, canonical[r.side].replica) {
			canonical[r.side] = l
		}
	}
	for i, l := range canonical {
		if l == nil {
			continue
		}
		l.line = newLine(l.name, l.folder, &p.findings)
		l.line.index = newIndexes(l.log)
		p.lines[i] = l.line
		for k, other := range canonical[:i] {
			if other != nil {
				p.pairs = append(p.pairs, newPair(other, l, k, i, &p.findings))
			}
		}
	}
	for _, l := range p.lanes {
		l.advance()
	}
	for steps := 0; ; steps++ {
		if steps%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("judge files: stopped at %s: %w", p.name(), err)
			}
		}
		offset, more := int64(0), false
		for _, l := range p.lanes {
			if l.cur != nil && (!more || l.cur.BaseOffset < offset) {
				offset, more = l.cur.BaseOffset, true
			}
		}
		if !more {
			break
		}
		p.step(offset, canonical)
	}
	for _, l := range p.lines {
		if l != nil {
			l.close()
		}
	}
	for _, l := range p.lanes {
		l.conclude(canonical[l.side])
	}
	return p, nil
}

func (p *partition) step(offset int64, canonical []*lane) {
	for _, l := range p.lanes {
		if l.line != nil && l.at(offset) {
			l.line.unsure = l.line.unsure || l.damaged
			l.line.take(l.cur)
		}
	}
	for _, l := range p.lanes {
		if l.line == nil {
			l.compare(offset, canonical[l.side])
		}
	}
	for _, pr := range p.pairs {
		pr.step(offset)
	}
	for _, l := range p.lanes {
		if l.at(offset) {
			l.advance()
		}
	}
}
