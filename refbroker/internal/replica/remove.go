package replica

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"watershed.example/refbroker/internal/quorum"
	"watershed.example/refbroker/internal/storage"
)

// remove deletes a partition that the quorum took away from this node.
func (m *Manager) remove(k key, p *Partition) error {
	m.mu.Lock()
	delete(m.parts, k)
	m.mu.Unlock()
	delete(m.seen, k)
	if err := p.close(false); err != nil {
		m.cfg.Logger.Warn("log to delete was not closed", "partition", p.Name(), "error", err)
	}
	m.cfg.Logger.Info("log of a partition that has no replica here any more is deleted", "partition", p.Name())
	return m.deleteLog(p.Name(), p.topicID)
}

// deleteLog deletes the folder of a partition, in two steps: half of one is
// never taken for a log.
func (m *Manager) deleteLog(name string, id [16]byte) error {
	delete(m.before.recovery, name)
	delete(m.before.high, name)
	delete(m.before.start, name)
	dir := filepath.Join(m.dir, name)
	gone := dir + "." + hex.EncodeToString(id[:]) + suffixDelete
	if err := m.fs.Rename(dir, gone); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	if err := m.fs.RemoveAll(gone); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// sweep deletes the logs of replicas that were taken away from this node while
// it was down. Only what the image itself assigns to other nodes goes: a topic
// that it does not know keeps its folders.
func (m *Manager) sweep(img *quorum.Image) error {
	entries, err := afero.ReadDir(m.fs, m.dir)
	if err != nil {
		return fmt.Errorf("logs folder %s: %w", m.dir, err)
	}
	var errs error
	for _, e := range entries {
		topic, index, ok := parsePartitionName(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		t, p, err := img.Partition(topic, index)
		if err != nil || slices.Contains(p.Replicas, m.cfg.NodeID) {
			continue
		}
		id, ok, err := storage.ReadTopicID(m.fs, filepath.Join(m.dir, e.Name()))
		if err != nil || !ok || id != t.ID {
			continue // whose it is can't be told, or it is another topic's
		}
		m.cfg.Logger.Info("log of a partition that was reassigned meanwhile is deleted", "partition", e.Name(), "replicas", p.Replicas)
		errs = errors.Join(errs, m.deleteLog(e.Name(), id))
	}
	return errs
}

// parsePartitionName is the reverse of partitionName.
func parsePartitionName(name string) (topic string, index int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || partitionName(name[:i], int32(n)) != name {
		return "", 0, false
	}
	return name[:i], int32(n), true
}
