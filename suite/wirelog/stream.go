package wirelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
)

// Stream reads a log's batches one after the other through a buffer of its own,
// so that a log of any size, of batches of any size, takes a buffer's memory, and a
// file that is made shorter meanwhile is a torn one. See [Log.Batches] for a log that stays.
type Stream struct {
	// Passed counts the bytes of the segments that were read or skipped.
	Passed int64

	log  *Log
	next int // of the log's segments
	file *os.File
	name string
	size int64
	pos  int64  // in the file, of buf[from]
	buf  []byte // buf[from:to] was read and not yet handed out
	from int
	to   int
}

const (
	streamBuffer = 1 << 20
	// maxHeld bounds what is held of one batch, in bytes; the rest passes by, to be
	// checked and hashed. A batch may be as large as message.max.bytes, which is
	// 1 MiB unless set, and each replica of a partition holds one.
	maxHeld = 4 << 20
)

// Stream starts to read the log.
func (l *Log) Stream() *Stream { return &Stream{log: l} }

// Size returns the size of the log's segments in bytes.
func (l *Log) Size() (int64, error) {
	var sum int64
	for _, name := range l.Segments {
		info, err := os.Stat(filepath.Join(l.Dir, name))
		if err != nil {
			return 0, fmt.Errorf("size of log: %w", err)
		}
		sum += info.Size()
	}
	return sum, nil
}

// Next reads the next batch; its bytes are there until the next call. A
// [*Problem] ends its segment only: go on with the next call. [io.EOF] is the
// log's end, and any other error too.
func (s *Stream) Next() (Batch, error) {
	for {
		if s.file == nil {
			if s.next == len(s.log.Segments) {
				return Batch{}, io.EOF
			}
			if err := s.open(s.log.Segments[s.next]); err != nil {
				return Batch{}, fmt.Errorf("read segment: %w", err)
			}
			s.next++
		}
		if s.pos >= s.size {
			if err := s.shut(); err != nil {
				return Batch{}, err
			}
			continue
		}
		b, err := s.batch()
		if err == nil {
			return b, nil
		}
		var problem *Problem
		if !errors.As(err, &problem) {
			return Batch{}, errors.Join(fmt.Errorf("read segment %s: %w", s.name, err), s.Close())
		}
		zeroes, readErr := s.zeroes()
		if readErr != nil {
			return Batch{}, errors.Join(fmt.Errorf("read segment %s: %w", s.name, readErr), s.Close())
		}
		if err := s.shut(); err != nil {
			return Batch{}, err
		}
		if !zeroes {
			return Batch{}, problem
		}
	}
}

func (s *Stream) open(name string) error {
	f, err := os.Open(filepath.Join(s.log.Dir, name))
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", f.Name())
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.name, s.size, s.pos, s.from, s.to = f, name, info.Size(), 0, 0, 0
	return nil
}

// shut ends the segment.
func (s *Stream) shut() error {
	s.Passed += s.size - s.pos
	return s.closeFile()
}

// Close ends the reading, and gives the buffer up; the stream can't be used any more.
func (s *Stream) Close() error {
	s.buf, s.from, s.to = nil, 0, 0
	return s.closeFile()
}

func (s *Stream) closeFile() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

func (s *Stream) problem(err error) *Problem {
	return &Problem{Segment: s.name, Position: s.pos, Rest: s.size - s.pos, Torn: errors.Is(err, ErrShort), Err: err}
}

