package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Format names the file format in a history's first line.
const Format = "watershed-history"

// Version is the version of the format that this package writes. Of the one
// before, which has an event for each record that is read, it differs in
// [Observed.Count]; that is read too.
const Version = 3

// Header is the first line of a history.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Run     string `json:"run"`
	Seed    uint64 `json:"seed,string"`
}

// Writer appends events to a history. Its methods may be called concurrently.
// The first failed write sticks: every later call returns that error too.
type Writer struct {
	now func() time.Time
	op  atomic.Int64

	mu   sync.Mutex
	out  *bufio.Writer
	file *os.File // nil when the writer was made by NewWriter
	seq  int64
	err  error
}

// Create makes a history file, which must not exist yet.
func Create(path, run string, seed uint64) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	w := NewWriter(f, run, seed, time.Now)
	w.file = f
	if w.err != nil {
		return nil, errors.Join(w.err, f.Close())
	}
	return w, nil
}

// NewWriter writes a history to out, with times taken from now.
func NewWriter(out io.Writer, run string, seed uint64, now func() time.Time) *Writer {
	w := &Writer{now: now, out: bufio.NewWriterSize(out, 64<<10)}
	w.writeLine(Header{Format: Format, Version: Version, Run: run, Seed: seed})
	return w
}

// NextOp returns a number for a new operation, never 0.
func (w *Writer) NextOp() int64 { return w.op.Add(1) }

// Append writes one event and returns its number. It sets Seq, and At when
// that is 0. An event that [Event.Validate] refuses is not written, and the
// error says why without sticking.
func (w *Writer) Append(e Event) (int64, error) {
	if err := e.Validate(); err != nil {
		return 0, fmt.Errorf("append to history: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.seq++
	e.Seq = w.seq
	if e.At == 0 {
		e.At = w.now().UnixNano()
	}
	w.writeLine(e)
	return e.Seq, w.err
}

// Sync flushes what was written so far and, for a file, waits until the disk has it.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sync()
}

// Close syncs and closes the history. Closing twice returns the first error.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, os.ErrClosed) {
		return nil
	}
	err := w.sync()
	if w.file != nil {
		if cerr := w.file.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close history: %w", cerr)
		}
	}
	if w.err == nil {
		w.err = fmt.Errorf("history is closed: %w", os.ErrClosed)
	}
	return err
}

func (w *Writer) sync() error {
	if w.err != nil {
		return w.err
	}
	if err := w.out.Flush(); err != nil {
		w.err = fmt.Errorf("flush history: %w", err)
		return w.err
	}
	if w.file != nil {
		if err := w.file.Sync(); err != nil {
			w.err = fmt.Errorf("sync history: %w", err)
		}
	}
	return w.err
}

func (w *Writer) writeLine(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("write history: %w", err)
	}
}
