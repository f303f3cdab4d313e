package replica

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
	"watershed.example/refbroker/internal/host"
	"watershed.example/refbroker/internal/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	node   = int32(1)
	source = "o5jt3v-4S1Sc3Mw97_PqJw"
)

// records is a whole batch as a client sends it; pid < 0 is a plain producer.
func records(pid int64, epoch int16, seq int32, txn bool, values ...string) []byte {
	b := kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: int32(len(values) - 1), ProducerID: pid, ProducerEpoch: epoch, FirstSequence: seq,
		NumRecords: int32(len(values)), FirstTimestamp: 1000, MaxTimestamp: 1000,
	}
	if pid < 0 {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	}
	if txn {
		b.Attributes = 0x10
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func plain(values ...string) []byte { return records(-1, 0, 0, false, values...) }

// at places a batch, as a source's leader did.
func at(raw []byte, base int64, epoch int32) []byte {
	psm.SetOffsets(raw, base, epoch)
	return raw
}

// world is a node's replicas under an image that tests edit.
type world struct {
	t     *testing.T
	fs    afero.Fs
	m     *Manager
	index uint64
	tops  map[string]*quorum.Topic
	set   defect.Set
}

func newWorld(t *testing.T, defects ...string) *world {
	set, err := defect.Parse(defects)
	require.NoError(t, err)
	w := &world{t: t, fs: afero.NewMemMapFs(), tops: map[string]*quorum.Topic{}, set: set}
	w.start()
	t.Cleanup(func() { require.NoError(t, w.m.Close(false)) })
	return w
}

func (w *world) start() {
	m, err := NewManager(Config{
		Host: host.Host{FS: w.fs, Now: func() time.Time { return time.UnixMilli(1_000_000) }}, NodeID: node, Dir: "/data/logs", Defects: w.set,
	})
	require.NoError(w.t, err)
	w.m = m
}

func (w *world) restart(clean bool) {
	require.NoError(w.t, w.m.Close(clean))
	w.start()
	w.apply()
}

func (w *world) apply() {
	w.index++
	require.NoError(w.t, w.m.Apply(&quorum.Image{Index: w.index, Topics: maps.Clone(w.tops)}))
}

// topic makes a topic with one partition whose replicas are given.
func (w *world) topic(name string, configs map[string]string, replicas ...int32) *Partition {
	w.tops[name] = &quorum.Topic{
		Name: name, ID: [16]byte{1, byte(len(w.tops))}, Configs: configs,
		Partitions: []*quorum.Partition{{Replicas: replicas, ISR: replicas, Leader: replicas[0], Mirror: quorum.MirrorPartition{State: quorum.Unknown}}},
	}
	w.apply()
	return w.get(name)
}

func (w *world) get(name string) *Partition {
	p, ok := w.m.Get(name, 0)
	require.True(w.t, ok)
	return p
}

// edit changes a topic's one partition, as a quorum command does: by copies.
func (w *world) edit(name string, f func(*quorum.Topic, *quorum.Partition)) {
	t := *w.tops[name]
	p := *t.Partitions[0]
	p.ISR, p.Mirror.Stops = slices.Clone(p.ISR), slices.Clone(p.Mirror.Stops)
	f(&t, &p)
	t.Partitions = []*quorum.Partition{&p}
	w.tops[name] = &t
	w.apply()
}

// mirrored starts a mirror on the topic, aligned at its log's end.
func (w *world) mirrored(name string, leaderEpoch int32) *Partition {
	w.edit(name, func(t *quorum.Topic, p *quorum.Partition) {
		t.Mirror, p.Mirror.State, p.Mirror.Aligned, p.LeaderEpoch = "m", quorum.Mirroring, true, leaderEpoch
	})
	return w.get(name)
}

func values(t *testing.T, raw []byte) []string {
	t.Helper()
	var out []string
	for len(raw) > 0 {
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		require.NoError(t, psm.CheckCRC(raw))
		if b.IsControl() {
			out = append(out, fmt.Sprintf("%d:%s", b.BaseOffset, b.Control.Type))
		} else {
			var kb kmsg.RecordBatch
			require.NoError(t, kb.ReadFrom(raw[:b.Size]))
			rest := kb.Records
			for range kb.NumRecords {
				var r kmsg.Record
				size, n := binary.Varint(rest)
				require.NoError(t, r.ReadFrom(rest[:n+int(size)]))
				rest = rest[n+int(size):]
				out = append(out, fmt.Sprintf("%d:%s", b.BaseOffset+int64(r.OffsetDelta), r.Value))
			}
		}
		raw = raw[b.Size:]
	}
	return out
}

// all is what a consumer of isolation level read_uncommitted sees.
func all(t *testing.T, p *Partition) []string {
	t.Helper()
	return values(t, read(t, p, consumer(0)).Raw)
}

func consumer(offset int64) ReadOptions {
	return ReadOptions{Offset: offset, MaxBytes: 1 << 20, MinOne: true, ReplicaID: -1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}
}

func read(t *testing.T, p *Partition, o ReadOptions) ReadResult {
	t.Helper()
	res, err := p.Read(o)
	require.NoError(t, err)
	return res
}

func anyEpoch(purpose Purpose) AppendOptions {
	return AppendOptions{Purpose: purpose, LeaderEpoch: -1}
}

func add(t *testing.T, p *Partition, raw []byte, o AppendOptions) AppendResult {
	t.Helper()
	res, err := p.Append(t.Context(), raw, o)
	require.NoError(t, err)
	return res
}

func marker(pid int64, epoch int16, commit bool) []byte {
	return psm.EndTxnMarker{ProducerID: pid, ProducerEpoch: epoch, Commit: commit, Timestamp: 1000}.Append(nil)
}
