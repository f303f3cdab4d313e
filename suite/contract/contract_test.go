package contract

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var item = regexp.MustCompile(`^- ([A-Z]{2,4}-[0-9]+) (.*)$`)

// parse reads id and text of each requirement of the contract's document.
func parse(doc string) map[string]string {
	texts := map[string]string{}
	last := ""
	for line := range strings.Lines(doc) {
		line = strings.TrimRight(line, "\n")
		switch m := item.FindStringSubmatch(line); {
		case m != nil:
			last = m[1]
			texts[last] = m[2]
		case strings.HasPrefix(line, "  ") && last != "":
			texts[last] += " " + strings.TrimSpace(line)
		default:
			last = ""
		}
	}
	return texts
}

func TestRegistryAgreesWithTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../../shared/contract.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("the contract's document does not lie beside this checkout: nothing to compare with")
		return
	}
	require.NoError(t, err)
	got := map[string]string{}
	for _, r := range All() {
		got[r.ID] = r.Text
	}
	require.Equal(t, parse(string(doc)), got)
}

func TestEachRequirementIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for i, r := range All() {
		require.False(t, seen[r.ID], "%s twice", r.ID)
		seen[r.ID] = true
		require.NotEmpty(t, r.Text)
		require.NotEmpty(t, r.Source)
		require.Regexp(t, `^[A-Z]+-[0-9]+$`, r.ID)
		got, ok := Get(r.ID)
		require.True(t, ok)
		require.Equal(t, r, got)
		require.Equal(t, i, Order(r.ID))
	}
	require.True(t, seen["AP-1"] && seen["BAR-1"] && seen["OPS-5"])
	_, ok := Get("XX-1")
	require.False(t, ok)
	require.Equal(t, len(All()), Order("XX-1"))
	require.Equal(t, "BAR", All()[Order("BAR-1")].Family())
	require.Equal(t, "L4", L4.String())
}
