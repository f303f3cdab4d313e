package quorum

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"github.com/spf13/afero"
)

// keptSnapshots is how many snapshots stay; an older one serves when the
// newest can't be read.
const keptSnapshots = 2

// snapshotStore keeps raft's snapshots on the host's file system, each in a
// file "INDEX-TERM.snapshot": one line of JSON about it, then its bytes. It
// replaces raft's own store, which knows the operating system's files only.
type snapshotStore struct {
	fs  afero.Fs
	dir string
}

// snapshotHead is the first line of a snapshot's file.
type snapshotHead struct {
	Meta  raft.SnapshotMeta `json:"meta"`
	CRC32 uint32            `json:"crc32"`
}

func newSnapshotStore(fs afero.Fs, dir string) (*snapshotStore, error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("metadata snapshots: %w", err)
	}
	return &snapshotStore{fs: fs, dir: dir}, nil
}

const snapshotSuffix = ".snapshot"

// Create begins a snapshot. Metadata is small: it is gathered in memory and
// written whole.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &snapshotSink{store: s, meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%020d-%020d", index, term), Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// List lists the usable snapshots, the newest first.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	infos, err := afero.ReadDir(s.fs, s.dir)
	if err != nil {
		return nil, fmt.Errorf("metadata snapshots: %w", err)
	}
	var metas []*raft.SnapshotMeta
	for _, info := range infos {
		id, ok := strings.CutSuffix(info.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		if meta, _, err := s.read(id); err == nil {
			metas = append(metas, meta)
		}
	}
	slices.SortFunc(metas, func(a, b *raft.SnapshotMeta) int { return cmp.Compare(b.ID, a.ID) })
	return metas, nil
}

// Open reads one snapshot.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, data, err := s.read(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, io.NopCloser(strings.NewReader(string(data))), nil
}

func (s *snapshotStore) path(id string) string { return filepath.Join(s.dir, id+snapshotSuffix) }

func (s *snapshotStore) read(id string) (*raft.SnapshotMeta, []byte, error) {
	raw, err := afero.ReadFile(s.fs, s.path(id))
	if err != nil {
		return nil, nil, fmt.Errorf("metadata snapshot %s: %w", id, err)
	}
	line, data, _ := strings.Cut(string(raw), "\n")
	var head snapshotHead
	if err := json.Unmarshal([]byte(line), &head); err != nil {
		return nil, nil, fmt.Errorf("metadata snapshot %s: %w", id, err)
	}
	if int64(len(data)) != head.Meta.Size || crc32.ChecksumIEEE([]byte(data)) != head.CRC32 {
		return nil, nil, fmt.Errorf("metadata snapshot %s: damaged", id)
	}
	return &head.Meta, []byte(data), nil
}

// write stores a snapshot so that it is there whole or not at all, and then
// drops the oldest.
func (s *snapshotStore) write(meta raft.SnapshotMeta, data []byte) error {
	meta.Size = int64(len(data))
	line, err := json.Marshal(snapshotHead{Meta: meta, CRC32: crc32.ChecksumIEEE(data)})
	if err != nil {
		return fmt.Errorf("metadata snapshot %s: %w", meta.ID, err)
	}
	if err := writeSynced(s.fs, s.path(meta.ID), append(append(line, '\n'), data...)); err != nil {
		return fmt.Errorf("metadata snapshot %s: %w", meta.ID, err)
	}
	metas, err := s.List()
	if err != nil {
		return err
	}
	for _, old := range metas[min(keptSnapshots, len(metas)):] {
		err = errors.Join(err, s.fs.Remove(s.path(old.ID)))
	}
	return err
}

// writeSynced replaces a file's content durably: temporary file, sync, rename,
// sync of the folder.
func writeSynced(fs afero.Fs, path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := fs.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := fs.Rename(tmp, path); err != nil {
		return err
	}
	d, err := fs.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// snapshotSink gathers one snapshot.
type snapshotSink struct {
	store *snapshotStore
	meta  raft.SnapshotMeta
	data  []byte
	done  bool
}

// ID is the snapshot's name.
func (s *snapshotSink) ID() string { return s.meta.ID }

// Write gathers bytes.
func (s *snapshotSink) Write(p []byte) (int, error) {
	s.data = append(s.data, p...)
	return len(p), nil
}

// Close stores the snapshot.
func (s *snapshotSink) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	return s.store.write(s.meta, s.data)
}

// Cancel drops it.
func (s *snapshotSink) Cancel() error {
	s.done, s.data = true, nil
	return nil
}
