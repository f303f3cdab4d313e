package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/lock"
)

// readAtFile is a file that any number of goroutines may read at once. An
// *os.File can do that by itself; afero's other files keep one position for
// all, so their reads take turns.
type readAtFile struct {
	f     afero.File
	turns *lock.Mutex
}

func openForReadAt(fsys afero.Fs, name string) (*readAtFile, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	r := &readAtFile{f: f}
	if _, isOS := f.(*os.File); !isOS {
		m := lock.New()
		r.turns = &m
	}
	return r, nil
}

// ReadAt is io.ReaderAt's, with io.EOF also where afero says unexpected EOF
// for a position behind the end.
func (r *readAtFile) ReadAt(p []byte, off int64) (int, error) {
	if r.turns != nil {
		r.turns.Lock()
		defer r.turns.Unlock()
	}
	n, err := r.f.ReadAt(p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func (r *readAtFile) Close() error { return r.f.Close() }

// WriteFileAtomic replaces the file name by content: after a crash the old or
// the new content is there, whole. It returns once the content and its name
// are on disk.
func WriteFileAtomic(fsys afero.Fs, name string, content []byte) (err error) {
	tmp := name + ".tmp"
	f, err := fsys.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	defer func() {
		if err != nil {
			_ = fsys.Remove(tmp)
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err = fsys.Rename(tmp, name); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return SyncDir(fsys, filepath.Dir(name))
}

// SyncDir makes the names in dir durable: files made, renamed and removed.
func SyncDir(fsys afero.Fs, dir string) error {
	d, err := fsys.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder %s: %w", dir, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// readFileIfAny returns the content of a file, nil when there is none.
func readFileIfAny(fsys afero.Fs, name string) ([]byte, error) {
	b, err := afero.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// removeIfAny removes a file; that there is none is no error.
func removeIfAny(fsys afero.Fs, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
