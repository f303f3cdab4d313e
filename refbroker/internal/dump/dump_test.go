package dump

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/psm"
	"watershed.example/refbroker/internal/defect"
)

// segments are real ones, with what the dump tool of the build that wrote them
// printed.
const segments = "../../../psm/testdata/kip1279-segments"

func TestRealSegmentsPrintAsTheirOwnDumpToolDid(t *testing.T) {
	golden, err := filepath.Glob(segments + "/*/*/dump-log.txt")
	require.NoError(t, err)
	require.Len(t, golden, 4)
	for _, g := range golden {
		t.Run(strings.TrimPrefix(filepath.Dir(g), segments+"/"), func(t *testing.T) {
			want, err := os.ReadFile(g)
			require.NoError(t, err)
			cluster := filepath.Dir(filepath.Dir(g))
			path := filepath.Join(filepath.Base(filepath.Dir(g)), "00000000000000000000.log")
			var got bytes.Buffer
			require.NoError(t, File(&got, afero.NewBasePathFs(afero.NewOsFs(), cluster), path, Options{Data: true}))
			require.Equal(t, string(want), got.String())
		})
	}
}

func TestWithoutDeepIterationOnlyBatches(t *testing.T) {
	segment := readSegment(t)
	var deep, shallow bytes.Buffer
	require.NoError(t, Log(&deep, bytes.NewReader(segment), 0, Options{Data: true}))
	require.NoError(t, Log(&shallow, bytes.NewReader(segment), 0, Options{}))
	var want []string
	for line := range strings.Lines(deep.String()) {
		if !strings.HasPrefix(line, "|") {
			want = append(want, line)
		}
	}
	require.Equal(t, strings.Join(want, ""), shallow.String())
}

func TestDamageIsNamedAfterWhatIsWhole(t *testing.T) {
	segment := readSegment(t)
	var whole bytes.Buffer
	require.NoError(t, Log(&whole, bytes.NewReader(segment), 0, Options{Data: true}))
	last := lastBatch(t, segment)
	flipped := bytes.Clone(segment)
	flipped[last+psm.HeaderSize+8]++
	negative := bytes.Clone(segment)
	binary.BigEndian.PutUint32(negative[last+8:], 1<<31)

	for name, c := range map[string]struct {
		segment []byte
		err     string
	}{
		"torn in the length": {segment[:last+9], "too few for a batch"},
		"torn in a batch":    {segment[:len(segment)-1], "only 97 are left"},
		"senseless length":   {negative, "a batch of -2147483636 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			err := Log(&got, bytes.NewReader(c.segment), 0, Options{Data: true})
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, c.err)
			require.True(t, strings.HasPrefix(whole.String(), got.String()), got.String())
		})
	}
	t.Run("a changed byte", func(t *testing.T) {
		var got bytes.Buffer
		require.NoError(t, Log(&got, bytes.NewReader(flipped), 0, Options{}))
		require.Contains(t, got.String(), "isvalid: false")
		require.NotContains(t, whole.String(), "isvalid: false")
	})
	t.Run("a preallocated tail is no damage", func(t *testing.T) {
		var got bytes.Buffer
		require.NoError(t, Log(&got, bytes.NewReader(append(bytes.Clone(segment), make([]byte, 4096)...)), 0, Options{Data: true}))
		require.Equal(t, whole.String(), got.String())
	})
}

