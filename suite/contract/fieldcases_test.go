package contract_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fieldCases is how many field cases there are, public bug reports that brokers,
// clients or harnesses of others had: FA-01 to FA-24.
const fieldCases = 24

// elsewhere are the cases that no test of Go's names, and where they are looked at.
var elsewhere = map[string]string{
	"FA-18": "it is a client library's: ci/conformance takes five of them through the loss of a leader, and says which did not recover",
}

// roomsOf are where a part of the project has its tests. What a report says of a run are the
// findings of the judge, in the reports' forms.
var roomsOf = map[string][]string{
	"suite":   {"suite/"},
	"chaos":   {"chaos/", "fixtures/", "suite/"},
	"harness": {"fixtures/"},
	"report":  {"suite/report/", "suite/check/", "suite/history/"},
}

// partsOf are the parts other than broker and psm that cases concern: each has a test of its
// own, since a broker that is right in a case does not show that the suite sees one that
// is wrong.
var partsOf = map[string]string{
	"FA-07": "suite", "FA-08": "suite", "FA-09": "suite", "FA-10": "suite", "FA-11": "suite", "FA-12": "suite report", "FA-13": "chaos", "FA-14": "suite",
	"FA-15": "suite", "FA-16": "suite report", "FA-17": "chaos", "FA-18": "chaos", "FA-19": "harness", "FA-20": "harness", "FA-21": "harness chaos",
	"FA-22": "harness", "FA-23": "report", "FA-24": "report",
}

// Every field case is a test that has its id in its name or in a comment, in each part
// that it concerns.
func TestEveryFieldCaseIsATest(t *testing.T) {
	id := regexp.MustCompile(`\bFA-\d\d\b`)
	tests := map[string][]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "../.." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "out" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "fieldcases_test.go" && filepath.Base(filepath.Dir(path)) == "contract" {
			return nil
		}
		raw, err := os.ReadFile(path)
		for _, found := range id.FindAllString(string(raw), -1) {
			tests[found] = append(tests[found], path)
		}
		return err
	}))
	for n := range fieldCases {
		id := fmt.Sprintf("FA-%02d", n+1)
		if elsewhere[id] == "" {
			require.NotEmpty(t, tests[id], "no test names field case %s", id)
			for part := range strings.FieldsSeq(partsOf[id]) {
				require.True(t, slices.ContainsFunc(tests[id], func(path string) bool {
					return slices.ContainsFunc(roomsOf[part], func(room string) bool { return strings.HasPrefix(path, "../../"+room) })
				}), "no test of %s names field case %s, only %v", part, id, tests[id])
			}
		}
		delete(tests, id)
	}
	require.Empty(t, tests, "field cases that there are not")
}
