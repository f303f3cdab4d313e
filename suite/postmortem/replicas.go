package postmortem

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// further says whether replica a is to stand for its side rather than b: that
// which would be elected, with the later leader epoch and then the longer log.
func further(a, b *replica) bool {
	ea, eb := a.lastEpoch(), b.lastEpoch()
	if ea != eb {
		return ea > eb
	}
	return a.lastOffset() > b.lastOffset()
}

// lastEpoch is the last leader epoch of the checkpoint beside the log, -1
// without one.
func (r *replica) lastEpoch() int32 {
	data, err := readSmall(filepath.Join(r.log.Dir, "leader-epoch-checkpoint"))
	if err != nil {
		return -1
	}
	last := int32(-1)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if e, err := strconv.ParseInt(fields[0], 10, 32); err == nil {
			last = max(last, int32(e))
		}
	}
	return last
}

// lastOffset is the offset behind the log's last whole batch, by the headers of
// its last segment alone.
func (r *replica) lastOffset() (next int64) {
	f, err := os.Open(filepath.Join(r.log.Dir, r.log.Segments[len(r.log.Segments)-1]))
	if err != nil {
		return -1
	}
	defer func() { _ = f.Close() }() // it was only read
	const header = 61
	window := make([]byte, 64<<10)
	from, have := int64(0), 0 // window[:have] is what lies at from
	for pos := int64(0); ; {
		if pos < from || pos+header > from+int64(have) {
			n, err := f.ReadAt(window, pos)
			if n < header || err != nil && err != io.EOF {
				return next
			}
			from, have = pos, n
		}
		h := window[pos-from:]
		size := int64(binary.BigEndian.Uint32(h[8:]))
		if size < header-12 || size > math.MaxInt32 || h[16] != 2 {
			return next
		}
		next = int64(binary.BigEndian.Uint64(h)) + int64(binary.BigEndian.Uint32(h[23:])) + 1
		pos += 12 + size
	}
}

// compare compares the lane with that of its side which stands for it.
func (l *lane) compare(offset int64, with *lane) {
	switch {
	case l.at(offset) && with.at(offset):
		if l.same(with) {
			if l.differs >= 0 {
				l.agreed++
			}
			return
		}
		l.differ(offset, with)
	case l.at(offset):
		switch {
		case with.first < 0 && with.cur != nil || offset < with.first: // the other's log begins later
		case with.cur == nil || with.next > offset:
			l.differ(offset, with)
		case !with.damaged && !with.cleaned && !l.cleaned && l.lacks < 0:
			l.lacks = offset
		}
	case with.at(offset) && l.first >= 0:
		switch {
		case l.cur == nil && offset >= l.next: // it lags
		case l.next > offset:
			l.differ(offset, with)
		case !l.damaged && !with.cleaned && !l.cleaned && l.lacks < 0:
			l.lacks = offset
		}
	}
}

// same says whether the lanes' batches are the same, but for what a cleaner took.
func (l *lane) same(with *lane) bool {
	if l.cur.LeaderEpoch == with.cur.LeaderEpoch && sameBatch(l.cur, with.cur) {
		return true
	}
	same, unread := sameRecords(l.cur, with.cur)
	if unread != nil {
		l.uncompared(l.cur, with.folder, unread)
	}
	return same
}

func (l *lane) differ(offset int64, with *lane) {
	l.different++
	if l.differs >= 0 {
		return
	}
	l.differs = offset
	mine, theirs := "nothing that begins there", "nothing that begins there"
	f := &Finding{Kind: Diverged, Requirements: []string{"LOG-4"}, Side: l.name, Folder: l.folder, Offset: offset}
	if l.at(offset) {
		mine = describe(l)
		f.LastOffset, f.Affected, f.Records = l.cur.LastOffset(), count(l.cur), records(l.cur, maxRecords)
	}
	if with.at(offset) {
		theirs = describe(with)
	} else if with.cur == nil {
		theirs = "its end"
	}
	f.What = fmt.Sprintf("here lies %s, in %s %s", mine, with.folder, theirs)
	l.example = f
}

func describe(l *lane) string {
	b := l.cur
	kind := "a batch of producer " + writer(b)
	if b.ProducerID < 0 {
		kind = "a batch without producer id"
	}
	if b.IsControl() {
		kind = "a control batch that can't be read"
		if c, err := b.Control(); err == nil {
			kind = fmt.Sprintf("a %s batch", c.Type)
			if b.ProducerID >= 0 {
				kind += " of producer " + writer(b)
			}
		}
	}
	return fmt.Sprintf("%s, offsets %d to %d, leader epoch %d", kind, b.BaseOffset, b.LastOffset(), b.LeaderEpoch)
}

// conclude says what became of the comparison.
func (l *lane) conclude(with *lane) {
	if l.line != nil {
		return
	}
	if l.lacks >= 0 {
		l.out.add(Finding{
			Kind: Missing, Sure: Likely, Requirements: []string{"LOG-4"}, Side: l.name, Folder: l.folder, Offset: l.lacks,
			What: fmt.Sprintf("of this replica and that in %s only one has what begins at offset %d, and both go on behind it", with.folder, l.lacks),
			Why:  "neither log was cleaned, as far as its batches show; a cleaner that took whole batches only leaves this too",
			Do:   "see whether the topic is compacted; if not, take the replica that lacks it out and let it copy the partition anew",
		})
	}
	if l.example == nil {
		return
	}
	f := *l.example
	f.Times, f.Sure = l.different, Likely
	f.Why = "a replica that was away when its leader changed may hold a suffix that it gives up when it comes back; no checkpoint of the high watermark lies beside the logs to tell"
	switch mark := max(l.watermark, with.watermark); {
	case mark > l.differs:
		f.Sure, f.Why = Certain, fmt.Sprintf("it lies below the high watermark of the checkpoint, %d", mark)
	case l.agreed > 0:
		f.Sure, f.Why = Certain, fmt.Sprintf("%d batches behind it are the same again: it followed the leader and kept what differs", l.agreed)
	case mark >= 0:
		f.Sure, f.Why = Possible, fmt.Sprintf("it lies at or above the high watermark of the checkpoint, %d: what was not committed is given up when the replica follows again", mark)
	}
	f.Do = "do not let this replica lead; take it out and let it copy the partition anew; consumers that read from it saw other records"
	l.out.add(f)
}
