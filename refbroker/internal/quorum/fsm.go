package quorum

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// version is one image and the channel that the next one closes.
type version struct {
	img  *Image
	next chan struct{}
}

// machine is the raft state machine: an image that commands replace. Raft
// calls it from one goroutine; Node.follow reads the current version.
type machine struct {
	log     *slog.Logger
	current atomic.Pointer[version]
	// broken is set once, when the log holds something that this build can't
	// follow.
	broken atomic.Pointer[error]
}

func newMachine(clusterID string, log *slog.Logger) *machine {
	m := &machine{log: log}
	m.current.Store(&version{img: NewImage(clusterID), next: make(chan struct{})})
	return m
}

// outcome is what Apply gives to the proposer.
type outcome struct {
	result any
	err    error
}

// Apply runs one committed command.
func (m *machine) Apply(l *raft.Log) any {
	if e := m.broken.Load(); e != nil {
		return outcome{err: *e}
	}
	c, err := Decode(l.Data)
	if err != nil {
		err = fmt.Errorf("metadata record %d: %w", l.Index, err)
		m.log.Error("metadata can't be followed any further", "error", err)
		m.broken.Store(&err)
		m.publish(m.current.Load().img.clone())
		return outcome{err: err}
	}
	before := m.current.Load().img
	next, result, err := c.apply(before)
	if err != nil {
		next, result = before, nil
	}
	next = next.clone()
	next.Index = l.Index
	m.publish(next)
	return outcome{result: result, err: err}
}

// publish makes img the current one and wakes the node.
func (m *machine) publish(img *Image) {
	old := m.current.Swap(&version{img: img, next: make(chan struct{})})
	close(old.next)
}

// Snapshot hands out the image, which never changes.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	return imageSnapshot{m.current.Load().img}, nil
}

// Restore replaces the image by a snapshot's.
func (m *machine) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }()
	img := NewImage("")
	if err := json.NewDecoder(r).Decode(img); err != nil {
		return fmt.Errorf("restore metadata snapshot: %w", err)
	}
	m.publish(img)
	return nil
}

// imageSnapshot is a snapshot in the making.
type imageSnapshot struct{ img *Image }

// Persist writes the image as JSON.
func (s imageSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := json.NewEncoder(sink).Encode(s.img); err != nil {
		_ = sink.Cancel()
		return fmt.Errorf("write metadata snapshot: %w", err)
	}
	return sink.Close()
}

// Release has nothing to release.
func (imageSnapshot) Release() {}
