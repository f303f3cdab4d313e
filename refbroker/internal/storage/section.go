package storage

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sort"

	"watershed.example/psm"
)

// leastSection is how many bytes are worth a section: fewer are read and
// written quicker.
const leastSection = 32 << 10

// Section is whole batches where they lie: what a Read returns, but unread, so
// that the kernel can move the bytes from the page cache to a connection. It
// keeps its file open until it is released.
type Section struct {
	log      *Log
	gen      uint64
	file     *readAtFile
	pos, end int64
	next     int64
}

// Section is Read for a caller that sends the bytes on; nil when they had
// better be read: they are few, or lie in a file that is not the system's.
func (l *Log) Section(offset, upper int64, maxBytes int, minOne bool) (*Section, error) {
	if maxBytes < leastSection || offset >= upper {
		return nil, nil
	}
	s, p, jump, err := l.startSection(offset, upper, int64(maxBytes))
	if err != nil || s == nil {
		return nil, err
	}
	ok, err := s.find(p, jump, offset, upper, int64(maxBytes), minOne)
	if err == nil && ok && s.Intact() {
		return s, nil
	}
	// Read knows what to do about a truncation, or a segment that ends below
	// offset.
	s.Release()
	return nil, nil
}

// startSection takes hold of the file. jump is the last indexed position that is
// sure to be below the section's end.
func (l *Log) startSection(offset, upper, maxBytes int64) (s *Section, p piece, jump int64, err error) {
	l.pub.RLock()
	defer l.pub.RUnlock()
	p, gen, err := l.locateLocked(offset, 0)
	if err != nil || p.end-p.from < leastSection || !p.seg.r.retain() {
		return nil, p, 0, err
	}
	index := p.seg.index
	i := sort.Search(len(index), func(i int) bool {
		return int64(index[i].pos) > p.from+maxBytes || p.seg.base+int64(index[i].rel) >= upper
	})
	if i > 0 {
		jump = int64(index[i-1].pos)
	}
	return &Section{log: l, gen: gen, file: p.seg.r}, p, jump, nil
}

// find sets the section's ends. ok is false when there is nothing worth it.
func (s *Section) find(p piece, jump, offset, upper, maxBytes int64, minOne bool) (ok bool, err error) {
	h := headers{r: s.file, pos: p.from, end: p.end}
	for h.next() && h.b.LastOffset < offset {
	}
	if h.err != nil || !h.shown || h.b.LastOffset < offset || h.b.LastOffset >= upper {
		return false, h.err
	}
	s.pos, s.end, s.next = h.at, h.pos, h.b.LastOffset+1
	if s.Size() > maxBytes {
		return minOne, nil
	}
	if jump > h.pos {
		h = headers{r: s.file, pos: jump, end: p.end}
	}
	for h.next() && h.b.LastOffset < upper && h.pos-s.pos <= maxBytes && h.pos <= p.end {
		s.end, s.next = h.pos, h.b.LastOffset+1
	}
	if h.at > s.end { // the one at jump is too much by itself
		s.end, s.next = h.at, h.b.BaseOffset
	}
	return s.Size() >= leastSection, h.err
}

// headers goes through the headers of batches, and reads little else.
type headers struct {
	r        io.ReaderAt
	pos, end int64 // of the next batch, of what was published
	buf      [psm.HeaderSize]byte
	b        psm.Batch
	at       int64 // of the batch shown
	shown    bool
	err      error
}

func (h *headers) next() bool {
	if h.err != nil || h.pos+psm.HeaderSize > h.end {
		return false
	}
	if h.err = readFull(h.r, h.buf[:], h.pos); h.err != nil {
		return false
	}
	if h.b, h.err = psm.DecodeHeader(h.buf[:]); h.err != nil {
		h.err = fmt.Errorf("position %d: %w", h.pos, h.err)
		return false
	}
	h.at, h.shown = h.pos, true
	h.pos += int64(h.b.Size)
	return true
}

// Size is how many bytes the section has.
func (s *Section) Size() int64 { return s.end - s.pos }

// Next is the offset behind the last batch.
func (s *Section) Next() int64 { return s.next }

// Intact reports that the log was not cut since the section was made: what was
// sent of it is what the log holds.
func (s *Section) Intact() bool { return s.log.generation() == s.gen }

// Release gives the file back. The section is of no use afterwards.
func (s *Section) Release() { _ = s.file.Close() }

// WriteTo sends the section, by sendfile if w is a connection of the system's.
func (s *Section) WriteTo(w io.Writer) (int64, error) {
	pos := s.pos
	if c, ok := w.(*net.TCPConn); ok {
		if f, ok := s.file.f.(*os.File); ok {
			n, err := sendfile(c, f, pos, s.end-pos)
			if !errors.Is(err, errors.ErrUnsupported) {
				return n, err
			}
			pos += n
		}
	}
	n, err := io.Copy(w, io.NewSectionReader(s.file, pos, s.end-pos))
	n += pos - s.pos
	if err == nil && n < s.Size() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
