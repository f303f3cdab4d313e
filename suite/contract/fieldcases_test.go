package contract_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// Every field case is a test that has its id in its name or in a comment.
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
		}
		delete(tests, id)
	}
	require.Empty(t, tests, "field cases that there are not")
}
