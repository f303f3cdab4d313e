package replica

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/storage"
)

// marks are the checkpoints of a node's logs, by partition name: up to where
// each is on disk, its high watermark, and its start.
type marks struct{ recovery, high, start map[string]int64 }

// Names of the checkpoint files, Kafka's.
const (
	fileRecovery = "recovery-point-offset-checkpoint"
	fileHigh     = "replication-offset-checkpoint"
	fileStart    = "log-start-offset-checkpoint"
)

func loadMarks(fsys afero.Fs, dir string) (m marks, err error) {
	for _, f := range []struct {
		name string
		into *map[string]int64
	}{{fileRecovery, &m.recovery}, {fileHigh, &m.high}, {fileStart, &m.start}} {
		name := filepath.Join(dir, f.name)
		raw, err := afero.ReadFile(fsys, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
		if *f.into, err = parseOffsets(raw); err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
	}
	return m, nil
}

// parseOffsets reads a checkpoint: a version line (0), the number of entries,
// then one "topic partition offset" a line. No content is no entry.
func parseOffsets(raw []byte) (map[string]int64, error) {
	out := map[string]int64{}
	if len(raw) == 0 {
		return out, nil
	}
	sc := bufio.NewScanner(bytes.NewReader(raw))
	if !sc.Scan() || sc.Text() != "0" {
		return nil, fmt.Errorf("version %q, want 0", sc.Text())
	}
	if !sc.Scan() {
		return nil, errors.New("no count")
	}
	n, err := strconv.Atoi(sc.Text())
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) != 3 {
			return nil, fmt.Errorf("entry %q", sc.Text())
		}
		index, err := strconv.ParseInt(f[1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", sc.Text(), err)
		}
		offset, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", sc.Text(), err)
		}
		out[partitionName(f[0], int32(index))] = offset
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if len(out) != n {
		return nil, fmt.Errorf("%d entries, want %d", len(out), n)
	}
	return out, nil
}

// saveMarks writes the checkpoints of all partitions.
func (m *Manager) saveMarks() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	return m.saveMarksLocked()
}

func (m *Manager) saveMarksLocked() error {
	next := marks{map[string]int64{}, map[string]int64{}, map[string]int64{}}
	var recovery, high, start bytes.Buffer
	parts := m.All()
	starts := 0
	for _, p := range parts {
		o := p.log.Marks()
		point := p.log.RecoveryPoint()
		if p.ReadOnly() {
			// A stop cuts to the last stable offset. To have recovery read again what
			// lies above it is cheaper than a new checkpoint for each partition that
			// stops (OPS-3).
			point = min(point, o.LastStable)
		}
		next.recovery[p.Name()], next.high[p.Name()] = point, o.HighWatermark
		fmt.Fprintf(&recovery, "%s %d %d\n", p.topic, p.index, point)
		fmt.Fprintf(&high, "%s %d %d\n", p.topic, p.index, o.HighWatermark)
		if o.LogStart > 0 {
			starts++
			next.start[p.Name()] = o.LogStart
			fmt.Fprintf(&start, "%s %d %d\n", p.topic, p.index, o.LogStart)
		}
	}
	for _, f := range []struct {
		name    string
		n       int
		entries []byte
	}{{fileStart, starts, start.Bytes()}, {fileHigh, len(parts), high.Bytes()}, {fileRecovery, len(parts), recovery.Bytes()}} {
		content := append(fmt.Appendf(nil, "0\n%d\n", f.n), f.entries...)
		if err := storage.WriteFileAtomic(m.fs, filepath.Join(m.dir, f.name), content); err != nil {
			return err
		}
	}
	m.saved = next
	return nil
}

// lowered makes sure that no checkpoint says of a log that was cut that more
// of it is on disk than is there: recovery would trust what is written behind
// the cut.
func (m *Manager) lowered(p *Partition) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	// Who waited for the lock may find that another's checkpoints have its cut too.
	if m.saved.recovery[p.Name()] <= p.log.Marks().LogEnd {
		return nil
	}
	return m.saveMarksLocked()
}
