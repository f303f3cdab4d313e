package storage

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/afero"
)

// fileCleaned says how far the cleaner has come. Kafka has one for all logs of
// a folder; ours lies beside each log, for it is written before the log is
// changed, and goes wherever the log goes.
const fileCleaned = "cleaner-offset-checkpoint"

// cleaned is how far compaction has come.
type cleaned struct {
	// dirty is the first offset that was not compacted.
	dirty int64
	// upTo is where segments that a compaction changed, or had begun to, end.
	upTo int64
	// forgotten is behind the last tombstone or marker that was removed since its
	// time had come, here or in the log that this one was copied from.
	forgotten int64
}

// CleanedUpTo is the offset below which the log's cleaner may have removed
// records: a log that is cut below it lacks what was compacted away (AL-1).
func (l *Log) CleanedUpTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cleaned.upTo
}

// ForgottenUpTo is the offset below which tombstones, or markers of transactions,
// may have been removed: a copy of the log that ends below it, and goes on from
// there, never hears of what they ended (AL-1).
func (l *Log) ForgottenUpTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cleaned.forgotten
}

// NoteForgotten says that the log is a copy of one in which tombstones and markers
// below offset may be gone.
func (l *Log) NoteForgotten(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	c := l.cleaned
	c.forgotten = max(c.forgotten, offset)
	return l.saveCleaned(c)
}

// saveCleaned notes how far compaction has come, on disk before in memory.
func (l *Log) saveCleaned(c cleaned) error {
	if c == l.cleaned {
		return nil
	}
	if err := WriteFileAtomic(l.fs, filepath.Join(l.dir, fileCleaned), fmt.Appendf(nil, "1\n%d %d %d\n", c.dirty, c.upTo, c.forgotten)); err != nil {
		return err
	}
	l.cleaned = c
	return nil
}

// cutCleaned lowers it to a log that was cut.
func (l *Log) cutCleaned(end int64) error {
	return l.saveCleaned(cleaned{dirty: min(l.cleaned.dirty, end), upTo: min(l.cleaned.upTo, end), forgotten: min(l.cleaned.forgotten, end)})
}

func loadCleaned(fsys afero.Fs, dir string) (c cleaned, err error) {
	name := filepath.Join(dir, fileCleaned)
	raw, err := readFileIfAny(fsys, name)
	if err != nil || raw == nil {
		return c, err
	}
	_, err = fmt.Sscanf(string(raw), "1\n%d %d %d\n", &c.dirty, &c.upTo, &c.forgotten)
	if err != nil {
		// Version 0 did not say what was forgotten: all that was cleaned may be.
		_, err = fmt.Sscanf(string(raw), "0\n%d %d\n", &c.dirty, &c.upTo)
		c.forgotten = c.upTo
	}
	if err != nil || c.dirty < 0 || c.upTo < c.dirty || c.forgotten < 0 {
		return c, fmt.Errorf("%s: %q: want version 1 and three offsets, the second not below the first", name, raw)
	}
	return c, nil
}
