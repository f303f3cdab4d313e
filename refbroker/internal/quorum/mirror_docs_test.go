package quorum

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/mirror-states.md anew")

const statesPage = "../../../docs/mirror-states.md"

// docs/mirror-states.md is what the table of transitions says.
func TestMirrorStatesPage(t *testing.T) {
	want := mirrorStatesPage()
	if *update {
		require.NoError(t, os.WriteFile(statesPage, []byte(want), 0o644))
	}
	got, err := os.ReadFile(statesPage)
	require.NoError(t, err)
	if string(got) != want {
		t.Fatal("docs/mirror-states.md is stale: go test ./refbroker/internal/quorum -run TestMirrorStatesPage -update")
	}
}

func mirrorStatesPage() string {
	var b strings.Builder
	b.WriteString(`<!-- Made by: go test ./refbroker/internal/quorum -run TestMirrorStatesPage -update -->

# States of a mirrored partition

Each partition has a state in the metadata quorum; the steps of STOPPING are in [design.md](design.md). What leads from one
state to another is one table in
` + "`refbroker/internal/quorum/mirror_table.go`" + `; everything else is refused. A request for what is so already changes nothing.

` + "```mermaid\nstateDiagram-v2\n    [*] --> UNKNOWN\n")
	for _, tr := range MirrorTransitions() {
		if tr.From == tr.To {
			continue
		}
		label := tr.Event.String()
		if g := tr.Guard(); g != "" {
			label += ", " + g
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", tr.From, tr.To, label)
	}
	b.WriteString("```\n")
	for _, part := range []struct {
		title    string
		operator bool
	}{{"What an operator asks for", true}, {"What the partition's leader records", false}} {
		fmt.Fprintf(&b, "\n## %s\n\n| in | on | if | becomes |\n| --- | --- | --- | --- |\n", part.title)
		for _, tr := range MirrorTransitions() {
			if tr.Event.ByOperator() != part.operator {
				continue
			}
			to := tr.To.String()
			if tr.To == tr.From {
				to = "stays"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", tr.From, tr.Event, tr.Guard(), to)
		}
	}
	return b.String()
}
