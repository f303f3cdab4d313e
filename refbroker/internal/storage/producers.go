package storage

import (
	"fmt"

	"github.com/spf13/afero"

	"watershed.example/psm"
)

// snapshotDir is a log's folder as psm wants to see it.
type snapshotDir struct {
	fs  afero.Fs
	dir string
}

var _ psm.Dir = snapshotDir{}

func (d snapshotDir) path(name string) string { return d.dir + afero.FilePathSeparator + name }

// Names implements psm.Dir.
func (d snapshotDir) Names() ([]string, error) { return folderNames(d.fs, d.dir) }

// ReadFile implements psm.Dir.
func (d snapshotDir) ReadFile(name string) ([]byte, error) {
	return afero.ReadFile(d.fs, d.path(name))
}

// Create implements psm.Dir.
func (d snapshotDir) Create(name string) (psm.File, error) { return d.fs.Create(d.path(name)) }

// Rename implements psm.Dir.
func (d snapshotDir) Rename(from, to string) error { return d.fs.Rename(d.path(from), d.path(to)) }

// Remove implements psm.Dir.
func (d snapshotDir) Remove(name string) error { return d.fs.Remove(d.path(name)) }

// Sync implements psm.Dir.
func (d snapshotDir) Sync() error { return SyncDir(d.fs, d.dir) }

func folderNames(fsys afero.Fs, dir string) ([]string, error) {
	f, err := fsys.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return names, err
}

// snapshot writes the producer state beside the log, unless that was done.
func (l *Log) snapshot() error {
	if l.state.End() == l.lastSnapshot {
		return nil
	}
	// Recovery believes the transaction index up to the newest snapshot.
	if err := l.active().syncAborted(); err != nil {
		return err
	}
	if err := l.snapshots.Write(l.state); err != nil {
		return err
	}
	l.lastSnapshot = l.state.End()
	return nil
}

// reload makes the producer state anew from the newest usable snapshot and
// the log. If it can't, the log is broken: its state would not be the log's.
func (l *Log) reload() error {
	err := l.state.Reload(l.snapshots, l.reloadTo(nil))
	if err == nil {
		err = l.findLastSnapshot()
	}
	if err != nil {
		return l.noteBroken(fmt.Errorf("%w: %w", errBroken, err))
	}
	l.setHighWatermark(l.highWater)
	return nil
}

func (l *Log) findLastSnapshot() error {
	offsets, err := l.snapshots.Offsets()
	if err != nil {
		return err
	}
	l.lastSnapshot = -1
	if n := len(offsets); n > 0 {
		l.lastSnapshot = offsets[n-1]
	}
	return nil
}

func (l *Log) reloadTo(completed func(psm.Completed) error) psm.Reload {
	return psm.Reload{
		LogStart:  l.logStart,
		Target:    l.logEnd,
		NowMs:     l.cfg.Now().UnixMilli(),
		Replay:    l.replay,
		Completed: completed,
	}
}

// replay goes through the batches of [from, to). Under mu.
func (l *Log) replay(from, to int64, each func(*psm.Batch) error) error {
	for i, s := range l.segments {
		if s.base >= to || i+1 < len(l.segments) && l.segments[i+1].base <= from {
			continue
		}
		sc := newScanner(s.r, positionFor(s.index, from-s.base), s.size, false)
		for sc.next() {
			if sc.b.LastOffset < from {
				continue
			}
			if sc.b.LastOffset >= to {
				break
			}
			if err := each(&sc.b); err != nil {
				return err
			}
		}
		if err := sc.failure(); err != nil {
			return fmt.Errorf("segment %s: %w", s.file(suffixLog), err)
		}
	}
	return nil
}

// StartVerification begins the verification of a transactional batch with its
// coordinator (KIP-890): the guard goes with the append. ongoing means that
// the transaction is open in this log, and needs none.
func (l *Log) StartVerification(v psm.Verification) (guard psm.Guard, ongoing bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, false, err
	}
	if guard, err = l.state.StartVerification(v); err != nil {
		return 0, false, withCode(err)
	}
	return guard, guard == 0, nil
}

// ExpireProducers forgets producers that were idle for producer.id.expiration.ms.
func (l *Log) ExpireProducers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() != nil {
		return 0
	}
	return l.state.Expire(l.cfg.Now().UnixMilli())
}

// OpenTransactions lists the transactions without a marker.
func (l *Log) OpenTransactions() []psm.OpenTxn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.OpenTransactions()
}
