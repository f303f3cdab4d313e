package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math"
	"strconv"
	"testing"

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

// An archive of a few bytes may say that a file has 2^63-1, and another one before it.
func TestSizesThatOverflow(t *testing.T) {
	for _, sizes := range [][]int64{{math.MaxInt64}, {1, math.MaxInt64}, {3, math.MaxInt64 - 2}, {1, maxUnpacked}} {
		var archive []byte
		for i, size := range sizes {
			archive = append(archive, hole(fmt.Sprintf("run/%d", i), size)...)
		}
		_, err := unpack(tar.NewReader(bytes.NewReader(append(archive, make([]byte, 1024)...))), t.TempDir())
		require.ErrorContains(t, err, fmt.Sprintf(`entry "run/%d": unpacked it is more than`, len(sizes)-1))
	}
}
