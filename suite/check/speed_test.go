package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
// bytes of both clusters' logs by the time for all of it.
func BenchmarkJudging(b *testing.B) {
	for _, size := range []int{900, 20} { // with the tags 1 KiB and 100 bytes
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			w := bulky(50_000_000/(size+80)/50, 50, size)
			dir := w.save(b)
			logs, err := filepath.Glob(filepath.Join(dir, LogsDir, "*", "*", "*", "*.log"))
			require.NoError(b, err)
			var bytes int64
			for _, log := range logs {
				info, err := os.Stat(log)
				require.NoError(b, err)
				bytes += info.Size()
			}
			b.SetBytes(bytes)
			for b.Loop() {
				loaded, err := Load(dir)
				require.NoError(b, err)
				All(loaded)
			}
		})
	}
}
