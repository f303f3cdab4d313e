package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/history"
)

// bulky is a good world with so many more batches of so many records on the
// source, which the destination mirrored, and the bytes of all its logs.
func bulky(batches, records, size int) *world {
	sequence := 0
	return newWorldWith(0, func(w *world, log *[]spec, leader int32, cluster string) {
		if cluster != "A" {
			return
		}
		for range batches {
			w.data(log, leader, "A", "bulk", history.Idempotent, 5000, 0, int32(sequence), records, history.NoTxn, history.IntentNone, "")
			(*log)[len(*log)-1].payload = strings.Repeat("x", size)
			sequence += records
		}
	})
}

// BenchmarkJudging reads and judges saved evidence, the page cache warm: raw
// bytes of both clusters' logs by the processor time for all of it, and for the
// reading of logs alone. Wall time tells of the machine's other work too.
func BenchmarkJudging(outer *testing.B) {
	for _, size := range []int{900, 20} { // with the tags 1 KiB and 100 bytes
		dir := ""
		for _, part := range []string{"logs", "all"} {
			outer.Run(fmt.Sprintf("payload=%d/%s", size, part), func(b *testing.B) {
				if dir == "" {
					dir = bulky(50_000_000/(size+80)/50, 50, size).save(outer)
				}
				bytes := logBytes(b, dir)
				b.SetBytes(bytes)
				began := processorTime(b)
				for b.Loop() {
					if part == "logs" {
						readLogs(b, dir)
						continue
					}
					loaded, err := Load(dir)
					require.NoError(b, err)
					All(loaded)
					require.NoError(b, loaded.Close())
				}
				b.ReportMetric(float64(bytes)*float64(b.N)/1e6/(processorTime(b)-began).Seconds(), "MB/cpu-s")
			})
		}
	}
}

// readLogs reads, decodes and checks the logs of saved evidence, by themselves.
func readLogs(t testing.TB, dir string) {
	ev := &Evidence{Dir: dir}
	require.NoError(t, ev.readRun())
	replicas, err := loadReplicas(dir, LogsDir, &ev.Run)
	require.NoError(t, err)
	tr := &trial{ev: ev, run: &ev.Run, contents: map[*Replica]*content{}, lines: map[*Replica]*side{}, decoder: decoder{stems: newStems()}}
	j, r := &judge{trial: tr, ev: ev, run: &ev.Run}, &ruling{}
	for _, replica := range replicas {
		s := tr.line(replica)
		for i := range s.entries {
			j.follows(r, s, i, false)
		}
	}
	require.Empty(t, r.findings)
	ev.Replicas = replicas
	require.NoError(t, ev.Close())
}

// logBytes is the size of all raw logs of saved evidence.
func logBytes(t testing.TB, dir string) (bytes int64) {
	logs, err := filepath.Glob(filepath.Join(dir, LogsDir, "*", "*", "*", "*.log"))
	require.NoError(t, err)
	for _, log := range logs {
		info, err := os.Stat(log)
		require.NoError(t, err)
		bytes += info.Size()
	}
	return bytes
}

// processorTime is what this process has used.
func processorTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
