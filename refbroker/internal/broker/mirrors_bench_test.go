package broker

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/require"

	"watershed.example/refbroker/internal/host"
)

// BenchmarkStop measures stops on three nodes, each partition with three
// replicas, of a source that is gone: from the request until every partition
// takes writes (OPS-3). It prints what each stop cost, and how much more a larger
// one cost than the one before, as a multiple of how much larger it was: 1.00 is
// linear. WATERSHED_STOP_PARTITIONS has other numbers, "1,100,1000,5000".
func BenchmarkStop(b *testing.B) {
	sizes := numbers(b, "WATERSHED_STOP_PARTITIONS", "1,100,1000")
	for b.Loop() {
		var before *stopCost
		for _, n := range sizes {
			c := stopMany(b, n, 100, false)
			b.Logf("%s", c.describe(before))
			b.ReportMetric(c.took.Seconds(), fmt.Sprintf("s/%d-partitions", n))
			before = &c
		}
	}
}

// BenchmarkStopProducers stops 100 partitions that 1, 100 and 10,000 producers have
// written to: the barrier expires them all at once.
func BenchmarkStopProducers(b *testing.B) {
	producers := numbers(b, "WATERSHED_STOP_PRODUCERS", "1,100,10000")
	for b.Loop() {
		for _, n := range producers {
			c := stopMany(b, 100, n, false)
			b.Logf("%s", c.describe(nil))
			b.ReportMetric(c.took.Seconds(), fmt.Sprintf("s/%d-producers", n))
		}
	}
}

func numbers(b *testing.B, variable, otherwise string) []int32 {
	text := os.Getenv(variable)
	if text == "" {
		text = otherwise
	}
	var all []int32
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(field, 10, 32)
		require.NoError(b, err, variable)
		all = append(all, int32(n))
	}
	return all
}

func (c stopCost) describe(before *stopCost) string {
	text := fmt.Sprintf("%d partitions with %d producers each: %s, %s of processor time, %d quorum records, %.1f syncs a partition",
		c.partitions, c.producers, c.took.Round(time.Millisecond), c.cpu.Round(time.Millisecond), c.records, float64(c.syncs)/float64(c.partitions))
	if before != nil {
		more := float64(c.partitions) / float64(before.partitions)
		text += fmt.Sprintf("; %.0f times as many: time %.2f, processor time %.2f of linear",
			more, c.took.Seconds()/before.took.Seconds()/more, c.cpu.Seconds()/before.cpu.Seconds()/more)
	}
	return text
}

// stopMany times a stop. whole is one that cuts nothing.
func stopMany(b *testing.B, partitions, producers int32, whole bool) stopCost {
	return stopOn(b, &stopCluster{tb: b, whole: whole}, partitions, producers)
}

func stopOn(b *testing.B, c *stopCluster, partitions, producers int32) stopCost {
	c.start(b)
	defer c.close()
	c.fill(partitions, producers)

	before, cpu := busy(), processorTime(b)
	cost := c.stop(partitions, producers)
	cost.cpu = processorTime(b) - cpu
	if all := busy() - before; all > 0 {
		cost.others = max(0, (all-cost.cpu).Seconds()) / (cost.took.Seconds() * float64(runtime.NumCPU()))
	}
	c.check(partitions, producers)
	return cost
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busy is what the machine's processors have worked since its start, 0 where that
// is not told.
func busy() time.Duration {
	raw, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(raw), "\n")
	var ticks int64
	for i, f := range strings.Fields(first) {
		v, err := strconv.ParseInt(f, 10, 64)
		if err == nil && i != 4 && i != 5 && i <= 8 { // idle, waiting for a disk; guests are users
			ticks += v
		}
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ
}

// mayOpen says whether a process may have the files of so many partitions open, on
// three nodes: each log is open twice, to write and to read.
func mayOpen(b *testing.B, partitions int32) bool {
	var limit syscall.Rlimit
	require.NoError(b, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	return uint64(partitions)*3*2+1000 < limit.Cur
}

func (c *stopCluster) start(b *testing.B) {
	c.nodes = make([]*Node, 3)
	voters := map[int32]string{}
	for id := range c.nodes {
		voters[int32(id)] = freeAddress(b)
	}
	var starting sync.WaitGroup
	for id := range c.nodes {
		h := host.Real()
		dir := b.TempDir()
		if c.inMemory {
			h.FS = afero.NewMemMapFs()
			require.NoError(b, os.MkdirAll(filepath.Join(dir, "quorum"), 0o755)) // bolt's file is on disk all the same
		}
		h.FS = countedFS{h.FS, &c.syncs}
		cfg := Config{
			Host: h, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), DataDir: dir,
			NodeID: int32(id), ClusterID: "BBBBBBBBBBBBBBBBBBBBBB", Listeners: []Listener{{Name: "client", Listen: "127.0.0.1:0"}},
			RaftListen: voters[int32(id)], Voters: voters,
			// Opening thousands of logs on a busy machine is no silence.
			SessionTimeout: 10 * time.Second,
		}
		starting.Go(func() {
			n, err := Start(b.Context(), cfg)
			if err != nil {
				b.Errorf("node %d: %v", id, err)
			}
			c.nodes[id] = n
		})
	}
	starting.Wait()
	require.False(b, b.Failed())
}

func (c *stopCluster) close() {
	var ending sync.WaitGroup
	for _, n := range c.nodes {
		ending.Go(func() { _ = n.Kill() })
	}
	ending.Wait()
}
