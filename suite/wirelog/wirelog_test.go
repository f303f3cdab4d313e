package wirelog

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

var folders = []string{"A/t1-0", "A/t2-0", "B/t1-0", "B/t2-0"}

// dump prints a log as the dump tool of the build that wrote the golden
// segments does, so that every decoded field is compared.
func dump(t *testing.T, dir, name string) string {
	t.Helper()
	log, err := Open(dir)
	require.NoError(t, err)
	var s strings.Builder
	fmt.Fprintf(&s, "Dumping %s/%s\nLog starting offset: 0\n", name, log.Segments[0])
	for b, err := range log.Batches() {
		require.NoError(t, err)
		fmt.Fprintf(&s, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: OptionalLong.empty position: %d CreateTime: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n",
			b.BaseOffset, b.LastOffset(), b.Count, b.BaseSequence, b.LastSequence(), b.ProducerID, b.ProducerEpoch, b.LeaderEpoch,
			b.IsTransactional(), b.IsControl(), b.Position, b.MaxTimestamp, len(b.Raw), b.Magic, b.Codec(), b.CRC, b.CRCValid)
		records, err := b.Records()
		require.NoError(t, err)
		for _, r := range records {
			size := func(b []byte) int {
				if b == nil {
					return -1
				}
				return len(b)
			}
			fmt.Fprintf(&s, "| offset: %d CreateTime: %d keySize: %d valueSize: %d sequence: %d headerKeys: []", r.Offset, r.Timestamp, size(r.Key), size(r.Value), r.Sequence)
			if b.IsControl() {
				c, err := b.Control()
				require.NoError(t, err)
				if c.Type == MirrorPIDReset {
					fmt.Fprintf(&s, " MirrorPidReset {\"version\":%d,\"sourceClusterId\":%q}", c.ValueVersion, c.SourceClusterID)
				} else {
					fmt.Fprintf(&s, " endTxnMarker: %s coordinatorEpoch: %d", c.Type, c.CoordinatorEpoch)
				}
			} else {
				if r.Key != nil {
					fmt.Fprintf(&s, " key: %s", r.Key)
				}
				fmt.Fprintf(&s, " payload: %s", r.Value)
			}
			s.WriteByte('\n')
		}
	}
	return s.String()
}

func TestRealSegmentsReadAsTheirDumpSays(t *testing.T) {
	for _, f := range folders {
		t.Run(f, func(t *testing.T) {
			dir := filepath.Join("testdata/kip1279-segments", f)
			want, err := os.ReadFile(filepath.Join(dir, "dump-log.txt"))
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(string(want)), strings.TrimSpace(dump(t, dir, filepath.Base(dir))))
		})
	}
}

func TestTxnIndexOfRealSegments(t *testing.T) {
	data, err := os.ReadFile("testdata/kip1279-segments/B/t2-0/00000000000000000000.txnindex")
	require.NoError(t, err)
	got, err := ReadTxnIndex(data)
	require.NoError(t, err)
	require.Equal(t, []AbortedTxn{
		{ProducerID: 3, FirstOffset: 4, LastOffset: 6, LastStableOffset: got[0].LastStableOffset},
		{ProducerID: 5, FirstOffset: 10, LastOffset: 14, LastStableOffset: got[1].LastStableOffset},
		{ProducerID: 6, FirstOffset: 11, LastOffset: 15, LastStableOffset: got[2].LastStableOffset},
	}, got)
	_, err = ReadTxnIndex(data[:40])
	require.ErrorContains(t, err, "6 bytes after 1 entries")
}

