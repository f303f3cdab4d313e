package topologies

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/topologies.md anew")

const drawnFrom = "<!-- What follows is drawn from the values: go test ./topologies -update -->\n"

// The pictures in the docs are drawn from the values.
func TestDocsShowEveryTopologyAsItIs(t *testing.T) {
	path := filepath.Join("..", "docs", "topologies.md")
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	written, _, found := strings.Cut(string(old), drawnFrom)
	require.True(t, found, "%s lacks the line %q", path, drawnFrom)
	var b strings.Builder
	b.WriteString(written + drawnFrom)
	for _, top := range All() {
		fmt.Fprintf(&b, "\n## %s\n\n```mermaid\n%s```\n\n```text\n%s```\n", top.Name, top.Mermaid(), top.Picture())
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return
	}
	require.Equal(t, b.String(), string(old), "stale: run go test ./topologies -update")
}
