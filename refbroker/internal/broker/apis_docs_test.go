package broker

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"watershed.example/mirrorrpc"
	"watershed.example/refbroker/internal/env"
	"watershed.example/refbroker/internal/wire"
)

var update = flag.Bool("update", false, "write docs/apis.md anew")

const apisPage = "../../../docs/apis.md"

// rows are the APIs of a node that does not run.
func rows() []wire.API {
	n := &Node{env: &env.Env{Topics: &topics{}}}
	apis := n.apis(nil, nil, nil)
	slices.SortFunc(apis, func(a, b wire.API) int { return int(a.Key) - int(b.Key) })
	return apis
}

// kafkaAPI is a client API of Apache Kafka.
type kafkaAPI struct {
	key            int16
	name, versions string
}

func kafkaAPIs(t *testing.T) map[int16]kafkaAPI {
	t.Helper()
	raw, err := os.ReadFile("testdata/kafka-4.4.0-apis.txt")
	require.NoError(t, err)
	all := map[int16]kafkaAPI{}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var a kafkaAPI
		_, err := fmt.Sscan(line, &a.key, &a.name, &a.versions)
		require.NoError(t, err, line)
		a.versions = strings.ReplaceAll(a.versions, "-", " to ")
		all[a.key] = a
	}
	return all
}

// leftOut says why APIs of Apache Kafka are not served; what comes to be served
// is taken off the list by this package's tests.
var leftOut = []struct {
	why  string
	keys []int16
}{
	{"there are no ACLs, no delegation tokens, and no users but those of --sasl-users", []int16{29, 30, 31, 38, 39, 40, 41, 50, 51}},
	{"a node has one log folder", []int16{34}},
	{"there are no quotas", []int16{48, 49}},
	{"the metadata quorum is not Kafka's, its members are given at the start", []int16{55, 64, 80, 81, 94}},
	{"features are fixed at the start", []int16{57}},
	{"groups have the classic protocol only, not that of KIP-848", []int16{68, 69}},
	{"clients' metrics are not collected", []int16{71, 72}},
	{"configs are those of topics and nodes", []int16{74}},
	{"there are no share groups", []int16{76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92}},
	{"there are no streams groups", []int16{88, 89, 93}},
}

