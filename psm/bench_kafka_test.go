//go:build oracle

package psm_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"watershed.example/psm"
)

var (
	benchCommand = flag.String("oracle.bench", "", "command that starts Bench.java")
	benchRounds  = flag.Int("oracle.rounds", 12, "rounds; the best of each side counts")
)

// The same sequences, timed here and in Apache Kafka's class in turns, so that
// whatever else the machine does hits both. The best round of each counts.
func TestSpeedAgainstKafka(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+*benchCommand)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	answers := bufio.NewScanner(out)
	kafka := func(kind string, n, count int) float64 {
		_, err := fmt.Fprintln(in, kind, n, count)
		require.NoError(t, err)
		require.True(t, answers.Scan(), "%s %d", kind, n)
		ns, err := strconv.ParseFloat(answers.Text(), 64)
		require.NoError(t, err)
		return ns
	}
	states := map[int]*producers{}
	snapshots := psm.NewSnapshots(psm.OSDir(t.TempDir()), nil)
	ours := func(kind string, n, count int) float64 {
		p := states[n]
		if p == nil {
			p = newProducers(n)
			states[n] = p
		}
		began := time.Now()
		switch kind {
		case "append":
			for range count {
				p.append(p.next(), false)
			}
		case "txn":
			for range count / 5 {
				pid := p.next()
				for range 4 {
					p.append(pid, true)
				}
				p.commit(pid)
			}
		case "write":
			for range count {
				require.NoError(t, snapshots.Write(p.s))
			}
		case "load":
			for range count {
				s := psm.New(psm.Config{})
				require.NoError(t, s.Reload(snapshots, psm.Reload{Target: p.s.End()}))
				require.Equal(t, n, s.Len())
			}
		}
		return float64(time.Since(began).Nanoseconds()) / float64(count)
	}
	t.Logf("%-8s %9s %12s %12s %7s %7s", "", "producers", "kafka ns", "psm ns", "times", "at least")
	for _, c := range []struct {
		kind     string
		n, count int
		least    float64
	}{
		{"append", 1, 1_000_000, 3},
		{"append", 1000, 1_000_000, 3},
		{"append", 100_000, 1_000_000, 1.5},
		{"txn", 1, 500_000, 3},
		{"txn", 1000, 500_000, 3},
		{"txn", 100_000, 500_000, 1.5},
		{"write", 100_000, 3, 1},
		{"load", 100_000, 3, 1},
	} {
		var a, b float64
		for i := range *benchRounds {
			k, o := kafka(c.kind, c.n, c.count), ours(c.kind, c.n, c.count)
			if i == 0 || k < a {
				a = k
			}
			if i == 0 || o < b {
				b = o
			}
		}
		t.Logf("%-8s %9d %12.1f %12.1f %7.2f %7.1f", c.kind, c.n, a, b, a/b, c.least)
		if a/b < c.least {
			t.Errorf("%s, %d producers: %.2f times as fast as Kafka, %.1f wanted", c.kind, c.n, a/b, c.least)
		}
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())

	// A barrier's cost must not grow with the producers it finds.
	one, many := barrierCost(t, 1), barrierCost(t, 100_000)
	t.Logf("barrier over 1 producer %s, over 100,000 %s", one, many)
	require.LessOrEqual(t, many, 10*one)
}

// barrierCost is the least time of an append of a barrier over n producers.
func barrierCost(t *testing.T, n int) time.Duration {
	t.Helper()
	best := time.Hour
	for range 20 {
		s := fill(n)
		runtime.GC()
		b := barrier(s.End(), 1, "src")
		began := time.Now()
		s.Begin(psm.Append{Origin: psm.Coordinator})
		_, err := s.Add(b)
		require.NoError(t, err)
		s.Commit()
		best = min(best, time.Since(began))
		require.Zero(t, s.Len())
	}
	return best
}
