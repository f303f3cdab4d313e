package wirelog

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// packers compress as clients do, by the name of what they make.
var packers = map[string]struct {
	codec Codec
	pack  func(t testing.TB, plain []byte) []byte
}{
	"none": {None, func(_ testing.TB, plain []byte) []byte { return plain }},
	"gzip": {Gzip, func(t testing.TB, plain []byte) []byte {
		return piped(t, plain, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	}},
	"lz4": {LZ4, func(t testing.TB, plain []byte) []byte {
		return piped(t, plain, func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) })
	}},
	"zstd": {Zstd, func(t testing.TB, plain []byte) []byte {
		return piped(t, plain, func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
			require.NoError(t, err)
			return z
		})
	}},
	"zstd with a wide window": {Zstd, func(t testing.TB, plain []byte) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		_, err = z.Write(plain)
		require.NoError(t, err)
		require.NoError(t, z.Flush()) // else it knows how little there is
		require.NoError(t, z.Close())
		out := b.Bytes()
		require.Zero(t, out[4]&0x20)
		out[5] = 17 << 3 // 128 MiB, as level 22 asks for
		return out
	}},
	"snappy": {Snappy, func(_ testing.TB, plain []byte) []byte { return snappy.Encode(nil, plain) }},
	"xerial": {Snappy, func(_ testing.TB, plain []byte) []byte {
		out := append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
		for len(plain) > 0 {
			n := min(len(plain), 32<<10)
			block := snappy.Encode(nil, plain[:n])
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
			plain = plain[n:]
		}
		return out
	}},
}

func piped(t testing.TB, plain []byte, packer func(io.Writer) io.WriteCloser) []byte {
	var out bytes.Buffer
	w := packer(&out)
	_, err := w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// appendRecord writes a record as it lies in a batch.
func appendRecord(to []byte, delta int, key, value []byte) []byte {
	r := binary.AppendVarint([]byte{0, 0}, int64(delta))
	for _, b := range [][]byte{key, value} {
		if b == nil {
			r = binary.AppendVarint(r, -1)
			continue
		}
		r = append(binary.AppendVarint(r, int64(len(b))), b...)
	}
	r = append(r, 2, 2, 'h', 1) // a header with a null value
	return append(binary.AppendVarint(to, int64(len(r))), r...)
}

func batchOf(t testing.TB, packer string, count int, records []byte) Batch {
	p := packers[packer]
	return Batch{
		Raw: append(make([]byte, headerLen), p.pack(t, records)...), Attributes: int16(p.codec), BaseOffset: 40,
		Count: int32(count), LastOffsetDelta: int32(count - 1), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}
}

func TestOutlinesAreThoseOfTheRecords(t *testing.T) {
	var records []byte
	long := bytes.Repeat([]byte("long "), 100_000)
	for i, r := range [][2][]byte{{nil, nil}, {{}, {}}, {[]byte("k"), []byte("v")}, {long, []byte("v")}, {[]byte("k"), long}, {long, nil}} {
		records = appendRecord(records, i, r[0], r[1])
	}
	sum := func(b []byte) uint64 { return maphash.Bytes(seed, b) }
	for name := range packers {
		t.Run(name, func(t *testing.T) {
			b := batchOf(t, name, 6, records)
			want, err := b.Records()
			require.NoError(t, err)
			require.Len(t, want, 6)
			for _, values := range []bool{false, true} {
				o := b.Outlines(8 << 20)
				for _, r := range want {
					require.True(t, o.Next(), "%v", o.Err())
					require.Equal(t, r.Offset, o.Offset)
					require.Equal(t, r.Key == nil, o.Key == nil)
					require.Equal(t, string(r.Key[:min(len(r.Key), maxKey)]), string(o.Key))
					require.Equal(t, int64(len(r.Key)), o.KeyLen)
					if r.Key != nil {
						require.Equal(t, sum(r.Key), o.KeySum)
					}
					require.Equal(t, r.Value == nil, o.Tombstone)
					if values {
						require.Equal(t, sum(r.Value), o.ValueSum())
					}
				}
				require.False(t, o.Next())
				require.NoError(t, o.Err())
				o.Close()
			}
			b.Raw = b.Raw[:len(b.Raw)-3]
			o := b.Outlines(8 << 20)
			for o.Next() {
			}
			require.Error(t, o.Err())
			require.NotErrorIs(t, o.Err(), ErrBeyond)
			o.Close()
		})
	}
}

// allocated is how many bytes were asked for while do ran, given back or not: no more
// than that can have been in use.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// What decompresses to a hundred times its size and more takes a window of memory.
func TestBombsAreNotHeld(t *testing.T) {
	const size, limit, room = 64 << 20, 4 << 20, 24 << 20
	records := appendRecord(nil, 0, []byte("first"), []byte("v"))
	records = appendRecord(records, 1, []byte("second"), make([]byte, size))
	records = appendRecord(records, 2, []byte("third"), []byte("v"))
	for name := range packers {
		t.Run(name, func(t *testing.T) {
			b := batchOf(t, name, 3, records)
			if name == "none" {
				b.Raw, b.unheld = b.Raw[:maxHeld], int64(len(b.Raw)-maxHeld)
			}
			var keys []string
			var err error
			took := allocated(func() {
				o := b.Outlines(limit)
				defer o.Close()
				for o.Next() {
					keys = append(keys, string(o.Key))
				}
				err = o.Err()
			})
			require.ErrorIs(t, err, ErrBeyond)
			if name != "snappy" { // whose one block is read whole or not at all
				require.Equal(t, []string{"first", "second"}, keys)
			}
			require.Less(t, took, int64(room))
			b.Attributes |= 0x20
			took = allocated(func() { _, _ = b.Control() })
			require.Less(t, took, int64(room))
		})
	}
}

// A control record is known whatever lies behind it.
func TestControlRecordBeforeABomb(t *testing.T) {
	marker := appendRecord(nil, 0, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 9})
	for name := range packers {
		for _, behind := range []int{0, 1 << 20} {
			b := batchOf(t, name, 1, append(bytes.Clone(marker), make([]byte, behind)...))
			b.Attributes |= 0x20
			c, err := b.Control()
			require.NoError(t, err, name)
			require.Equal(t, Control{Type: Commit, CoordinatorEpoch: 9}, c)
		}
	}
}

// Whatever can be read as records has their outlines.
func FuzzOutlines(f *testing.F) {
	for name, p := range packers {
		f.Add(int16(p.codec), p.pack(f, appendRecord(appendRecord(nil, 0, nil, []byte(strings.Repeat(name, 9))), 1, []byte("k"), nil)))
	}
	f.Fuzz(func(t *testing.T, attributes int16, data []byte) {
		b := Batch{Raw: append(make([]byte, headerLen), data...), Attributes: attributes, Count: 2, BaseSequence: -1}
		o := b.Outlines(maxHeld)
		defer o.Close()
		n := 0
		records, err := b.Records()
		for ; o.Next(); n++ {
			o.ValueSum()
			if n < len(records) && o.Err() == nil {
				require.Equal(t, records[n].Offset, o.Offset)
				require.Equal(t, records[n].Key == nil, o.Key == nil)
			}
		}
		if err == nil && o.Err() != nil {
			require.ErrorIs(t, o.Err(), ErrBeyond)
		}
		_, _ = b.Control()
	})
}