// The bytes of the barrier as a public build of KIP-1279 writes it.
func TestBarrierBytes(t *testing.T) {
	raw, err := hex.DecodeString("00000000000000000000005600000000" + "02" + "bcbc0fcc" + "0020" + "00000000" +
		"0000019826f13a00" + "0000019826f13a00" + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000001" +
		"48000000" + "0800000007" + "340000" + "17" + hex.EncodeToString([]byte("AbCdEfGhIjKlMnOpQrStUv")) + "00" + "00")
	require.NoError(t, err)
	require.Len(t, raw, 98)
	b, err := ParseBatch(raw)
	require.NoError(t, err)
	require.True(t, b.CRCValid)
	require.True(t, b.IsBarrier())
	c, err := b.Control()
	require.NoError(t, err)
	require.Equal(t, Control{Type: MirrorPIDReset, SourceClusterID: "AbCdEfGhIjKlMnOpQrStUv"}, c)
}

func golden(t testing.TB, f string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata/kip1279-segments", f, "00000000000000000000.log"))
	require.NoError(t, err)
	return data
}

func TestTornTailIsReportedAfterTheWholeBatches(t *testing.T) {
	data := golden(t, "B/t1-0")
	for cut := 1; cut < 73; cut++ { // 73 bytes is the last batch
		var whole int
		var problem *Problem
		for b, err := range Segment("s.log", data[:len(data)-cut]) {
			if err != nil {
				require.ErrorAs(t, err, &problem)
				continue
			}
			require.True(t, b.CRCValid)
			whole++
		}
		require.Equal(t, 5-1, whole)
		require.NotNil(t, problem)
		require.True(t, problem.Torn)
		require.Equal(t, int64(372), problem.Position)
		require.Equal(t, int64(73-cut), problem.Rest)
	}
}

func TestPreallocatedZeroesEndASegment(t *testing.T) {
	n := 0
	for _, err := range Segment("s.log", append(golden(t, "B/t1-0"), make([]byte, 100)...)) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 5, n)
}

func TestFlippedBitIsABadChecksum(t *testing.T) {
	data := bytes.Clone(golden(t, "B/t1-0"))
	data[111+70] ^= 1
	var bad []int64
	for b, err := range Segment("s.log", data) {
		require.NoError(t, err)
		if !b.CRCValid {
			bad = append(bad, b.BaseOffset)
		}
	}
	require.Equal(t, []int64{5}, bad)
}

func TestEveryCodecDecompresses(t *testing.T) {
	first, err := ParseBatch(golden(t, "B/t1-0"))
	require.NoError(t, err)
	want, err := first.Records()
	require.NoError(t, err)
	plain := first.Raw[headerLen:]
	var gz, lz bytes.Buffer
	zw := gzip.NewWriter(&gz)
	_, err = zw.Write(plain)
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	lw := lz4.NewWriter(&lz)
	_, err = lw.Write(plain)
	require.NoError(t, err)
	require.NoError(t, lw.Close())
	ze, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	block := snappy.Encode(nil, plain)
	framed := append(append([]byte{}, xerial...), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, byte(len(block)))
	framed = append(framed, block...)
	for name, tc := range map[string]struct {
		codec Codec
		data  []byte
	}{
		"gzip": {Gzip, gz.Bytes()}, "lz4": {LZ4, lz.Bytes()}, "zstd": {Zstd, ze.EncodeAll(plain, nil)},
		"snappy": {Snappy, block}, "xerial": {Snappy, framed},
	} {
		t.Run(name, func(t *testing.T) {
			b := first
			b.Attributes |= int16(tc.codec)
			b.Raw = append(bytes.Clone(first.Raw[:headerLen]), tc.data...)
			got, err := b.Records()
			require.NoError(t, err)
			require.Equal(t, want, got)
			b.Raw = b.Raw[:len(b.Raw)-3]
			_, err = b.Records()
			require.ErrorContains(t, err, "decompress")
		})
	}
	b := first
	b.Attributes |= 7
	_, err = b.Records()
	require.ErrorContains(t, err, "unknown compression")
}

// barrierOf is the golden barrier with another value.
func barrierOf(t *testing.T, value string) Batch {
	t.Helper()
	data, err := hex.DecodeString(value)
	require.NoError(t, err)
	require.Less(t, len(data), 30)
	record := append([]byte{0, 0, 0, 8, 0, 0, 0, 7, byte(2 * len(data))}, data...)
	record = append(record, 0)
	return Batch{
		Raw: append(make([]byte, headerLen), append([]byte{byte(2 * len(record))}, record...)...), Attributes: 0x20,
		Count: 1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}
}