func versions(low, high int16) string {
	if low == high {
		return strconv.Itoa(int(low))
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// TestApisPage holds docs/apis.md to the table that requests are dispatched by
// and to the comments of its rows; "go test ./refbroker/internal/broker -run
// TestApisPage -update" writes it.
func TestApisPage(t *testing.T) {
	kafka, notes := kafkaAPIs(t), apiNotes(t)
	var text strings.Builder
	text.WriteString(`<!-- Made by: go test ./refbroker/internal/broker -run TestApisPage -update -->
# APIs

What the reference broker serves of the Kafka protocol. ApiVersions tells the very table that requests are dispatched by, so
what it lists is served, in each version, and nothing else is: a request with another key or version ends its connection, with
a line in the broker's log, but for ApiVersions itself, which is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).

| key | name | versions | in Apache Kafka 4.4.0 | notes |
| ---: | --- | --- | --- | --- |
`)
	served, own := map[int16]bool{}, ""
	for _, a := range rows() {
		note, ok := notes[a.Key]
		if a.Key >= firstOwnKey {
			own += fmt.Sprintf("| %d | %s | %s |\n", a.Key, a.Name, versions(a.Min, a.Max))
			continue
		}
		require.True(t, ok, "%s: no comment that begins with: %s (key %d), versions …", a.Name, a.Name, a.Key)
		require.Equal(t, note.versions, versions(a.Min, a.Max), "%s: comment and row differ", a.Name)
		served[a.Key] = true
		theirs := "–"
		if k, ok := kafka[a.Key]; ok && a.Key < mirrorrpc.KeyCreateClusterMirror {
			require.Equal(t, k.name, kmsgName(a.Name), "key %d", a.Key)
			theirs = k.versions
		}
		fmt.Fprintf(&text, "| %d | %s | %s | %s | %s |\n", a.Key, a.Name, versions(a.Min, a.Max), theirs, note.text)
	}
	text.WriteString(`
Keys from 94 on are those of KIP-1279's public build, to be known by the feature ` + "`mirror.version`" + ` and not by their number: Apache Kafka
4.4.0 has another API with key 94.

## Of KIP-1279, not served

| key | name | why |
| ---: | --- | --- |
`)
	for _, a := range mirrorAPIsNotServed() {
		fmt.Fprintf(&text, "| %d | %s | %s |\n", a.key, a.name, a.why)
	}
	text.WriteString(`
## Of Apache Kafka 4.4.0, not served

Its client APIs, those with the listener "broker", that this broker does not know.

| key | name | versions | why |
| ---: | --- | --- | --- |
`)
	whys := map[int16]string{}
	for _, l := range leftOut {
		for _, key := range l.keys {
			whys[key] = l.why
		}
	}
	for _, key := range slices.Sorted(maps.Keys(kafka)) {
		if served[key] && key < mirrorrpc.KeyCreateClusterMirror {
			continue
		}
		require.Contains(t, whys, key, "%s: neither served nor in leftOut", kafka[key].name)
		fmt.Fprintf(&text, "| %d | %s | %s | %s |\n", key, kafka[key].name, kafka[key].versions, whys[key])
	}
	text.WriteString(`
## Between nodes

ApiVersions does not tell of these, and they are refused from everybody but nodes of the cluster, on every listener.

| key | name | versions |
| ---: | --- | --- |
` + own)
	if *update {
		require.NoError(t, os.WriteFile(apisPage, []byte(text.String()), 0o644))
	}
	got, err := os.ReadFile(apisPage)
	require.NoError(t, err)
	if text.String() != string(got) {
		t.Fatal("docs/apis.md is stale: go test ./refbroker/internal/broker -run TestApisPage -update")
	}
}

// kmsgName is our name of an API as Kafka spells it.
func kmsgName(name string) string {
	for ours, theirs := range map[string]string{"ID": "Id", "ACL": "Acl"} {
		name = strings.ReplaceAll(name, ours, theirs)
	}
	return name
}

// apiNote is the comment of an API's row.
type apiNote struct{ versions, text string }

var apiComment = regexp.MustCompile(`^(\w+) \(key (\d+)\), versions? (\d+)(?: (?:to|and) (\d+))?[:.,]? ?(.*)$`)

// apiNotes reads the comments of all rows.
func apiNotes(t *testing.T) map[int16]apiNote {
	t.Helper()
	files, err := filepath.Glob("[0-9]*.go")
	require.NoError(t, err)
	notes := map[int16]apiNote{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				return true
			}
			m := apiComment.FindStringSubmatch(strings.Join(strings.Fields(f.Doc.Text()), " "))
			if m == nil {
				return true
			}
			key, err := strconv.ParseInt(m[2], 10, 16)
			require.NoError(t, err)
			n2 := apiNote{versions: m[3], text: m[5]}
			if m[4] != "" {
				n2.versions += " to " + m[4]
			}
			if n2.text != "" {
				n2.text = strings.ToUpper(n2.text[:1]) + n2.text[1:]
			}
			notes[int16(key)] = n2
			return true
		})
	}
	return notes
}

// FuzzRequests decodes bodies of every API that a node serves, in every
// version: whatever comes, decoding returns, and what it understood it can say
// again.
func FuzzRequests(f *testing.F) {
	all := rows()
	for i, a := range all {
		for v := a.Min; v <= a.Max; v++ {
			body, ok := a.New().(kmsg.Request)
			if !ok {
				f.Fatalf("%s is %T", a.Name, a.New())
			}
			body.SetVersion(v)
			f.Add(byte(i), byte(v), body.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, row, version byte, raw []byte) {
		a := all[int(row)%len(all)]
		v := a.Min + int16(version)%(a.Max-a.Min+1)
		decode := func(raw []byte) (kmsg.Request, error) {
			body := a.New().(kmsg.Request)
			body.SetVersion(v)
			return body, body.ReadFrom(raw)
		}
		first, err := decode(raw)
		if err != nil {
			return
		}
		said := first.AppendTo(nil)
		second, err := decode(said)
		if err != nil {
			t.Fatalf("%s version %d: %x was understood, and said again as %x: %v", a.Name, v, raw, said, err)
		}
		require.Equal(t, said, second.AppendTo(nil), "%s version %d", a.Name, v)
	})
}
