package psm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Dir is the directory that holds a partition's snapshots, and may hold other
// files. [OSDir] is the real one.
type Dir interface {
	// Names lists the files.
	Names() ([]string, error)
	// ReadFile gives a file's content.
	ReadFile(name string) ([]byte, error)
	// Create makes a file, empty if it was there.
	Create(name string) (File, error)
	Rename(from, to string) error
	// Remove deletes a file; one that is not there gives fs.ErrNotExist.
	Remove(name string) error
	// Sync makes created, renamed and removed names durable.
	Sync() error
}

// File is a file being written.
type File interface {
	io.WriteCloser
	// Sync makes the content durable.
	Sync() error
}

// OSDir is a directory of the operating system, by its path.
type OSDir string

func (d OSDir) path(name string) string { return filepath.Join(string(d), name) }

// Names implements [Dir].
func (d OSDir) Names() ([]string, error) {
	f, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return f.Readdirnames(-1)
}

// ReadFile implements [Dir].
func (d OSDir) ReadFile(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

// Create implements [Dir].
func (d OSDir) Create(name string) (File, error) { return os.Create(d.path(name)) }

// Rename implements [Dir].
func (d OSDir) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

// Remove implements [Dir].
func (d OSDir) Remove(name string) error { return os.Remove(d.path(name)) }

// Sync implements [Dir].
func (d OSDir) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Snapshots are the snapshot files in a directory.
type Snapshots struct {
	dir Dir
	log *slog.Logger
}

// NewSnapshots gives the snapshots in dir. log, which may be nil, gets
// warnings of damaged ones.
func NewSnapshots(dir Dir, log *slog.Logger) *Snapshots {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Snapshots{dir: dir, log: log}
}

const (
	snapshotSuffix = ".snapshot"
	tempSuffix     = ".snapshot.tmp"
)

// SnapshotName is the name of the snapshot at offset.
func SnapshotName(offset int64) string { return fmt.Sprintf("%020d%s", offset, snapshotSuffix) }

// ParseSnapshotName gives the offset in the name of a snapshot file.
func ParseSnapshotName(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	offset, err := strconv.ParseUint(digits, 10, 63)
	return int64(offset), err == nil
}

// Offsets gives the offsets of the snapshots there are, rising. Left-overs of
// interrupted writes are deleted.
func (st *Snapshots) Offsets() ([]int64, error) {
	names, err := st.dir.Names()
	if err != nil {
		return nil, fmt.Errorf("list producer snapshots: %w", err)
	}
	var out []int64
	for _, name := range names {
		if o, ok := ParseSnapshotName(name); ok {
			out = append(out, o)
		} else if strings.HasSuffix(name, tempSuffix) {
			if err := st.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("delete unfinished producer snapshot: %w", err)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// Write writes a snapshot of s as of its end. It is complete or not there:
// written under another name, synced, renamed, the directory synced.
func (st *Snapshots) Write(s *State) error {
	name := SnapshotName(s.end)
	if err := st.write(name, EncodeSnapshot(s.SnapshotEntries())); err != nil {
		return fmt.Errorf("write producer snapshot %s: %w", name, err)
	}
	return nil
}

func (st *Snapshots) write(name string, content []byte) error {
	temp := strings.TrimSuffix(name, snapshotSuffix) + tempSuffix
	f, err := st.dir.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = st.dir.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(st.dir.Remove(temp)))
	}
	return st.dir.Sync()
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Read gives the entries of the snapshot at offset.
func (st *Snapshots) Read(offset int64) ([]SnapshotEntry, error) {
	p, err := st.read(offset)
	if err != nil {
		return nil, err
	}
	entries, err := DecodeSnapshot(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", SnapshotName(offset), err)
	}
	return entries, nil
}

func (st *Snapshots) read(offset int64) ([]byte, error) {
	name := SnapshotName(offset)
	p, err := st.dir.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot %s: %w", name, err)
	}
	return p, nil
}

// Delete deletes the snapshot at offset, if it is there.
func (st *Snapshots) Delete(offset int64) error {
	if err := ignoreMissing(st.dir.Remove(SnapshotName(offset))); err != nil {
		return fmt.Errorf("delete producer snapshot at %d: %w", offset, err)
	}
	return nil
}

// DeleteBefore deletes the snapshots below offset, as retention does.
func (st *Snapshots) DeleteBefore(offset int64) error {
	return st.deleteIf(func(o int64) bool { return o < offset })
}

// DeleteAfter deletes the snapshots above offset, as truncation does.
func (st *Snapshots) DeleteAfter(offset int64) error {
	return st.deleteIf(func(o int64) bool { return o > offset })
}

// DeleteAll deletes all snapshots.
func (st *Snapshots) DeleteAll() error {
	return st.deleteIf(func(int64) bool { return true })
}

func (st *Snapshots) deleteIf(cond func(int64) bool) error {
	offsets, err := st.Offsets()
	if err != nil {
		return err
	}
	deleted := false
	for _, o := range offsets {
		if cond(o) {
			if err := st.Delete(o); err != nil {
				return err
			}
			deleted = true
		}
	}
	if deleted {
		return st.dir.Sync()
	}
	return nil
}
