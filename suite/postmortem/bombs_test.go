package postmortem

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bomb is a batch whose records decompress to a thousand times of what it takes, or
// to less where the codec can't make more.
func bomb(packer string, s spec, size int) spec {
	s.packer, s.value = packer, strings.Repeat("0", size/len(s.keys))
	return s
}

// within judges, and returns how many bytes were asked for meanwhile, given back or
// not: no more than that can have been in use at once.
func judgedWithin(t *testing.T, sides ...Side) (r *Report, took int64) {
	t.Helper()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Judge(t.Context(), sides, Options{})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	return r, int64(after.TotalAlloc - before.TotalAlloc)
}

func replicasOf(t *testing.T, logs ...[]byte) Side {
	t.Helper()
	s, root := Side{Name: "A"}, t.TempDir()
	for i, log := range logs {
		s.Folders = append(s.Folders, write(t, root, fmt.Sprint("a", i), "orders-0", log))
	}
	return s
}

// Transactions that open with what decompresses to very much: their first keys are
// named, and where names were not read the finding says so.
func TestBombsAreNamedInBoundedMemory(t *testing.T) {
	const each, room = 12 << 20, 24 << 20
	for _, packer := range packers {
		t.Run(packer, func(t *testing.T) {
			gap := bomb(packer, data(0, 1, 0, 99, "k1", "k2", "k3", "k4"), each)
			specs := []spec{data(0, 1, 0, 0, "k0"), gap, gap}
			specs[2].seq = 103
			for id := range int64(6) {
				specs = append(specs, bomb(packer, inTxn(data(0, 10+id, 0, 0, fmt.Sprint("t", id))), each))
			}
			all := log(specs...)
			r, took := judgedWithin(t, replicasOf(t, all))
			t.Logf("%d bytes of logs, %d of memory", r.Bytes, took)
			require.Less(t, took, int64(room))
			var text strings.Builder
			require.NoError(t, r.Text(&text))
			var opened []string
			for _, f := range r.Findings {
				switch f.Kind {
				case OpenAtEnd:
					require.Len(t, f.Records, 1)
					opened = append(opened, f.Records[0].Unread)
					if packer == "snappy" { // whose one block is read whole or not at all
						require.Nil(t, f.Records[0].Key)
						require.Contains(t, f.Records[0].Unread, "beyond what is read of a batch: a snappy block of 12")
					} else {
						require.Regexp(t, "^t[0-5]$", *f.Records[0].Key)
						require.Empty(t, f.Records[0].Unread)
					}
				case SequenceGap:
					last := f.Records[len(f.Records)-1]
					require.Contains(t, last.Unread, "beyond what is read of a batch")
					require.Nil(t, last.Key)
					if packer != "snappy" {
						require.Equal(t, "k1", *f.Records[0].Key)
						require.Equal(t, f.Offset+2, last.Offset)
					}
					require.Contains(t, text.String(), fmt.Sprintf("%d (not read: %s)", last.Offset, last.Unread))
				default:
					require.Fail(t, "another finding", "%v", f)
				}
			}
			require.NotEmpty(t, opened)
		})
	}
}

// seal makes a changed batch's checksum right, for one that the log begins with.
func seal(log []byte) []byte {
	size := 12 + binary.BigEndian.Uint32(log[8:])
	binary.BigEndian.PutUint32(log[17:], crc32.Checksum(log[21:size], crc32.MakeTable(crc32.Castagnoli)))
	return log
}

// Large batches without compression are judged, in every replica, and not held.
func TestLargeBatchesAreJudgedInBoundedMemory(t *testing.T) {
	const size, room = 24 << 20, 40 << 20
	make := func(change int) []byte {
		all := log(bomb("", inTxn(data(0, 1, 0, 0, "k1", "k2")), size), commit(0, 1, 0), plain(0, "k3"))
		if change > 0 {
			all[change] ^= 1
		}
		return all
	}
	tests := []struct {
		name  string
		other []byte
		want  []string
	}{
		{"the same", make(0), nil},
		{"another last byte", seal(make(size)), []string{"diverged-replica certain A 0 LOG-4"}},
		{"a flipped bit", make(size), []string{"damaged certain A 0 "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			whole := make(0)
			r, took := judgedWithin(t, replicasOf(t, whole, whole, test.other))
			t.Logf("%d bytes of logs, %d of memory", r.Bytes, took)
			require.Less(t, took, int64(room))
			require.Equal(t, test.want, brief(r, Possible))
		})
	}
}

// Batches that a cleaner thinned are compared as far as is read; that some of it was
// not is told.
func TestThinnedBombsAreCompared(t *testing.T) {
	const room = 40 << 20
	for _, packer := range packers {
		for _, size := range []int{6 << 20, 51 << 20} {
			if testing.Short() && size > comparedBytes && packer != "zstd" {
				continue // the others are its like
			}
			t.Run(fmt.Sprint(packer, " ", size>>20), func(t *testing.T) {
				one := bomb(packer, plain(0, "k1", "k2", "k3"), size)
				two := one
				two.keys = []string{"k1", "k2"}
				whole, thinned := log(one, plain(0, "k4")), append(one.encode(0)[:0:0], two.encode(0)...)
				binary.BigEndian.PutUint32(thinned[23:], 2) // it had three
				thinned = append(seal(thinned), log(one, plain(0, "k4"))[len(one.encode(0)):]...)
				r, took := judgedWithin(t, replicasOf(t, whole, thinned))
				t.Logf("%d bytes of logs, %d of memory", r.Bytes, took)
				require.Less(t, took, int64(room))
				require.Empty(t, brief(r, Possible))
				if size < comparedBytes {
					require.Empty(t, r.Findings)
					return
				}
				require.Len(t, r.Findings, 1)
				require.Equal(t, Unread, r.Findings[0].Kind)
				require.Contains(t, r.Findings[0].Why, "beyond what is read of a batch")
			})
		}
	}
}

// Keys that are missing are looked for as far as is read.
func TestWantedKeysBehindBombs(t *testing.T) {
	for _, packer := range append([]string{""}, packers...) {
		t.Run(packer, func(t *testing.T) {
			missing, behind := plain(0, "k1"), bomb(packer, plain(0, "x1", "x2"), 40<<20)
			full := log(plain(0, "k0"), missing, behind, plain(0, "k4"))
			gone := len(log(plain(0, "k0")))
			thin := append(full[:gone:gone], full[len(log(plain(0, "k0"), missing)):]...)
			r := ofTwo(t, full, thin)
			require.Len(t, r.Findings, 1)
			f := r.Findings[0]
			require.Equal(t, Missing, f.Kind)
			require.Equal(t, Possible, f.Sure, "the key may come again in what is not read")
			require.Contains(t, f.Why, "not all keys there were")
		})
	}
}
