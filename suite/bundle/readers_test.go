package bundle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"watershed.example/fixtures/secrets"
)

// The words of a format are passwords of many a test. A bundle in which they were taken
// out would not be read, so either they stay, or there is none.
func TestSecretsThatAreWordsOfAFormat(t *testing.T) {
	const (
		run    = `{"version": 2, "scenario": "s", "seed": "1234567", "command": "run --with broker", "profile": "kip1279-v42", "clusters": [{"name": "mirror", "id": "i", "nodes": [1]}]}`
		result = `{"version": 1, "scenarios": [{"name": "s", "seed": "1234567", "command": "run --with source", "verdicts": [{"requirement": "REC-1", "outcome": "violated", "reason": "offset 1"}]}]}`
	)
	hist := string(recorded(t, "as it was"))
	for _, test := range []struct {
		name, text, secret string
		refused            bool
	}{
		{"run.json", run, "clusters", false},
		{"run.json", run, "broker", false},
		{"run.json", run, "123456", false},
		{"run.json", run, "1234567", true},
		{"run.json", run, "kip1279-v42", true},
		{"run.json", strings.Replace(run, "v42", "v43", 1), "kip1279-v43", false}, // it was none before
		{"result.json", result, "source", false},
		{"result.json", result, "violated", true},
		{"result.json", result, "1234567", true},
		{"other.json", result, "1234567", false},
		{"history.jsonl", hist, "source", false},
		{"history.jsonl", hist, "as it was", false},
		{"history.jsonl", hist, "922337", false},
		{"history.jsonl", hist, "9223372036854775809", true},
		{"history.jsonl", hist, "watershed-history", true},
		{"junit.xml", `<testcase name="testcase"/>`, "case name", true},
		{"junit.xml", `<testcase name="my testcase"/>`, "my testcase", false},
	} {
		t.Run(test.name+" with "+test.secret, func(t *testing.T) {
			var out strings.Builder
			_, err := redact(&out, strings.NewReader(test.text), "run/s/"+test.name, secrets.New([]string{test.secret}))
			if !test.refused {
				require.NoError(t, err)
				require.NoError(t, readableLines(test.name, test.text, out.String()))
				return
			}
			require.ErrorIs(t, err, errWord)
			dir := aRun(t, map[string]string{"s/" + test.name: test.text})
			_, _, err = Write(dir, t.TempDir(), Options{Product: "p", Time: noon, Secrets: []string{test.secret}})
			require.EqualError(t, err, "bundle: run/s/"+test.name+": a secret of the target is a word of the format: change it")
		})
	}
}

// readableLines says whether what was read before is read now.
func readableLines(name, was, now string) error {
	if name != "history.jsonl" {
		if readerOf(name)([]byte(was)) != nil {
			return nil
		}
		return readerOf(name)([]byte(now))
	}
	for line := range strings.Lines(now) {
		if err := historyLine([]byte(line)); err != nil {
			return err
		}
	}
	return nil
}
