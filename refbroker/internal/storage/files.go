package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/lock"
)

// readAtFile is a file that any number of goroutines may read at once. An
// *os.File can do that by itself; afero's other files keep one position for
// all, so their reads take turns.
type readAtFile struct {
	f     afero.File
	turns *lock.Mutex
	// users are who opened it and the sections that were not released yet; the
	// last one closes the file.
	users atomic.Int32
}

func openForReadAt(fsys afero.Fs, name string) (*readAtFile, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	r := &readAtFile{f: f}
	r.users.Store(1)
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

// retain keeps the file open until one more Close; false for a file that is not
// the system's, or is closed.
func (r *readAtFile) retain() bool {
	for n := r.users.Load(); n > 0 && r.turns == nil; n = r.users.Load() {
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (r *readAtFile) Close() error {
	if r.users.Add(-1) > 0 {
		return nil
	}
	return r.f.Close()
}

// WriteFileAtomic replaces the file name by content: after a crash the old or
// the new content is there, whole. It returns once the content and its name
// are on disk.
func WriteFileAtomic(fsys afero.Fs, name string, content []byte) error {
	tmp, err := writeTemp(fsys, name, content)
	if err != nil {
		return err
	}
	return rename(fsys, tmp, name)
}

// writeTemp writes and syncs a file that is to become name.
func writeTemp(fsys afero.Fs, name string, content []byte) (tmp string, err error) {
	tmp = name + ".tmp"
	f, err := fsys.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", tmp, err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(tmp)
		return "", fmt.Errorf("write %s: %w", tmp, err)
	}
	return tmp, nil
}

// rename gives a file its name, durably.
func rename(fsys afero.Fs, tmp, name string) error {
	if err := fsys.Rename(tmp, name); err != nil {
		_ = fsys.Remove(tmp)
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