func TestCompressedRecordsHeadersAndWrappingSequences(t *testing.T) {
	records := []byte{}
	for i := range int32(3) {
		r := kmsg.Record{OffsetDelta: i, TimestampDelta64: int64(i), Key: []byte("k"), Value: []byte{'v', byte('0' + i)}, Headers: []kmsg.Header{{Key: "a"}, {Key: "b"}}}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	compressor, err := kgo.DefaultCompressor(kgo.ZstdCompression())
	require.NoError(t, err)
	compressed, codec := compressor.Compress(new(bytes.Buffer), records)
	require.EqualValues(t, 4, codec)
	b := kmsg.RecordBatch{
		FirstOffset: 7, Magic: 2, Attributes: 4 | logAppendTimeBit, LastOffsetDelta: 2, FirstTimestamp: 1000, MaxTimestamp: 5000,
		ProducerID: 9, ProducerEpoch: 1, FirstSequence: 2147483646, NumRecords: 3, Records: compressed,
	}
	b.Length = int32(len(b.AppendTo(nil)) - lengthEnd)
	var got bytes.Buffer
	require.NoError(t, Log(&got, bytes.NewReader(b.AppendTo(nil)), 7, Options{Data: true}))
	require.Contains(t, got.String(), "baseSequence: 2147483646 lastSequence: 0 ")
	require.Contains(t, got.String(), "LogAppendTime: 5000 ")
	require.Contains(t, got.String(), "compresscodec: zstd ")
	require.Contains(t, got.String(), "| offset: 9 LogAppendTime: 5000 keySize: 1 valueSize: 2 sequence: 0 headerKeys: [a,b] key: k payload: v2\n")
}

// BAR-7: the barriers of our own broker, and those of a later version with
// fields that are not known yet (BAR-2).
func TestBarriersAreNamedWithTheirFields(t *testing.T) {
	own := psm.Barrier{BaseOffset: 3, LeaderEpoch: 5, Timestamp: 1753000000000, SourceClusterID: "AbCdEfGhIjKlMnOpQrStUv"}.Append(nil)
	require.Equal(t, `Log starting offset: 3
baseOffset: 3 lastOffset: 3 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 5 `+
		`isTransactional: false isControl: true deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1753000000000 size: 98 magic: 2 `+
		`compresscodec: none crc: 3166441420 isvalid: true
| offset: 3 CreateTime: 1753000000000 keySize: 4 valueSize: 26 sequence: -1 headerKeys: [] MirrorPidReset {"version":0,"sourceClusterId":"AbCdEfGhIjKlMnOpQrStUv"}
`, printed(t, own, 3))

	withTags := controlBatch([]byte{0, 0, 0, 7}, []byte("\x00\x00\x03\xff\"\x01\x00\x01z"))
	require.Contains(t, printed(t, withTags, 0), ` MirrorPidReset {"version":0,"sourceClusterId":"\ufffd\""}`)
	short := controlBatch([]byte{0, 0, 0, 7}, []byte{0, 0, 9})
	var got bytes.Buffer
	require.ErrorContains(t, Log(&got, bytes.NewReader(short), 0, Options{Data: true}), "MIRROR_PID_RESET")
	other := controlBatch([]byte{0, 0, 0, 8}, nil)
	require.Contains(t, printed(t, other, 0), " controlType: UNKNOWN(8)\n")
}

func printed(t *testing.T, segment []byte, start int64) string {
	t.Helper()
	var got bytes.Buffer
	require.NoError(t, Log(&got, bytes.NewReader(segment), start, Options{Data: true}))
	return got.String()
}

func controlBatch(key, value []byte) []byte {
	r := kmsg.Record{Key: key, Value: value}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{Magic: 2, Attributes: 0x20, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: r.AppendTo(nil)}
	b.Length = int32(len(b.AppendTo(nil)) - lengthEnd)
	return b.AppendTo(nil)
}

func TestSnapshotAndTransactionIndex(t *testing.T) {
	fs := afero.NewBasePathFs(afero.NewOsFs(), segments+"/B")
	var got bytes.Buffer
	require.NoError(t, File(&got, fs, "t2-0/00000000000000000022.snapshot", Options{}))
	require.Contains(t, got.String(), "producerId: 4 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "+
		"lastTimestamp: 1795969348367 firstSequence: 1 lastSequence: 1 lastOffset: 18 offsetDelta: 0 timestamp: 1795969348367\n")
	got.Reset()
	require.NoError(t, File(&got, fs, "t2-0/00000000000000000000.txnindex", Options{}))
	require.Contains(t, got.String(), "version: 0 producerId: 3 firstOffset: 4 lastOffset: 6 lastStableOffset: 7\n")
}

func TestIndexes(t *testing.T) {
	fs := afero.NewMemMapFs()
	for path, raw := range map[string]string{
		"/d/00000000000000000010.index":     "\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x01\x00\x80\x00\x00\x00" + strings.Repeat("\x00", 16),
		"/d/00000000000000000010.timeindex": "\x00\x00\x01\x98\x26\xf1\x3a\x00\x00\x00\x00\x02" + strings.Repeat("\x00", 24),
		"/d/00000000000000000020.index":     "",
	} {
		require.NoError(t, afero.WriteFile(fs, path, []byte(raw), 0o600))
	}
	for path, want := range map[string]string{
		"/d/00000000000000000010.index":     "offset: 11 position: 5\noffset: 266 position: 2147483648\n",
		"/d/00000000000000000010.timeindex": "timestamp: 1753000000000 offset: 12\n",
		"/d/00000000000000000020.index":     "/d/00000000000000000020.index is empty.\n",
	} {
		var got bytes.Buffer
		require.NoError(t, File(&got, fs, path, Options{}))
		require.Equal(t, "Dumping "+path+"\n"+want, got.String())
	}
}

// What Java's String makes of bytes that are no text.
func TestTextAsJavaDecodesIt(t *testing.T) {
	for raw, want := range map[string]string{
		"whole \u00e9\u20ac\U0001f600": "whole \u00e9\u20ac\U0001f600", "\xff\xffa": "\ufffd\ufffda", "\xe2\x82": "\ufffd",
		"\xe2\x82a": "\ufffda", "\xe0\x80\x80": "\ufffd\ufffd\ufffd", "\xed\xa0\x80": "\ufffd", "\xf0\x9f\x98b": "\ufffdb",
		"\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd", "\xc0\xaf": "\ufffd\ufffd", "\xc3": "\ufffd", "\x80": "\ufffd",
	} {
		require.Equal(t, want, text([]byte(raw)), "%x", raw)
	}
}

// Kafka 4.4.0's tool prints these lines of these entries: a marker's alone ends
// without a space, and a coordinator's batch, which has no sequence, has one.
func TestProducersWithoutSequences(t *testing.T) {
	fs := afero.NewMemMapFs()
	entry := psm.SnapshotEntry{ProducerID: 7, Epoch: 2, LastSequence: -1, LastOffset: -1, Timestamp: 5, CurrentTxnFirstOffset: -1}
	written := entry
	written.LastOffset, written.CurrentTxnFirstOffset = 52, 50
	require.NoError(t, afero.WriteFile(fs, "/d/00000000000000000060.snapshot", psm.EncodeSnapshot([]psm.SnapshotEntry{entry, written}), 0o600))
	var got bytes.Buffer
	require.NoError(t, File(&got, fs, "/d/00000000000000000060.snapshot", Options{}))
	require.Equal(t, `Dumping /d/00000000000000000060.snapshot
producerId: 7 producerEpoch: 2 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 5
producerId: 7 producerEpoch: 2 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong[50] lastTimestamp: 5 `+
		`firstSequence: 2147483647 lastSequence: -1 lastOffset: 52 offsetDelta: 0 timestamp: 5
`, got.String())
}

func TestFilesThatAreNone(t *testing.T) {
	fs := afero.NewMemMapFs()
	require.NoError(t, afero.WriteFile(fs, "/d/00000000000000000005.snapshot", []byte("nonsense"), 0o600))
	require.NoError(t, afero.WriteFile(fs, "/d/00000000000000000007.index", make([]byte, 11), 0o600))
	for path, want := range map[string]string{
		"/d/00000000000000000000.log":      "00000000000000000000.log",
		"/d/notes.log":                     "does not begin with an offset",
		"/d/00000000000000000000.deleted":  "reads .log, .index, .timeindex, .snapshot and .txnindex",
		"/d/00000000000000000007.index":    "damaged: 3 bytes are left",
		"/d/00000000000000000005.snapshot": "/d/00000000000000000005.snapshot: damaged",
	} {
		require.ErrorContains(t, File(new(bytes.Buffer), fs, path, Options{}), want)
	}
}

func FuzzLog(f *testing.F) {
	segment, err := os.ReadFile(segments + "/A/t2-0/00000000000000000000.log")
	require.NoError(f, err)
	f.Add(segment)
	f.Add(segment[:500])
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if len(raw) > lengthEnd { // whatever it is, no panic and no giant batch
			_ = Log(new(bytes.Buffer), bytes.NewReader(raw), 0, Options{Data: true})
		}
	})
}

