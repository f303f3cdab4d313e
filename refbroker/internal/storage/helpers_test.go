package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

var topicID = [16]byte{1, 2, 3}

// now is the wall clock of the tests: near the timestamps of their batches.
func now() time.Time { return time.UnixMilli(1_000_000) }

// data says what batch to build.
type data struct {
	pid    int64
	epoch  int16
	seq    int32
	n      int // records
	txn    bool
	time   int64
	size   int // of a record's value
	base   int64
	leader int32
}

// plain is a batch of n records without a producer.
func plain(n int) data { return data{pid: -1, epoch: -1, seq: -1, n: n, time: 1000} }

// by is a batch of producer pid.
func by(pid int64, epoch int16, seq int32, n int) data {
	return data{pid: pid, epoch: epoch, seq: seq, n: n, time: 1000}
}

func (d data) inTxn() data { d.txn = true; return d }

func (d data) at(base int64, leader int32) data { d.base, d.leader = base, leader; return d }

// build encodes the batch; record i has timestamp time+i.
func (d data) build() []byte {
	var records []byte
	for i := range d.n {
		var r []byte
		r = append(r, 0)
		r = binary.AppendVarint(r, int64(i))
		r = binary.AppendVarint(r, int64(i))
		r = binary.AppendVarint(r, -1)
		value := slices.Repeat([]byte{'v'}, d.size)
		r = binary.AppendVarint(r, int64(len(value)))
		r = append(r, value...)
		r = binary.AppendVarint(r, 0)
		records = binary.AppendVarint(records, int64(len(r)))
		records = append(records, r...)
	}
	be := binary.BigEndian
	var b []byte
	b = be.AppendUint64(b, uint64(d.base))
	b = be.AppendUint32(b, uint32(psm.HeaderSize-12+len(records)))
	b = be.AppendUint32(b, uint32(d.leader))
	b = append(b, 2)
	b = be.AppendUint32(b, 0)
	attrs := uint16(0)
	if d.txn {
		attrs |= 0x10
	}
	b = be.AppendUint16(b, attrs)
	b = be.AppendUint32(b, uint32(d.n-1))
	b = be.AppendUint64(b, uint64(d.time))
	b = be.AppendUint64(b, uint64(d.time+int64(d.n)-1))
	b = be.AppendUint64(b, uint64(d.pid))
	b = be.AppendUint16(b, uint16(d.epoch))
	b = be.AppendUint32(b, uint32(d.seq))
	b = be.AppendUint32(b, uint32(d.n))
	b = append(b, records...)
	setCRC(b)
	return b
}

func marker(pid int64, epoch int16, commit bool) []byte {
	return psm.EndTxnMarker{ProducerID: pid, ProducerEpoch: epoch, Commit: commit, Timestamp: 1000}.Append(nil)
}

func barrier(source string) []byte {
	return psm.Barrier{SourceClusterID: source, Timestamp: 1000}.Append(nil)
}

// place is a file system under test and the folder of the log in it.
type place struct {
	name string
	fs   afero.Fs
	dir  string
}

// places are the file systems that a log must work on.
func places(t testing.TB) []place {
	return []place{{"os", afero.NewOsFs(), filepath.Join(t.TempDir(), "t-0")}, {"memory", afero.NewMemMapFs(), "/data/t-0"}}
}

func onEach(t *testing.T, f func(t *testing.T, p place)) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) { f(t, p) })
	}
}

func small() Config { return Config{SegmentBytes: 1000, IndexInterval: 100, Now: now} }

func openLog(t testing.TB, p place, cfg Config, o OpenOptions) *Log {
	t.Helper()
	o.TopicID = topicID
	l, err := Open(p.fs, p.dir, cfg, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close(false) })
	return l
}

func lead(t testing.TB, l *Log, raw []byte, a psm.Append) Appended {
	t.Helper()
	res, err := l.AppendAsLeader(raw, 0, a)
	require.NoError(t, err)
	l.SetHighWatermark(res.LastOffset + 1)
	return res
}

var (
	client      = psm.Append{Origin: psm.Client}
	coordinator = psm.Append{Origin: psm.Coordinator}
)

