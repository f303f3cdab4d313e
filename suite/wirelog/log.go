package wirelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Problem is a place in a segment from which on no batch could be read.
type Problem struct {
	Segment  string
	Position int64 // in bytes
	Rest     int64 // bytes from there to the segment's end
	// Torn is set when the bytes simply end within a batch, as after a crash.
	Torn bool
	Err  error
}

func (p *Problem) Error() string {
	return fmt.Sprintf("segment %s, byte %d (%d bytes left): %v", p.Segment, p.Position, p.Rest, p.Err)
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Segment iterates over the batches in a segment's bytes. Zeroes at the end (a
// preallocated file) are no problem; any other rest is yielded as a [*Problem],
// last. Batches with a bad checksum are yielded with CRCValid unset.
func Segment(name string, data []byte) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for pos := 0; pos < len(data); {
			b, err := ParseBatch(data[pos:])
			if err != nil {
				if rest := data[pos:]; len(rest) < overhead || !allZero(rest) {
					yield(Batch{}, &Problem{
						Segment: name, Position: int64(pos), Rest: int64(len(data) - pos),
						Torn: errors.Is(err, ErrShort), Err: err,
					})
				}
				return
			}
			b.Segment, b.Position = name, int64(pos)
			if !yield(b, nil) {
				return
			}
			pos += len(b.Raw)
		}
	}
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// Log is the folder of one replica of one partition.
type Log struct {
	Dir      string
	Segments []string // names of the .log files, in the order of their offsets

	maps []mapped // segments that are not read but mapped
}

// mapFrom is the size from which on a segment is mapped, in bytes.
const mapFrom = 256 << 10

// IsSegment says whether a file's name is a segment's: its base offset, in twenty
// digits, and ".log".
func IsSegment(name string) bool { return segmentName.MatchString(name) }

var segmentName = regexp.MustCompile(`^\d{20}\.log$`)

// Open lists the segments of a partition's folder. A folder without a segment
// is an error.
func Open(dir string) (*Log, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{Dir: dir}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") && !e.IsDir() {
			l.Segments = append(l.Segments, e.Name())
		}
	}
	if len(l.Segments) == 0 {
		return nil, fmt.Errorf("open log: %s holds no segment", dir)
	}
	slices.Sort(l.Segments) // names are zero-padded offsets
	return l, nil
}

// Batches streams the log's batches. A [*Problem] ends its segment, not the log;
// any other error ends the log. Of a large segment the batches refer to the file
// itself, until [Log.Close]: a log of any size takes no memory, and nobody must
// make the file shorter meanwhile.
func (l *Log) Batches() iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for _, name := range l.Segments {
			data, err := l.segment(name)
			if err != nil {
				yield(Batch{}, fmt.Errorf("read segment: %w", err))
				return
			}
			for b, err := range Segment(name, data) {
				if !yield(b, err) {
					return
				}
			}
		}
	}
}

// Read returns all batches of the log, as [Log.Batches] gives them, and its problems.
func (l *Log) Read() (batches []Batch, problems []*Problem, err error) {
	for _, name := range l.Segments {
		data, err := l.segment(name)
		if err != nil {
			return nil, nil, fmt.Errorf("read segment: %w", err)
		}
		batches = slices.Grow(batches, count(data))
		for b, err := range Segment(name, data) {
			var problem *Problem
			switch {
			case errors.As(err, &problem):
				problems = append(problems, problem)
			case err != nil:
				return nil, nil, err
			default:
				batches = append(batches, b)
			}
		}
	}
	return batches, problems, nil
}

// count counts the batches in a segment's bytes, by their lengths alone.
func count(data []byte) (n int) {
	for len(data) >= overhead {
		size := overhead + int64(int32(binary.BigEndian.Uint32(data[8:])))
		if size < headerLen || size > int64(len(data)) {
			break
		}
		data = data[size:]
		n++
	}
	return n
}

func (l *Log) segment(name string) (data []byte, err error) {
	f, err := os.Open(filepath.Join(l.Dir, name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := info.Size(); size >= mapFrom && size == int64(int(size)) {
		m, err := mapFile(f, size)
		if err == nil {
			l.maps = append(l.maps, m)
		}
		return m, err
	}
	return io.ReadAll(f)
}

// Release says that the batches are not looked at for a while: their bytes are
// taken from the file again when they are.
func (l *Log) Release() error {
	var errs []error
	for _, m := range l.maps {
		errs = append(errs, m.release())
	}
	return errors.Join(errs...)
}

// Close ends the use of all batches that came from the log.
func (l *Log) Close() error {
	var errs []error
	for _, m := range l.maps {
		errs = append(errs, m.close())
	}
	l.maps = nil
	return errors.Join(errs...)
}

// AbortedTxn is an entry of a transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the ABORT marker
	LastStableOffset int64
}

const abortedTxnLen = 34

// ReadTxnIndex decodes the bytes of a .txnindex file.
func ReadTxnIndex(data []byte) ([]AbortedTxn, error) {
	var all []AbortedTxn
	for ; len(data) >= abortedTxnLen; data = data[abortedTxnLen:] {
		if v := int16(binary.BigEndian.Uint16(data)); v != 0 {
			return all, fmt.Errorf("transaction index entry %d has version %d", len(all), v)
		}
		all = append(all, AbortedTxn{
			ProducerID:       int64(binary.BigEndian.Uint64(data[2:])),
			FirstOffset:      int64(binary.BigEndian.Uint64(data[10:])),
			LastOffset:       int64(binary.BigEndian.Uint64(data[18:])),
			LastStableOffset: int64(binary.BigEndian.Uint64(data[26:])),
		})
	}
	if len(data) > 0 {
		return all, fmt.Errorf("transaction index: %d bytes after %d entries", len(data), len(all))
	}
	return all, nil
}