func readSegment(t *testing.T) []byte {
	t.Helper()
	segment, err := os.ReadFile(segments + "/A/t2-0/00000000000000000000.log")
	require.NoError(t, err)
	return segment
}

// lastBatch is the position of a segment's last batch.
func lastBatch(t *testing.T, segment []byte) int {
	t.Helper()
	last := 0
	for at := 0; at < len(segment); {
		b, err := psm.DecodeHeader(segment[at:])
		require.NoError(t, err)
		last = at
		at += b.Size
	}
	return last
}

// BAR-7: a tool that does not know the barrier.
func TestDefectOfTheTool(t *testing.T) {
	set, err := defect.Parse([]string{string(defect.BarrierNotNamed)})
	require.NoError(t, err)
	segment := psm.Barrier{SourceClusterID: "a-cluster"}.Append(nil)
	for _, wrong := range []bool{true, false} {
		var out bytes.Buffer
		require.NoError(t, Log(&out, bytes.NewReader(segment), 0, Options{Data: true, NotNamed: wrong && set.Has(defect.BarrierNotNamed)}))
		require.Equal(t, wrong, strings.Contains(out.String(), "controlType: UNKNOWN(7)"))
		require.Equal(t, !wrong, strings.Contains(out.String(), `MirrorPidReset {"version":0,"sourceClusterId":"a-cluster"}`))
	}
}
