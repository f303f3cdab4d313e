package defect

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/defects.md anew")

const page = "../../../docs/defects.md"

// documented is a defect as its comment has it.
type documented struct {
	name, ident, does, seen string
	violates                []string
}

// TestDocs holds docs/defects.md to the comments in names.go;
// "go test ./refbroker/internal/defect -update" writes it.
func TestDocs(t *testing.T) {
	all := comments(t)
	names := make([]string, 0, len(all))
	var text strings.Builder
	text.WriteString(`<!-- Made by: go test ./refbroker/internal/defect -update -->
# Defects

The reference broker can be made wrong on purpose: ` + "`refbroker serve --test-hooks SOCKET --defect NAME`" + `, several if need
be. Each defect is a bug that was seen in the field or that the specification names, at the place where it would be, so
that the suite can prove that it sees it.

| name | what the broker does | where such a bug was seen, or is named | violates |
| --- | --- | --- | --- |
`)
	for _, d := range all {
		names = append(names, d.name)
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", d.name, d.does, d.seen, strings.Join(d.violates, ", "))
	}
	var listed []string
	for _, n := range All() {
		listed = append(listed, string(n))
	}
	require.True(t, slices.IsSorted(listed), "All is not sorted")
	require.Equal(t, names, listed, "All and the constants differ")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text.String()), 0o644))
	}
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	if text.String() != string(got) {
		t.Fatal("docs/defects.md is stale: go test ./refbroker/internal/defect -update")
	}
}

// TestEveryDefectIsTried holds every defect to a test that names it.
func TestEveryDefectIsTried(t *testing.T) {
	var tests strings.Builder
	files, err := filepath.Glob("../*/*_test.go")
	require.NoError(t, err)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		tests.Write(raw)
	}
	for _, d := range comments(t) {
		require.Regexp(t, `\bdefect\.`+d.ident+`\b`, tests.String(), "no test of %s", d.name)
	}
}

// comments reads the comments of all defects, in the order of their names.
func comments(t *testing.T) []documented {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	require.NoError(t, err)
	registry, err := os.ReadFile("../../../suite/contract/registry.go")
	require.NoError(t, err)
	var all []documented
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		comment := strings.Join(strings.Fields(spec.Doc.Text()), " ")
		m := regexp.MustCompile(`^` + spec.Names[0].Name + ` (.+\.) Seen: (.+)\. Violates: (.+)\.$`).FindStringSubmatch(comment)
		require.NotNil(t, m, "%s: want a comment with what it does, Seen: and Violates:", name)
		d := documented{name: name, ident: spec.Names[0].Name, does: sentence(strings.TrimSuffix(m[1], ".")), seen: sentence(m[2]), violates: strings.Split(m[3], ", ")}
		for _, id := range d.violates {
			require.Contains(t, string(registry), `{ID: "`+id+`"`, "%s: no such requirement", name)
		}
		all = append(all, d)
		return true
	})
	slices.SortFunc(all, func(a, b documented) int { return strings.Compare(a.name, b.name) })
	return all
}

func TestParse(t *testing.T) {
	s, err := Parse([]string{"no-barrier", "pid-rewrite"})
	require.NoError(t, err)
	require.True(t, s.Has(NoBarrier))
	require.True(t, s.Has(StaleDedupeAck, PIDRewrite))
	require.False(t, s.Has(StaleDedupeAck))
	require.False(t, Set{}.Has(All()...))
	_, err = Parse([]string{"other"})
	require.ErrorContains(t, err, `unknown defect "other" (known: aborted-index-lost-on-truncation, `)
}

// sentence is text with a full stop, and with a capital but for names that have
// none.
func sentence(text string) string {
	if first, _, _ := strings.Cut(text, " "); !strings.Contains(first, "/") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + "."
}
