package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// block is a header of an archive as POSIX has it.
func block(name string, kind byte, size int) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	copy(h[136:], "00000000000\x00")
	copy(h[148:], "        ")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// padded fills a block.
func padded(data string) []byte { return append([]byte(data), make([]byte, 512-len(data)%512)...) }

// record is an extended header's: its length, itself included, key and value.
func record(key, value string) string {
	for n := len(key) + len(value) + 3; ; n++ {
		if r := fmt.Sprintf("%d %s=%s\n", n, key, value); len(r) == n {
			return r
		}
	}
}

// hole is a file of nothing but a hole of the size.
func hole(name string, size int64) []byte {
	head := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", name) + record("GNU.sparse.realsize", strconv.FormatInt(size, 10))
	sparse := padded("0\n")
	return bytes.Join([][]byte{block("PaxHeaders/x", 'x', len(head)), padded(head), block("GNUSparseFile.0/x", '0', len(sparse)), sparse}, nil)
}

// of is an archive with such a manifest, and what else follows.
func of(t *testing.T, files []File, more ...[]byte) []byte {
	t.Helper()
	m := Manifest{Format: Format, Version: Version, Product: "p", Made: noon.Format(time.RFC3339), Files: files, LeftOut: []LeftOut{}}
	manifest, err := m.encode()
	require.NoError(t, err)
	sums := sumOfBytes(manifest) + "  " + ManifestFile + "\n"
	for _, f := range files {
		sums += f.SHA256 + "  " + f.Path + "\n"
	}
	all := [][]byte{block(SumsFile, '0', len(sums)), padded(sums), block(ManifestFile, '0', len(manifest)), padded(string(manifest))}
	return append(bytes.Join(append(all, more...), nil), make([]byte, 1024)...)
}

// refused unpacks an archive that has to be refused, and says that it left no file but
// those by which that was known.
func refused(t *testing.T, archive []byte, says string) {
	t.Helper()
	into := t.TempDir()
	_, err := unpack(tar.NewReader(bytes.NewReader(archive)), into)
	require.ErrorContains(t, err, says)
	require.NoFileExists(t, filepath.Join(into, "run", "0"))
}

var anySum = sumOfBytes(nil)

// A manifest may say that a file has 2^63-1 bytes, and another one before it.
func TestSizesThatOverflow(t *testing.T) {
	for _, sizes := range [][]int64{{math.MaxInt64}, {1, math.MaxInt64}, {3, math.MaxInt64 - 2}, {1, maxUnpacked}} {
		var files []File
		for i, size := range sizes {
			files = append(files, File{Path: fmt.Sprintf("run/%d", i), Size: size, SHA256: anySum})
		}
		refused(t, of(t, files), fmt.Sprintf("file run/%d: unpacked it is more than", len(sizes)-1))
	}
	refused(t, of(t, []File{{Path: "run/0", Size: -1, SHA256: anySum}}), "file run/0 has -1 bytes")
}

// An archive of a few bytes may hold a file of any size.
func TestNoMoreIsUnpackedThanTheManifestSays(t *testing.T) {
	listed := []File{{Path: "run/0", Size: 5, SHA256: anySum}}
	for _, size := range []int64{4, 6, 1 << 40, math.MaxInt64} {
		refused(t, of(t, listed, hole("run/0", size)), fmt.Sprintf("file run/0 is not what it was: it has %d bytes, manifest.json says 5", size))
	}
	refused(t, of(t, nil, hole("run/0", 1<<40)), "file run/0 was put into it later")
	refused(t, of(t, []File{{Path: "elsewhere/0", SHA256: anySum}}), `file "elsewhere/0" is not within run`)
	refused(t, of(t, []File{{Path: "run/../../0", SHA256: anySum}}), "is not within run")
	refused(t, of(t, append(listed, listed...)), "file run/0 is listed twice")
	refused(t, append(hole("run/0", 5), of(t, listed)...), "file SHA256SUMS is missing, with which it has to begin")
	refused(t, append(hole(SumsFile, maxHead+1), of(t, listed)...), "file SHA256SUMS has 268435457 bytes")
}

func TestADiskIsNotFilledUp(t *testing.T) {
	was := available
	defer func() { available = was }()
	available = func(string) (uint64, bool) { return 99, true }
	files := []File{{Path: "run/0", Size: 50, SHA256: anySum}, {Path: "run/1", Size: 50, SHA256: anySum}}
	refused(t, of(t, files, hole("run/0", 50)), "unpacked it has 100 bytes, and the disk of")
	free, known := was(t.TempDir())
	require.True(t, known)
	require.Positive(t, free)
}
