package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"watershed.example/psm"
)

// stopsLine is a line of mirror-stops.json, of which the last one counts. Lines are
// appended, so that a change costs one sync where another file of that name would cost
// two (OPS-3); a line that a crash tore is not whole, and the one before counts. What
// was appended is written anew, as one line, when it has become long.
type stopsLine struct {
	Version int `json:"version"`
	// CRC is the CRC-32C of Lists, byte for byte.
	CRC   uint32          `json:"crc"`
	Lists json.RawMessage `json:"lists"`
}

// stopsVersion is that of a line. Version 1 was one document, with nothing around it.
const stopsVersion = 2

// stopsFile is what mirror-stops.json says: this partition's stops, by which
// own barriers are told from inherited ones (docs/design.md),
// the barriers of either kind that the log holds or has held, and those that
// the source has told of before their batches came.
type stopsFile struct {
	Version  int        `json:"version,omitempty"`
	CutEpoch int32      `json:"cutEpoch,omitempty"`
	Stops    []stopJSON `json:"stops"`
	Barriers []Barrier  `json:"barriers"`
	Expected []Barrier  `json:"expected,omitempty"`
}

type stopJSON struct {
	L               int64  `json:"l"`
	BarrierOffset   int64  `json:"barrierOffset"`
	Epoch           int32  `json:"epoch"`
	SourceClusterID string `json:"sourceClusterId"`
}

func sumOf(raw []byte) uint32 { return crc32.Checksum(raw, castagnoli) }

// loadStops reads the lists beside a log. end is where the next line goes, 0 for a file
// that has to be written anew first.
func loadStops(fsys afero.Fs, dir string) (l barrierLists, end int64, err error) {
	name := filepath.Join(dir, fileStops)
	raw, err := readFileIfAny(fsys, name)
	if err != nil || raw == nil {
		return l, 0, err
	}
	f, end, err := decodeStops(raw)
	if err != nil {
		return l, 0, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range f.Stops {
		l.stops = append(l.stops, psm.Stop{L: s.L, BarrierOffset: s.BarrierOffset, Epoch: s.Epoch, SourceClusterID: s.SourceClusterID})
	}
	l.barriers, l.expected, l.cutEpoch = f.Barriers, f.Expected, f.CutEpoch
	return l, end, nil
}

func decodeStops(raw []byte) (f stopsFile, end int64, err error) {
	if json.Unmarshal(raw, &f) == nil && f.Version == 1 {
		return f, 0, nil
	}
	for rest := raw; len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		var next stopsFile
		if err == nil && whole {
			next, err = decodeStopsLine(line)
		}
		switch {
		case (err != nil || !whole) && end == 0:
			// The first line is there whole, or there is no file.
			return f, 0, errors.Join(errors.New("first line is damaged"), err)
		case (err != nil || !whole) && len(more) == 0:
			return f, 0, nil // torn by a crash: nobody was told that it is there
		case err != nil:
			return f, 0, fmt.Errorf("line at byte %d is damaged: %w", end, err)
		}
		f, rest = next, more
		end += int64(len(line)) + 1
	}
	if end == 0 {
		return f, 0, io.ErrUnexpectedEOF
	}
	return f, end, nil
}

func decodeStopsLine(raw []byte) (f stopsFile, err error) {
	var line stopsLine
	if err := json.Unmarshal(raw, &line); err != nil {
		return f, err
	}
	switch {
	case line.Version != stopsVersion:
		return f, fmt.Errorf("version %d, want %d", line.Version, stopsVersion)
	case sumOf(line.Lists) != line.CRC:
		return f, fmt.Errorf("CRC %d, want %d", sumOf(line.Lists), line.CRC)
	}
	err = json.Unmarshal(line.Lists, &f)
	return f, err
}

// encodeStops is the line that says what the lists are.
func encodeStops(l barrierLists) ([]byte, error) {
	f := stopsFile{Stops: []stopJSON{}, Barriers: l.barriers, Expected: l.expected, CutEpoch: l.cutEpoch}
	if f.Barriers == nil {
		f.Barriers = []Barrier{}
	}
	for _, s := range l.stops {
		f.Stops = append(f.Stops, stopJSON{L: s.L, BarrierOffset: s.BarrierOffset, Epoch: s.Epoch, SourceClusterID: s.SourceClusterID})
	}
	lists, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode stops: %w", err)
	}
	line, err := json.Marshal(stopsLine{Version: stopsVersion, CRC: sumOf(lists), Lists: lists})
	if err != nil {
		return nil, fmt.Errorf("encode stops: %w", err)
	}
	return append(line, '\n'), nil
}

// saveLists writes the lists, with some of them changed, and takes them on
// once they are on disk.
func (l *Log) saveLists(lists barrierLists) error {
	line, err := encodeStops(lists)
	if err != nil {
		return err
	}
	name, end := filepath.Join(l.dir, fileStops), l.stopsEnd
	l.stopsEnd = 0 // after an error nobody knows what is in the file
	if most := int64(4*len(line) + 16<<10); end > 0 && end < most {
		err = writeSyncedAt(l.fs, name, line, end)
	} else {
		end = 0
		err = WriteFileAtomic(l.fs, name, line)
	}
	if err != nil {
		return err
	}
	l.stopsEnd = end + int64(len(line))
	l.barrierLists = lists
	l.stopsDirty = false
	return nil
}

// writeSyncedAt writes into a file that is there, at an offset, and syncs it.
func writeSyncedAt(fsys afero.Fs, name string, content []byte, at int64) error {
	f, err := fsys.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	n, err := f.WriteAt(content, at)
	if err == nil && n < len(content) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
