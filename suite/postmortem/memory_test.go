package postmortem

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigPartition writes a log of about size bytes into a partition's folder: batches of 16
// records of 1 KiB, of many producers, in segments of 64 MiB. The side that was
// promoted has a barrier in the middle. Where a packer compresses the records, each
// batch is a transaction of one record of 16 KB, so that it is looked into.
func bigPartition(t testing.TB, root, broker string, partition int, size int64, promoted bool, packer string) string {
	t.Helper()
	dir := filepath.Join(root, broker, fmt.Sprintf("orders-%d", partition))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	keys := make([]string, 16)
	var file *os.File
	var w *bufio.Writer
	var segment int64
	finish := func() {
		if file != nil {
			require.NoError(t, w.Flush())
			require.NoError(t, file.Close())
		}
	}
	sequence := map[int64]int32{}
	random := rand.NewChaCha8([32]byte{})
	offset, leader := int64(0), int32(0)
	for n, written := int64(0), int64(0); written < size; n++ {
		if file == nil || segment >= 64<<20 {
			finish()
			var err error
			file, err = os.Create(filepath.Join(dir, fmt.Sprintf("%020d.log", offset)))
			require.NoError(t, err)
			w, segment = bufio.NewWriterSize(file, 1<<20), 0
		}
		for i := range keys {
			keys[i] = fmt.Sprintf("%s-%d", broker[:1], offset+int64(i))
		}
		s := spec{epoch: leader, pid: n % 1000, seq: sequence[n%1000], keys: keys, value: strings.Repeat("v", 1000), time: 1000 + n, packer: packer}
		if packer != "" {
			s = inTxn(s)
			half := make([]byte, 8000) // in hexadecimal they are what compresses to half
			_, _ = random.Read(half)   // never fails
			s.value = hex.EncodeToString(half)
			s.keys = keys[:1]
		}
		if promoted && leader == 0 && written > size/2 {
			leader = 1
			clear(sequence)
			s = reset(1, idA)
			s.time = 1000 + n
		} else {
			if !promoted || leader == 0 {
				s.keys = sharedKeys(offset, s.keys)
			}
			sequence[n%1000] += int32(len(s.keys))
		}
		batches := []spec{s}
		if s.attributes == transactional {
			end := marker(leader, s.pid, 0, 1, byte(leader)) // else both sides write the same
			end.time = s.time
			batches = append(batches, end)
		}
		for _, s := range batches {
			raw := s.encode(offset)
			_, err := w.Write(raw)
			require.NoError(t, err)
			offset += int64(max(len(s.keys), 1))
			written += int64(len(raw))
			segment += int64(len(raw))
		}
	}
	finish()
	return filepath.Join(root, broker)
}

func sharedKeys(offset int64, keys []string) []string {
	for i := range keys {
		keys[i] = fmt.Sprintf("k-%d", offset+int64(i))
	}
	return keys
}

// peak judges two sides of size bytes each and returns the most memory that was
// in use, in bytes, seen every few megabytes.
func peak(t *testing.T, size int64, packer string) (most uint64) {
	root := t.TempDir()
	a, b := bigPartition(t, root, "a", 0, size, false, packer), bigPartition(t, root, "b", 0, size, true, packer)
	var next int64
	r, err := Judge(t.Context(), []Side{{Name: "A", Folders: []string{a}}, {Name: "B", Folders: []string{b}}}, Options{Progress: func(done, all int64) {
		require.LessOrEqual(t, done, all)
		if done < next {
			return
		}
		next = done + max(all/8, 1<<20)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}})
	require.NoError(t, err)
	require.Equal(t, Clean, r.Outcome, "%v", r.Findings)
	require.Greater(t, r.Bytes, size)
	return most
}

// What is held in memory does not grow with the logs.
func TestMemoryIsBounded(t *testing.T) {
	small, large := peak(t, 2<<20, ""), peak(t, 16<<20, "")
	require.Less(t, large, small+4<<20, "twice 2 MiB of logs took %d bytes of memory, twice 16 MiB %d", small, large)
	small, large = peak(t, 1<<20, "zstd"), peak(t, 6<<20, "zstd")
	require.Less(t, large, small+2<<20, "twice 1 MiB of compressed logs took %d bytes of memory, twice 6 MiB %d", small, large)
}

// Producers beyond the bound are forgotten, the silent ones first.
func TestManyProducersAreForgotten(t *testing.T) {
	table := newTable()
	for id := range int64(5 * perGeneration) {
		table.put(id, producer{lastOffset: id})
		table.put(7, producer{lastOffset: id}) // writes all the time
	}
	require.LessOrEqual(t, len(table.young)+len(table.old), 2*perGeneration)
	require.Positive(t, table.forgotten)
	_, ok := table.get(7)
	require.True(t, ok)
	_, ok = table.get(8)
	require.False(t, ok)
	p, ok := table.get(5*perGeneration - 1)
	require.True(t, ok)
	require.Equal(t, int64(5*perGeneration-1), p.lastOffset)
}

// The judge reads, checks and compares on one core.
func BenchmarkJudge(b *testing.B) { benchmark(b, "") }

// Each batch is a transaction, whose first key is named.
func BenchmarkJudgeGzip(b *testing.B) { benchmark(b, "gzip") }
func BenchmarkJudgeZstd(b *testing.B) { benchmark(b, "zstd") }

func benchmark(b *testing.B, packer string) {
	const size = 64 << 20
	root := b.TempDir()
	sides := []Side{
		{Name: "A", Folders: []string{bigPartition(b, root, "a", 0, size, false, packer)}},
		{Name: "B", Folders: []string{bigPartition(b, root, "b", 0, size, true, packer)}},
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b.SetBytes(2 * size)
	for b.Loop() {
		r, err := Judge(b.Context(), sides, Options{})
		require.NoError(b, err)
		require.Equal(b, Clean, r.Outcome)
	}
}
