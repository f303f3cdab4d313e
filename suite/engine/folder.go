package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// latest is the name of the link to the newest run's folder.
const latest = "latest"

// keepRuns is how many runs' folders stay when a new run starts.
const keepRuns = 5

var runName = regexp.MustCompile(`^run-\d{8}-\d{6}\.\d{3}-\d+$`)

// NewRunFolder makes the folder of one run's evidence below out, points the
// link out/latest to it, and removes the oldest runs' folders unless keepAll, but
// none of a run that goes on, in whichever process. The folder is the caller's
// until leave is called, or its process ends. Its path is absolute: brokers are told
// paths within it, and work in folders of their own.
func NewRunFolder(out string, seed uint64, keepAll bool, now time.Time) (folder string, leave func(), err error) {
	if out, err = filepath.Abs(out); err != nil {
		return "", nil, fmt.Errorf("make the folder for evidence: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", nil, fmt.Errorf("make the folder for evidence: %w", err)
	}
	name := fmt.Sprintf("run-%s-%d", now.Format("20060102-150405.000"), seed)
	folder = filepath.Join(out, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", nil, fmt.Errorf("make the folder for evidence: %w", err)
	}
	lock, err := lockFolder(folder)
	if errors.Is(err, errNoLocks) {
		keepAll = true // whose run goes on can't be told
	} else if err != nil {
		return "", nil, fmt.Errorf("lock the folder for evidence: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release(lock))
		}
	}()
	// A link can't be replaced in place, but a new one can take its name.
	link := filepath.Join(out, "."+name)
	if err := os.Symlink(name, link); err != nil {
		return "", nil, fmt.Errorf("link %s: %w", latest, err)
	}
	if err := os.Rename(link, filepath.Join(out, latest)); err != nil {
		return "", nil, errors.Join(fmt.Errorf("link %s: %w", latest, err), os.Remove(link))
	}
	if !keepAll {
		if err := prune(out); err != nil {
			return "", nil, err
		}
	}
	return folder, func() { _ = release(lock) }, nil
}

// DropRunFolder removes a run's folder in which nothing came to be, and points the link to the
// newest run that is there: a run that could not begin hides none before it. One that holds
// something stays.
func DropRunFolder(folder string) error {
	if err := os.Remove(folder); err != nil {
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove the empty folder for evidence: %w", err)
	}
	out := filepath.Dir(folder)
	link := filepath.Join(out, latest)
	if to, err := os.Readlink(link); err != nil || to != filepath.Base(folder) {
		return nil //nolint:nilerr // it is another run's by now
	}
	if err := os.Remove(link); err != nil {
		return fmt.Errorf("link %s: %w", latest, err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("look for old evidence: %w", err)
	}
	for _, e := range slices.Backward(entries) { // sorted by name, so by time
		if e.IsDir() && runName.MatchString(e.Name()) {
			if err := os.Symlink(e.Name(), link); err != nil {
				return fmt.Errorf("link %s: %w", latest, err)
			}
			break
		}
	}
	return nil
}

// errNoLocks is that a file system has no locks, as some that are mounted over a network.
var errNoLocks = errors.New("the file system has no locks")

// flock is that of the system, which tests have fail.
var flock = syscall.Flock

// release lets go of a lock, if there is one.
func release(lock *os.File) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}

// lockFolder takes the lock of a run's folder, which ends with its process.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		for _, none := range []error{syscall.ENOLCK, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS} {
			if errors.Is(err, none) {
				err = errors.Join(errNoLocks, err)
				break
			}
		}
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: folder, Err: err}, f.Close())
	}
	return f, nil
}

// prune removes the folders of the oldest runs. One that is locked belongs to a
// run that goes on, or somebody else removes it just now.
func prune(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("look for old evidence: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || !runName.MatchString(e.Name()) })
	for i := range max(len(entries)-keepRuns, 0) { // ReadDir sorts by name, so by time
		folder := filepath.Join(out, entries[i].Name())
		lock, err := lockFolder(folder)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, errNoLocks) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(folder), lock.Close())
		}
		if err != nil {
			return fmt.Errorf("remove old evidence: %w", err)
		}
	}
	return nil
}

// scenarioFolder is where a test's evidence lies within the run's folder.
func scenarioFolder(run, name string) string {
	return filepath.Join(run, filepath.FromSlash(strings.ReplaceAll(name, ":", "-")))
}
