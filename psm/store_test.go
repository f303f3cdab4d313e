package psm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

// crashDir is a folder in memory that loses, in a crash, what was not synced,
// and can fail at the n-th operation.
type crashDir struct {
	files, durable map[string][]byte // content; durable: after a crash
	synced         map[string]bool   // content synced
	failAt, ops    int
}

var errCrash = errors.New("crash")

func newCrashDir() *crashDir {
	return &crashDir{files: map[string][]byte{}, durable: map[string][]byte{}, synced: map[string]bool{}}
}

func (d *crashDir) op() error {
	d.ops++
	if d.failAt > 0 && d.ops >= d.failAt {
		return errCrash
	}
	return nil
}

func (d *crashDir) Names() ([]string, error) {
	names := make([]string, 0, len(d.files))
	for n := range d.files {
		names = append(names, n)
	}
	return names, nil
}

func (d *crashDir) ReadFile(name string) ([]byte, error) {
	p, ok := d.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return slices.Clone(p), nil
}

func (d *crashDir) Create(name string) (psm.File, error) {
	if err := d.op(); err != nil {
		return nil, err
	}
	d.files[name] = nil
	d.synced[name] = false
	return &crashFile{d: d, name: name}, nil
}

func (d *crashDir) Rename(from, to string) error {
	if err := d.op(); err != nil {
		return err
	}
	d.files[to], d.synced[to] = d.files[from], d.synced[from]
	delete(d.files, from)
	return nil
}

func (d *crashDir) Remove(name string) error {
	if _, ok := d.files[name]; !ok {
		return fs.ErrNotExist
	}
	if err := d.op(); err != nil {
		return err
	}
	delete(d.files, name)
	return nil
}

func (d *crashDir) Sync() error {
	if err := d.op(); err != nil {
		return err
	}
	d.durable = map[string][]byte{}
	for n, p := range d.files {
		if !d.synced[n] {
			p = p[:len(p)/2] // whatever had reached the disk
		}
		d.durable[n] = slices.Clone(p)
	}
	return nil
}

// crash gives what a restart finds. The names may or may not have got to the
// disk; a file whose content was not synced may be cut.
func (d *crashDir) crash(namesKept bool) *crashDir {
	n := newCrashDir()
	files := d.durable
	if namesKept {
		files = d.files
	}
	for name, p := range files {
		if namesKept && !d.synced[name] {
			p = p[:len(p)/2]
		}
		n.files[name], n.synced[name] = slices.Clone(p), true
	}
	return n
}

type crashFile struct {
	d    *crashDir
	name string
}

func (f *crashFile) Write(p []byte) (int, error) {
	if err := f.d.op(); err != nil {
		return 0, err
	}
	f.d.files[f.name] = append(f.d.files[f.name], p...)
	return len(p), nil
}

func (f *crashFile) Sync() error {
	if err := f.d.op(); err != nil {
		return err
	}
	f.d.synced[f.name] = true
	return nil
}

func (f *crashFile) Close() error { return nil }

// Wherever a snapshot's write is cut off, a restart finds a state that is
// right: the new snapshot whole, or the old one and the log.
func TestSnapshotWriteIsCrashSafe(t *testing.T) {
	l := newLog(t, psm.Config{})
	l.append(psm.Client, data(0, 1, 0, 0, 1))
	for failAt := 1; ; failAt++ {
		d := newCrashDir()
		old := psm.NewSnapshots(d, nil)
		first := l.reopen(0, 1)
		require.NoError(t, old.Write(first))
		whole := newLog(t, psm.Config{})
		whole.append(psm.Client, data(0, 1, 0, 0, 1))
		whole.append(psm.Client, data(1, 2, 0, 0, 1))

		d.failAt, d.ops = failAt, 0
		err := old.Write(whole.state)
		for _, namesKept := range []bool{false, true} {
			again := d.crash(namesKept)
			var logged bytes.Buffer
			st := psm.NewSnapshots(again, slog.New(slog.NewTextHandler(&logged, nil)))
			s := psm.New(psm.Config{})
			require.NoError(t, s.Reload(st, psm.Reload{Target: 2, Replay: whole.replay}))
			require.Equal(t, whole.state.SnapshotEntries(), s.SnapshotEntries())
			require.Empty(t, logged.String(), "a snapshot under its own name is never damaged")
			names, err2 := again.Names()
			require.NoError(t, err2)
			for _, n := range names {
				_, ok := psm.ParseSnapshotName(n)
				require.True(t, ok, "left behind: %s", n)
			}
			if err == nil {
				require.Contains(t, names, psm.SnapshotName(2), "written means durable")
			}
		}
		if err == nil {
			require.Greater(t, failAt, 4)
			return
		}
		require.ErrorIs(t, err, errCrash)
	}
}

func TestDamagedSnapshotsAreSkipped(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":          func([]byte) []byte { return nil },
		"cut":            func(p []byte) []byte { return p[:len(p)-1] },
		"bit":            func(p []byte) []byte { p[20] ^= 1; return p },
		"version":        func(p []byte) []byte { p[1] = 2; return p },
		"trailing bytes": func(p []byte) []byte { return append(p, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			dir := t.TempDir()
			l := newLog(t, psm.Config{})
			l.snapshots = psm.NewSnapshots(psm.OSDir(dir), slog.New(slog.NewTextHandler(&logged, nil)))
			for i := range int32(4) {
				l.append(psm.Client, data(int64(i), 1, 0, i, 1))
				require.NoError(t, l.snapshots.Write(l.state))
			}
			for _, o := range []int64{3, 4} {
				file := filepath.Join(dir, psm.SnapshotName(o))
				p, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, damage(p), 0o600))
			}
			s := l.reopen(0, 4)
			require.Equal(t, l.state.SnapshotEntries(), s.SnapshotEntries())
			offsets, err := l.snapshots.Offsets()
			require.NoError(t, err)
			require.Equal(t, []int64{1, 2}, offsets)
			require.Equal(t, 2, bytes.Count(logged.Bytes(), []byte("level=WARN")))
		})
	}
}