func TestBarriersAreReadInEveryEncoding(t *testing.T) {
	for name, tc := range map[string]struct {
		value string
		want  Control
	}{
		"plain":               {"0000" + "036162" + "00", Control{SourceClusterID: "ab"}},
		"version prefix":      {"0000" + "0000" + "036162" + "00", Control{SourceClusterID: "ab", Prefixed: true}},
		"later version":       {"0001" + "036162" + "00", Control{ValueVersion: 1, SourceClusterID: "ab"}},
		"tagged and trailing": {"0000" + "036162" + "02" + "0502ffff" + "0700" + "1234", Control{SourceClusterID: "ab", Tagged: []TaggedField{{5, []byte{255, 255}}, {7, []byte{}}}, ValueRest: 2}},
		"prefix and tagged":   {"0000" + "0000" + "036162" + "01" + "050101" + "12", Control{SourceClusterID: "ab", Prefixed: true, Tagged: []TaggedField{{5, []byte{1}}}, ValueRest: 1}},
		"empty id":            {"0000" + "01" + "00", Control{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := barrierOf(t, tc.value)
			c, err := b.Control()
			require.NoError(t, err)
			tc.want.Type = MirrorPIDReset
			require.Equal(t, tc.want, c)
			require.True(t, b.IsBarrier())
		})
	}
	for name, value := range map[string]string{
		"null id": "0000" + "00" + "00", "no tagged section": "0000" + "036162", "torn tagged field": "0000" + "036162" + "01" + "0509ff", "empty": "",
	} {
		b := barrierOf(t, value)
		_, err := b.Control()
		require.Error(t, err, name)
		require.True(t, b.IsBarrier(), name)
	}
}

func TestALargeSegmentIsReadAsASmallOne(t *testing.T) {
	one := golden(t, "B/t1-0")
	all := bytes.Repeat(one, mapFrom/len(one)+1)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"0.log": one, "1.log": all, "2.log": append(all[:len(all):len(all)], one[:70]...)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	log, err := Open(dir)
	require.NoError(t, err)
	batches, problems, err := log.Read()
	require.NoError(t, err)
	require.Len(t, log.maps, 2)
	require.Len(t, problems, 1)
	require.Equal(t, int64(len(all)), problems[0].Position)
	require.True(t, problems[0].Torn)
	for range 2 { // and again, when the bytes have been given back
		i := 0
		for _, name := range log.Segments {
			data, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			for b, err := range Segment(name, data) {
				if err != nil {
					continue
				}
				require.Equal(t, b, batches[i])
				i++
			}
		}
		require.Len(t, batches, i)
		require.NoError(t, log.Release())
	}
	require.NoError(t, log.Close())
	require.NoError(t, log.Close())
}

func FuzzSegment(f *testing.F) {
	for _, name := range folders {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		next := 0
		for b, err := range Segment("s", data) {
			if err != nil {
				continue
			}
			require.Equal(t, int64(next), b.Position)
			next += len(b.Raw)
			_, _ = b.Records()
			_, _ = b.Control()
			b.IsBarrier()
		}
	})
}

func FuzzRecords(f *testing.F) {
	first, err := ParseBatch(golden(f, "B/t1-0"))
	require.NoError(f, err)
	f.Add(int16(0), first.Raw[headerLen:])
	f.Fuzz(func(t *testing.T, attributes int16, data []byte) {
		b := first
		b.Attributes = attributes
		b.Raw = append(bytes.Clone(first.Raw[:headerLen]), data...)
		_, _ = b.Records()
		_, _ = b.Control()
	})
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(make([]byte, 34))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = ReadTxnIndex(data) })
}

func BenchmarkSegment(b *testing.B) {
	one := golden(b, "B/t1-0")[:111]
	data := bytes.Repeat(one, 100000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		for _, err := range Segment("s", data) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
