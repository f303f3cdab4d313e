package postmortem

import "slices"

// maxTxns bounds the transactions around partings that are kept of all partitions
// together, to tell which are torn.
const maxTxns = 1 << 19

// roomFor is how many transactions a side of a pair may keep before its parting, and
// how many behind it.
func roomFor(partitions, sides int) int {
	const lists = 4 // of a pair: two of each side
	pairs := max(sides*(sides-1)/2, 1)
	return min(max(maxTxns/(lists*pairs*max(partitions, 1)), 1), maxRecent)
}

// settle says what lies where logs part, and gives up all that only the reading
// and that needed: there may be thousands of partitions, and all are kept until
// the report.
func (p *partition) settle(room int) {
	for _, pr := range p.pairs {
		pr.parting(p)
		pr.settle(room)
	}
	for _, l := range p.lines {
		if l != nil {
			l.settle()
		}
	}
	for _, l := range p.lanes {
		l.stream, l.passed = nil, nil
	}
}

func (pr *pair) settle(room int) {
	pr.hits, pr.gaps = nil, [2]*gap{}
	for k, t := range pr.tails {
		t.prints, t.early, t.named = nil, nil, nil
		stop, own := pr.barrierFrom(1-k), pr.barrierFrom(k)
		if pr.parted < 0 || stop == nil || stop.from > pr.parted {
			t.before, t.ended = nil, nil
			continue
		}
		t.before = slices.DeleteFunc(t.before, func(e txn) bool { return !e.commit })
		t.before = slices.Clone(t.before[max(len(t.before)-room, 0):])
		t.ended = slices.DeleteFunc(t.ended, func(e txn) bool { return !e.commit || own != nil && e.last >= own.from })
		t.ended = slices.Clone(t.ended[:min(len(t.ended), room)])
	}
}

func (l *line) settle() {
	l.open, l.forgotten = int64(len(l.span().open)), l.span().table.forgotten
	for _, s := range l.spans {
		s.table, s.open, s.prior, s.priorOpen = nil, nil, nil, nil
	}
	for _, b := range l.barriers {
		b.abortions = len(b.aborted)
		b.aborted = slices.Clone(b.aborted[:min(len(b.aborted), maxNamed)])
	}
	l.recent, l.ended, l.stopped, l.index = nil, nil, nil, nil
}
