package torture

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/spf13/afero"
)

// errCrashed is what a node of a process that is over gets from its disk.
var errCrashed = errors.New("the process has crashed")

// disk is a node's disk in memory. It outlives the node's processes, each of
// which has a view of it; and it knows how much of each file is synced, so that
// a crash can be a loss of power.
type disk struct {
	base afero.Fs

	mu     sync.Mutex // never held while waiting
	synced map[string]int64
}

func newDisk() *disk { return &disk{base: afero.NewMemMapFs(), synced: map[string]int64{}} }

// losePower takes from the files what was not synced, or a part of that. Names
// are never lost: a journal keeps those.
func (d *disk) losePower(rng *rand.Rand) error {
	return afero.Walk(d.base, "/", func(name string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		d.mu.Lock()
		synced := min(d.synced[name], info.Size())
		d.mu.Unlock()
		if synced == info.Size() {
			return nil
		}
		f, err := d.base.OpenFile(name, os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		keep := synced + rng.Int64N(info.Size()-synced+1)
		if err := f.Truncate(keep); err != nil {
			return err
		}
		if rng.IntN(3) > 0 || keep == info.Size() {
			return nil
		}
		// The size was on disk, the data was not.
		_, err = f.WriteAt(make([]byte, rng.Int64N(info.Size()-keep)+1), keep)
		return err
	})
}

// view is the disk as one process has it: from its crash on nothing that the
// process does gets there.
type view struct {
	afero.Fs
	disk *disk

	mu      sync.Mutex // never held while waiting
	crashed bool
	// left is after how many changes the process crashes, 0 for never; crash
	// is told then.
	left  int
	torn  float64 // how much of the last write gets there
	crash func()
}

func (d *disk) view() *view { return &view{Fs: d.base, disk: d, crash: func() {}} }

// end lets nothing through any more.
func (v *view) end() {
	v.mu.Lock()
	v.crashed = true
	v.mu.Unlock()
}

// crashAfter ends the process at the nth change from now, in the middle of it.
func (v *view) crashAfter(n int, torn float64, crash func()) {
	v.mu.Lock()
	v.left, v.torn, v.crash = n, torn, crash
	v.mu.Unlock()
}

// change is asked before each change. It returns how many of n bytes get there.
func (v *view) change(n int) (int, error) {
	v.mu.Lock()
	if v.crashed {
		v.mu.Unlock()
		return 0, errCrashed
	}
	if v.left == 0 || v.left > 1 {
		v.left = max(0, v.left-1)
		v.mu.Unlock()
		return n, nil
	}
	v.left, v.crashed = 0, true
	crash := v.crash
	v.mu.Unlock()
	crash()
	return int(v.torn * float64(n)), errCrashed
}

func (v *view) do(f func() error) error {
	if _, err := v.change(0); err != nil {
		return err
	}
	return f()
}

func (v *view) Name() string { return "disk" }

func (v *view) Create(name string) (afero.File, error) {
	return v.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (v *view) Open(name string) (afero.File, error) { return v.OpenFile(name, os.O_RDONLY, 0) }

func (v *view) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		if _, err := v.change(0); err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		if flag&os.O_TRUNC != 0 {
			v.disk.note(name, 0, true)
		}
	}
	f, err := v.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: f, view: v, name: name}, nil
}

func (v *view) Mkdir(name string, perm os.FileMode) error {
	return v.do(func() error { return v.Fs.Mkdir(name, perm) })
}

func (v *view) MkdirAll(name string, perm os.FileMode) error {
	return v.do(func() error { return v.Fs.MkdirAll(name, perm) })
}

func (v *view) Remove(name string) error {
	return v.do(func() error {
		v.disk.note(name, 0, true)
		return v.Fs.Remove(name)
	})
}

func (v *view) RemoveAll(name string) error {
	return v.do(func() error { return v.Fs.RemoveAll(name) })
}

func (v *view) Rename(from, to string) error {
	return v.do(func() error {
		v.disk.move(from, to)
		return v.Fs.Rename(from, to)
	})
}

func (v *view) Chmod(name string, mode os.FileMode) error {
	return v.do(func() error { return v.Fs.Chmod(name, mode) })
}

func (v *view) Chown(name string, uid, gid int) error {
	return v.do(func() error { return v.Fs.Chown(name, uid, gid) })
}

func (v *view) Chtimes(name string, atime, mtime time.Time) error {
	return v.do(func() error { return v.Fs.Chtimes(name, atime, mtime) })
}

// note says that a file is synced up to size, or with atMost no further.
func (d *disk) note(name string, size int64, atMost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if atMost {
		size = min(size, d.synced[name])
	}
	d.synced[name] = size
}

// move takes along what is known of a file, or of all in a folder.
func (d *disk) move(from, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	moved := map[string]int64{}
	for name, n := range d.synced {
		if name == from {
			moved[to] = n
		} else if len(name) > len(from) && name[:len(from)] == from && name[len(from)] == '/' {
			moved[to+name[len(from):]] = n
		} else {
			continue
		}
		delete(d.synced, name)
	}
	if _, ok := moved[to]; !ok {
		delete(d.synced, to)
	}
	for name, n := range moved {
		d.synced[name] = n
	}
}

// file is one open file of a view.
type file struct {
	afero.File
	view *view
	name string
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.view.change(len(p))
	if err != nil {
		_, _ = f.File.Write(p[:n])
		return 0, err
	}
	return f.File.Write(p)
}

func (f *file) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.view.change(len(p))
	if n > 0 {
		f.view.disk.note(f.name, off, true)
	}
	if err != nil {
		_, _ = f.File.WriteAt(p[:n], off)
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *file) Truncate(size int64) error {
	return f.view.do(func() error {
		f.view.disk.note(f.name, size, true)
		return f.File.Truncate(size)
	})
}

func (f *file) Sync() error {
	return f.view.do(func() error {
		if info, err := f.Stat(); err == nil && !info.IsDir() {
			f.view.disk.note(f.name, info.Size(), false)
		}
		return f.File.Sync()
	})
}
