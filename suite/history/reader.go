package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// Read reads a whole history. It is strict: a line that is torn, that holds a
// field nobody knows, whose number does not follow the line before, or that
// [Event.Validate] refuses is a [*LineError].
func Read(r io.Reader) (Header, []Event, error) {
	var h Header
	var events []Event
	in := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			if n == 1 {
				return h, nil, &LineError{1, errors.New("empty history: the header is missing")}
			}
			return h, events, nil
		}
		if err != nil {
			return h, nil, &LineError{n, err}
		}
		if n == 1 {
			if err := strict(line, &h); err != nil {
				return h, nil, &LineError{n, err}
			}
			if h.Format != Format || h.Version != Version {
				return h, nil, &LineError{n, fmt.Errorf("format %q version %d, want %q version %d", h.Format, h.Version, Format, Version)}
			}
			continue
		}
		var e Event
		if err := strict(line, &e); err != nil {
			return h, nil, &LineError{n, err}
		}
		if e.Seq != int64(n-1) {
			return h, nil, &LineError{n, fmt.Errorf("event number %d, want %d", e.Seq, n-1)}
		}
		if err := e.Validate(); err != nil {
			return h, nil, &LineError{n, err}
		}
		events = append(events, e)
	}
}

// ReadFile reads the history at path.
func ReadFile(path string) (h Header, events []Event, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, nil, fmt.Errorf("open history: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close history: %w", cerr)
		}
	}()
	h, events, err = Read(f)
	if err != nil {
		return h, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return h, events, nil
}

// readLine returns the next line without its end. io.EOF only where no byte is left.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, errors.New("torn: no newline at its end")
		default:
			return nil, err
		}
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
