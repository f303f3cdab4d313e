package storage

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"watershed.example/psm"
)

// readSlack is read beyond what was asked for, so that the batches between
// the index's position and the offset need no read of their own.
const readSlack = 8 << 10

// Read returns whole raw batches, as stored: from the one that holds offset
// on, as many as fit into maxBytes, none that reaches beyond upper. With
// minOne the first is returned even if it is larger. Reads don't wait for
// appends. An offset outside of the log is an [ErrOutOfRange].
//
// As in Kafka, one call reads one segment.
func (l *Log) Read(offset, upper int64, maxBytes int, minOne bool) ([]byte, error) {
	for {
		raw, gen, err := l.readOnce(offset, upper, maxBytes, minOne)
		// A truncation may have changed the bytes under the read.
		if l.generation() == gen {
			return raw, err
		}
	}
}

func (l *Log) generation() uint64 {
	l.pub.RLock()
	defer l.pub.RUnlock()
	return l.gen
}

// piece is a range of one segment's bytes, as published at one moment.
type piece struct {
	seg       *segment
	from, end int64
	last      bool
}

// locate finds where to look for offset: in the segment at or after it.
func (l *Log) locate(offset int64, skip int) (p piece, gen uint64, err error) {
	l.pub.RLock()
	defer l.pub.RUnlock()
	return l.locateLocked(offset, skip)
}

func (l *Log) locateLocked(offset int64, skip int) (p piece, gen uint64, err error) {
	if l.closed {
		return p, l.gen, ErrClosed
	}
	if offset < l.logStart || offset > l.logEnd {
		return p, l.gen, &ErrOutOfRange{Offset: offset, Start: l.logStart, End: l.logEnd}
	}
	i := max(0, sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > offset })-1) + skip
	if i >= len(l.segments) {
		return piece{last: true}, l.gen, nil
	}
	s := l.segments[i]
	p = piece{seg: s, end: s.size, last: i == len(l.segments)-1}
	if skip == 0 {
		p.from = positionFor(s.index, offset-s.base)
	}
	return p, l.gen, nil
}

func (l *Log) readOnce(offset, upper int64, maxBytes int, minOne bool) ([]byte, uint64, error) {
	for skip := 0; ; skip++ {
		p, gen, err := l.locate(offset, skip)
		if err != nil || p.seg == nil {
			return nil, gen, err
		}
		if offset >= upper {
			return nil, gen, nil
		}
		raw, found, err := p.read(offset, upper, maxBytes, minOne)
		if err != nil {
			return nil, gen, fmt.Errorf("read offset %d of %s: %w", offset, l.dir, err)
		}
		if found || p.last {
			return raw, gen, nil
		}
	}
}

// read looks for offset in the piece. found is false when all its batches
// end below offset.
func (p piece) read(offset, upper int64, maxBytes int, minOne bool) (raw []byte, found bool, err error) {
	var buf []byte
	pos := p.from
	for pos < p.end {
		// What the batches up to the offset take is not known yet: a few of
		// them at most lie between two entries of the index.
		want := min(int64(max(maxBytes, 0))+readSlack, p.end-pos)
		if int64(cap(buf)) < want {
			buf = make([]byte, want)
		}
		buf = buf[:want]
		if err := readFull(p.seg.r, buf, pos); err != nil {
			return nil, false, err
		}
		at, b, whole := 0, psm.Batch{}, false
		for at+psm.HeaderSize <= len(buf) {
			if b, err = psm.DecodeHeader(buf[at:]); err != nil {
				return nil, false, fmt.Errorf("position %d: %w", pos+int64(at), err)
			}
			if b.LastOffset >= offset {
				whole = true
				break
			}
			if at+b.Size > len(buf) {
				at += b.Size
				break
			}
			at += b.Size
		}
		if whole {
			return p.take(buf, pos, at, b, upper, maxBytes, minOne)
		}
		if at == 0 && int64(len(buf)) == p.end-pos {
			return nil, false, io.ErrUnexpectedEOF
		}
		pos += int64(at)
	}
	return nil, false, nil
}

// take cuts the answer out of buf, which was read at pos and in which the
// first batch (b) begins at index at.
func (p piece) take(buf []byte, pos int64, at int, b psm.Batch, upper int64, maxBytes int, minOne bool) ([]byte, bool, error) {
	if b.LastOffset >= upper || b.Size > maxBytes && !minOne {
		return nil, true, nil
	}
	if at+b.Size > len(buf) || b.Size > maxBytes {
		if at+b.Size <= len(buf) {
			return buf[at : at+b.Size : at+b.Size], true, nil
		}
		// The first batch alone, or the rest of what fits, in a read of its own.
		want := min(int64(max(maxBytes, b.Size)), p.end-pos-int64(at))
		buf = make([]byte, want)
		pos += int64(at)
		at = 0
		if err := readFull(p.seg.r, buf, pos); err != nil {
			return nil, false, err
		}
	}
	end := at
	for end+psm.HeaderSize <= len(buf) {
		n, err := psm.DecodeHeader(buf[end:])
		if err != nil {
			return nil, false, fmt.Errorf("position %d: %w", pos+int64(end), err)
		}
		if n.LastOffset >= upper || end+n.Size > len(buf) || end > at && end-at+n.Size > maxBytes {
			break
		}
		end += n.Size
	}
	return buf[at:end:end], true, nil
}

func readFull(r io.ReaderAt, buf []byte, pos int64) error {
	n, err := r.ReadAt(buf, pos)
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("position %d, %d of %d bytes: %w", pos, n, len(buf), err)
}
