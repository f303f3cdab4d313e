//go:build oracle

package psm_test

import (
	"bufio"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	oracleCommand = flag.String("oracle.command", "", "command that starts Oracle.java")
	oracleSteps   = flag.Int("oracle.steps", 100_000, "least steps to compare")
	oracleRecord  = flag.String("oracle.record", "", "file to record requests and Kafka's answers in")
)

// Apache Kafka's own class and ours, step by step. A difference is shrunk, and
// replayed with the seed or fail file that is printed.
func TestAgainstKafka(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+*oracleCommand)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 1<<20)
	kafka := func(request string) string {
		_, err := fmt.Fprintln(in, request)
		require.NoError(t, err)
		require.True(t, answers.Scan(), "the oracle ended at: %s", request)
		return answers.Text()
	}

	record := func(string, string) {}
	if *oracleRecord != "" {
		f, err := os.Create(*oracleRecord)
		require.NoError(t, err)
		z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
		require.NoError(t, err)
		record = func(request, answer string) { fmt.Fprintf(z, "> %s\n< %s\n", request, answer) }
		defer func() {
			require.NoError(t, z.Close())
			require.NoError(t, f.Close())
		}()
	}
	steps := 0
	kinds := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		d := &differential{subject: &subject{t: rt}, g: &gen{t: rt}, rt: rt, kafk: kafka}
		d.done = func(request, answer string) {
			steps++
			kind, _, _ := strings.Cut(answer, " ")
			if kind, _, _ = strings.Cut(kind, ":"); len(kind) > 5 {
				kind = "snapshot"
			}
			kinds[request[:1]+" "+kind]++
			record(request, answer)
		}
		d.ask(fmt.Sprintf("N %d %d 1000", d.g.intn(2), 5+d.g.intn(40)))
		rt.Repeat(d.actions())
	})
	t.Logf("%d steps compared: %v", steps, kinds)
	if !t.Failed() {
		require.GreaterOrEqual(t, steps, *oracleSteps)
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
