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
}

// CleanedUpTo is the offset below which the log's cleaner may have removed
// records: a log that is cut below it lacks what was compacted away (AL-1).
func (l *Log) CleanedUpTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cleaned.upTo
}

// saveCleaned notes how far compaction has come, on disk before in memory.
func (l *Log) saveCleaned(c cleaned) error {
	if c == l.cleaned {
		return nil
	}
	if err := WriteFileAtomic(l.fs, filepath.Join(l.dir, fileCleaned), fmt.Appendf(nil, "0\n%d %d\n", c.dirty, c.upTo)); err != nil {
		return err
	}
	l.cleaned = c
	return nil
}

// cutCleaned lowers it to a log that was cut.
func (l *Log) cutCleaned(end int64) error {
	return l.saveCleaned(cleaned{dirty: min(l.cleaned.dirty, end), upTo: min(l.cleaned.upTo, end)})
}

func loadCleaned(fsys afero.Fs, dir string) (c cleaned, err error) {
	name := filepath.Join(dir, fileCleaned)
	raw, err := readFileIfAny(fsys, name)
	if err != nil || raw == nil {
		return c, err
	}
	if _, err := fmt.Sscanf(string(raw), "0\n%d %d\n", &c.dirty, &c.upTo); err != nil || c.dirty < 0 || c.upTo < c.dirty {
		return c, fmt.Errorf("%s: %q: want version 0 and two offsets that rise", name, raw)
	}
	return c, nil
}
