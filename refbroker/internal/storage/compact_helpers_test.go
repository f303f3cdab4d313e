package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"watershed.example/psm"
)

func inflate(src []byte, codec int8) ([]byte, error) {
	return kgo.DefaultDecompressor().Decompress(src, kgo.CompressionCodecType(codec))
}

func deflate(src []byte, codec int8) ([]byte, error) {
	c, err := kgo.DefaultCompressor([]kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}[codec])
	if err != nil || c == nil {
		return src, err
	}
	out, used := c.Compress(new(bytes.Buffer), src)
	if int8(used) != codec {
		return nil, fmt.Errorf("codec %d was used, not %d", used, codec)
	}
	return bytes.Clone(out), nil
}

// kv is a keyed record; no value is a tombstone.
type kv struct{ key, value string }

// keyed puts records with keys into a batch's description.
func (d data) keyed(codec int8, pairs ...kv) []byte {
	d.n = len(pairs)
	raw := d.build()
	var records []byte
	for i, p := range pairs {
		r := []byte{0}
		r = binary.AppendVarint(r, int64(i))
		r = binary.AppendVarint(r, int64(i))
		r = binary.AppendVarint(r, int64(len(p.key)))
		r = append(r, p.key...)
		if p.value == "" {
			r = binary.AppendVarint(r, -1)
		} else {
			r = binary.AppendVarint(r, int64(len(p.value)))
			r = append(r, p.value...)
		}
		r = binary.AppendVarint(r, 0)
		records = binary.AppendVarint(records, int64(len(r)))
		records = append(records, r...)
	}
	records, err := deflate(records, codec)
	if err != nil {
		panic(err)
	}
	raw = append(raw[:psm.HeaderSize:psm.HeaderSize], records...)
	binary.BigEndian.PutUint32(raw[posLength:], uint32(len(raw)-12))
	raw[posAttributes+1] |= byte(codec)
	setCRC(raw)
	return raw
}

// stored is a record as a log holds it.
type stored struct {
	offset, time int64
	kv
}

// storedIn are the records, not control records, of raw batches.
func storedIn(t require.TestingT, raw []byte) []stored {
	var out []stored
	for len(raw) > 0 {
		require.NoError(t, psm.CheckCRC(raw))
		b, err := psm.DecodeBatch(raw)
		require.NoError(t, err)
		if !b.IsControl() {
			records, err := recordsOf(&b, raw, inflate)
			require.NoError(t, err)
			require.NoError(t, eachRecord(&b, records, func(r *record) error {
				_, n := binary.Varint(r.rest)
				_, rest, _ := recordField(r.rest[n:])
				value, _, _ := recordField(rest)
				out = append(out, stored{r.offset, r.timestamp, kv{string(r.key), string(value)}})
				return nil
			}))
		}
		raw = raw[b.Size:]
	}
	return out
}

// compactAll compacts all that may be.
func compactAll() Compaction {
	return Compaction{DeleteRetentionMs: 1000, Decompress: inflate, Compress: deflate}
}

// crashFs lets some more changes through and then none, as a kill does.
type crashFs struct {
	afero.Fs
	left int // changes to let through, -1 for all
	done int
}

var errKilled = errors.New("killed")

func (f *crashFs) change() error {
	if f.left == 0 {
		return errKilled
	}
	if f.left > 0 {
		f.left--
	}
	f.done++
	return nil
}

func (f *crashFs) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		if err := f.change(); err != nil {
			return nil, err
		}
	}
	file, err := f.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &crashFile{file, f}, nil
}

func (f *crashFs) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

func (f *crashFs) Open(name string) (afero.File, error) {
	file, err := f.Fs.Open(name)
	if err != nil {
		return nil, err
	}
	return &crashFile{file, f}, nil
}

func (f *crashFs) Rename(from, to string) error {
	if err := f.change(); err != nil {
		return err
	}
	return f.Fs.Rename(from, to)
}

func (f *crashFs) Remove(name string) error {
	if err := f.change(); err != nil {
		return err
	}
	return f.Fs.Remove(name)
}

type crashFile struct {
	afero.File
	fs *crashFs
}

func (f *crashFile) Write(p []byte) (int, error) {
	if err := f.fs.change(); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.change(); err != nil {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *crashFile) Truncate(size int64) error {
	if err := f.fs.change(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *crashFile) Sync() error {
	if err := f.fs.change(); err != nil {
		return err
	}
	return f.File.Sync()
}

// names lists the folder of a log.
func names(t testing.TB, p place) []string {
	t.Helper()
	all, err := folderNames(p.fs, p.dir)
	require.NoError(t, err)
	return all
}
