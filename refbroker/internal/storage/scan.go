package storage

import (
	"errors"
	"fmt"
	"io"

	"watershed.example/psm"
)

// scanChunk is how many bytes a scan reads at once.
const scanChunk = 256 << 10

// scanner goes through the batches of a log file one after another. The
// batch that it shows is valid until the next step.
type scanner struct {
	r          io.ReaderAt
	pos, end   int64 // of the next batch, of the file
	buf        []byte
	start, lim int // of what is read and not yet shown
	checkCRC   bool

	b     psm.Batch
	at    int64 // position of the batch shown
	bytes []byte
	err   error // not errTorn: reading failed
	torn  error // why the scan ended before the end of the file
}

func newScanner(r io.ReaderAt, from, end int64, checkCRC bool) *scanner {
	return &scanner{r: r, pos: from, end: end, checkCRC: checkCRC}
}

// next steps to the next batch; false at the end, at bytes that are no whole
// valid batch (torn), or when reading failed (err).
func (s *scanner) next() bool {
	if s.err != nil || s.torn != nil || s.pos >= s.end {
		return false
	}
	if !s.need(psm.HeaderSize) {
		return false
	}
	b, err := psm.DecodeHeader(s.buf[s.start:s.lim])
	if err != nil {
		s.torn = fmt.Errorf("position %d: %w", s.pos, err)
		return false
	}
	// The length is outside the CRC: never read, or make room for, more than
	// the file has.
	if !s.need(b.Size) {
		return false
	}
	bytes := s.buf[s.start : s.start+b.Size]
	if s.checkCRC {
		if err := psm.CheckCRC(bytes); err != nil {
			s.torn = fmt.Errorf("position %d: %w", s.pos, err)
			return false
		}
	}
	if b.IsControl() {
		if b, err = psm.DecodeBatch(bytes); err != nil {
			s.torn = fmt.Errorf("position %d: %w", s.pos, err)
			return false
		}
	}
	s.b, s.bytes, s.at = b, bytes, s.pos
	s.start += b.Size
	s.pos += int64(b.Size)
	return true
}

// need makes n bytes from pos on available in buf.
func (s *scanner) need(n int) bool {
	if s.lim-s.start >= n {
		return true
	}
	if int64(n) > s.end-s.pos {
		s.torn = fmt.Errorf("position %d: %w: %d bytes wanted, %d left", s.pos, errTorn, n, s.end-s.pos)
		return false
	}
	have := copy(s.buf, s.buf[s.start:s.lim])
	s.start, s.lim = 0, have
	want := int(min(int64(max(n, scanChunk)), s.end-s.pos))
	if len(s.buf) < want {
		grown := make([]byte, want)
		copy(grown, s.buf[:have])
		s.buf = grown
	}
	got, err := s.r.ReadAt(s.buf[have:want], s.pos+int64(have))
	s.lim += got
	if s.lim >= n {
		return true
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.err = fmt.Errorf("read %d bytes at position %d: %w", want, s.pos, err)
	return false
}

// failure is why the scan ended early: nil at the end of the file.
func (s *scanner) failure() error {
	if s.err != nil {
		return s.err
	}
	return s.torn
}
