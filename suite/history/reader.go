package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// LineError says which line of a history is bad. Lines count from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("history line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// maxLine is the longest line that a reader accepts, in bytes.
const maxLine = 16 << 20

// Scanner reads a history event by event. It is strict: a line that is torn,
// that holds a field nobody knows, whose number does not follow the line before,
// or that [Event.Validate] refuses is a [*LineError].
type Scanner struct {
	header Header
	in     *bufio.Reader
	long   []byte // a line that is longer than the reader's buffer
	line   int    // number of the last line that was read
	fast   fastLine
	own    Event
}

// NewScanner reads a history's header.
func NewScanner(r io.Reader) (*Scanner, error) {
	s := &Scanner{in: bufio.NewReaderSize(r, 1<<20), line: 1}
	line, err := s.readLine()
	if errors.Is(err, io.EOF) {
		err = errors.New("empty history: the header is missing")
	}
	if err == nil {
		err = strict(line, &s.header)
	}
	if h := s.header; err == nil && (h.Format != Format || h.Version < Version-1 || h.Version > Version) {
		err = fmt.Errorf("format %q version %d, want %q version %d or %d", h.Format, h.Version, Format, Version-1, Version)
	}
	if err != nil {
		return nil, &LineError{1, err}
	}
	return s, nil
}

// Header is the history's first line.
func (s *Scanner) Header() Header { return s.header }

// Next reads the next event; io.EOF after the last one. The event, and all that
// it points to, is the caller's until the next call: see [Event.Clone].
func (s *Scanner) Next() (*Event, error) {
	line, err := s.readLine()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	s.line++
	if err != nil {
		return nil, &LineError{s.line, err}
	}
	e := s.fast.decode(line)
	if e == nil {
		s.own = Event{}
		e = &s.own
		if err := strict(line, e); err != nil {
			return nil, &LineError{s.line, err}
		}
	}
	if e.Seq != int64(s.line-1) {
		return nil, &LineError{s.line, fmt.Errorf("event number %d, want %d", e.Seq, s.line-1)}
	}
	if err := e.Validate(); err != nil {
		return nil, &LineError{s.line, err}
	}
	return e, nil
}

// Clone returns a copy of an event of a [Scanner] that outlives the next call.
func (e *Event) Clone() Event {
	own := *e
	if e.Read != nil {
		own.Read = copied(e.Read)
		own.Read.Tag = strings.Clone(e.Read.Tag)
	}
	if e.Produce != nil {
		own.Produce = copied(e.Produce)
		own.Produce.Batch, own.Produce.Result = copied(e.Produce.Batch), copied(e.Produce.Result)
	}
	return own
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	own := *p
	return &own
}

// Read reads a whole history, as strict as a [Scanner].
func Read(r io.Reader) (Header, []Event, error) {
	s, err := NewScanner(r)
	if err != nil {
		return Header{}, nil, err
	}
	var events []Event
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			return s.Header(), events, nil
		}
		if err != nil {
			return s.Header(), nil, err
		}
		events = append(events, e.Clone())
	}
}

// ReadFile reads the history at path.
func ReadFile(path string) (h Header, events []Event, err error) {
	err = ScanFile(path, func(s *Scanner) error {
		h = s.Header()
		for {
			e, err := s.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			events = append(events, e.Clone())
		}
	})
	if err != nil {
		return h, nil, err
	}
	return h, events, nil
}

// ScanFile opens the history at path for do.
func ScanFile(path string, do func(*Scanner) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close history: %w", cerr)
		}
	}()
	s, err := NewScanner(f)
	if err == nil {
		err = do(s)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// readLine returns the next line without its end, until the next call. io.EOF
// only where no byte is left.
func (s *Scanner) readLine() ([]byte, error) {
	part, err := s.in.ReadSlice('\n')
	if err == nil {
		return part[:len(part)-1], nil
	}
	s.long = s.long[:0]
	for {
		s.long = append(s.long, part...)
		if len(s.long) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(s.long, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(s.long) > 0:
			return nil, errors.New("torn: no newline at its end")
		default:
			return nil, err
		}
		part, err = s.in.ReadSlice('\n')
	}
}

func strict(line []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}
