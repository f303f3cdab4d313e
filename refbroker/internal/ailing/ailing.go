// Package ailing makes a node's machine fail while it runs: a disk without space, one
// that is slow to sync, a clock that is wrong. Tests ask for it by the test hooks; the
// broker behaves as it does then.
package ailing

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/host"
)

// Ailments are what is wrong with a machine; the zero value is nothing.
type Ailments struct {
	// DiskFull: what would take more space fails with ENOSPC, writes after the half.
	// What is there can be read, renamed, cut and removed.
	DiskFull bool `json:"diskFull,omitempty"`
	// SlowSync is how much longer each sync of a file takes, and of the quorum's log.
	SlowSync time.Duration `json:"slowSync,omitempty"`
	// ClockOffset is how far the wall clock is ahead.
	ClockOffset time.Duration `json:"clockOffset,omitempty"`
}

// Suffered counts what the broker met since it started.
type Suffered struct {
	WritesRefused int64 `json:"writesRefused"`
	SyncsSlowed   int64 `json:"syncsSlowed"`
	// WrongTimes is how often the clock was read while it was wrong.
	WrongTimes int64 `json:"wrongTimes"`
}

// Machine is a host that can ail.
type Machine struct {
	ailments                                atomic.Pointer[Ailments]
	writesRefused, syncsSlowed, wrongClocks atomic.Int64
}

// New makes a machine that is well.
func New() *Machine {
	m := &Machine{}
	m.ailments.Store(&Ailments{})
	return m
}

// Suffer makes the machine ail so from now on, and returns what the broker met so far.
func (m *Machine) Suffer(a Ailments) Suffered {
	m.ailments.Store(&a)
	return m.Suffered()
}

// Suffered is what the broker met so far.
func (m *Machine) Suffered() Suffered {
	return Suffered{m.writesRefused.Load(), m.syncsSlowed.Load(), m.wrongClocks.Load()}
}

// Host is h on this machine.
func (m *Machine) Host(h host.Host) host.Host {
	now, stores := h.Now, h.RaftStores
	h.FS = disk{h.FS, m}
	h.Now = func() time.Time {
		offset := m.ailments.Load().ClockOffset
		if offset != 0 {
			m.wrongClocks.Add(1)
		}
		return now().Add(offset)
	}
	h.RaftStores = func(dir string) (host.RaftStores, error) {
		s, err := stores(dir)
		if err == nil {
			s.Log = raftLog{s.Log, m}
		}
		return s, err
	}
	return h
}

// space is the error of what would take more of it, if there is none.
func (m *Machine) space(op, path string) error {
	if !m.ailments.Load().DiskFull {
		return nil
	}
	m.writesRefused.Add(1)
	return &os.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
}

// disk is a file system of the machine's.
type disk struct {
	afero.Fs
	m *Machine
}

func (d disk) Create(name string) (afero.File, error) {
	return d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile makes files ail that are written; others stay the system's own, which can
// be sent without a copy.
func (d disk) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if flag&os.O_CREATE != 0 {
		if there, err := afero.Exists(d.Fs, name); err == nil && !there {
			if err := d.m.space("open", name); err != nil {
				return nil, err
			}
		}
	}
	f, err := d.Fs.OpenFile(name, flag, perm)
	if err != nil || flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return f, err
	}
	return file{f, d.m}, nil
}

func (d disk) Mkdir(name string, perm os.FileMode) error {
	if err := d.m.space("mkdir", name); err != nil {
		return err
	}
	return d.Fs.Mkdir(name, perm)
}

func (d disk) MkdirAll(path string, perm os.FileMode) error {
	if there, err := afero.DirExists(d.Fs, path); err != nil || !there {
		if err := d.m.space("mkdir", path); err != nil {
			return err
		}
	}
	return d.Fs.MkdirAll(path, perm)
}

// file is one that is written.
type file struct {
	afero.File
	m *Machine
}

func (f file) Write(p []byte) (int, error) {
	if err := f.m.space("write", f.Name()); err != nil {
		n, werr := f.File.Write(p[:len(p)/2])
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return f.File.Write(p)
}

func (f file) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

func (f file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.m.space("write", f.Name()); err != nil {
		n, werr := f.File.WriteAt(p[:len(p)/2], off)
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f file) Sync() error {
	f.m.slow()
	return f.File.Sync()
}

// slow is how much longer a sync takes.
func (m *Machine) slow() {
	if d := m.ailments.Load().SlowSync; d > 0 {
		m.syncsSlowed.Add(1)
		time.Sleep(d)
	}
}

// raftLog is the log of the metadata quorum. Its votes lie in a store that has its
// space already.
type raftLog struct {
	raft.LogStore
	m *Machine
}

func (l raftLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

func (l raftLog) StoreLogs(logs []*raft.Log) error {
	if err := l.m.space("write", "the quorum's log"); err != nil {
		return err
	}
	l.m.slow() // a store syncs what it is given
	return l.LogStore.StoreLogs(logs)
}
