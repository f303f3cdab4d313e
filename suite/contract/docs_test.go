package contract_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/suite/check"
	"watershed.example/suite/contract"
	"watershed.example/suite/engine"
)

var update = flag.Bool("update", false, "write docs/requirements.md anew")

const page = "../../docs/requirements.md"

// open are the requirements that lack a check, or a scenario that exercises
// them, with what each waits for. The list is to become empty.
var open = map[string]string{}

func TestEveryRequirementIsCheckedAndExercised(t *testing.T) {
	for _, req := range contract.All() {
		whole := check.Looks(req.ID) != "" && len(engine.Exercising(req.ID)) > 0
		if why, listed := open[req.ID]; listed {
			require.False(t, whole, "%s has a check and a scenario now: it no longer waits for %s", req.ID, why)
			continue
		}
		require.NotEmpty(t, check.Looks(req.ID), "nobody checks %s", req.ID)
		require.NotEmpty(t, engine.Exercising(req.ID), "no scenario of a default run exercises %s", req.ID)
		require.NotEmpty(t, engine.Violating(req.ID), "no defect violates %s", req.ID)
	}
	for id := range open {
		_, known := contract.Get(id)
		require.True(t, known, id)
	}
}

// TestDocs holds docs/requirements.md to the registry, the checks, the scenarios
// and the defects; "go test ./suite/contract -update" writes it.
func TestDocs(t *testing.T) {
	text := document()
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	if text != string(got) {
		t.Fatal("docs/requirements.md is stale: go test ./suite/contract -update")
	}
}

const head = `<!-- Made by: go test ./suite/contract -update -->
# Requirements

What a mirroring implementation must do. Reports name the ids. *Level* is the lowest one that includes the requirement
(L0 a single cluster, L1 one failover without fault, L2 with crashes and restarts, L3 with faults in STOPPING, L4 all
topologies). *Check* says at what its check looks; *scenarios* are those of a default run that exercise it, *defects* the
ways to break the reference broker that the suite must report under it. Without a source given, a requirement is from the
KIP-1279 page of the MIRROR_PID_RESET barrier (version 42).
`

func document() string {
	var b strings.Builder
	b.WriteString(head)
	family := ""
	for _, req := range contract.All() {
		if req.Family() != family {
			family = req.Family()
			fmt.Fprintf(&b, "\n## %s\n", family)
		}
		fmt.Fprintf(&b, "\n**%s** (%s", req.ID, req.Level)
		if req.Source != contract.SeedPage {
			fmt.Fprintf(&b, ", %s", req.Source)
		}
		fmt.Fprintf(&b, ") %s\n\n", req.Text)
		fmt.Fprintf(&b, "- check: %s\n", orNone(check.Looks(req.ID)))
		fmt.Fprintf(&b, "- scenarios: %s\n", listed(engine.Exercising(req.ID)))
		fmt.Fprintf(&b, "- defects: %s\n", listed(engine.Violating(req.ID)))
		if why, waits := open[req.ID]; waits {
			fmt.Fprintf(&b, "- waits for %s\n", why)
		}
	}
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// listed names the first few.
func listed(names []string) string {
	const most = 4
	var all []string
	for i, n := range names {
		if i == most && len(names) > most+1 {
			all = append(all, fmt.Sprintf("%d more", len(names)-most))
			break
		}
		all = append(all, "`"+n+"`")
	}
	return orNone(strings.Join(all, ", "))
}
