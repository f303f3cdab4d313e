package postmortem

import (
	"errors"
	"fmt"
	"io"

	"watershed.example/suite/wirelog"
)

// lane is one replica's log while it is read.
type lane struct {
	*replica
	name   string // of the side
	stream *wirelog.Stream
	cur    *wirelog.Batch // nil at the end
	batch  wirelog.Batch
	out    *findings
	passed func(int64) // is told how many bytes were read

	first, next int64 // as a line's
	damaged     bool  // since the batch before
	cleaned     bool
	line        *line // of the side's canonical replica

	// Of other replicas: how they differ from the canonical one.
	differs int64 // offset of the first difference, -1 without one
	different,
	agreed int64 // batches, agreed those behind the first difference
	lacks   int64 // offset of the first batch that is only in the canonical one, -1 without one
	example *Finding
}

func newLane(r *replica, side string, out *findings, passed func(int64)) *lane {
	return &lane{replica: r, name: side, stream: r.log.Stream(), out: out, passed: passed, first: -1, next: -1, differs: -1, lacks: -1}
}

// advance reads the next batch that is whole. An error ends the lane.
func (l *lane) advance() {
	if l.cur != nil {
		if l.first < 0 {
			l.first = l.cur.BaseOffset
		}
		l.next = max(l.next, l.cur.NextOffset())
		if int64(l.cur.Count) < int64(l.cur.LastOffsetDelta)+1 {
			l.cleaned = true
		}
		l.damaged = false
	}
	for {
		before := l.stream.Passed
		b, err := l.stream.Next()
		l.passed(l.stream.Passed - before)
		var problem *wirelog.Problem
		switch {
		case errors.Is(err, io.EOF):
			l.cur = nil
			return
		case errors.As(err, &problem):
			l.problem(problem)
			l.damaged = true
			continue
		case err != nil:
			l.out.add(Finding{
				Kind: Damaged, Sure: Certain, Side: l.name, Folder: l.folder, Offset: l.next, What: "the log can't be read on: " + err.Error(),
				Why: "the system says so", Do: "copy the folder again",
			})
			l.cur = nil
			return
		}
		l.batch = b
		if !b.CRCValid {
			l.out.add(Finding{
				Kind: Damaged, Sure: Certain, Side: l.name, Folder: l.folder, Offset: b.BaseOffset, LastOffset: b.LastOffset(), Affected: count(&b),
				What: fmt.Sprintf("segment %s, byte %d: the checksum of a batch of %d bytes is wrong", b.Segment, b.Position, b.Size()),
				Why:  "the bytes are not those that were written, on the broker's disk or in the copy", Do: "take the batch from another replica; copy the folder again to see which of the two it is",
			})
			l.damaged = true
			continue
		}
		l.cur = &l.batch
		return
	}
}

func (l *lane) problem(p *wirelog.Problem) {
	f := Finding{
		Kind: Damaged, Sure: Certain, Side: l.name, Folder: l.folder, Offset: l.next,
		What: fmt.Sprintf("segment %s, byte %d: no batch can be read in the last %d bytes: %v", p.Segment, p.Position, p.Rest, p.Err),
		Why:  "the bytes are no batch; what follows in the segment is not judged", Do: "copy the segment again; if it is the same, take it from another replica",
	}
	if last := l.log.Segments[len(l.log.Segments)-1]; p.Torn && p.Segment == last {
		f.Sure = Measured
		f.Why = "a log ends so when its broker was killed, or wrote while it was copied; the broker cuts it off when it starts"
		f.Do = "nothing; copy from a broker that is stopped to be sure"
	}
	l.out.add(f)
}

// at says whether the lane's next batch begins at the offset.
func (l *lane) at(offset int64) bool { return l.cur != nil && l.cur.BaseOffset == offset }

// close ends the reading, and gives up what only that needed.
func (l *lane) close() error {
	l.cur, l.batch, l.example = nil, wirelog.Batch{}, nil
	return l.stream.Close()
}