func (s *Stream) batch() (Batch, error) {
	head, err := s.peek(headerLen)
	if err != nil {
		return Batch{}, err
	}
	if len(head) > 16 {
		if magic := int8(head[16]); magic == 0 || magic == 1 {
			// A preallocated tail has magic 0 too; what follows tells them apart.
			return Batch{}, s.problem(fmt.Errorf("messages of magic %d, as before Kafka 0.11: only batches of magic 2 are read", magic))
		}
	}
	size := int64(len(head))
	if len(head) >= overhead {
		size = overhead + int64(int32(binary.BigEndian.Uint32(head[8:])))
	}
	switch {
	case size > s.size-s.pos:
		return Batch{}, s.short(size)
	case size > maxHeld:
		return s.large(size)
	}
	raw, err := s.peek(int(max(size, int64(len(head)))))
	if err != nil {
		return Batch{}, err
	}
	b, err := ParseBatch(raw)
	if err != nil {
		return Batch{}, s.problem(err)
	}
	b.Segment, b.Position = s.name, s.pos
	s.skip(len(b.Raw))
	return b, nil
}

func (s *Stream) short(size int64) *Problem {
	return s.problem(fmt.Errorf("%w: batch of %d bytes, %d are left", ErrShort, size, s.size-s.pos))
}

// large reads a batch of which the beginning alone is held.
func (s *Stream) large(size int64) (Batch, error) {
	raw, err := s.peek(maxHeld)
	if err != nil {
		return Batch{}, err
	}
	if len(raw) < maxHeld {
		return Batch{}, s.short(size)
	}
	b, err := parseHeader(raw[:maxHeld:maxHeld])
	if err != nil {
		return Batch{}, s.problem(err)
	}
	crc := crc32.Checksum(raw[crcFrom:], castagnoli)
	var rest maphash.Hash
	rest.SetSeed(seed)
	pass := func(p []byte) {
		crc = crc32.Update(crc, castagnoli, p)
		_, _ = rest.Write(p) // never fails
	}
	left := size - maxHeld
	ahead := s.buf[s.from+maxHeld : s.to]
	ahead = ahead[:min(int64(len(ahead)), left)]
	pass(ahead)
	left -= int64(len(ahead))
	for chunk := make([]byte, min(left, 64<<10)); left > 0; {
		n, err := io.ReadFull(s.file, chunk[:min(left, int64(len(chunk)))])
		pass(chunk[:n])
		left -= int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			s.size = s.pos + size - left // somebody made it shorter
			return Batch{}, s.short(size)
		case err != nil:
			return Batch{}, err
		}
	}
	b.CRCValid = crc == b.CRC
	b.unheld, b.rest = size-maxHeld, rest.Sum64()
	b.Segment, b.Position = s.name, s.pos
	s.from += maxHeld + len(ahead)
	s.pos += size
	s.Passed += size
	return b, nil
}

// seed is that of all hashes that stand for bytes: they are compared within a process.
var seed = maphash.MakeSeed()

func (s *Stream) skip(n int) {
	s.from += n
	s.pos += int64(n)
	s.Passed += int64(n)
}

// peek returns the next n bytes, fewer where the segment ends.
func (s *Stream) peek(n int) ([]byte, error) {
	if s.to-s.from < n && int64(s.to-s.from) < s.size-s.pos {
		if n > len(s.buf)-s.from {
			into := s.buf
			if n > len(s.buf) {
				into = make([]byte, max(n, streamBuffer))
			} else if len(s.buf) > streamBuffer && n <= streamBuffer {
				into = make([]byte, streamBuffer) // a large batch is over
			}
			s.to = copy(into, s.buf[s.from:s.to])
			s.from, s.buf = 0, into
		}
		m, err := io.ReadAtLeast(s.file, s.buf[s.to:], n-(s.to-s.from))
		s.to += m
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			s.size = s.pos + int64(s.to-s.from) // somebody made it shorter
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	return s.buf[s.from:min(s.from+n, s.to)], nil
}

// zeroes says whether the rest of the segment is a preallocated tail.
func (s *Stream) zeroes() (bool, error) {
	if s.size-s.pos < overhead {
		return false, nil
	}
	for s.pos < s.size {
		rest, err := s.peek(min(streamBuffer, int(min(s.size-s.pos, streamBuffer))))
		if err != nil {
			return false, err
		}
		if len(rest) == 0 {
			break
		}
		if !allZero(rest) {
			return false, nil
		}
		s.skip(len(rest))
	}
	return true, nil
}