// content is all raw bytes of the log's batches.
func content(t testing.TB, l *Log) []byte {
	t.Helper()
	m := l.Marks()
	var out []byte
	for at := m.LogStart; at < m.LogEnd; {
		raw, err := l.Read(at, m.LogEnd, 1<<20, true)
		require.NoError(t, err)
		if len(raw) == 0 {
			break
		}
		out = append(out, raw...)
		at = lastOf(t, raw) + 1
	}
	return out
}

func lastOf(t testing.TB, raw []byte) int64 {
	t.Helper()
	last := int64(-1)
	for len(raw) > 0 {
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		last = b.LastOffset
		raw = raw[b.Size:]
	}
	return last
}

// facts are all that a log says of itself.
type facts struct {
	marks     Marks
	bytes     string
	epochs    []EpochStart
	producers []psm.SnapshotEntry
	open      []psm.OpenTxn
	aborted   []psm.AbortedTxn
	barriers  []Barrier
}

func factsOf(t testing.TB, l *Log) facts {
	t.Helper()
	f := facts{marks: l.Marks(), bytes: string(content(t, l)), epochs: l.Epochs(), producers: l.state.SnapshotEntries(), open: l.OpenTransactions()}
	f.aborted = l.Aborted(nil, f.marks.LogStart, f.marks.LogEnd)
	f.barriers, _ = l.Barriers()
	if len(f.barriers) == 0 {
		f.barriers = nil
	}
	if len(f.epochs) == 0 {
		f.epochs = nil
	}
	return f
}

// replayed are the facts of a fresh log to which another's bytes were
// appended: what any way to the same bytes must lead to.
func replayed(t testing.TB, like facts, stops []psm.Stop) facts {
	t.Helper()
	l, err := Open(afero.NewMemMapFs(), "/replay-0", Config{Now: now}, OpenOptions{TopicID: topicID})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(false)) }()
	require.NoError(t, l.SetStops(stops))
	for raw := []byte(like.bytes); len(raw) > 0; {
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		_, err = l.AppendAsFollower(raw[:b.Size])
		require.NoError(t, err)
		raw = raw[b.Size:]
	}
	// The end may lie in a gap that compaction left.
	if like.marks.LogEnd > l.logEnd {
		l.logEnd = like.marks.LogEnd
		l.useStops()
		require.NoError(t, l.reload())
	}
	l.SetHighWatermark(like.marks.HighWatermark)
	return factsOf(t, l)
}

// copyTree copies the files of a folder to another file system.
func copyTree(t testing.TB, from afero.Fs, dir string, to afero.Fs, target string) {
	t.Helper()
	require.NoError(t, to.MkdirAll(target, 0o755))
	entries, err := afero.ReadDir(from, dir)
	require.NoError(t, err)
	for _, e := range entries {
		raw, err := afero.ReadFile(from, filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, afero.WriteFile(to, filepath.Join(target, e.Name()), raw, 0o644))
	}
}

// failingFs fails writes to log files while failing is set, after some bytes.
type failingFs struct {
	afero.Fs
	fail      func(name string) bool
	truncates bool // truncating fails too
}

var errDisk = errors.New("disk is full")

func (f *failingFs) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 && f.fail != nil && f.fail("open "+filepath.Base(name)) {
		return nil, fmt.Errorf("open %s: %w", name, errDisk)
	}
	file, err := f.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &failingFile{File: file, fs: f, name: filepath.Base(name)}, nil
}

func (f *failingFs) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

type failingFile struct {
	afero.File
	fs   *failingFs
	name string
}

func (f *failingFile) WriteAt(p []byte, off int64) (int, error) {
	if f.fs.fail != nil && f.fs.fail("write "+f.name) {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, errDisk
	}
	return f.File.WriteAt(p, off)
}

func (f *failingFile) Write(p []byte) (int, error) {
	if f.fs.fail != nil && f.fs.fail("write "+f.name) {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, errDisk
	}
	return f.File.Write(p)
}

func (f *failingFile) Truncate(size int64) error {
	if f.fs.truncates && f.fs.fail != nil && f.fs.fail("write "+f.name) {
		return errDisk
	}
	return f.File.Truncate(size)
}
