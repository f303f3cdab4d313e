package postmortem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"watershed.example/suite/wirelog"
)

// companions reads what lies beside a replica's segments.
func (j *judgement) companions(p *partition, l *lane) {
	own := slices.DeleteFunc(slices.Clone(p.lines[l.side].barriers), func(b *barrier) bool {
		writers := j.writerOf(p, b)
		return !p.only(l.side, b) && !(len(writers) == 1 && writers[0] == l.side)
	})
	entries, err := os.ReadDir(l.log.Dir)
	if err != nil || len(own) == 0 {
		return
	}
	last := own[len(own)-1]
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), ".snapshot")
		if !ok {
			continue
		}
		at, err := strconv.ParseInt(stem, 10, 64)
		if err != nil || at <= last.offset {
			continue
		}
		data, err := readSmall(filepath.Join(l.log.Dir, e.Name()))
		if err != nil {
			continue
		}
		state, err := wirelog.ReadSnapshot(data)
		if err != nil {
			p.findings.add(Finding{
				Kind: Damaged, Sure: Measured, Side: l.name, Folder: l.folder, Offset: at, What: "file " + e.Name() + ": " + err.Error(),
				Why: "a broker that meets it takes an older one", Do: "nothing",
			})
			continue
		}
		sure := Likely
		if len(j.sides) == 1 {
			sure = Possible // whose the barrier is, nothing says
		}
		p.kept(l, e.Name(), last, state, sure)
	}
}

// kept reports producers from before a barrier in a snapshot from behind it.
func (p *partition) kept(l *lane, file string, b *barrier, state []wirelog.SnapshotEntry, sure Sureness) {
	for _, s := range state {
		if s.LastOffset >= 0 && s.LastOffset < b.offset || s.CurrentTxnFirstOffset >= 0 && s.CurrentTxnFirstOffset < b.offset {
			p.findings.add(Finding{
				Kind: KeptProducer, Sure: sure, Requirements: []string{"PSM-1", "PSM-2", "PSM-3"}, Side: l.name, Folder: l.folder,
				Offset: s.LastOffset,
				What:   fmt.Sprintf("file %s, from behind the barrier at %d, knows producer %d, epoch %d, last offset %d: from before the barrier", file, b.offset, s.ProducerID, s.Epoch, s.LastOffset),
				Why:    "the barrier is this side's own, so it forgets all producers; were it one that came from a cluster whose logs are not here, it would not",
				Do:     "before this replica leads, remove its snapshots and let it recover with a build that knows barriers; ask whether local producers of that id lost their first records", Affected: 1,
			})
		}
	}
}

// indexes compares transaction indexes with the log, segment by segment.
type indexes struct {
	dir     string
	any     bool // the folder has some index
	segment string
	last    string // the log's last segment
	entries map[int64]wirelog.AbortedTxn
	bad     string
}

func newIndexes(log *wirelog.Log) *indexes {
	x := &indexes{dir: log.Dir, last: log.Segments[len(log.Segments)-1]}
	found, err := filepath.Glob(filepath.Join(log.Dir, "*.txnindex"))
	x.any = err == nil && len(found) > 0
	return x
}

// enter begins with a segment, of which the log's next batch is.
func (x *indexes) enter(l *line, segment string) {
	if !x.any || segment == x.segment {
		return
	}
	x.leave(l)
	x.segment, x.entries, x.bad = segment, map[int64]wirelog.AbortedTxn{}, ""
	data, err := readSmall(filepath.Join(x.dir, x.file()))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			x.bad = err.Error()
		}
		return
	}
	all, err := wirelog.ReadTxnIndex(data)
	if err != nil {
		x.bad = err.Error()
	}
	for _, e := range all {
		x.entries[e.LastOffset] = e
	}
}

func (x *indexes) file() string { return strings.TrimSuffix(x.segment, ".log") + ".txnindex" }

// aborted looks up a transaction whose ABORT marker is in the segment.
func (x *indexes) aborted(l *line, t txn) {
	if !x.any || x.segment == "" {
		return
	}
	e, ok := x.entries[t.last]
	delete(x.entries, t.last)
	if ok && e.ProducerID == t.id && e.FirstOffset == t.first {
		return
	}
	f := Finding{
		Kind: AbortedIndex, Sure: Certain, Requirements: []string{"TXN-4", "SC-3"}, Offset: t.first, LastOffset: t.last, Affected: t.count,
		What: fmt.Sprintf("%s does not tell the aborted transaction of producer %d, offsets %d to %d", x.file(), t.id, t.first, t.last),
		Why:  "the log has the transaction and its ABORT marker, so readers of committed records are shown what was aborted",
		Do:   "have the broker rebuild the index (it does so for a segment that it recovers after an unclean end), and compare what consumers read",
	}
	if ok {
		f.What += fmt.Sprintf(", but one of producer %d from offset %d on", e.ProducerID, e.FirstOffset)
	} else if x.segment == x.last || x.bad != "" {
		f.Sure = Possible
		f.Why += "; of the last segment the index may have been copied before the log " + x.bad
	}
	l.report(f)
}

// leave ends a segment.
func (x *indexes) leave(l *line) {
	for _, e := range x.entries {
		if e.FirstOffset < l.first || l.gaps > 0 || l.hasBarrierAt(e.LastOffset) || e.LastOffset >= l.next {
			continue
		}
		l.report(Finding{
			Kind: AbortedIndex, Sure: Likely, Requirements: []string{"TXN-4", "SC-3"}, Offset: e.FirstOffset, LastOffset: e.LastOffset,
			What: fmt.Sprintf("%s tells an aborted transaction of producer %d, offsets %d to %d, which the log does not have", x.file(), e.ProducerID, e.FirstOffset, e.LastOffset),
			Why:  "readers of committed records leave out what that producer wrote from there on", Do: "have the broker rebuild the index, and compare what consumers read",
		})
	}
	x.entries = nil
}

func (l *line) hasBarrierAt(offset int64) bool {
	for _, b := range l.barriers {
		if b.offset == offset {
			return true
		}
	}
	return false
}
