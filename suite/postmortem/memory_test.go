package postmortem

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// big writes a log of about size bytes into root/broker/orders-0.
func big(t testing.TB, root, broker string, size int64, promoted bool) string {
	return bigPartition(t, root, broker, 0, size, promoted)
}

// bigPartition writes a log of about size bytes into a partition's folder: batches of 16
// records of 1 KiB, of many producers, in segments of 64 MiB. The side that was
// promoted has a barrier in the middle.
func bigPartition(t testing.TB, root, broker string, partition int, size int64, promoted bool) string {
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
		s := spec{epoch: leader, pid: n % 1000, seq: sequence[n%1000], keys: keys, value: strings.Repeat("v", 1000), time: 1000 + n}
		if promoted && leader == 0 && written > size/2 {
			leader = 1
			clear(sequence)
			s = reset(1, idA)
			s.time = 1000 + n
		} else {
			if !promoted || leader == 0 {
				s.keys = sharedKeys(offset, keys)
			}
			sequence[n%1000] += 16
		}
		raw := s.encode(offset)
		_, err := w.Write(raw)
		require.NoError(t, err)
		offset += int64(max(len(s.keys), 1))
		written += int64(len(raw))
		segment += int64(len(raw))
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
func peak(t *testing.T, size int64) (most uint64) {
	root := t.TempDir()
	a, b := big(t, root, "a", size, false), big(t, root, "b", size, true)
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
	small, large := peak(t, 2<<20), peak(t, 16<<20)
	require.Less(t, large, small+4<<20, "twice 2 MiB of logs took %d bytes of memory, twice 16 MiB %d", small, large)
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
func BenchmarkJudge(b *testing.B) {
	const size = 64 << 20
	root := b.TempDir()
	sides := []Side{{Name: "A", Folders: []string{big(b, root, "a", size, false)}}, {Name: "B", Folders: []string{big(b, root, "b", size, true)}}}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b.SetBytes(2 * size)
	for b.Loop() {
		r, err := Judge(b.Context(), sides, Options{})
		require.NoError(b, err)
		require.Equal(b, Clean, r.Outcome)
	}
}

// TestLargeFolder makes folders of WATERSHED_POSTMORTEM_GB gigabytes, of so many
// partitions as WATERSHED_POSTMORTEM_PARTITIONS says, each with three replicas on
// either side, and says how fast they were judged and how much memory that took.
func TestLargeFolder(t *testing.T) {
	var gigabytes, partitions int64
	if _, err := fmt.Sscan(os.Getenv("WATERSHED_POSTMORTEM_GB"), &gigabytes); err != nil || gigabytes <= 0 {
		t.Skip("set WATERSHED_POSTMORTEM_GB=10 for folders of 10 GB")
	}
	if _, err := fmt.Sscan(os.Getenv("WATERSHED_POSTMORTEM_PARTITIONS"), &partitions); err != nil || partitions <= 0 {
		partitions = 1
	}
	const replicas = 3
	root := t.TempDir()
	sides := []Side{{Name: "A"}, {Name: "B"}}
	for i := range sides {
		for r := range replicas {
			sides[i].Folders = append(sides[i].Folders, filepath.Join(root, fmt.Sprintf("%c%d", 'a'+i, r)))
			require.NoError(t, os.Mkdir(sides[i].Folders[r], 0o755))
		}
		for p := range int(partitions) {
			first := filepath.Join(bigPartition(t, root, filepath.Base(sides[i].Folders[0]), p, gigabytes*1_000_000_000/2/replicas/partitions, i == 1), fmt.Sprintf("orders-%d", p))
			for _, other := range sides[i].Folders[1:] { // the same file: it is read once more
				require.NoError(t, os.Mkdir(filepath.Join(other, filepath.Base(first)), 0o755))
				segments, err := filepath.Glob(filepath.Join(first, "*.log"))
				require.NoError(t, err)
				for _, s := range segments {
					require.NoError(t, os.Link(s, filepath.Join(other, filepath.Base(first), filepath.Base(s))))
				}
			}
		}
	}
	began := time.Now()
	r, err := Judge(t.Context(), sides, Options{})
	took := time.Since(began)
	require.NoError(t, err)
	require.Equal(t, Clean, r.Outcome, "%v", r.Findings)
	t.Logf("%d partitions, %d bytes in %v: %.0f MB/s", len(r.Partitions), r.Bytes, took, float64(r.Bytes)/1e6/took.Seconds())
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		var peak int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &peak); n == 1 {
			t.Logf("resident at the most: %d MB", peak*1024/1_000_000)
			require.Less(t, peak*1024, int64(300_000_000))
		}
	}
}
