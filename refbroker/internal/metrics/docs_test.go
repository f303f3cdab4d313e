package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/operations.md anew")

const (
	page  = "../../../docs/operations.md"
	begin = "<!-- Made by: go test ./refbroker/internal/metrics -update -->\n"
	end   = "<!-- end -->\n"
)

func all() []metric {
	return slices.Concat(clusterMetrics(), partitionMetrics(), mirrorMetrics(), requestMetrics())
}

// TestPage holds the table in docs/operations.md to the metrics;
// "go test ./refbroker/internal/metrics -update" writes it.
func TestPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| metric | kind | labels | what it says |\n| --- | --- | --- | --- |\n")
	seen := map[string]bool{}
	for _, m := range all() {
		require.False(t, seen[m.name], "%s is there twice", m.name)
		seen[m.name] = true
		require.Regexp(t, `^refbroker_[a-z_]+[a-z]$`, m.name)
		require.Regexp(t, `^\S.*\.$`, m.help, m.name)
		kind := map[prometheus.ValueType]string{0: "histogram", prometheus.GaugeValue: "gauge", prometheus.CounterValue: "counter"}[m.kind]
		require.Equal(t, kind == "counter", strings.HasSuffix(m.name, "_total"), m.name)
		labels := make([]string, 0, len(m.labels))
		for _, l := range m.labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", m.name, kind, strings.Join(labels, ", "), m.help)
	}
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(raw), begin)
	require.True(t, ok, "no line: %s", begin)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "no line: %s", end)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644))
		return
	}
	require.Equal(t, table.String(), old, "docs/operations.md is stale: go test ./refbroker/internal/metrics -update")
}