func TestReloadChoosesSnapshots(t *testing.T) {
	l := newLog(t, psm.Config{})
	for i := range int32(10) {
		l.append(psm.Client, data(int64(i), int64(i), 0, 0, 1))
		if i%2 == 1 {
			require.NoError(t, l.snapshots.Write(l.state))
		}
	}
	from := int64(-1)
	replay := func(f, to int64, each func(*psm.Batch) error) error { from = f; return l.replay(f, to, each) }
	s := psm.New(psm.Config{})
	require.NoError(t, s.Reload(l.snapshots, psm.Reload{LogStart: 3, Target: 7, Replay: replay}))
	require.Equal(t, int64(6), from)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, ids(s))
	offsets, err := l.snapshots.Offsets()
	require.NoError(t, err)
	require.Equal(t, []int64{4, 6}, offsets)

	// A failing log leaves the state alone.
	before := s.SnapshotEntries()
	boom := errors.New("boom")
	err = s.Reload(l.snapshots, psm.Reload{Target: 7, Replay: func(int64, int64, func(*psm.Batch) error) error { return boom }})
	require.ErrorIs(t, err, boom)
	require.Equal(t, before, s.SnapshotEntries())
	require.Equal(t, int64(7), s.End())
	require.ErrorIs(t, s.Reload(l.snapshots, psm.Reload{LogStart: 8, Target: 7}), psm.ErrOffsetOrder)

	require.NoError(t, l.snapshots.DeleteBefore(6))
	require.NoError(t, l.snapshots.DeleteAfter(5))
	offsets, err = l.snapshots.Offsets()
	require.NoError(t, err)
	require.Empty(t, offsets)
	s.TruncateFully(20)
	require.Empty(t, s.Producers())
	require.Equal(t, int64(20), s.End())
}

func TestSnapshotLeavesOutIdleProducers(t *testing.T) {
	l := newLog(t, psm.Config{ExpirationMs: 100})
	l.append(psm.Replication, data(0, 1, 0, 0, 1), txn(1, 2, 0, 0, 1), data(50, 3, 0, 0, 1))
	require.NoError(t, l.snapshots.Write(l.state))
	s := psm.New(psm.Config{ExpirationMs: 100})
	require.NoError(t, s.Reload(l.snapshots, psm.Reload{Target: 51, NowMs: 1101, Replay: l.replay}))
	require.Equal(t, []int64{2, 3}, ids(s))
	first, ok := s.FirstUnstable()
	require.True(t, ok)
	require.Equal(t, int64(1), first)
}

func TestSnapshotNames(t *testing.T) {
	require.Equal(t, "00000000000000000042.snapshot", psm.SnapshotName(42))
	for name, want := range map[string]bool{
		"00000000000000000042.snapshot": true, "42.snapshot": false, "00000000000000000042.log": false,
		"99999999999999999999.snapshot": false, "0000000000000000004x.snapshot": false, "": false,
		"00000000000000000042.snapshot.tmp": false, "-0000000000000000042.snapshot": false,
	} {
		_, ok := psm.ParseSnapshotName(name)
		require.Equal(t, want, ok, name)
	}
}

// fixCRC makes a snapshot's version and checksum right.
func fixCRC(p []byte) {
	p[0], p[1] = 0, 1
	binary.BigEndian.PutUint32(p[2:], crc32.Checksum(p[6:], crc32.MakeTable(crc32.Castagnoli)))
}

// A log that begins inside a batch: what it opens lies before what a snapshot
// at the log's start holds open.
func TestReloadFromInsideABatch(t *testing.T) {
	l := newLog(t, psm.Config{})
	l.append(psm.Replication, data(0, -1, -1, -1, 4), txn(4, 1, 0, 0, 1))
	require.NoError(t, l.snapshots.Write(l.state))
	l.batches = []psm.Batch{*txn(3, 2, 0, 0, 4)}
	s := l.reopen(5, 7)
	require.Equal(t, []psm.OpenTxn{
		{ProducerID: 2, FirstOffset: 3, LastTimestamp: 1003},
		{ProducerID: 1, FirstOffset: 4, LastTimestamp: 1004},
	}, s.OpenTransactions())
	done := apply(t, s, psm.Coordinator, marker(7, 1, 0, 0, true))
	require.Equal(t, []psm.Completed{{ProducerID: 1, FirstOffset: 4, LastOffset: 7, LSO: 3}}, done)
	first, ok := s.FirstUnstable()
	require.True(t, ok)
	require.Equal(t, int64(3), first)
}

// What a replay gives beyond what was asked for is not taken.
func TestReloadStopsAtTarget(t *testing.T) {
	l := newLog(t, psm.Config{})
	for i := range int32(10) {
		l.append(psm.Client, data(int64(i), int64(i), 0, 0, 1))
		if i == 3 {
			require.NoError(t, l.snapshots.Write(l.state))
		}
	}
	s := psm.New(psm.Config{})
	require.NoError(t, s.Reload(l.snapshots, psm.Reload{
		Target: 7, Replay: func(_, _ int64, each func(*psm.Batch) error) error { return l.replay(0, 10, each) },
	}))
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, ids(s))
	require.Equal(t, int64(7), s.End())
}
