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

// polls joins the reads of a world into events of at most so many records, as a
// reader notes what one poll gave it.
func (w *world) polls(most int32) {
	var events []history.Event
	next := history.Tag{}
	for _, e := range w.events {
		if e.Read == nil {
			events = append(events, e)
			continue
		}
		tag, err := history.ParseTag(e.Read.Tag)
		if last := len(events) - 1; err == nil && tag == next && events[last].Read != nil && events[last].Read.Reader == e.Read.Reader &&
			events[last].Read.Offset+events[last].Read.Records() == e.Read.Offset && events[last].Read.Count < most {
			events[last].Read.Count = int32(events[last].Read.Records()) + 1
		} else {
			events = append(events, e)
		}
		next = tag.Add(1)
	}
	w.events = events
}

// BenchmarkJudging reads and judges saved evidence, the page cache warm: raw
// bytes of both clusters' logs by the processor time for all of it, and for the
// reading of logs alone. Wall time tells of the machine's other work too. One
// reader of each isolation level has seen each record of the destination; "lines"
// is with an event for each.
func BenchmarkJudging(outer *testing.B) {
	for _, size := range []int{900, 20} { // with the tags 1 KiB and 100 bytes
		w := bulky(50_000_000/(size+80)/50, 50, size)
		lines := w.save(outer)
		w.polls(500)
		polls := w.save(outer)
		for _, part := range []struct{ name, dir string }{{"logs", polls}, {"all", polls}, {"all-lines", lines}} {
			outer.Run(fmt.Sprintf("payload=%d/%s", size, part.name), func(b *testing.B) {
				bytes := logBytes(b, part.dir)
				b.SetBytes(bytes)
				began := processorTime(b)
				for b.Loop() {
					if part.name == "logs" {
						readLogs(b, part.dir)
						continue
					}
					loaded, err := Load(part.dir)
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
